// SPDX-License-Identifier: Apache-2.0
// The float kernels against plain loops in double written here, on odd sizes; integer data where the answer is exact.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/elementwise/elementwise.h"
#include "kernels/cpu/elementwise/random.h"
#include "kernels/cpu/norms/row_norms.h"
#include "kernels/cpu/products/gemm.h"
#include "kernels/cpu/tokens/embedding.h"
#include "kernels/cpu/tokens/loss.h"
#include "tests/unit/kernels/drawn_numbers.h"

namespace meshwright::kernels::kernels_test {
namespace {

// Small integers: sums of products stay exact in float.
template <class T>
std::vector<T> whole_numbers(std::int64_t n, int factor) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<T>((factor * i) % 7 - 3));
  return values;
}

// Element by element: within `tolerance` of the larger of 1 and the expected size.
template <class T>
void expect_near(const std::vector<T>& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(static_cast<double>(actual[i]), expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
        << "element " << i;
}

constexpr double kFloat = 5e-6;  // 40 units in the last place: sums of up to 100 terms of order 1

// --- products ---

template <class T>
void expect_exact_product(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k) {
  const std::int64_t lda = (ta ? m : k) + 1, ldb = (tb ? k : n) + 2, ldc = n + 3;
  const std::vector<T> a = whole_numbers<T>((ta ? k : m) * lda, 3), b = whole_numbers<T>((tb ? n : k) * ldb, 5);
  std::vector<T> c(static_cast<std::size_t>(m * ldc), T(99));
  gemm({ta, tb, m, n, k, lda, ldb, ldc}, a.data(), b.data(), c.data());
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < ldc; ++j) {
      T sum = j < n ? T(0) : T(99);  // beyond n: untouched
      for (std::int64_t p = 0; j < n && p < k; ++p)
        sum += a[static_cast<std::size_t>(ta ? p * lda + i : i * lda + p)] *
               b[static_cast<std::size_t>(tb ? j * ldb + p : p * ldb + j)];
      ASSERT_EQ(c[static_cast<std::size_t>(i * ldc + j)], sum) << m << "x" << n << "x" << k << " at " << i << "," << j;
    }
  std::vector<T> twice = c;
  gemm({ta, tb, m, n, k, lda, ldb, ldc, true}, a.data(), b.data(), twice.data());
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < ldc; ++j) {
      const T once = c[static_cast<std::size_t>(i * ldc + j)];
      ASSERT_EQ(twice[static_cast<std::size_t>(i * ldc + j)], j < n ? once + once : once)
          << "added at " << i << "," << j;
    }
}

TEST(Gemm, IsExactOnIntegersInEveryLayout) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const std::int64_t m : {1, 7, 130})
        for (const std::int64_t n : {1, 16, 19})
          for (const std::int64_t k : {1, 5, 300}) {
            expect_exact_product<float>(ta, tb, m, n, k);
            expect_exact_product<double>(ta, tb, m, n, k);
          }
}

TEST(Gemm, InDoubleGivesRowsOfASplitBatchTheSameBits) {
  const std::int64_t m = 37, n = 29, k = 521;
  const std::vector<double> a = numbers<double>(m * k, 1), b = numbers<double>(k * n, 2);
  std::vector<double> whole(static_cast<std::size_t>(m * n)), split = whole;
  gemm({false, false, m, n, k, k, n, n}, a.data(), b.data(), whole.data());
  for (std::int64_t i = 0; i < m; i += 5)
    gemm({false, false, std::min<std::int64_t>(5, m - i), n, k, k, n, n}, a.data() + i * k, b.data(),
         split.data() + i * n);
  EXPECT_EQ(whole, split);
}

// Two threads' worth of processor time would mean that a product spreads over cores that belong to other logical
// devices.
TEST(Gemm, KeepsToTheCallingThread) {
  const std::int64_t n = 512;
  const std::vector<float> a = numbers<float>(n * n, 1), b = numbers<float>(n * n, 2);
  std::vector<float> c(a.size());
  const auto nanoseconds = [](clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
  };
  double of_thread = 0.0, of_process = 0.0;
  std::thread device([&] {
    const double thread_begin = nanoseconds(CLOCK_THREAD_CPUTIME_ID),
                 process_begin = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < 10; ++i) gemm({false, false, n, n, n, n, n, n}, a.data(), b.data(), c.data());
    of_thread = nanoseconds(CLOCK_THREAD_CPUTIME_ID) - thread_begin;
    of_process = nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - process_begin;
  });
  device.join();
  EXPECT_LT(of_process, 1.2 * of_thread);
}

