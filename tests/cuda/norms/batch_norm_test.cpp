// SPDX-License-Identifier: Apache-2.0
// Batch normalisation on the device against the processor's in double.
#include "kernels/cuda/norms/batch_norm.h"

#include "kernels/cpu/norms/batch_norm.h"
#include "tests/cuda/norms/row_cases.h"

namespace meshwright::kernels::cuda::batch_norm_test {
namespace {

constexpr double kEpsilon = 0.01;

template <class T>
class CudaBatchNorm : public testing::Test {};
TYPED_TEST_SUITE(CudaBatchNorm, NumberTypes);

// Single elements and packs: fewer than a block has side by side, as many, more than one block of them.
template <class T>
std::vector<RowSize> batch_sizes() {
  const std::int64_t n = 16 / static_cast<std::int64_t>(sizeof(T));
  return {{1, 1}, {3000, 1}, {700, 3}, {130, 33}, {5, 257}, {2100, n}, {900, 3 * n}, {150, 32 * n}, {40, 65 * n}};
}

// Operands of all passes as they are stored, and what the processor makes of them in double.
template <class T>
struct Case {
  using W = Wide<T>;
  RowSize size;
  kernels::BatchNormShape shape;
  BatchNormShape device_shape;
  Values x, gamma, beta, dy, dgamma, dbeta;
  Values sums;  // rounded to W

  // As if `parts` like this one made the batch.
  explicit Case(RowSize of, double mean = 0.25, double parts = 1.0)
      : size(of),
        shape{of.rows, of.width, 1.0 / (parts * static_cast<double>(of.rows)), kEpsilon},
        device_shape{shape.rows, shape.channels, shape.share, shape.epsilon},
        x(numbers<T>(of.elements(), 1, mean - 1.0, mean + 1.0)),
        gamma(numbers<T>(of.width, 2, 0.5, 1.5)),
        beta(numbers<T>(of.width, 3, -0.5, 0.5)),
        dy(numbers<T>(of.elements(), 4, -1.0, 1.0)),
        dgamma(numbers<T>(of.width, 5, -10.0, 10.0)),
        dbeta(numbers<T>(of.width, 6, -10.0, 10.0)) {
    for (const double sum : expected_sums()) sums.push_back(static_cast<double>(static_cast<W>(parts * sum)));
  }

  [[nodiscard]] Values expected_sums() const {
    Values expected(2 * gamma.size());
    kernels::batch_sums(x.data(), expected.data(), size.rows, size.width);
    return expected;
  }
  [[nodiscard]] Values expected_out() const {
    Values out(x.size());
    kernels::batch_norm({x.data(), sums.data()}, gamma.data(), beta.data(), out.data(), shape);
    return out;
  }
  // dgamma, then dbeta.
  [[nodiscard]] Values expected_gradients() const {
    Values gradients(2 * gamma.size());
    kernels::batch_norm_parameter_backward({x.data(), sums.data()}, dy.data(), gradients.data(),
                                           gradients.data() + size.width, shape);
    return gradients;
  }
  [[nodiscard]] Values expected_dx() const {
    Values dx(x.size());
    kernels::batch_norm_backward({x.data(), sums.data()}, {gamma.data(), dgamma.data(), dbeta.data()}, dy.data(),
                                 dx.data(), shape);
    return dx;
  }

