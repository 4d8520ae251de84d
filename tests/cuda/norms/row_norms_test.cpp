// SPDX-License-Identifier: Apache-2.0
// Layer and root-mean-square normalisation on the device against the processor's in double.
#include "kernels/cuda/norms/row_norms.h"

#include "kernels/cpu/norms/row_norms.h"
#include "tests/cuda/norms/row_cases.h"

namespace meshwright::kernels::cuda::row_norms_test {
namespace {

constexpr double kEpsilon = 0.01;  // such that no row is stretched by more than 10

template <Norm norm_, class T_>
struct NormOf {
  using T = T_;
  static constexpr Norm norm = norm_;
};
template <class Of>
class CudaRowNorm : public testing::Test {};
using Norms = testing::Types<NormOf<Norm::Layer, float>, NormOf<Norm::Layer, double>, NormOf<Norm::Layer, Bf16>,
                             NormOf<Norm::Layer, F16>, NormOf<Norm::Rms, float>, NormOf<Norm::Rms, double>,
                             NormOf<Norm::Rms, Bf16>, NormOf<Norm::Rms, F16>>;
TYPED_TEST_SUITE(CudaRowNorm, Norms);

// Operands of all passes, each a T, and what the processor makes of them in double.
template <class Of>
struct Case {
  using T = typename Of::T;
  static constexpr Norm norm = Of::norm;
  static constexpr std::int64_t kParameters = norm == Norm::Layer ? 2 : 1;  // gamma, and Layer's beta

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
    kernels::row_norm<norm>(x.data(), gamma.data(), beta.data(), out.data(), shape());
    return out;
  }
  [[nodiscard]] Values expected_dx() const {
    Values dx(x.size());
    kernels::row_norm_backward<norm>(x.data(), gamma.data(), dy.data(), dx.data(), shape());
    return dx;
  }
  [[nodiscard]] Values out() const {
    DeviceArray<T> a(x), b(gamma), c(beta), result = DeviceArray<T>::of_size(size.elements());
    row_norm<norm>(kNoStream, a.data(), b.data(), norm == Norm::Layer ? c.data() : nullptr, result.data(), shape());
    return result.values();
  }
  [[nodiscard]] Values dx() const {
    DeviceArray<T> a(x), b(gamma), c(dy), result = DeviceArray<T>::of_size(size.elements());
    row_norm_backward<norm>(kNoStream, a.data(), b.data(), c.data(), result.data(), shape());
    return result.values();
  }