TEST(ContractStrided, SumsOverAxesTheResultLacks) {
  // a (x=2, s=2), b (s=2, y=3), c (y=3, x=2): c[y][x] = sum_s a[x][s] b[s][y].
  const std::vector<double> a = {1, 2, 3, 4}, b = {1, 10, 100, 2, 20, 200};
  const std::int64_t sizes[] = {2, 3, 2};  // x, y, s
  const std::int64_t in_a[] = {2, 0, 1}, in_b[] = {0, 1, 3}, in_c[] = {1, 2, 0};
  std::vector<double> c(6, 99.0);
  contract_strided({3, sizes, in_a, in_b, in_c, 6}, a.data(), b.data(), c.data());
  EXPECT_EQ(c, (std::vector<double>{5, 11, 50, 110, 500, 1100}));  // 1*1+2*2, 3*1+4*2, ...
}

// --- element-wise ---

std::vector<double> each(const std::vector<float>& x, const std::function<double(double)>& f) {
  std::vector<double> y;
  for (const float value : x) y.push_back(f(value));
  return y;
}

double gelu_by_tanh(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

TEST(Gelu, MatchesTheTanhFormRelativelyEverywhere) {
  const std::vector<float> x = numbers<float>(10007, 1, -6.0, 6.0);
  std::vector<float> y(x.size());
  activate<Activation::Gelu>(x.data(), y.data(), 10007);
  for (std::size_t i = 0; i < x.size(); ++i) {
    // 1 + tanh(u) loses all its digits at the left end, even in double: compared in the form x / (1 + e^-2u).
    const double u = std::sqrt(2 / M_PI) * (x[i] + 0.044715 * std::pow(static_cast<double>(x[i]), 3));
    const double expected = x[i] / (1 + std::exp(-2 * u));
    ASSERT_NEAR(y[i] / expected, 1.0, 1e-5) << x[i];  // e^-2u multiplies the rounding of u (up to 2u = 24) by itself
    ASSERT_NEAR(y[i], gelu_by_tanh(x[i]), 1e-6) << x[i];
  }
}

TEST(Gelu, SaturatesWithoutOverflow) {
  const std::vector<float> x = {-1000.0f, -20.0f, 20.0f, 1000.0f};
  std::vector<float> y(4), dx(4);
  const std::vector<float> one(4, 1.0f);
  activate<Activation::Gelu>(x.data(), y.data(), 4);
  activate_backward<Activation::Gelu>(x.data(), one.data(), dx.data(), 4);
  expect_near(y, {0.0, 0.0, 20.0, 1000.0}, 1e-6);
  expect_near(dx, {0.0, 0.0, 1.0, 1.0}, 1e-6);
}

TEST(Gelu, BackwardIsTheSlope) {
  const std::vector<float> x = numbers<float>(1001, 1, -4.0, 4.0), dy = numbers<float>(1001, 2);
  std::vector<float> dx(x.size());
  activate_backward<Activation::Gelu>(x.data(), dy.data(), dx.data(), 1001);
  std::vector<double> expected =
      each(x, [](double v) { return (gelu_by_tanh(v + 1e-5) - gelu_by_tanh(v - 1e-5)) / 2e-5; });
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] *= dy[i];
  expect_near(dx, expected, kFloat);
}

// Relative to the value, far into the tail, where x (1 + erf(x / sqrt 2)) / 2 has no digit left.
TEST(GeluErf, MatchesTheExactFormRelativelyEverywhere) {
  const std::vector<float> x = numbers<float>(10007, 1, -9.0, 9.0);
  std::vector<float> y(x.size());
  activate<Activation::GeluErf>(x.data(), y.data(), 10007);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = x[i], expected = 0.5 * v * std::erfc(-v / std::sqrt(2.0));
    ASSERT_NEAR(y[i] / expected, 1.0, 5e-6) << v;  // e^(-x^2 / 2) multiplies the rounding of x^2 / 2 = 40 by itself
    ASSERT_NEAR(y[i], expected, 1e-6) << v;
  }
}

TEST(GeluErf, SaturatesWithoutOverflow) {
  const std::vector<float> x = {-1000.0f, -20.0f, 20.0f, 1000.0f}, one(4, 1.0f);
  std::vector<float> y(4), dx(4);
  activate<Activation::GeluErf>(x.data(), y.data(), 4);
  activate_backward<Activation::GeluErf>(x.data(), one.data(), dx.data(), 4);
  expect_near(y, {0.0, 0.0, 20.0, 1000.0}, 1e-6);
  expect_near(dx, {0.0, 0.0, 1.0, 1.0}, 1e-6);
}