  [[nodiscard]] Values device_sums() const {
    DeviceArray<T> a(x);
    DeviceArray<W> result = DeviceArray<W>::of_size(2 * size.width);
    TestWorkspace workspace;
    batch_sums<T>(kNoStream, a.data(), result.data(), size.rows, size.width,
                  workspace.take(batch_sums_workspace<T>(size.rows, size.width)));
    return result.values();
  }
  [[nodiscard]] Values out() const {
    DeviceArray<T> a(x), b(gamma), c(beta), result = DeviceArray<T>::of_size(size.elements());
    DeviceArray<W> s(sums);
    batch_norm<T>(kNoStream, {a.data(), s.data()}, b.data(), c.data(), result.data(), device_shape);
    return result.values();
  }
  [[nodiscard]] Values gradients() const {
    DeviceArray<T> a(x), b(dy), result = DeviceArray<T>::of_size(2 * size.width);
    DeviceArray<W> s(sums);
    TestWorkspace workspace;
    batch_norm_parameter_backward<T>(kNoStream, {a.data(), s.data()}, b.data(), result.data(),
                                     result.data() + size.width, device_shape,
                                     workspace.take(batch_sums_workspace<T>(size.rows, size.width)));
    return result.values();
  }
  [[nodiscard]] Values dx() const {
    DeviceArray<T> a(x), b(gamma), c(dgamma), d(dbeta), e(dy), result = DeviceArray<T>::of_size(size.elements());
    DeviceArray<W> s(sums);
    batch_norm_backward<T>(kNoStream, {a.data(), s.data()}, {b.data(), c.data(), d.data()}, e.data(), result.data(),
                           device_shape);
    return result.values();
  }
};

// Within the rounding of what is stored (Stored), and a few of those of what T is computed in, of `largest`.
template <class T, class Stored = T>
void expect_few_roundings(const Values& found, const Values& expected, double largest) {
  const double roundings = std::is_same_v<T, double> ? 128.0 : 8.0;  // what is expected is summed in double, too
  expect_rounded<Stored>(found, expected, roundings * kWidePlace<T>, same_for(std::ssize(expected), largest));
}

// The device rounds runs of four rows, and the roundings do not add up; the processor's in double do, row by row.
TYPED_TEST(CudaBatchNorm, SumsAgreeWithTheProcessorInDouble) {
  for (const RowSize size : batch_sizes<TypeParam>()) {
    SCOPED_TRACE(testing::Message() << size.rows << " x " << size.width);
    const Case<TypeParam> c(size);
    const double rows = static_cast<double>(size.rows);
    expect_few_roundings<TypeParam, Wide<TypeParam>>(c.device_sums(), c.expected_sums(),
                                                     std::is_same_v<TypeParam, double> ? rows : std::sqrt(rows));
  }
}

TYPED_TEST(CudaBatchNorm, AgreesWithTheProcessorInDouble) {
  for (const RowSize size : batch_sizes<TypeParam>()) {
    SCOPED_TRACE(testing::Message() << size.rows << " x " << size.width);
    const Case<TypeParam> c(size);
    expect_few_roundings<TypeParam>(c.out(), c.expected_out(), size.rows < 4 ? 10.0 : 3.0);
  }
}

TYPED_TEST(CudaBatchNorm, ParametersGradientsAgreeWithTheProcessorInDouble) {
  for (const RowSize size : batch_sizes<TypeParam>()) {
    SCOPED_TRACE(testing::Message() << size.rows << " x " << size.width);
    const Case<TypeParam> c(size);
    expect_few_roundings<TypeParam>(c.gradients(), c.expected_gradients(), std::sqrt(static_cast<double>(size.rows)));
  }
}

TYPED_TEST(CudaBatchNorm, GradientAgreesWithTheProcessorInDouble) {
  for (const RowSize size : batch_sizes<TypeParam>()) {
    SCOPED_TRACE(testing::Message() << size.rows << " x " << size.width);
    const Case<TypeParam> c(size);
    expect_few_roundings<TypeParam>(c.dx(), c.expected_dx(), size.rows < 8 ? 400.0 : 6.0);
  }
}

// The share is one part in the rows of all parts, not of this one.
TYPED_TEST(CudaBatchNorm, NormalisesAPartByTheSumsOfAll) {
  const Case<TypeParam> c({50, 24}, 0.25, 4.0);
  expect_few_roundings<TypeParam>(c.out(), c.expected_out(), 3.0);
  expect_few_roundings<TypeParam>(c.gradients(), c.expected_gradients(), 8.0);
  expect_few_roundings<TypeParam>(c.dx(), c.expected_dx(), 6.0);
}

// Equal numbers have no variance, but their sums in float may have less than none.
TYPED_TEST(CudaBatchNorm, VarianceIsNotBelowZero) {
  Case<TypeParam> c({3, 5});
  c.x.assign(c.x.size(), 4.0);
  for (std::size_t i = 0; i < c.sums.size(); ++i) c.sums[i] = i < 5 ? 12.0 : 47.5;
  Values expected;
  for (int row = 0; row < 3; ++row) expected.insert(expected.end(), c.beta.begin(), c.beta.end());
  EXPECT_EQ(c.out(), expected);
}

// In float 100000 numbers of 1.0009765625 in a row would lose a rounding of the sum each.
TEST(CudaBatchSums, OfManyRowsAreAsInDouble) {
  Case<float> c({100000, 3});
  c.x.assign(c.x.size(), 1.0009765625);
  const Values found = c.device_sums();
  for (std::size_t channel = 0; channel < 3; ++channel) {
    EXPECT_EQ(found[channel], static_cast<double>(static_cast<float>(100097.65625)));
    EXPECT_NEAR(found[3 + channel], 100000 * 1.0009765625 * 1.0009765625, 0x1p-24 * 100200.0);
  }
}

TYPED_TEST(CudaBatchNorm, SumsAreTheSameBitsEveryTime) {
  for (const RowSize size : {RowSize{3001, 3}, RowSize{900, 24}, RowSize{70, 320}}) {
    const Case<TypeParam> c(size);
    EXPECT_EQ(c.device_sums(), c.device_sums()) << size.rows << " x " << size.width;
    EXPECT_EQ(c.gradients(), c.gradients()) << size.rows << " x " << size.width;
  }
}

// Of channels that packs divide, but from an address that they do not; and results that lie where an operand does.
TYPED_TEST(CudaBatchNorm, TakesOddAddressesAndItsOwnOperands) {
  const Case<TypeParam> c({50, 16});
  Values shifted = {0.0};
  shifted.insert(shifted.end(), c.x.begin(), c.x.end());
  DeviceArray<TypeParam> x(shifted), gamma(c.gamma), beta(c.beta), dgamma(c.dgamma), dbeta(c.dbeta), dy(c.dy);
  DeviceArray<Wide<TypeParam>> sums(c.sums);
  batch_norm_backward<TypeParam>(kNoStream, {x.data() + 1, sums.data()}, {gamma.data(), dgamma.data(), dbeta.data()},
                                 dy.data(), dy.data(), c.device_shape);
  expect_few_roundings<TypeParam>(dy.values(), c.expected_dx(), 6.0);
  batch_norm<TypeParam>(kNoStream, {x.data() + 1, sums.data()}, gamma.data(), beta.data(), x.data() + 1,
                        c.device_shape);
  const Values found = x.values();
  expect_few_roundings<TypeParam>({found.begin() + 1, found.end()}, c.expected_out(), 3.0);
}

TYPED_TEST(CudaBatchNorm, OpsTakeTheirOperandsInOrder) {
  using T = TypeParam;
  const Case<T> c({12, 10});
  const std::vector<Dim> dims = {{"batch", 4}, {"h", 3}, {"channel", 10}}, row = {{"channel", 10}};
  const std::vector<Dim> two = {{"moment", 2}, {"channel", 10}};
  const Attributes attributes{.scale = 1.0 / 12.0, .epsilon = kEpsilon};
  DeviceArray<T> x(c.x), gamma(c.gamma), beta(c.beta), dgamma(c.dgamma), dbeta(c.dbeta), dy(c.dy);
  DeviceArray<T> out = DeviceArray<T>::of_size(120), gradients = DeviceArray<T>::of_size(20);
  DeviceArray<Wide<T>> sums(c.sums), found_sums = DeviceArray<Wide<T>>::of_size(20);
  run_normalization(OpKind::BatchSums, {}, {op_tensor(x, dims)}, {found_sums.data()});
  EXPECT_EQ(found_sums.values(), c.device_sums());
  run_normalization(OpKind::BatchNorm, attributes,
                    {op_tensor(x, dims), op_tensor(sums, two), op_tensor(gamma, row), op_tensor(beta, row)},
                    {out.data()});
  EXPECT_EQ(out.values(), c.out());
  run_normalization(OpKind::BatchNormParamBackward, attributes,
                    {op_tensor(x, dims), op_tensor(sums, two), op_tensor(dy, dims)},
                    {gradients.data(), gradients.data() + 10});
  EXPECT_EQ(gradients.values(), c.gradients());
  run_normalization(OpKind::BatchNormBackward, attributes,
                    {op_tensor(x, dims), op_tensor(sums, two), op_tensor(gamma, row), op_tensor(dgamma, row),
                     op_tensor(dbeta, row), op_tensor(dy, dims)},
                    {out.data()});
  EXPECT_EQ(out.values(), c.dx());
}

}  // namespace
}  // namespace meshwright::kernels::cuda::batch_norm_test