  // Where dbeta goes behind dgamma.
  template <class P>
  [[nodiscard]] P* second(P* gradients) const {
    return norm == Norm::Layer ? gradients + size.width : nullptr;
  }
  [[nodiscard]] Values expected_gradients() const {
    Values gradients(static_cast<std::size_t>(kParameters) * gamma.size());
    kernels::row_norm_parameter_backward<norm>(x.data(), dy.data(), gradients.data(), second(gradients.data()),
                                               shape());
    return gradients;
  }
  [[nodiscard]] Values gradients() const {
    DeviceArray<T> a(x), b(dy), result = DeviceArray<T>::of_size(kParameters * size.width);
    TestWorkspace workspace;
    row_norm_parameter_backward<norm>(kNoStream, a.data(), b.data(), result.data(), second(result.data()), shape(),
                                      workspace.take(row_norm_parameter_backward_workspace<T>(shape())));
    return result.values();
  }
};

// Within T's rounding, and a few of those of what is computed in, of what the largest elements are made of.
template <class T>
void expect_few_roundings(const Values& found, const Values& expected, double largest) {
  const double roundings = std::is_same_v<T, double> ? 128.0 : 8.0;  // what is expected is summed in double, too
  expect_rounded<T>(found, expected, roundings * kWidePlace<T>, same_for(std::ssize(expected), largest));
}

TYPED_TEST(CudaRowNorm, AgreesWithTheProcessorInDouble) {
  for (const RowSize size : row_sizes<typename TypeParam::T>()) {
    SCOPED_TRACE(testing::Message() << size.rows << " x " << size.width);
    const Case<TypeParam> c(size);
    expect_few_roundings<typename TypeParam::T>(c.out(), c.expected_out(), 3.0);
  }
}

TYPED_TEST(CudaRowNorm, GradientAgreesWithTheProcessorInDouble) {
  for (const RowSize size : row_sizes<typename TypeParam::T>()) {
    SCOPED_TRACE(testing::Message() << size.rows << " x " << size.width);
    const Case<TypeParam> c(size);
    expect_few_roundings<typename TypeParam::T>(c.dx(), c.expected_dx(), size.width < 4 ? 60.0 : 6.0);
  }
}

TYPED_TEST(CudaRowNorm, ParametersGradientsAgreeWithTheProcessorInDouble) {
  for (const RowSize size : row_sizes<typename TypeParam::T>()) {
    if (size.elements() > 20000) continue;  // these rows are as the next smaller ones here
    SCOPED_TRACE(testing::Message() << size.rows << " x " << size.width);
    const Case<TypeParam> c(size);
    expect_few_roundings<typename TypeParam::T>(c.gradients(), c.expected_gradients(), static_cast<double>(size.rows));
  }
}

// For Layer. Of numbers around 1000 that differ by 1 squares tell nothing in float: what is left is a rounding of 1000.
TYPED_TEST(CudaRowNorm, VarianceIsMadeOfDeviations) {
  if (TypeParam::norm == Norm::Rms) return;
  for (const RowSize size : {RowSize{3, 40}, RowSize{2, 1024}, RowSize{2, 1001}}) {
    const Case<TypeParam> c(size, 1000.0);
    expect_few_roundings<typename TypeParam::T>(c.out(), c.expected_out(), 2000.0);
    expect_few_roundings<typename TypeParam::T>(c.gradients(), c.expected_gradients(), 4000.0);
  }
}

TYPED_TEST(CudaRowNorm, ManyRowsAddUpToTheParametersGradients) {
  using T = typename TypeParam::T;
  if (!std::is_same_v<T, float>) return;  // one type is enough: they take long on the processor
  for (const RowSize size : {RowSize{2100, 129}, RowSize{9001, 12}}) {
    SCOPED_TRACE(testing::Message() << size.rows << " x " << size.width);
    const Case<TypeParam> c(size);
    expect_few_roundings<T>(c.gradients(), c.expected_gradients(), std::sqrt(static_cast<double>(size.rows)));
  }
}

TYPED_TEST(CudaRowNorm, ParametersGradientsAreTheSameBitsEveryTime) {
  for (const RowSize size : {RowSize{500, 24}, RowSize{33, 1000}, RowSize{9, 3100}}) {
    const Case<TypeParam> c(size);
    EXPECT_EQ(c.gradients(), c.gradients()) << size.rows << " x " << size.width;
  }
}

// The width is a multiple of a pack, the address is not; and results may replace an operand.
TYPED_TEST(CudaRowNorm, TakesOddAddressesAndItsOwnOperands) {
  const Case<TypeParam> c({3, 64});
  Values shifted = {0.0};
  shifted.insert(shifted.end(), c.x.begin(), c.x.end());
  DeviceArray<typename TypeParam::T> x(shifted), gamma(c.gamma), beta(c.beta), dy(c.dy);
  row_norm_backward<TypeParam::norm>(kNoStream, x.data() + 1, gamma.data(), dy.data(), dy.data(), c.shape());
  expect_few_roundings<typename TypeParam::T>(dy.values(), c.expected_dx(), 6.0);
  const auto* const on_beta = TypeParam::norm == Norm::Layer ? beta.data() : nullptr;
  row_norm<TypeParam::norm>(kNoStream, x.data() + 1, gamma.data(), on_beta, x.data() + 1, c.shape());
  const Values found = x.values();
  expect_few_roundings<typename TypeParam::T>({found.begin() + 1, found.end()}, c.expected_out(), 3.0);
}

TYPED_TEST(CudaRowNorm, OpsTakeTheirOperandsInOrder) {
  using T = typename TypeParam::T;
  constexpr bool kLayer = TypeParam::norm == Norm::Layer;
  const Case<TypeParam> c({6, 10});
  const std::vector<Dim> dims = {{"batch", 2}, {"seq", 3}, {"embed", 10}}, row = {{"embed", 10}};
  const Attributes attributes{.epsilon = kEpsilon};
  DeviceArray<T> x(c.x), gamma(c.gamma), beta(c.beta), dy(c.dy);
  DeviceArray<T> out = DeviceArray<T>::of_size(60), dx = DeviceArray<T>::of_size(60);
  std::vector<OpTensor> inputs = {op_tensor(x, dims), op_tensor(gamma, row)};
  if (kLayer) inputs.push_back(op_tensor(beta, row));
  run_normalization(kLayer ? OpKind::LayerNorm : OpKind::RmsNorm, attributes, inputs, {out.data()});
  EXPECT_EQ(out.values(), c.out());
  run_normalization(kLayer ? OpKind::LayerNormBackward : OpKind::RmsNormBackward, attributes,
                    {op_tensor(x, dims), op_tensor(gamma, row), op_tensor(dy, dims)}, {dx.data()});
  EXPECT_EQ(dx.values(), c.dx());
  DeviceArray<T> gradients = DeviceArray<T>::of_size(c.kParameters * 10);
  std::vector<void*> outputs = {gradients.data()};
  if (kLayer) outputs.push_back(gradients.data() + 10);
  run_normalization(kLayer ? OpKind::LayerNormParamBackward : OpKind::RmsNormParamBackward, attributes,
                    {op_tensor(x, dims), op_tensor(dy, dims)}, outputs);
  EXPECT_EQ(gradients.values(), c.gradients());
}

}  // namespace
}  // namespace meshwright::kernels::cuda::row_norms_test