TEST(GeluErf, IsNotTheTanhForm) {
  const double x = 2.0;
  double exact = 0.0, by_tanh = 0.0;
  activate<Activation::GeluErf>(&x, &exact, 1);
  activate<Activation::Gelu>(&x, &by_tanh, 1);
  EXPECT_NEAR(exact, 1.9544997, 1e-7);  // 2 F(2)
  EXPECT_NEAR(by_tanh, 1.9545977, 1e-7);
}

TEST(GeluErf, BackwardIsTheSlope) {
  const std::vector<float> x = numbers<float>(1001, 1, -4.0, 4.0), dy = numbers<float>(1001, 2);
  std::vector<float> dx(x.size());
  activate_backward<Activation::GeluErf>(x.data(), dy.data(), dx.data(), 1001);
  const auto value = [](double v) { return 0.5 * v * std::erfc(-v / std::sqrt(2.0)); };
  std::vector<double> expected = each(x, [&](double v) { return (value(v + 1e-5) - value(v - 1e-5)) / 2e-5; });
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] *= dy[i];
  expect_near(dx, expected, kFloat);
}

TEST(Relu, PassesGradientsOnlyWhereItIsOpen) {
  const std::vector<float> x = {-1, 0, 2}, dy = {10, 20, 30};
  std::vector<float> y(3), dx(3);
  activate<Activation::Relu>(x.data(), y.data(), 3);
  activate_backward<Activation::Relu>(x.data(), dy.data(), dx.data(), 3);
  EXPECT_EQ(y, (std::vector<float>{0, 0, 2}));
  EXPECT_EQ(dx, (std::vector<float>{0, 0, 30}));
}

TEST(Bias, ReachesOnlyTheFirstElementsOfARow) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6}, bias = {10, 100};
  std::vector<float> y(6), gradient(2);
  bias_add(x.data(), bias.data(), y.data(), {2, 3, 2});
  bias_gradient(x.data(), gradient.data(), {2, 3, 2});
  EXPECT_EQ(y, (std::vector<float>{11, 102, 3, 14, 105, 6}));
  EXPECT_EQ(gradient, (std::vector<float>{5, 7}));  // 1+4, 2+5
}

// --- layer norm: float against double; that the double derivatives are true is shown by finite differences in
// oracle/gradients ---

TEST(LayerNorm, HasMeanZeroAndVarianceOne) {
  const std::vector<double> x = {1, 3, 5, 7}, gamma(4, 1.0), beta(4, 0.0);
  std::vector<double> y(4);
  row_norm<Norm::Layer>(x.data(), gamma.data(), beta.data(), y.data(), {1, 4, 0.25});
  const double s = 1 / std::sqrt(5.25);  // variance (9 + 1 + 1 + 9) / 4
  expect_near(y, {-3 * s, -s, s, 3 * s}, 1e-15);
}

template <class T>
std::vector<std::vector<T>> layer_norm_all(std::int64_t rows, std::int64_t width) {
  const std::vector<T> x = numbers<T>(rows * width, 1), gamma = numbers<T>(width, 2), beta = numbers<T>(width, 3);
  const std::vector<T> dy = numbers<T>(rows * width, 4);
  std::vector<T> y(x.size()), dx(x.size()), dgamma(gamma.size()), dbeta(beta.size());
  const NormShape shape{rows, width, 1e-5};
  row_norm<Norm::Layer>(x.data(), gamma.data(), beta.data(), y.data(), shape);
  row_norm_backward<Norm::Layer>(x.data(), gamma.data(), dy.data(), dx.data(), shape);
  row_norm_parameter_backward<Norm::Layer>(x.data(), dy.data(), dgamma.data(), dbeta.data(), shape);
  return {y, dx, dgamma, dbeta};
}

TEST(LayerNorm, InFloatMatchesDouble) {
  for (const std::int64_t width : {3, 64, 101}) {
    const auto in_float = layer_norm_all<float>(7, width);
    const auto in_double = layer_norm_all<double>(7, width);
    for (std::size_t i = 0; i < in_float.size(); ++i) expect_near(in_float[i], in_double[i], 4 * kFloat);
  }
}

// --- attention ---

