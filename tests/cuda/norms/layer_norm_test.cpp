// SPDX-License-Identifier: Apache-2.0
// Layer normalisation on the device against the processor's in double.
#include "kernels/cuda/norms/row_norms.h"

#include "kernels/cpu/norms/layer_norm.h"
#include "tests/cuda/norms/row_cases.h"

namespace meshwright::kernels::cuda::layer_norm_test {
namespace {

constexpr double kEpsilon = 0.01;  // such that no row is stretched by more than 10

template <class T>
class CudaLayerNorm : public testing::Test {};
TYPED_TEST_SUITE(CudaLayerNorm, NumberTypes);

// Operands of all passes, each a T, and what the processor makes of them in double.
template <class T>
struct Case {
  RowSize size;
  Values x, gamma, beta, dy;

  explicit Case(RowSize of, double mean = 0.0)
      : size(of),
        x(numbers<T>(of.elements(), 1, mean - 1.0, mean + 1.0)),
        gamma(numbers<T>(of.width, 2, 0.5, 1.5)),
        beta(numbers<T>(of.width, 3, -0.5, 0.5)),
        dy(numbers<T>(of.elements(), 4, -1.0, 1.0)) {}

  [[nodiscard]] NormShape shape() const { return {size.rows, size.width, kEpsilon}; }
  [[nodiscard]] Values expected_out() const {
    Values out(x.size());
    kernels::layer_norm(x.data(), gamma.data(), beta.data(), out.data(), size.rows, size.width, kEpsilon);
    return out;
  }
  [[nodiscard]] Values expected_dx() const {
    Values dx(x.size());
    kernels::layer_norm_backward(x.data(), gamma.data(), dy.data(), dx.data(), size.rows, size.width, kEpsilon);
    return dx;
  }
  [[nodiscard]] Values out() const {
    DeviceArray<T> a(x), b(gamma), c(beta), result = DeviceArray<T>::of_size(size.elements());
    layer_norm<T>(kNoStream, a.data(), b.data(), c.data(), result.data(), shape());
    return result.values();
  }
  [[nodiscard]] Values dx() const {
    DeviceArray<T> a(x), b(gamma), c(dy), result = DeviceArray<T>::of_size(size.elements());
    layer_norm_backward<T>(kNoStream, a.data(), b.data(), c.data(), result.data(), shape());
    return result.values();
  }

