// SPDX-License-Identifier: Apache-2.0
// Softmax on the device against the processor's in double.
#include "kernels/cuda/attention/softmax.h"

#include <limits>

#include "kernels/cpu/attention/softmax.h"
#include "tests/cuda/norms/row_cases.h"

namespace meshwright::kernels::cuda::softmax_test {
namespace {

template <class T>
class CudaSoftmax : public testing::Test {};
TYPED_TEST_SUITE(CudaSoftmax, NumberTypes);

template <class T>
Values softmax_of(const Values& x, RowSize size) {
  DeviceArray<T> in(x), out = DeviceArray<T>::of_size(size.elements());
  softmax<T>(kNoStream, in.data(), out.data(), size.rows, size.width);
  return out.values();
}

Values expected_softmax(const Values& x, RowSize size) {
  Values y(x.size());
  kernels::softmax(x.data(), y.data(), size.rows, size.width);
  return y;
}

// The exponential of x - largest, of up to 16, takes over the rounding of its argument.
TYPED_TEST(CudaSoftmax, AgreesWithTheProcessorInDouble) {
  for (const RowSize size : row_sizes<TypeParam>()) {
    SCOPED_TRACE(testing::Message() << size.rows << " x " << size.width);
    const Values x = numbers<TypeParam>(size.elements(), 1, -8.0, 8.0);
    expect_rounded<TypeParam>(softmax_of<TypeParam>(x, size), expected_softmax(x, size), 24.0 * kWidePlace<TypeParam>);
  }
}

// Each term of the gradient is within a rounding of y (|dy| + |along|), and that of a row's dy is below 2.
TYPED_TEST(CudaSoftmax, GradientAgreesWithTheProcessorInDouble) {
  for (const RowSize size : row_sizes<TypeParam>()) {
    SCOPED_TRACE(testing::Message() << size.rows << " x " << size.width);
    Values y = expected_softmax(numbers<TypeParam>(size.elements(), 2, -3.0, 3.0), size);
    for (double& value : y) value = static_cast<double>(TypeParam(value));
    const Values dy = numbers<TypeParam>(size.elements(), 3);
    Values expected(y.size());
    kernels::softmax_backward(y.data(), dy.data(), expected.data(), size.rows, size.width);
    DeviceArray<TypeParam> a(y), b(dy), dx = DeviceArray<TypeParam>::of_size(size.elements());
    softmax_backward<TypeParam>(kNoStream, a.data(), b.data(), dx.data(), size.rows, size.width);
    expect_rounded<TypeParam>(dx.values(), expected, 24.0 * kWidePlace<TypeParam>, y);
  }
}

// 4096 blocks are started at most: the rows beyond are taken in turns.
TEST(CudaSoftmaxRows, ThoseBeyondTheGridAreTakenInTurns) {
  for (const RowSize size : {RowSize{4100, 160}, RowSize{4096 * 128 + 3, 1}}) {
    const Values x = numbers<float>(size.elements(), 4);
    expect_rounded<float>(softmax_of<float>(x, size), expected_softmax(x, size), 16.0 * kWidePlace<float>);
  }
}

TYPED_TEST(CudaSoftmax, MaskedElementsGetNothing) {
  const double masked = -std::numeric_limits<double>::infinity();
  const Values y = softmax_of<TypeParam>({1.0, masked, 1.0, masked, masked, 0.0, masked, masked}, {2, 4});
  EXPECT_EQ(y, (Values{0.5, 0.0, 0.5, 0.0, 0.0, 1.0, 0.0, 0.0}));
}

TYPED_TEST(CudaSoftmax, LargeElementsDoNotOverflow) {
  const Values y = softmax_of<TypeParam>({30000.0, 30000.0, -30000.0, 30000.0, 30000.0}, {1, 5});
  EXPECT_EQ(y, (Values{0.25, 0.25, 0.0, 0.25, 0.25}));
}

// The width is a multiple of a pack, the address is not; and the result may replace the operand.
TYPED_TEST(CudaSoftmax, TakesOddAddressesAndItsOwnOperand) {
  const RowSize size{3, 64};
  const Values x = numbers<TypeParam>(size.elements() + 1, 5);
  const Values expected = expected_softmax({x.begin() + 1, x.end()}, size);
  DeviceArray<TypeParam> data(x);
  softmax<TypeParam>(kNoStream, data.data() + 1, data.data() + 1, size.rows, size.width);
  const Values found = data.values();
  expect_rounded<TypeParam>({found.begin() + 1, found.end()}, expected, 16.0 * kWidePlace<TypeParam>);
}

TYPED_TEST(CudaSoftmax, OpsTakeTheirOperandsInOrder) {
  const RowSize size{6, 10};
  const std::vector<Dim> dims = {{"batch", 2}, {"seq", 3}, {"expert", 10}};
  const Values x = numbers<TypeParam>(size.elements(), 6), dy = numbers<TypeParam>(size.elements(), 7);
  DeviceArray<TypeParam> in(x), given(dy), y = DeviceArray<TypeParam>::of_size(size.elements());
  DeviceArray<TypeParam> dx = DeviceArray<TypeParam>::of_size(size.elements());
  run_normalization(OpKind::Softmax, {}, {op_tensor(in, dims)}, {y.data()});
  EXPECT_EQ(y.values(), softmax_of<TypeParam>(x, size));
  run_normalization(OpKind::SoftmaxBackward, {}, {op_tensor(y, dims), op_tensor(given, dims)}, {dx.data()});
  const Values kept = y.values();
  Values expected(x.size());
  kernels::softmax_backward(kept.data(), dy.data(), expected.data(), size.rows, size.width);
  expect_rounded<TypeParam>(dx.values(), expected, 16.0 * kWidePlace<TypeParam>, kept);
}

}  // namespace
}  // namespace meshwright::kernels::cuda::softmax_test