// By the definition, one output element at a time.
std::vector<double> attention_by_definition(const std::vector<double>& qkv, const AttentionShape& s) {
  std::vector<double> out(static_cast<std::size_t>(s.batch * s.seq * s.kv_heads * s.key_dim));
  const auto at = [&](std::int64_t b, std::int64_t i, std::int64_t part, std::int64_t h, std::int64_t d) {
    return qkv[static_cast<std::size_t>((((b * s.seq + i) * 3 + part) * s.kv_heads + h) * s.key_dim + d)];
  };
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.kv_heads; ++h)
      for (std::int64_t i = 0; i < s.seq; ++i) {
        std::vector<double> weight;
        for (std::int64_t j = 0; j <= i; ++j) {
          double score = 0.0;
          for (std::int64_t d = 0; d < s.key_dim; ++d) score += at(b, i, 0, h, d) * at(b, j, 1, h, d);
          weight.push_back(std::exp(score / std::sqrt(static_cast<double>(s.key_dim))));
        }
        const double total = std::accumulate(weight.begin(), weight.end(), 0.0);
        for (std::int64_t d = 0; d < s.key_dim; ++d)
          for (std::int64_t j = 0; j <= i; ++j)
            out[static_cast<std::size_t>(((b * s.seq + i) * s.kv_heads + h) * s.key_dim + d)] +=
                weight[static_cast<std::size_t>(j)] / total * at(b, j, 2, h, d);
      }
  return out;
}

template <class T>
AttentionCall<T> packed_call(const std::vector<T>& qkv, const AttentionShape& s) {
  return {s, packed_views(qkv.data(), s), {1.0 / std::sqrt(static_cast<double>(s.key_dim)), true, 0, 0}};
}

template <class T>
std::vector<std::vector<T>> attention_all(const AttentionShape& s) {
  const std::int64_t out = s.batch * s.seq * s.kv_heads * s.key_dim;
  const std::vector<T> qkv = numbers<T>(3 * out, 1), dout = numbers<T>(out, 2);
  std::vector<T> y(static_cast<std::size_t>(out)), dqkv(qkv.size());
  attention(packed_call(qkv, s), y.data());
  attention_backward(packed_call(qkv, s), dout.data(), AttentionGradients<T>{packed_views(dqkv.data(), s)});
  return {y, dqkv};
}

TEST(Attention, MatchesItsDefinitionOnBothSidesOfARowBlock) {
  for (const std::int64_t seq : {5, 128, 150}) {
    const AttentionShape shape = AttentionShape::packed(2, seq, 3, 4);
    const auto in_double = attention_all<double>(shape);
    const std::vector<double> qkv = numbers<double>(3 * 2 * seq * 12, 1);
    expect_near(in_double[0], attention_by_definition(qkv, shape), 1e-13);
    const auto in_float = attention_all<float>(shape);
    expect_near(in_float[0], in_double[0], kFloat);
    expect_near(in_float[1], in_double[1], 2 * kFloat);
  }
}

// 150 rows are two blocks; the derivative along a random direction v is L(qkv + h v) - L(qkv - h v) over 2h.
TEST(Attention, BackwardIsTheDerivativeAcrossRowBlocks) {
  const AttentionShape shape = AttentionShape::packed(1, 150, 2, 3);
  const std::int64_t out = 150 * 6;
  const std::vector<double> dout = numbers<double>(out, 2), direction = numbers<double>(3 * out, 5);
  const std::vector<double> dqkv = attention_all<double>(shape)[1];
  const auto loss_at = [&](double h) {
    std::vector<double> qkv = numbers<double>(3 * out, 1), y(static_cast<std::size_t>(out));
    for (std::size_t i = 0; i < qkv.size(); ++i) qkv[i] += h * direction[i];
    attention(packed_call(qkv, shape), y.data());
    return std::inner_product(y.begin(), y.end(), dout.begin(), 0.0);
  };
  const double analytic = std::inner_product(dqkv.begin(), dqkv.end(), direction.begin(), 0.0);
  const double numeric = (8 * (loss_at(1e-3) - loss_at(-1e-3)) - (loss_at(2e-3) - loss_at(-2e-3))) / 12e-3;
  EXPECT_NEAR(analytic / numeric, 1.0, 1e-8);
}

// --- embedding and losses on a part of the vocabulary ---

TEST(Embedding, PartsOfTheTableSumToTheWhole) {
  const std::vector<std::int32_t> ids = {3, 0, 3};
  const std::vector<double> low = {1, 2, 3, 4}, high = {5, 6, 7, 8};  // rows 0..1 and 2..3, width 2
  std::vector<double> from_low(6), from_high(6);
  embedding(ids.data(), low.data(), from_low.data(), {3, 2, 2, 0});
  embedding(ids.data(), high.data(), from_high.data(), {3, 2, 2, 2});
  EXPECT_EQ(from_low, (std::vector<double>{0, 0, 1, 2, 0, 0}));
  EXPECT_EQ(from_high, (std::vector<double>{7, 8, 0, 0, 7, 8}));
}