  // dgamma, then dbeta.
  [[nodiscard]] Values expected_gradients() const {
    Values gradients(2 * gamma.size());
    kernels::layer_norm_parameter_backward(x.data(), dy.data(), gradients.data(), gradients.data() + size.width,
                                           size.rows, size.width, kEpsilon);
    return gradients;
  }
  [[nodiscard]] Values gradients() const {
    DeviceArray<T> a(x), b(dy), result = DeviceArray<T>::of_size(2 * size.width);
    TestWorkspace workspace;
    layer_norm_parameter_backward<T>(kNoStream, a.data(), b.data(), result.data(), result.data() + size.width, shape(),
                                     workspace.take(layer_norm_parameter_backward_workspace<T>(shape())));
    return result.values();
  }
};

// Within T's rounding, and a few of those of what is computed in, of what the largest elements are made of.
template <class T>
void expect_few_roundings(const Values& found, const Values& expected, double largest) {
  const double roundings = std::is_same_v<T, double> ? 128.0 : 8.0;  // what is expected is summed in double, too
  expect_rounded<T>(found, expected, roundings * kWidePlace<T>, same_for(std::ssize(expected), largest));
}

TYPED_TEST(CudaLayerNorm, AgreesWithTheProcessorInDouble) {
  for (const RowSize size : row_sizes<TypeParam>()) {
    SCOPED_TRACE(testing::Message() << size.rows << " x " << size.width);
    const Case<TypeParam> c(size);
    expect_few_roundings<TypeParam>(c.out(), c.expected_out(), 3.0);
  }
}

TYPED_TEST(CudaLayerNorm, GradientAgreesWithTheProcessorInDouble) {
  for (const RowSize size : row_sizes<TypeParam>()) {
    SCOPED_TRACE(testing::Message() << size.rows << " x " << size.width);
    const Case<TypeParam> c(size);
    expect_few_roundings<TypeParam>(c.dx(), c.expected_dx(), size.width < 4 ? 60.0 : 6.0);
  }
}

TYPED_TEST(CudaLayerNorm, ParametersGradientsAgreeWithTheProcessorInDouble) {
  for (const RowSize size : row_sizes<TypeParam>()) {
    if (size.elements() > 20000) continue;  // these rows are as the next smaller ones here
    SCOPED_TRACE(testing::Message() << size.rows << " x " << size.width);
    const Case<TypeParam> c(size);
    expect_few_roundings<TypeParam>(c.gradients(), c.expected_gradients(), static_cast<double>(size.rows));
  }
}

// Of numbers around 1000 that differ by 1 squares tell nothing in float: what is left is a rounding of 1000.
TYPED_TEST(CudaLayerNorm, VarianceIsMadeOfDeviations) {
  for (const RowSize size : {RowSize{3, 40}, RowSize{2, 1024}, RowSize{2, 1001}}) {
    const Case<TypeParam> c(size, 1000.0);
    expect_few_roundings<TypeParam>(c.out(), c.expected_out(), 2000.0);
    expect_few_roundings<TypeParam>(c.gradients(), c.expected_gradients(), 4000.0);
  }
}

TEST(CudaLayerNormRows, ManyAddUpToTheParametersGradients) {
  for (const RowSize size : {RowSize{2100, 129}, RowSize{9001, 12}}) {
    SCOPED_TRACE(testing::Message() << size.rows << " x " << size.width);
    const Case<float> c(size);
    expect_few_roundings<float>(c.gradients(), c.expected_gradients(), std::sqrt(static_cast<double>(size.rows)));
  }
}

TYPED_TEST(CudaLayerNorm, ParametersGradientsAreTheSameBitsEveryTime) {
  for (const RowSize size : {RowSize{500, 24}, RowSize{33, 1000}, RowSize{9, 3100}}) {
    const Case<TypeParam> c(size);
    EXPECT_EQ(c.gradients(), c.gradients()) << size.rows << " x " << size.width;
  }
}

// Of a width that packs divide, but from an address that they do not; and results that lie where an operand does.
TYPED_TEST(CudaLayerNorm, TakesOddAddressesAndItsOwnOperands) {
  const Case<TypeParam> c({3, 64});
  Values shifted = {0.0};
  shifted.insert(shifted.end(), c.x.begin(), c.x.end());
  DeviceArray<TypeParam> x(shifted), gamma(c.gamma), beta(c.beta), dy(c.dy);
  layer_norm_backward<TypeParam>(kNoStream, x.data() + 1, gamma.data(), dy.data(), dy.data(), c.shape());
  expect_few_roundings<TypeParam>(dy.values(), c.expected_dx(), 6.0);
  layer_norm<TypeParam>(kNoStream, x.data() + 1, gamma.data(), beta.data(), x.data() + 1, c.shape());
  const Values found = x.values();
  expect_few_roundings<TypeParam>({found.begin() + 1, found.end()}, c.expected_out(), 3.0);
}

TYPED_TEST(CudaLayerNorm, OpsTakeTheirOperandsInOrder) {
  using T = TypeParam;
  const Case<T> c({6, 10});
  const std::vector<Dim> dims = {{"batch", 2}, {"seq", 3}, {"embed", 10}}, row = {{"embed", 10}};
  const Attributes attributes{.epsilon = kEpsilon};
  DeviceArray<T> x(c.x), gamma(c.gamma), beta(c.beta), dy(c.dy);
  DeviceArray<T> out = DeviceArray<T>::of_size(60), dx = DeviceArray<T>::of_size(60);
  run_normalization(OpKind::LayerNorm, attributes, {op_tensor(x, dims), op_tensor(gamma, row), op_tensor(beta, row)},
                    {out.data()});
  EXPECT_EQ(out.values(), c.out());
  run_normalization(OpKind::LayerNormBackward, attributes,
                    {op_tensor(x, dims), op_tensor(gamma, row), op_tensor(dy, dims)}, {dx.data()});
  EXPECT_EQ(dx.values(), c.dx());
  DeviceArray<T> gradients = DeviceArray<T>::of_size(20);
  run_normalization(OpKind::LayerNormParamBackward, attributes, {op_tensor(x, dims), op_tensor(dy, dims)},
                    {gradients.data(), gradients.data() + 10});
  EXPECT_EQ(gradients.values(), c.gradients());
}

}  // namespace
}  // namespace meshwright::kernels::cuda::layer_norm_test
