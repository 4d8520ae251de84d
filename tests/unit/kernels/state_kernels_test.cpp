// SPDX-License-Identifier: Apache-2.0
// Updates, tiles and counter-made numbers: what a step needs besides the ops of the model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/cpu/elementwise/random.h"
#include "kernels/cpu/layout/tiles.h"
#include "kernels/cpu/optimizer/optimizer.h"
#include "tests/unit/kernels/drawn_numbers.h"

namespace meshwright::kernels::state_kernels_test {
namespace {

// --- optimizer ---

TEST(Sgd, MovesTheWeightAndItsCopy) {
  std::vector<double> weight = {1, 2}, copy = {0, 0};
  const std::vector<double> gradient = {10, 100};
  update<double>({.weight = weight.data(), .copy = copy.data(), .gradient = gradient.data(), .n = 2}, SgdSettings{0.5});
  EXPECT_EQ(weight, (std::vector<double>{-4, -48}));
  EXPECT_EQ(copy, weight);
}

TEST(Adam, FirstStepMovesByTheLearningRateAgainstTheSign) {
  // m / (1 - beta1) = g and v / (1 - beta2) = g^2 in the first step, so the move is rate g / |g|.
  std::vector<double> weight = {1, 1}, m(2, 0.0), v(2, 0.0);
  const std::vector<double> gradient = {5, -0.01};
  update<double>({weight.data(), nullptr, m.data(), v.data(), gradient.data(), 2},
                 AdamSettings{0.1, 0.9, 0.999, 0.0, 1});
  EXPECT_NEAR(weight[0], 0.9, 1e-14);
  EXPECT_NEAR(weight[1], 1.1, 1e-14);
}

TEST(Adam, InFloatFollowsTheAlgorithmInDouble) {
  const std::int64_t n = 37;
  std::vector<float> w = numbers<float>(n, 1), m(37, 0.0f), v(37, 0.0f), copy(37, 0.0f);
  std::vector<double> expected(w.begin(), w.end()), first(37, 0.0), second(37, 0.0);
  for (int step = 1; step <= 3; ++step) {
    const std::vector<float> g = numbers<float>(n, static_cast<std::uint64_t>(10 + step));
    update<float>({w.data(), copy.data(), m.data(), v.data(), g.data(), n}, AdamSettings{0.01, 0.9, 0.999, 1e-8, step});
    for (std::size_t i = 0; i < 37; ++i) {
      first[i] = 0.9 * first[i] + 0.1 * g[i];
      second[i] = 0.999 * second[i] + 0.001 * g[i] * g[i];
      expected[i] -=
          0.01 * (first[i] / (1 - std::pow(0.9, step))) / (std::sqrt(second[i] / (1 - std::pow(0.999, step))) + 1e-8);
    }
  }
  for (std::size_t i = 0; i < 37; ++i) EXPECT_NEAR(w[i], expected[i], 1e-6);
  EXPECT_EQ(copy, w);
}

// --- tiles ---

TEST(Tiles, CopyAndAddABoxBetweenArrays) {
  std::vector<std::int32_t> from(24), to(12, 0);  // (2, 3, 4) -> (2, 2, 3)
  std::iota(from.begin(), from.end(), 0);
  const std::vector<std::int64_t> extent = {2, 2, 2}, from_shape = {2, 3, 4}, to_shape = {2, 2, 3};
  const std::vector<std::int64_t> from_strides = row_major_strides(from_shape),
                                  to_strides = row_major_strides(to_shape);
  EXPECT_EQ(from_strides, (std::vector<std::int64_t>{12, 4, 1}));
  copy_tile<std::int32_t>(extent, from.data() + 5, from_strides, to.data() + 1, to_strides);  // from (0,1,1) to (0,0,1)
  EXPECT_EQ(to, (std::vector<std::int32_t>{0, 5, 6, 0, 9, 10, 0, 17, 18, 0, 21, 22}));
  add_tile<std::int32_t>(extent, from.data() + 5, from_strides, to.data() + 1, to_strides);
  EXPECT_EQ(to, (std::vector<std::int32_t>{0, 10, 12, 0, 18, 20, 0, 34, 36, 0, 42, 44}));
}

TEST(Tiles, ReduceMayOverwriteAnyPart) {
  std::vector<double> a = {1, 20}, b = {5, 3}, c = {4, 100};
  const std::vector<const double*> parts = {a.data(), b.data(), c.data()};
  std::vector<double> largest(2);
  reduce<double>(parts, largest.data(), 2, Reduction::Max);
  reduce<double>(parts, b.data(), 2, Reduction::Sum);
  EXPECT_EQ(largest, (std::vector<double>{5, 100}));
  EXPECT_EQ(b, (std::vector<double>{10, 123}));
}

// --- numbers from counters ---

TEST(Random, AnyPartOfASequenceIsThatPart) {
  const std::vector<float> whole = numbers<float>(100, 7);
  std::vector<float> part(30);
  fill_uniform(part.data(), 30, 7, 50, -1.0, 1.0);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 50));
  const std::vector<double> in_double = numbers<double>(100, 7);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(whole[i], static_cast<float>(in_double[i]));
}

TEST(Random, FillsItsRangeEvenly) {
  const std::vector<double> x = numbers<double>(100000, 7);
  double sum = 0.0, squares = 0.0;
  for (const double value : x) {
    ASSERT_TRUE(value >= -1.0 && value < 1.0);
    sum += value, squares += value * value;
  }
  EXPECT_NEAR(sum / 1e5, 0.0, 0.01);  // deviation of the mean: sqrt(1/3 / 1e5) = 0.002
  EXPECT_NEAR(squares / 1e5, 1.0 / 3, 0.005);
  std::vector<std::int32_t> integers(70000), count(7, 0);
  fill_integers(integers.data(), 70000, 7, 0, 7);
  for (const std::int32_t value : integers) ++count.at(static_cast<std::size_t>(value));
  for (const std::int32_t times : count) EXPECT_NEAR(times, 10000, 500);  // deviation: 93
}

}  // namespace
}  // namespace meshwright::kernels::state_kernels_test
