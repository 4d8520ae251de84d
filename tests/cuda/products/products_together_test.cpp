// SPDX-License-Identifier: Apache-2.0
// A product, its bias and the function that follows, which a CUDA device does together, come nearer to the truth than
// one by one.
#include <gtest/gtest.h>

#include <cmath>
#include <type_traits>
#include <utility>

#include "executor/cuda/cuda_device.h"
#include "kernels/cpu/elementwise/elementwise.h"
#include "tests/cuda/recorded_launches.h"
#include "tests/cuda/whole_ops.h"

namespace meshwright::kernels::cuda::products_together_test {
namespace {

constexpr double kUntouched = -77;

template <class T>
DeviceArray<T> untouched(std::int64_t n) {
  return DeviceArray<T>(Values(static_cast<std::size_t>(n), kUntouched));
}

// --- a product, its bias and a function ---

// x (rows, in) w (in, columns) -> y, or both transposed; z = y + bias; f = function(z). `parts` > 1: z has columns
// (parts, columns / parts), and the bias is of the first part.
struct Chain {
  std::int64_t rows, columns, in;
  OpKind function = OpKind::Gelu;
  std::int64_t parts = 1;
  bool exchanged = false;
  bool backward_reads = true;  // what the function is applied to

  [[nodiscard]] Graph graph(DType type) const {
    Graph g;
    g.dtype = type;
    const Dim row{"row", rows}, column{"column", columns / parts}, inner{"in", in}, part{"part", parts};
    std::vector<Dim> weight = {inner, column};
    std::vector<std::string> result = {"row", "column"};
    if (parts > 1) weight = {inner, part, column}, result = {"row", "part", "column"};
    const TensorId x = g.add_tensor("x", TensorKind::Input, type, {row, inner});
    const TensorId w = g.add_tensor("w", TensorKind::Parameter, type, weight);
    const TensorId b = g.add_tensor("b", TensorKind::Parameter, type, {column});
    const std::vector<TensorId> operands = exchanged ? std::vector{w, x} : std::vector{x, w};
    const TensorId y = g.add_op(OpKind::Contract, "y", operands, {.result_names = result})[0];
    const TensorId z = g.add_op(OpKind::BiasAdd, "z", {y, b}, {.bias_select = parts > 1})[0];
    (void)g.add_op(function, "f", {z});
    return g;
  }
};

struct Found {
  Values y, z, f;
};

// The three ops, done together where they may be, or one by one.
template <class T>
Found on_device(const Chain& c, const Values& x, const Values& w, const Values& b, bool together) {
  const Graph g = c.graph(kDType<T>);
  std::vector<OpCallPlan> calls;
  for (const Op& op : g.ops()) calls.push_back(whole_call(g, op));
  calls[0].only_next_reads = together;
  calls[1].only_next_reads = together && !c.backward_reads;
  DeviceArray<T> on_x(x), on_w(w), on_b(b);
  auto y = untouched<T>(c.rows * c.columns), z = untouched<T>(c.rows * c.columns), f = untouched<T>(c.rows * c.columns);
  std::vector<void*> operands = {on_x.data(), on_w.data()};
  if (c.exchanged) std::swap(operands[0], operands[1]);
  CudaDevice device(0, false, [](DType type) { return type; });
  const auto run = [&](std::size_t op, const std::vector<void*>& in, void* out) {
    device.begin_work(g.ops()[op].name);
    device.run_op(calls[op], in, std::vector<void*>{out}, {});
    device.end_work();
  };
  run(0, operands, y.data());
  run(1, {y.data(), on_b.data()}, z.data());
  run(2, {z.data()}, f.data());
  device.finish();
  return {y.values(), z.values(), f.values()};
}

double applied(OpKind function, double x) {
  if (function == OpKind::Relu) return std::max(x, 0.0);
  double y = 0;
  kernels::activate<kernels::Activation::Gelu>(&x, &y, 1);
  return y;
}

// The truth of z and, per element, the magnitudes of its terms.
struct Truth {
  Values z, magnitudes;
};
Truth truth_of(const Chain& c, const Values& x, const Values& w, const Values& b) {
  Truth truth;
  const std::int64_t own = c.columns / c.parts;
  for (std::int64_t i = 0; i < c.rows; ++i)
    for (std::int64_t j = 0; j < c.columns; ++j) {
      double sum = j < own ? b[static_cast<std::size_t>(j)] : 0.0, magnitudes = std::abs(sum);
      for (std::int64_t k = 0; k < c.in; ++k) {
        const double term = x[static_cast<std::size_t>(i * c.in + k)] * w[static_cast<std::size_t>(k * c.columns + j)];
        sum += term;
        magnitudes += std::abs(term);
      }
      truth.z.push_back(sum);
      truth.magnitudes.push_back(magnitudes);
    }
  return truth;
}

template <class T>
void expect_near_the_truth(const Chain& c) {
  const Values x = numbers<T>(c.rows * c.in, 1), w = numbers<T>(c.in * c.columns, 2),
               b = numbers<T>(c.columns / c.parts, 3);
  const Truth truth = truth_of(c, x, w, b);
  const Found together = on_device<T>(c, x, w, b, true), apart = on_device<T>(c, x, w, b, false);
  for (std::size_t i = 0; i < truth.z.size(); ++i) {
    // Sums in the wider type, twice as they are compared with sums of doubles; the product, its sum with the bias and
    // the function's value, each rounded once where they are apart, and where they are together one rounding of each
    // that is written. GELU grows at most 1.13 times as fast as what it is applied to.
    const double summed = 2 * static_cast<double>(c.in + 2) * kHalfPlace<Wide<T>> * truth.magnitudes[i];
    const double rounded = 1.01 * kHalfPlace<T> * (std::abs(truth.z[i]) + summed) + kSmallestHalf<T>;
    const double product = 1.01 * kHalfPlace<T> * (truth.magnitudes[i] + summed) + kSmallestHalf<T>;
    const double f = applied(c.function, truth.z[i]), of_f = 1.01 * kHalfPlace<T> * std::abs(f) + kSmallestHalf<T>;
    const double of_function = 8 * kHalfPlace<Wide<T>> * (1 + std::abs(truth.z[i]));
    ASSERT_NEAR(together.f[i], f, 1.13 * (summed + product + rounded) + of_f + of_function) << i;
    ASSERT_NEAR(apart.f[i], f, 1.13 * (summed + product + rounded) + of_f + of_function) << i;
    if (c.backward_reads) {
      ASSERT_NEAR(together.z[i], truth.z[i], summed + product + rounded) << i;
    }
    ASSERT_NEAR(apart.z[i], truth.z[i], summed + product + rounded) << i;
  }
}

template <class T>
class ProductsTogether : public testing::Test {};
using Types = testing::Types<float, double, Bf16, F16>;
TYPED_TEST_SUITE(ProductsTogether, Types);

TYPED_TEST(ProductsTogether, AProductItsBiasAndItsFunctionComeAsNearToTheTruthAsOneByOne) {
  for (const OpKind function : {OpKind::Gelu, OpKind::Relu})
    for (const bool backward_reads : {false, true})
      for (const bool exchanged : {false, true})
        for (const auto& [rows, columns, in] : {std::tuple{5, 8, 3},
                                                {33, 40, 17},
                                                {16, 24, 257},
                                                {1, 8, 1},
                                                {7, 9, 5},
                                                {3, 1, 2},
                                                {1, 1, 1},
                                                {64, 16, 16}}) {
          SCOPED_TRACE(testing::Message() << name_of(function) << ' ' << rows << " x " << columns << " x " << in
                                          << (exchanged ? " exchanged" : "") << (backward_reads ? ", read" : ""));
          expect_near_the_truth<TypeParam>({rows, columns, in, function, 1, exchanged, backward_reads});
          if (this->HasFatalFailure()) return;
        }
}

Values whole_numbers(std::int64_t n, int factor) {
  Values values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>(factor * i % 11 - 5));
  return values;
}

// A bias of the first of three parts of the columns: at once where the result is large enough. All of it is exact.
TEST(ProductsTogether_, ABiasOfSomeColumnsIsThatOfAllWithZeros) {
  for (const auto& [rows, at_once] : {std::pair{7, false}, std::pair{1400, true}}) {
    const Chain c{rows, 3 * 512, 2, OpKind::Relu, 3};
    const Values x = whole_numbers(rows * 2, 3), w = whole_numbers(2 * c.columns, 7), b = whole_numbers(512, 5);
    const Found together = on_device<Bf16>(c, x, w, b, true), apart = on_device<Bf16>(c, x, w, b, false);
    EXPECT_TRUE(together.z == apart.z && together.f == apart.f) << rows;
    EXPECT_EQ(together.y == apart.y, !at_once) << rows;
  }
}

// Sums that their type cannot hold, such that a bias brings them back to where it can: 257 - 256 in bf16. A library may
// round the product in between, to 256.
template <class T>
void expect_roundings(bool only_next_reads) {
  const std::int64_t terms = std::is_same_v<T, Bf16> ? 257 : 2049;
  const Chain c{16, 8, terms, OpKind::Gelu, 1, false, true};
  const Values ones(static_cast<std::size_t>(16 * terms), 1.0), w(static_cast<std::size_t>(8 * terms), 1.0),
      b(8, static_cast<double>(1 - terms));
  const Found found = on_device<T>(c, ones, w, b, only_next_reads);
  const bool kept = only_next_reads && found.z[0] != 0.0;
  const Values all(16 * 8, kept ? 1.0 : 0.0);
  EXPECT_EQ(found.z, all);
  EXPECT_EQ(found.y, Values(16 * 8, only_next_reads ? kUntouched : static_cast<double>(terms - 1)));
  for (const double f : found.f) EXPECT_NEAR(f, applied(OpKind::Gelu, all[0]), 1.01 * kHalfPlace<T>);
}

TEST(ProductsTogether_, AProductIsNotWrittenBeforeItsBiasIsAdded) {
  expect_roundings<Bf16>(true);
  expect_roundings<F16>(true);
}
TEST(ProductsTogether_, AProductThatOthersReadIsWritten) {
  expect_roundings<Bf16>(false);
  expect_roundings<F16>(false);
}

// --- a product, and what it is added to ---

// y = x (4, 8) w (8, 8), whole numbers below 128, exact in every type; with a bias z = y + b; then the sum of that and
// r, in either order of the operands, also where r itself lies.
template <class T>
void expect_added(bool biased, bool product_first, bool in_place) {
  Graph g;
  g.dtype = kDType<T>;
  const Dim row{"row", 4}, inner{"in", 8}, column{"column", 8};
  const TensorId x = g.add_tensor("x", TensorKind::Input, g.dtype, {row, inner});
  const TensorId w = g.add_tensor("w", TensorKind::Parameter, g.dtype, {inner, column});
  const TensorId b = g.add_tensor("b", TensorKind::Parameter, g.dtype, {column});
  const TensorId r = g.add_tensor("r", TensorKind::Input, g.dtype, {row, column});
  TensorId last = g.add_op(OpKind::Contract, "y", {x, w}, {.result_names = {"row", "column"}})[0];
  if (biased) last = g.add_op(OpKind::BiasAdd, "z", {last, b})[0];
  (void)g.add_op(OpKind::Add, "sum", product_first ? std::vector{last, r} : std::vector{r, last});
  const Values on_x(32, 1.0), on_w(64, 2.0), on_b = {0, 1, 2, 3, 4, 5, 6, 7};
  DeviceArray<T> dx(on_x), dw(on_w), db(on_b), dr(Values(32, 3.0));
  auto y = untouched<T>(32), z = untouched<T>(32), sum = untouched<T>(32);
  CudaDevice device(0, false, [](DType type) { return type; });
  std::vector<OpCallPlan> calls;
  for (const Op& op : g.ops()) calls.push_back(whole_call(g, op));
  for (std::size_t i = 0; i + 1 < calls.size(); ++i) calls[i].only_next_reads = true;
  device.run_op(calls[0], std::vector<void*>{dx.data(), dw.data()}, std::vector<void*>{y.data()}, {});
  if (biased) device.run_op(calls[1], std::vector<void*>{y.data(), db.data()}, std::vector<void*>{z.data()}, {});
  void* const left = biased ? z.data() : y.data();
  std::vector<void*> operands = {left, dr.data()};
  if (!product_first) std::swap(operands[0], operands[1]);
  device.run_op(calls.back(), operands, std::vector<void*>{in_place ? dr.data() : sum.data()}, {});
  EXPECT_EQ(device.held(), calls.size());
  device.finish();
  Values expected;
  for (int i = 0; i < 32; ++i) expected.push_back(16 + 3 + (biased ? i % 8 : 0));
  EXPECT_EQ((in_place ? dr : sum).values(), expected);
  // A library may have no product of this type with a bias: then they are done one by one.
  if (!biased || y.values() != Values(32, 16.0)) {
    EXPECT_EQ(y.values(), Values(32, kUntouched));
  }
}

TYPED_TEST(ProductsTogether, AreAddedToWhatTheNextOpAddsThemTo) {
  for (const bool biased : {false, true})
    for (const bool product_first : {false, true})
      for (const bool in_place : {false, true}) {
        SCOPED_TRACE(testing::Message() << (biased ? "biased " : "") << (product_first ? "first " : "second ")
                                        << (in_place ? "in place" : ""));
        expect_added<TypeParam>(biased, product_first, in_place);
      }
}

// The first gradient of a sum that counts as zero, whatever lies there, then a second one.
template <class T, class S>
void expect_summed() {
  Graph g;
  g.dtype = kDType<T>;
  const Dim row{"row", 4}, inner{"in", 8}, column{"column", 8};
  const TensorId x = g.add_tensor("x", TensorKind::Input, g.dtype, {row, inner});
  const TensorId w = g.add_tensor("w", TensorKind::Parameter, g.dtype, {inner, column});
  const TensorId sum = g.add_tensor("sum", TensorKind::Accumulator, kDType<S>, {row, column}, w);
  const TensorId y = g.add_op(OpKind::Contract, "y", {x, w}, {.result_names = {"row", "column"}})[0];
  g.add_in_place_op(OpKind::Accumulate, "total", {sum, y}, {sum});
  DeviceArray<T> dx(Values(32, 1.0)), dw(Values(64, 2.0));
  auto on_y = untouched<T>(32);
  auto total = untouched<S>(32);
  CudaDevice device(0, false, [](DType type) { return type; });
  OpCallPlan product = whole_call(g, g.ops()[0]), accumulate = whole_call(g, g.ops()[1]);
  product.only_next_reads = true;
  for (const bool first : {true, false}) {
    device.run_op(product, std::vector<void*>{dx.data(), dw.data()}, std::vector<void*>{on_y.data()}, {});
    device.run_op(accumulate, std::vector<void*>{total.data(), on_y.data()}, std::vector<void*>{total.data()},
                  OpMoment{.first = first});
    EXPECT_EQ(device.held(), 2U);
    device.finish();
    EXPECT_EQ(total.values(), Values(32, first ? 16.0 : 32.0));
  }
  EXPECT_EQ(on_y.values(), Values(32, kUntouched));
}

TEST(ProductsTogether_, AreSummedUpAsTheyComeWithoutAPassOfTheirOwn) {
  expect_summed<float, float>();
  expect_summed<double, double>();
  expect_summed<Bf16, Bf16>();
  expect_summed<F16, F16>();
  expect_summed<Bf16, float>();
  expect_summed<F16, float>();
}

TEST(ProductsTogether_, HaveTheRangeOfTheProduct) {
  if (!can_record()) GTEST_SKIP() << "this build cannot record";
  const Chain c{16, 8, 32};
  const Values x = whole_numbers(16 * 32, 3), w = whole_numbers(8 * 32, 7), b = whole_numbers(8, 5);
  const Launches together = launches_of([&] { (void)on_device<Bf16>(c, x, w, b, true); }),
                 apart = launches_of([&] { (void)on_device<Bf16>(c, x, w, b, false); });
  EXPECT_LT(together.kernels, apart.kernels);
  EXPECT_EQ(together.ranges, std::vector<std::string>{"y"});
  EXPECT_EQ(apart.ranges, (std::vector<std::string>{"y", "z", "f"}));
}

// The memory of x is free once the product is done, and may be the result's.
TYPED_TEST(ProductsTogether, AResultMayLieWhereTheProductReads) {
  const Chain c{8, 8, 8, OpKind::Relu};
  const Graph g = c.graph(kDType<TypeParam>);
  std::vector<OpCallPlan> calls;
  for (const Op& op : g.ops()) calls.push_back(whole_call(g, op));
  calls[0].only_next_reads = calls[1].only_next_reads = true;
  Values x, w(64, 0.0);  // w: the identity, its columns in the opposite order
  for (int i = 0; i < 64; ++i) x.push_back(i);
  for (std::size_t i = 0; i < 8; ++i) w[8 * i + 7 - i] = 1.0;
  Values expected;
  for (int i = 0; i < 64; ++i) expected.push_back(i / 8 * 8 + 7 - i % 8 + 1);
  for (const bool bias_there : {true, false}) {
    DeviceArray<TypeParam> on_x(x), on_w(w), b(Values(8, 1.0));
    auto y = untouched<TypeParam>(64), z = untouched<TypeParam>(64), f = untouched<TypeParam>(64);
    void *const of_z = bias_there ? on_x.data() : z.data(), *const of_f = bias_there ? f.data() : on_x.data();
    CudaDevice device(0, false, [](DType type) { return type; });
    device.run_op(calls[0], std::vector<void*>{on_x.data(), on_w.data()}, std::vector<void*>{y.data()}, {});
    device.run_op(calls[1], std::vector<void*>{y.data(), b.data()}, std::vector<void*>{of_z}, {});
    device.run_op(calls[2], std::vector<void*>{of_z}, std::vector<void*>{of_f}, {});
    device.finish();
    EXPECT_EQ((bias_there ? f : on_x).values(), expected);
  }
}

}  // namespace
}  // namespace meshwright::kernels::cuda::products_together_test
