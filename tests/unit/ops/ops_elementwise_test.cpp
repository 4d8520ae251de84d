// SPDX-License-Identifier: Apache-2.0
// Ops that work element by element, and dropout, whose mask belongs to the whole tensor.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "kernels/cpu/elementwise/elementwise.h"
#include "kernels/cpu/elementwise/random.h"
#include "tests/op_fixture.h"

namespace meshwright::ops_elementwise_test {
namespace {

using kernels::Activation;

const std::vector<Dim> kDims = {{"batch", 4}, {"seq", 4}, {"embed", 6}};

void expect_refusal(const std::string& message, const char* part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

// --- functions of one operand ---

struct Function {
  OpKind kind;
  Attributes attributes;
  double (*value)(double);
  double low = -4.0, high = 4.0;
};
void PrintTo(const Function& function, std::ostream* out) { *out << name_of(function.kind); }

OpCase unary(const Function& f) {
  OpCase c;
  c.add(f.kind, {c.parameter("x", kDims, f.low, f.high)}, f.attributes, "y");
  return c;
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

class Functions : public testing::TestWithParam<Function> {};

TEST_P(Functions, AreTheirFormula) {
  const OpCase c = unary(GetParam());
  const Values &x = c.values.at(TensorId(0)), wide = computed(c), narrow = computed(c, c.result(), DType::F32);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = GetParam().value(x[i]);
    EXPECT_NEAR(wide[i], expected, 1e-15 * std::max(1.0, std::abs(expected))) << x[i];
    EXPECT_NEAR(narrow[i], expected, 5e-7 * std::max(1.0, std::abs(expected))) << x[i];
  }
}

TEST_P(Functions, HaveTheirDerivative) { expect_true_vjp(unary(GetParam())); }

TEST_P(Functions, CanBeSplitAlongEveryName) { expect_sharded_equals_whole(unary(GetParam()), 0.0); }

INSTANTIATE_TEST_SUITE_P(
    All, Functions,
    testing::Values(
        Function{OpKind::Relu, {}, [](double x) { return std::max(x, 0.0); }},
        Function{OpKind::Gelu,
                 {},
                 [](double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }},
        Function{OpKind::GeluErf, {}, [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); }},
        Function{OpKind::Silu, {}, [](double x) { return x * logistic(x); }},
        Function{OpKind::Tanh, {}, [](double x) { return std::tanh(x); }}, Function{OpKind::Sigmoid, {}, logistic},
        Function{OpKind::Exp, {}, [](double x) { return std::exp(x); }, -2, 2},
        Function{OpKind::Log, {}, [](double x) { return std::log(x); }, 0.5, 4},
        Function{OpKind::Sqrt, {}, [](double x) { return std::sqrt(x); }, 0.5, 4},
        Function{OpKind::Rsqrt, {}, [](double x) { return 1 / std::sqrt(x); }, 0.5, 4},
        Function{OpKind::Reciprocal, {}, [](double x) { return 1 / x; }, 0.5, 4},
        Function{OpKind::Abs, {}, [](double x) { return std::abs(x); }},
        Function{OpKind::Sin, {}, [](double x) { return std::sin(x); }},
        Function{OpKind::Cos, {}, [](double x) { return std::cos(x); }},
        Function{OpKind::Erf, {}, [](double x) { return std::erf(x); }},
        Function{OpKind::Clamp, {.low = -1.5, .high = 2.0}, [](double x) { return std::clamp(x, -1.5, 2.0); }},
        Function{OpKind::Shift, {.value = 1.5}, [](double x) { return x + 1.5; }},
        Function{OpKind::Scale, {.scale = -2.5}, [](double x) { return -2.5 * x; }},
        Function{OpKind::Cast, {.dtype = DType::F32}, [](double x) { return x; }}),
    [](const auto& function) { return name_of(function.param.kind); });

TEST(Clamp, HoldsOnOneSideOrBoth) {
  const auto of = [](Attributes bounds) {
    OpCase c;
    const TensorId x = c.parameter("x", {{"batch", 3}});
    c.values.at(x) = {-3.0, 0.5, 3.0};
    c.add(OpKind::Clamp, {x}, bounds, "y");
    return computed(c);
  };
  EXPECT_EQ(of({.low = -1.0}), (Values{-1.0, 0.5, 3.0}));
  EXPECT_EQ(of({.high = 2.0}), (Values{-3.0, 0.5, 2.0}));
  EXPECT_EQ(of({.low = 0.0, .high = 0.0}), (Values{0.0, 0.0, 0.0}));
  EXPECT_EQ(of({}), (Values{-3.0, 0.5, 3.0}));
}

TEST(Clamp, PassesGradientsAtItsBoundsAndKeepsWhatIsNoNumber) {
  const double x[] = {-1.0, 2.0, 2.5, -1.5, std::nan("")}, dy[] = {3.0, 4.0, 5.0, 6.0, 7.0};
  double y[5], dx[5];
  kernels::clamp(x, y, 5, {-1.0, 2.0});
  kernels::clamp_backward(x, dy, dx, 5, {-1.0, 2.0});
  EXPECT_EQ((std::vector<double>(y, y + 4)), (std::vector<double>{-1.0, 2.0, 2.0, -1.0}));
  EXPECT_TRUE(std::isnan(y[4]));
  EXPECT_EQ((std::vector<double>(dx, dx + 4)), (std::vector<double>{3.0, 4.0, 0.0, 0.0}));
}

TEST(Clamp, WithItsBoundsCrossedIsRefused) {
  OpCase c;
  const TensorId x = c.parameter("x", kDims);
  expect_refusal(refusal([&] { c.add(OpKind::Clamp, {x}, {.low = 2.0, .high = 1.0}, "y"); }),
                 "its attribute low must be at most its attribute high");
}

template <class T>
T at(void (*kernel)(const T*, T*, std::int64_t), T x) {
  T y = 0;
  kernel(&x, &y, 1);
  return y;
}
template <class T>
T slope_at(void (*kernel)(const T*, const T*, T*, std::int64_t), T x) {
  T y = 0;
  const T one = 1;
  kernel(&x, &one, &y, 1);
  return y;
}

TEST(Activations, KeepTheirTails) {
  EXPECT_EQ(at<float>(kernels::activate<Activation::Tanh>, 100.0f), 1.0f);
  EXPECT_EQ(at<float>(kernels::activate<Activation::Tanh>, -100.0f), -1.0f);
  EXPECT_EQ(at<float>(kernels::activate<Activation::Sigmoid>, 100.0f), 1.0f);
  EXPECT_NEAR(at<float>(kernels::activate<Activation::Sigmoid>, -100.0f), 0.0f, 1e-37f);
  EXPECT_EQ(at<float>(kernels::activate<Activation::Silu>, 100.0f), 100.0f);
  EXPECT_NEAR(at<float>(kernels::activate<Activation::Silu>, -100.0f), 0.0f, 1e-35f);
  for (const float x : {-100.0f, 100.0f}) {
    EXPECT_NEAR(slope_at<float>(kernels::activate_backward<Activation::Tanh>, x), 0.0f, 1e-35f);
    EXPECT_NEAR(slope_at<float>(kernels::activate_backward<Activation::Sigmoid>, x), 0.0f, 1e-35f);
    EXPECT_NEAR(slope_at<float>(kernels::activate_backward<Activation::Silu>, x), x > 0 ? 1.0f : 0.0f, 1e-35f);
  }
  for (const float nan = std::nanf("");
       const auto kernel : {kernels::activate<Activation::Tanh, float>, kernels::activate<Activation::Sigmoid, float>,
                            kernels::activate<Activation::Silu, float>})
    EXPECT_TRUE(std::isnan(at<float>(kernel, nan)));
}

// Where 1 - small would lose it, to a few units in the last place of the value itself.
TEST(Activations, KeepSmallValuesToTheLastPlaces) {
  for (const double x : {1e-6, 1e-3, 0.1, 0.3, 0.62, 0.63, 1.0, 3.0, 8.0}) {
    const float v = static_cast<float>(x);
    const double expected = std::tanh(static_cast<double>(v));
    EXPECT_NEAR(at<float>(kernels::activate<Activation::Tanh>, v), expected, 4e-7 * expected) << x;
    EXPECT_EQ(at<float>(kernels::activate<Activation::Tanh>, -v), -at<float>(kernels::activate<Activation::Tanh>, v))
        << x;
    const double slope = 1 / std::pow(std::cosh(static_cast<double>(v)), 2);
    EXPECT_NEAR(slope_at<float>(kernels::activate_backward<Activation::Tanh>, v), slope, 1e-6 * slope) << x;
    const double sigmoid = logistic(v), falling = sigmoid * logistic(-static_cast<double>(v));
    EXPECT_NEAR(slope_at<float>(kernels::activate_backward<Activation::Sigmoid>, v), falling, 1e-6 * falling) << x;
  }
}

// --- functions of two operands ---

OpCase binary(OpKind kind) {
  OpCase c;
  const TensorId x = c.parameter("x", kDims), y = c.parameter("y", kDims, 2, 3);
  c.add(kind, {x, y}, {}, "z");
  return c;
}

// The op of a parameter with itself.
OpCase with_itself(OpKind kind) {
  OpCase c;
  const TensorId w = c.parameter("w", kDims);
  const TensorId x = c.add(OpKind::Scale, {w}, {.scale = 3.0});
  c.add(kind, {x, x}, {}, "z");
  return c;
}

TEST(TwoOperands, AreAddedSubtractedMultipliedAndDivided) {
  for (const auto& [kind, value] : {std::pair{OpKind::Add, +[](double x, double y) { return x + y; }},
                                    std::pair{OpKind::Subtract, +[](double x, double y) { return x - y; }},
                                    std::pair{OpKind::Multiply, +[](double x, double y) { return x * y; }},
                                    std::pair{OpKind::Divide, +[](double x, double y) { return x / y; }}}) {
    const OpCase c = binary(kind);
    const Values found = computed(c), narrow = computed(c, c.result(), DType::F32);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double expected = value(c.values.at(TensorId(0))[i], c.values.at(TensorId(1))[i]);
      EXPECT_EQ(found[i], expected) << name_of(kind);
      EXPECT_NEAR(narrow[i], expected, 1e-6) << name_of(kind);
    }
  }
}

TEST(TwoOperands, HaveTheirDerivatives) {
  for (const OpKind kind : {OpKind::Add, OpKind::Subtract, OpKind::Multiply, OpKind::Divide})
    expect_true_vjp(binary(kind));
  for (const OpKind kind : {OpKind::Add, OpKind::Multiply}) expect_true_vjp(with_itself(kind));
}

TEST(Subtract, OfATensorFromItselfHasNoGradient) {
  const OpCase c = op_bench::with_backward(with_itself(OpKind::Subtract));
  for (const Tensor& tensor : c.graph.tensors()) {
    if (tensor.kind != TensorKind::Accumulator) continue;
    for (const double gradient : computed(c, tensor.id)) EXPECT_EQ(gradient, 0.0);
  }
}

// A parameter's two uses accumulate apart.
TEST(Multiply, OfAParameterWithItselfIsItsSquare) {
  OpCase c;
  const TensorId w = c.parameter("w", kDims);
  c.add(OpKind::Multiply, {w, w});
  expect_true_vjp(c);
}

TEST(TwoOperands, CanBeSplitAlongEveryName) {
  for (const OpKind kind : {OpKind::Add, OpKind::Subtract, OpKind::Multiply, OpKind::Divide})
    expect_sharded_equals_whole(binary(kind), 0.0);
}

TEST(TwoOperands, MustHaveTheSameDimensionsAndType) {
  for (const OpKind kind : {OpKind::Add, OpKind::Subtract, OpKind::Multiply, OpKind::Compare}) {
    expect_refusal(refusal([&] {
                     OpCase c;
                     c.add(kind, {c.input("x", kDims), c.input("y", {kDims[0], kDims[2], kDims[1]})});
                   }),
                   "x and y must have the same dimensions; it was given x 'x' f64 (batch=4, seq=4, embed=6), y 'y' f64 "
                   "(batch=4, embed=6, seq=4)");
    expect_refusal(refusal([&] {
                     OpCase c;
                     c.add(kind, {c.input("x", kDims), c.integers("y", kDims, 0, 2)});
                   }),
                   "must have one floating-point type");
  }
}

// --- types, comparisons, choices ---

TEST(Cast, GivesTheTypeAskedForAndItsGradientTheOneThereWas) {
  OpCase c = unary({OpKind::Cast, {.dtype = DType::BF16}, nullptr});
  EXPECT_EQ(c.graph.tensor(c.result()).dtype, DType::BF16);
  const TensorId seed = c.graph.add_tensor("dy", TensorKind::Input, DType::BF16, kDims);
  append_backward(c.graph, c.result(), seed, Recompute::None);
  const Op& back = c.graph.ops()[1];
  ASSERT_EQ(back.kind, OpKind::Cast);
  EXPECT_EQ(c.graph.tensor(back.outputs[0]).dtype, DType::F64);
}

TEST(Cast, TurnsIntegersIntoNumbers) {
  OpCase c;
  c.add(OpKind::Cast, {c.integers("i", {{"n", 4}}, {-7, 0, 3, 1 << 24})}, {.dtype = DType::F64});
  EXPECT_EQ(computed(c), (Values{-7, 0, 3, 1 << 24}));
  EXPECT_EQ(computed(c, c.result(), DType::F32), (Values{-7, 0, 3, 1 << 24}));
  expect_sharded_equals_whole(c, 0.0);
}

TEST(Cast, RefusesToMakeIntegers) {
  expect_refusal(refusal([] {
                   OpCase c;
                   c.add(OpKind::Cast, {c.input("x", kDims)}, {.dtype = DType::I32});
                 }),
                 "its attribute dtype must be floating-point");
}

TEST(Compare, KnowsSixRelations) {
  const std::pair<Comparison, Values> expected[] = {
      {Comparison::Less, {1, 0, 0, 0}},         {Comparison::LessEqual, {1, 1, 0, 0}},
      {Comparison::Equal, {0, 1, 0, 0}},        {Comparison::NotEqual, {1, 0, 1, 1}},
      {Comparison::GreaterEqual, {0, 1, 1, 0}}, {Comparison::Greater, {0, 0, 1, 0}},
  };
  for (const auto& [comparison, holds] : expected) {
    OpCase c;
    const TensorId x = c.input("x", {{"n", 4}}), y = c.input("y", {{"n", 4}});
    c.values[x] = {1, 2, 3, std::nan("")};
    c.values[y] = {2, 2, 2, 2};
    const TensorId p = c.add(OpKind::Compare, {x, y}, {.comparison = comparison});
    EXPECT_EQ(c.graph.tensor(p).dtype, DType::I32);
    EXPECT_EQ(computed(c), holds) << static_cast<int>(comparison);
    EXPECT_EQ(computed(c, p, DType::F32), holds) << static_cast<int>(comparison);
    expect_sharded_equals_whole(c, 0.0);
  }
}

OpCase choice() {
  OpCase c;
  const TensorId p = c.integers("p", kDims, -1, 2), x = c.parameter("x", kDims), y = c.parameter("y", kDims);
  c.add(OpKind::Select, {p, x, y}, {}, "z");
  return c;
}

TEST(Select, TakesTheFirstWherePIsNotZero) {
  const OpCase c = choice();
  const Values &p = c.values.at(TensorId(0)), z = computed(c);
  for (std::size_t i = 0; i < z.size(); ++i)
    EXPECT_EQ(z[i], c.values.at(TensorId(p[i] != 0 ? 1 : 2))[i]) << "p = " << p[i];
  expect_true_vjp(c);
  expect_sharded_equals_whole(c, 0.0);
}

// What is chosen by a comparison of x has no gradient through the comparison.
TEST(Select, OfAComparisonIsTheMaximum) {
  OpCase c;
  const TensorId x = c.parameter("x", kDims), y = c.parameter("y", kDims);
  const TensorId p = c.add(OpKind::Compare, {x, y}, {.comparison = Comparison::Greater});
  c.add(OpKind::Select, {p, x, y}, {}, "z");
  const Values z = computed(c);
  for (std::size_t i = 0; i < z.size(); ++i) EXPECT_EQ(z[i], std::max(c.values.at(x)[i], c.values.at(y)[i]));
  expect_true_vjp(c);
}

TEST(Select, RefusesAConditionOfAnotherTypeOrShape) {
  const auto select = [](auto make) {
    return refusal([&] {
      OpCase c;
      const TensorId p = make(c);
      c.add(OpKind::Select, {p, c.input("x", kDims), c.input("y", kDims)});
    });
  };
  expect_refusal(select([](OpCase& c) { return c.input("p", kDims); }), "p must be i32");
  expect_refusal(select([](OpCase& c) { return c.integers("p", {kDims[0]}, 0, 2); }),
                 "p and x must have the same dimensions");
}

// --- random words ---

using Words = std::vector<std::uint32_t>;

// One block of Philox4x32-10 as its paper has it.
Words philox(Words counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t left = 0xd2511f53ull * counter[0], right = 0xcd9e8d57ull * counter[2];
    counter = {static_cast<std::uint32_t>(right >> 32) ^ counter[1] ^ key0, static_cast<std::uint32_t>(right),
               static_cast<std::uint32_t>(left >> 32) ^ counter[3] ^ key1, static_cast<std::uint32_t>(left)};
    key0 += 0x9e3779b9u, key1 += 0xbb67ae85u;
  }
  return counter;
}