TEST(Embedding, BackwardAddsRepeatedRows) {
  const std::vector<std::int32_t> ids = {3, 0, 3};
  const std::vector<double> dy = {1, 2, 30, 40, 500, 600};
  std::vector<double> dtable(4, 99.0);
  embedding_backward(ids.data(), dy.data(), dtable.data(), {3, 2, 2, 2});
  EXPECT_EQ(dtable, (std::vector<double>{0, 0, 501, 602}));
}

TEST(CrossEntropy, OfPartsOfTheClassesIsThatOfTheWhole) {
  const std::int64_t rows = 5, width = 600;
  const std::vector<float> x = numbers<float>(rows * width, 1, -10.0, 10.0);
  std::vector<std::int32_t> labels(5);
  fill_integers(labels.data(), rows, 9, 0, width);
  std::vector<double> loss_of_row(5), expected_dx;
  for (std::size_t r = 0; r < 5; ++r) {
    double sum = 0.0;
    for (std::size_t i = 0; i < 600; ++i) sum += std::exp(static_cast<double>(x[r * 600 + i]));
    loss_of_row[r] = std::log(sum) - x[r * 600 + static_cast<std::size_t>(labels[r])];
    for (std::size_t i = 0; i < 600; ++i)
      expected_dx.push_back(
          0.5 * (std::exp(static_cast<double>(x[r * 600 + i])) / sum - (static_cast<int>(i) == labels[r] ? 1 : 0)));
  }
  // Two parts of 300 classes, combined by maximum, sum and sum.
  std::vector<float> part[2], largest(5), sum(5), picked(5), dx(x.size());
  for (std::size_t r = 0; r < 5; ++r)
    for (std::size_t p = 0; p < 2; ++p)
      part[p].insert(part[p].end(), x.data() + r * 600 + p * 300, x.data() + r * 600 + p * 300 + 300);
  std::vector<float> other(5);
  row_max(part[0].data(), largest.data(), rows, 300);
  row_max(part[1].data(), other.data(), rows, 300);
  for (std::size_t r = 0; r < 5; ++r) largest[r] = std::max(largest[r], other[r]);
  sum_exp(part[0].data(), largest.data(), sum.data(), rows, 300);
  sum_exp(part[1].data(), largest.data(), other.data(), rows, 300);
  combine<Arithmetic::Add>(sum.data(), other.data(), sum.data(), rows);
  pick_label(part[0].data(), labels.data(), picked.data(), {rows, 300, 0});
  pick_label(part[1].data(), labels.data(), other.data(), {rows, 300, 300});
  combine<Arithmetic::Add>(picked.data(), other.data(), picked.data(), rows);
  const double expected = 0.5 * std::accumulate(loss_of_row.begin(), loss_of_row.end(), 0.0);
  EXPECT_NEAR(cross_entropy<float>({.largest = largest.data(), .sum = sum.data(), .picked = picked.data()}, rows, 0.5),
              expected, 1e-5 * expected);

  std::vector<float> gradient(part[0].size());
  for (std::size_t p = 0; p < 2; ++p) {
    cross_entropy_backward(part[p].data(), {.largest = largest.data(), .sum = sum.data(), .labels = labels.data()},
                           gradient.data(), {rows, 300, static_cast<std::int64_t>(300 * p)}, 0.5);
    for (std::size_t r = 0; r < 5; ++r) std::copy_n(gradient.data() + r * 300, 300, dx.data() + r * 600 + p * 300);
  }
  expect_near(dx, expected_dx, 1e-6);
}

TEST(SumExp, KeepsTheRelativeAccuracyOfTheExponential) {
  // One element a row: the sum is the exponential itself, for x from 0 down to where float ends.
  const std::int64_t rows = 10000;
  const std::vector<float> x = numbers<float>(rows, 1, -80.0, 0.0), zero(10000, 0.0f);
  std::vector<float> y(10000);
  sum_exp(x.data(), zero.data(), y.data(), rows, 1);
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i] / std::exp(static_cast<double>(x[i])), 1.0, 3e-7) << x[i];
}

TEST(SquaredError, AndItsBackwardDecodeByEye) {
  const std::vector<double> x = {3, 10}, y = {1, 7};
  std::vector<double> dx(2);
  EXPECT_EQ(squared_error(x.data(), y.data(), 2, 0.5), 6.5);  // (4 + 9) / 2
  squared_error_backward(x.data(), y.data(), dx.data(), 2, 0.5);
  EXPECT_EQ(dx, (std::vector<double>{2, 3}));
}

}  // namespace
}  // namespace meshwright::kernels::kernels_test
