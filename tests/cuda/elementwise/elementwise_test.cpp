// SPDX-License-Identifier: Apache-2.0
// Passes over elements on the device against the processor's in double.
#include "kernels/cuda/elementwise/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu/elementwise/elementwise.h"
#include "tests/cuda/flat_ops.h"

namespace meshwright::kernels::cuda::elementwise_test {
namespace {

// Errors of what is computed in, against what the exponent's rounding makes of them: some roundings, and with 16 bits
// the hardware's exponential.
template <class T>
constexpr double kSlack = sizeof(T) == 2 ? 0x1p-19 : 8 * kHalfPlace<T>;
Values times_exponent(const Values& values, const Values& x) {
  Values scale;
  for (std::size_t i = 0; i < x.size(); ++i)
    scale.push_back(values[i] * (1.0 + std::abs(x[i]) + std::pow(std::abs(x[i]), 3.0) / 8.0));
  return scale;
}

// Less than a group, whole groups, a group and a rest, more than a block.
const std::vector<std::int64_t> kSizes = {1, 7, 8, 32, 257, 4099};

template <class T>
class CudaElementwise : public testing::Test {};
using Types = testing::Types<float, double, Bf16, F16>;
TYPED_TEST_SUITE(CudaElementwise, Types);

TYPED_TEST(CudaElementwise, SumsDifferencesAndProductsAreRoundedOnce) {
  using T = TypeParam;
  for (const std::int64_t n : kSizes) {
    const Values x = numbers<T>(n, 1), y = numbers<T>(n, 2);
    const DeviceArray<T> on_x(x), on_y(y);
    auto out = DeviceArray<T>::of_size(n);
    Values sum, difference, product, scaled;
    for (std::size_t i = 0; i < x.size(); ++i) {
      sum.push_back(static_cast<double>(T(static_cast<Wide<T>>(x[i] + y[i]))));
      difference.push_back(static_cast<double>(T(static_cast<Wide<T>>(x[i] - y[i]))));
      product.push_back(static_cast<double>(T(static_cast<Wide<T>>(x[i] * y[i]))));
      scaled.push_back(static_cast<double>(T(static_cast<Wide<T>>(-0.5 * x[i]))));
    }
    combine<Arithmetic::Add>(kNoStream, on_x.data(), on_y.data(), out.data(), n);
    EXPECT_EQ(out.values(), sum);
    combine<Arithmetic::Subtract>(kNoStream, on_x.data(), on_y.data(), out.data(), n);
    EXPECT_EQ(out.values(), difference);
    combine<Arithmetic::Multiply>(kNoStream, on_x.data(), on_y.data(), out.data(), n);
    EXPECT_EQ(out.values(), product);
    scale(kNoStream, on_x.data(), out.data(), n, -0.5);
    EXPECT_EQ(out.values(), scaled);
  }
}

// Element by element and in groups, beside what must not be written.
TYPED_TEST(CudaElementwise, PointersBetweenGroupsAndInPlaceMakeNoDifference) {
  using T = TypeParam;
  const std::int64_t n = 1000;
  const Values x = numbers<T>(n, 3), y = numbers<T>(n, 4);
  DeviceArray<T> in_place(x);
  const DeviceArray<T> on_x(x), on_y(y);
  combine<Arithmetic::Add>(kNoStream, in_place.data() + 1, on_y.data() + 3, in_place.data() + 1, n - 5);
  const Values found = in_place.values();
  for (std::int64_t i = 0; i < n; ++i) {
    const auto k = static_cast<std::size_t>(i);
    const bool added = i >= 1 && i < n - 4;
    const double expected = added ? static_cast<double>(T(static_cast<Wide<T>>(x[k] + y[k + 2]))) : x[k];
    ASSERT_EQ(found[k], expected) << k;
  }
}

template <class T>
struct ActivationCase {
  const char* name;
  void (*device)(Stream, const T*, T*, std::int64_t);
  void (*device_backward)(Stream, const T*, const T*, T*, std::int64_t);
  void (*processor)(const double*, double*, std::int64_t);
  void (*processor_backward)(const double*, const double*, double*, std::int64_t);
};
template <class T, Activation f>
ActivationCase<T> case_of(const char* name) {
  return {name, activate<f, T>, activate_backward<f, T>, kernels::activate<f, double>,
          kernels::activate_backward<f, double>};
}

TYPED_TEST(CudaElementwise, ActivationsAndTheirGradientsAreTheProcessors) {
  using T = TypeParam;
  const ActivationCase<T> activations[] = {
      case_of<T, Activation::Relu>("relu"),        case_of<T, Activation::Gelu>("gelu"),
      case_of<T, Activation::GeluErf>("gelu_erf"), case_of<T, Activation::Silu>("silu"),
      case_of<T, Activation::Tanh>("tanh"),        case_of<T, Activation::Sigmoid>("sigmoid")};
  const std::int64_t n = 3001;
  Values x = numbers<T>(n, 5, -12.0, 12.0);
  const Values dy = numbers<T>(n, 6);
  x[0] = 0.0, x[1] = static_cast<double>(T(1e-3f)), x[2] = -40.0, x[3] = 40.0;
  const DeviceArray<T> on_x(x), on_dy(dy);
  auto out = DeviceArray<T>::of_size(n);
  for (const ActivationCase<T>& activation : activations) {
    SCOPED_TRACE(activation.name);
    Values expected(x.size());
    activation.device(kNoStream, on_x.data(), out.data(), n);
    activation.processor(x.data(), expected.data(), n);
    expect_rounded<T>(out.values(), expected, kSlack<T>, times_exponent(expected, x));
    // Gradients are sums that may cancel.
    activation.device_backward(kNoStream, on_x.data(), on_dy.data(), out.data(), n);
    activation.processor_backward(x.data(), dy.data(), expected.data(), n);
    expect_rounded<T>(out.values(), expected, kSlack<T>, times_exponent(dy, x));
  }
}

// Where all of them are smooth and of the size of 1.
TYPED_TEST(CudaElementwise, FunctionsOfPositiveNumbersAreTheProcessors) {
  using T = TypeParam;
  const ActivationCase<T> functions[] = {case_of<T, Activation::Exp>("exp"),
                                         case_of<T, Activation::Log>("log"),
                                         case_of<T, Activation::Sqrt>("sqrt"),
                                         case_of<T, Activation::Rsqrt>("rsqrt"),
                                         case_of<T, Activation::Reciprocal>("reciprocal"),
                                         case_of<T, Activation::Abs>("abs"),
                                         case_of<T, Activation::Sin>("sin"),
                                         case_of<T, Activation::Cos>("cos"),
                                         case_of<T, Activation::Erf>("erf")};
  const std::int64_t n = 515;
  const Values x = numbers<T>(n, 9, 0.5, 3.0), dy = numbers<T>(n, 10);
  const DeviceArray<T> on_x(x), on_dy(dy);
  auto out = DeviceArray<T>::of_size(n);
  const Values sizes(x.size(), 32.0);  // exp(3), and slopes of up to 4
  for (const ActivationCase<T>& function : functions) {
    SCOPED_TRACE(function.name);
    Values expected(x.size());
    function.device(kNoStream, on_x.data(), out.data(), n);
    function.processor(x.data(), expected.data(), n);
    expect_rounded<T>(out.values(), expected, kSlack<T>, sizes);
    function.device_backward(kNoStream, on_x.data(), on_dy.data(), out.data(), n);
    function.processor_backward(x.data(), dy.data(), expected.data(), n);
    expect_rounded<T>(out.values(), expected, kSlack<T>, sizes);
  }
}

TYPED_TEST(CudaElementwise, ComparisonsDecideWhatIsTaken) {
  using T = TypeParam;
  const std::int64_t n = 259;
  const Values x = numbers<T>(n, 7);
  Values y = numbers<T>(n, 8);
  for (std::size_t i = 0; i < y.size(); i += 3) y[i] = x[i];
  const DeviceArray<T> on_x(x), on_y(y);
  auto less = DeviceArray<std::int32_t>::of_size(n), equal = DeviceArray<std::int32_t>::of_size(n);
  auto smaller = DeviceArray<T>::of_size(n), where_equal = DeviceArray<T>::of_size(n),
       where_not = DeviceArray<T>::of_size(n);
  compare<Relation::Less>(kNoStream, on_x.data(), on_y.data(), less.data(), n);
  compare<Relation::Equal>(kNoStream, on_x.data(), on_y.data(), equal.data(), n);
  select(kNoStream, less.data(), on_x.data(), on_y.data(), smaller.data(), n);
  select_backward(kNoStream, equal.data(), on_x.data(), where_equal.data(), n, false);
  select_backward(kNoStream, equal.data(), on_x.data(), where_not.data(), n, true);
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(less.raw()[i], x[i] < y[i] ? 1 : 0);
    ASSERT_EQ(smaller.values()[i], std::min(x[i], y[i]));
    ASSERT_EQ(where_equal.values()[i], x[i] == y[i] ? x[i] : 0.0);
    ASSERT_EQ(where_not.values()[i], x[i] == y[i] ? 0.0 : x[i]);
  }
}

template <class From, class To>
void expect_conversion(const Values& values) {
  const DeviceArray<From> x(values);
  const auto n = static_cast<std::int64_t>(values.size());
  auto out = DeviceArray<To>::of_size(n);
  convert(kNoStream, x.data(), out.data(), n);
  Values expected;
  for (const double value : x.values()) expected.push_back(static_cast<double>(To(static_cast<Wide<To>>(value))));
  EXPECT_EQ(out.values(), expected);
}

TYPED_TEST(CudaElementwise, EveryTypeConvertsToEveryOther) {
  using T = TypeParam;
  const Values values = numbers<double>(603, 9, -3000.0, 3000.0);
  expect_conversion<float, T>(values);
  expect_conversion<double, T>(values);
  expect_conversion<Bf16, T>(values);
  expect_conversion<F16, T>(values);
  expect_conversion<std::int32_t, T>(values);
}

// A thread has several turns: more groups, and more single elements, than a grid has threads.
TEST(CudaElementwise_, NothingIsLeftOutBeyondTheGrid) {
  const std::int64_t groups = 4096 * 256 * 2 * 2 + 7, single = 4096 * 256 + 9;
  Values x(static_cast<std::size_t>(groups));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
  const DeviceArray<double> on_x(x);
  auto out = DeviceArray<double>::of_size(groups);
  for (const bool in_groups : {true, false}) {
    const std::int64_t n = in_groups ? groups : single, first = in_groups ? 0 : 1;
    scale(kNoStream, on_x.data() + first, out.data() + first, n, 2.0);
    const Values found = out.values();
    for (std::int64_t i = first; i < first + n; ++i)
      ASSERT_EQ(found[static_cast<std::size_t>(i)], 2.0 * static_cast<double>(i));
  }
}

TEST(CudaElementwise_, EveryKindOfOpHasItsKernel) {
  using K = OpKind;
  const Values x = {-1.5, 0.0, 0.25, 3.0}, y = {0.5, 0.0, -2.0, 1.0};
  DeviceArray<float> on_x(x), on_y(y), narrow(x);
  DeviceArray<std::int32_t> p({0, 1, 2, 0});
  auto out = DeviceArray<float>::of_size(4);
  auto integers = DeviceArray<std::int32_t>::of_size(4);
  const auto values = [&](K kind, const Attributes& attributes, const std::vector<FlatTensor>& inputs) {
    run_flat(cuda_elementwise_kernel(kind), kind, attributes, inputs, {flat(out)});
    return out.values();
  };
  EXPECT_EQ(values(K::Add, {}, {flat(on_x), flat(on_y)}), (Values{-1.0, 0.0, -1.75, 4.0}));
  EXPECT_EQ(values(K::Subtract, {}, {flat(on_x), flat(on_y)}), (Values{-2.0, 0.0, 2.25, 2.0}));
  EXPECT_EQ(values(K::Multiply, {}, {flat(on_x), flat(on_y)}), (Values{-0.75, 0.0, -0.5, 3.0}));
  EXPECT_EQ(values(K::Scale, {.scale = 4.0}, {flat(on_x)}), (Values{-6.0, 0.0, 1.0, 12.0}));
  EXPECT_EQ(values(K::Select, {}, {flat(p), flat(on_x), flat(on_y)}), (Values{0.5, 0.0, 0.25, 1.0}));
  EXPECT_EQ(values(K::SelectBackward, {}, {flat(p), flat(on_x)}), (Values{0.0, 0.0, 0.25, 0.0}));
  EXPECT_EQ(values(K::SelectBackward, {.bias_select = true}, {flat(p), flat(on_x)}), (Values{-1.5, 0.0, 0.0, 3.0}));
  EXPECT_EQ(values(K::Cast, {}, {flat(p)}), (Values{0.0, 1.0, 2.0, 0.0}));
  EXPECT_EQ(values(K::Dropout, {.probability = 0.0}, {flat(on_x)}), x);
  const std::pair<Comparison, Values> comparisons[] = {
      {Comparison::Less, {1, 0, 0, 0}},         {Comparison::LessEqual, {1, 1, 0, 0}},
      {Comparison::Equal, {0, 1, 0, 0}},        {Comparison::NotEqual, {1, 0, 1, 1}},
      {Comparison::GreaterEqual, {0, 1, 1, 1}}, {Comparison::Greater, {0, 0, 1, 1}}};
  for (const auto& [comparison, expected] : comparisons) {
    run_flat(cuda_elementwise_kernel(K::Compare), K::Compare, {.comparison = comparison}, {flat(on_x), flat(on_y)},
             {flat(integers)});
    EXPECT_EQ(integers.values(), expected);
  }
  const std::pair<K, void (*)(const double*, double*, std::int64_t)> forward[] = {
      {K::Relu, kernels::activate<Activation::Relu, double>},
      {K::Gelu, kernels::activate<Activation::Gelu, double>},
      {K::GeluErf, kernels::activate<Activation::GeluErf, double>},
      {K::Silu, kernels::activate<Activation::Silu, double>},
      {K::Tanh, kernels::activate<Activation::Tanh, double>},
      {K::Sigmoid, kernels::activate<Activation::Sigmoid, double>}};
  for (const auto& [kind, processor] : forward) {
    Values expected(4);
    processor(x.data(), expected.data(), 4);
    expect_rounded<float>(values(kind, {}, {flat(on_x)}), expected, kSlack<float>, times_exponent(expected, x));
  }
  const std::pair<K, void (*)(const double*, const double*, double*, std::int64_t)> backward[] = {
      {K::ReluBackward, kernels::activate_backward<Activation::Relu, double>},
      {K::GeluBackward, kernels::activate_backward<Activation::Gelu, double>},
      {K::GeluErfBackward, kernels::activate_backward<Activation::GeluErf, double>},
      {K::SiluBackward, kernels::activate_backward<Activation::Silu, double>},
      {K::TanhBackward, kernels::activate_backward<Activation::Tanh, double>},
      {K::SigmoidBackward, kernels::activate_backward<Activation::Sigmoid, double>}};
  for (const auto& [kind, processor] : backward) {
    Values expected(4);
    processor(x.data(), y.data(), expected.data(), 4);
    expect_rounded<float>(values(kind, {}, {flat(on_x), flat(on_y)}), expected, kSlack<float>, times_exponent(y, x));
  }
  EXPECT_EQ(cuda_elementwise_kernel(K::AdamUpdate), nullptr);
}

TEST(CudaElementwise_, FunctionsQuotientsAndShiftsAreFoundByTheirKinds) {
  using K = OpKind;
  const Values x = {0.5, 1.0, 2.0, 4.0}, y = {2.0, -4.0, 0.5, 8.0};
  DeviceArray<float> on_x(x), on_y(y), out = DeviceArray<float>::of_size(4);
  const auto values = [&](K kind, const Attributes& attributes, const std::vector<FlatTensor>& operands) {
    run_flat(cuda_elementwise_kernel(kind), kind, attributes, operands, {flat(out)});
    return out.values();
  };
  EXPECT_EQ(values(K::Divide, {}, {flat(on_x), flat(on_y)}), (Values{0.25, -0.25, 4.0, 0.5}));
  EXPECT_EQ(values(K::Shift, {.value = -1.5}, {flat(on_x)}), (Values{-1.0, -0.5, 0.5, 2.5}));
  EXPECT_EQ(values(K::Clamp, {.low = 1.0, .high = 3.0}, {flat(on_x)}), (Values{1.0, 1.0, 2.0, 3.0}));
  EXPECT_EQ(values(K::ClampBackward, {.low = 1.0, .high = 3.0}, {flat(on_x), flat(on_y)}),
            (Values{0.0, -4.0, 0.5, 0.0}));
  EXPECT_EQ(values(K::Reciprocal, {}, {flat(on_x)}), (Values{2.0, 1.0, 0.5, 0.25}));
  EXPECT_EQ(values(K::ReciprocalBackward, {}, {flat(on_x), flat(on_y)}), (Values{-8.0, 4.0, -0.125, -0.5}));
  EXPECT_EQ(values(K::Abs, {}, {flat(on_y)}), (Values{2.0, 4.0, 0.5, 8.0}));
  const struct {
    K kind, backward;
    double (*value)(double);
    double (*slope)(double);
  } functions[] = {
      {K::Exp, K::ExpBackward, [](double a) { return std::exp(a); }, [](double a) { return std::exp(a); }},
      {K::Log, K::LogBackward, [](double a) { return std::log(a); }, [](double a) { return 1 / a; }},
      {K::Sqrt, K::SqrtBackward, [](double a) { return std::sqrt(a); }, [](double a) { return 0.5 / std::sqrt(a); }},
      {K::Rsqrt, K::RsqrtBackward, [](double a) { return 1 / std::sqrt(a); },
       [](double a) { return -0.5 / (a * std::sqrt(a)); }},
      {K::Sin, K::SinBackward, [](double a) { return std::sin(a); }, [](double a) { return std::cos(a); }},
      {K::Cos, K::CosBackward, [](double a) { return std::cos(a); }, [](double a) { return -std::sin(a); }},
      {K::Erf, K::ErfBackward, [](double a) { return std::erf(a); },
       [](double a) { return 2 / std::sqrt(M_PI) * std::exp(-a * a); }}};
  for (const auto& function : functions) {
    const Values found = values(function.kind, {}, {flat(on_x)}),
                 slopes = values(function.backward, {}, {flat(on_x), flat(on_y)});
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double value = function.value(x[i]), slope = y[i] * function.slope(x[i]);
      EXPECT_NEAR(found[i], value, 1e-6 * std::max(1.0, std::abs(value))) << name_of(function.kind) << i;
      EXPECT_NEAR(slopes[i], slope, 1e-6 * std::max(1.0, std::abs(slope))) << name_of(function.kind) << i;
    }
  }
  EXPECT_EQ(values(K::AbsBackward, {}, {flat(on_y), flat(on_x)}), (Values{0.5, -1.0, 2.0, 4.0}));
}

TEST(CudaElementwise_, ACastReadsAndWritesTensorsAsTheyAreStored) {
  const Values x = {1.0, -0.375, 1024.0};
  DeviceArray<F16> half(x);
  auto brain = DeviceArray<Bf16>::of_size(3);
  auto wide = DeviceArray<double>::of_size(3);
  run_flat(cuda_elementwise_kernel(OpKind::Cast), OpKind::Cast, {}, {flat(half)}, {flat(brain)});
  run_flat(cuda_elementwise_kernel(OpKind::Cast), OpKind::Cast, {}, {flat(brain)}, {flat(wide)});
  EXPECT_EQ(wide.values(), x);
}

}  // namespace
}  // namespace meshwright::kernels::cuda::elementwise_test