// The known answers that Random123 publishes.
TEST(Philox, IsThePublishedOne) {
  EXPECT_EQ(philox({0, 0, 0, 0}, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, ~0u, ~0u), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, GivesTheSameWordsFromAnyBeginning) {
  const kernels::PhiloxStream stream{0x299f31d0a4093822, 0x13198a2e, 0x03707344};
  for (const std::int64_t origin : {std::int64_t{0}, std::int64_t{1} << 36}) {
    Words whole;
    for (std::int64_t block = origin / 4; block < origin / 4 + 250; ++block) {
      const auto low = static_cast<std::uint32_t>(block), high = static_cast<std::uint32_t>(block >> 32);
      const Words words = philox({low, high, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0);
      whole.insert(whole.end(), words.begin(), words.end());
    }
    for (const std::int64_t first : {0, 1, 2, 3, 4, 253, 256, 511}) {
      Words part(300);
      kernels::philox_words(part.data(), 300, stream, origin + first);
      EXPECT_EQ(part, Words(whole.begin() + first, whole.begin() + first + 300)) << first;
    }
  }
}

// --- dropout ---

OpCase dropout(std::vector<Dim> dims, double probability, std::uint64_t seed = 7) {
  OpCase c;
  c.add(OpKind::Dropout, {c.parameter("x", std::move(dims), 1, 2)}, {.probability = probability, .seed = seed}, "y");
  return c;
}

// What the whole op makes of ones.
template <class T>
std::vector<T> mask(const OpCase& c, std::int64_t step, std::int64_t microbatch) {
  const Op& op = c.graph.ops()[0];
  std::vector<std::int64_t> sizes;
  for (const IterationAxis& axis : iteration_space(c.graph, op).axes) sizes.push_back(axis.size);
  std::vector<T> ones(c.values.at(TensorId(0)).size(), T(1)), out(ones.size());
  std::vector<void*> in = {ones.data()}, results = {out.data()};
  run_op<T>(plan_op(c.graph, op, sizes), in, results, {.step = step, .microbatch = microbatch});
  return out;
}

TEST(Dropout, DropsTheShareAskedForAndKeepsTheMean) {
  for (const double p : {0.05, 0.1, 0.5, 0.9}) {
    const std::vector<double> y = mask<double>(dropout({{"a", 300}, {"b", 1000}}, p), 1, 0);
    double kept = 0;
    for (const double value : y) {
      EXPECT_TRUE(value == 0.0 || value == 1 / (1 - p)) << value;
      kept += value != 0.0 ? 1 : 0;
    }
    const double n = static_cast<double>(y.size());
    EXPECT_NEAR(kept / n, 1 - p, 5 * std::sqrt(p * (1 - p) / n)) << p;
  }
}

TEST(Dropout, HasAnotherMaskForEverySeedStepAndMicrobatch) {
  const std::vector<Dim> dims = {{"a", 100}, {"b", 100}};
  const std::vector<double> first = mask<double>(dropout(dims, 0.5, 7), 1, 0);
  EXPECT_EQ(first, mask<double>(dropout(dims, 0.5, 7), 1, 0));
  // Two independent masks agree on half of 10000 elements, give or take 5 sigma = 250.
  const auto expect_independent = [&](const std::vector<double>& other) {
    std::int64_t same = 0;
    for (std::size_t i = 0; i < first.size(); ++i) same += first[i] == other[i] ? 1 : 0;
    EXPECT_NEAR(static_cast<double>(same), 5000.0, 250.0);
  };
  expect_independent(mask<double>(dropout(dims, 0.5, 8), 1, 0));
  expect_independent(mask<double>(dropout(dims, 0.5, 7), 2, 0));
  expect_independent(mask<double>(dropout(dims, 0.5, 7), 1, 1));
  expect_independent(mask<double>(dropout(dims, 0.5, 7), 0, 1));
}

TEST(Dropout, HasOneMaskInEveryPrecision) {
  const OpCase c = dropout(kDims, 0.3);
  const std::vector<double> wide = mask<double>(c, 1, 0);
  const std::vector<float> narrow = mask<float>(c, 1, 0);
  for (std::size_t i = 0; i < wide.size(); ++i) EXPECT_EQ(narrow[i], static_cast<float>(wide[i])) << i;
}

TEST(Dropout, HasOneMaskHoweverItIsSplit) {
  // Four dimensions, so that runs end inside, at and beyond every one of them.
  expect_sharded_equals_whole(dropout({{"a", 4}, {"b", 8}, {"c", 4}, {"d", 12}}, 0.4), 0.0);
  expect_sharded_equals_whole(dropout({{"a", 2}, {"b", 4}, {"c", 1030}}, 0.4), 0.0);
}

TEST(Dropout, HasTheGradientOfItsMask) { expect_true_vjp(dropout(kDims, 0.4)); }

TEST(Dropout, OfProbabilityZeroIsTheIdentity) {
  const OpCase c = dropout(kDims, 0.0);
  EXPECT_EQ(computed(c), c.values.at(TensorId(0)));
}

TEST(Dropout, RefusesAProbabilityOfOneOrBelowZero) {
  for (const double p : {1.0, 1.5, -0.1, std::nan("")})
    expect_refusal(refusal([&] { (void)dropout(kDims, p); }), "its probability must be at least 0 and below 1");
}

}  // namespace
}  // namespace meshwright::ops_elementwise_test
