// SPDX-License-Identifier: Apache-2.0
// Contractions as matrix products against the sum written out, for operands whose dimensions lie in every kind of
// order.
#include "executor/ops/contraction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace meshwright::contraction_test {
namespace {

constexpr unsigned kSeed = 11;

// Axes by their place: 0 batch (a, b, c), 1 2 M (a, c), 3 4 N (b, c), 5 6 K (a, b).
const std::vector<int> kInA = {0, 1, 2, 5, 6}, kInB = {0, 3, 4, 5, 6}, kInC = {0, 1, 2, 3, 4};

std::int64_t elements(const std::vector<int>& dims, const std::vector<std::int64_t>& sizes) {
  std::int64_t product = 1;
  for (const int axis : dims) product *= sizes[static_cast<std::size_t>(axis)];
  return product;
}

// Position of a loop index in an operand.
std::size_t place(const std::vector<int>& dims, const std::vector<std::int64_t>& sizes,
                  const std::vector<std::int64_t>& index) {
  std::int64_t at = 0;
  for (const int axis : dims) at = at * sizes[static_cast<std::size_t>(axis)] + index[static_cast<std::size_t>(axis)];
  return static_cast<std::size_t>(at);
}

std::vector<double> written_out(const IterationSpace& space, const std::vector<std::int64_t>& sizes,
                                const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> c(static_cast<std::size_t>(elements(space.outputs[0], sizes)), 0.0);
  std::vector<int> all(sizes.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  for (std::int64_t n = 0; n < elements(all, sizes); ++n) {
    std::vector<std::int64_t> index(sizes.size());
    std::int64_t rest = n;
    for (std::size_t i = sizes.size(); i > 0; --i) index[i - 1] = rest % sizes[i - 1], rest /= sizes[i - 1];
    c[place(space.outputs[0], sizes, index)] +=
        a[place(space.inputs[0], sizes, index)] * b[place(space.inputs[1], sizes, index)];
  }
  return c;
}

std::vector<double> whole_numbers(std::int64_t n, int factor) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>((factor * i) % 11 - 5));
  return values;
}

struct Seen {
  int single = 0, looped = 0, by_element = 0, exchanged = 0;
};

void expect_exact(const IterationSpace& space, const std::vector<std::int64_t>& sizes, Seen& seen) {
  const std::vector<double> a = whole_numbers(elements(space.inputs[0], sizes), 3),
                            b = whole_numbers(elements(space.inputs[1], sizes), 7);
  std::vector<double> c(static_cast<std::size_t>(elements(space.outputs[0], sizes)), 99.0);
  const Contraction plan = plan_contraction(space, sizes);
  run_contraction(plan, a.data(), b.data(), c.data());
  ASSERT_EQ(c, written_out(space, sizes, a, b));
  ++(!plan.product ? seen.by_element : plan.loops.empty() ? seen.single : seen.looped);
  if (plan.product && plan.product->exchanged) ++seen.exchanged;
}

TEST(Contraction, IsExactForEveryOrderOfDimensions) {
  std::mt19937 random(kSeed);
  Seen seen;
  for (int round = 0; round < 2000; ++round) {
    IterationSpace space;
    space.inputs = {kInA, kInB};
    space.outputs = {kInC};
    for (auto* dims : {&space.inputs[0], &space.inputs[1], &space.outputs[0]})
      std::shuffle(dims->begin(), dims->end(), random);
    std::vector<std::int64_t> sizes;
    for (int axis = 0; axis < 7; ++axis) sizes.push_back(std::uniform_int_distribution<int>(1, 3)(random));
    expect_exact(space, sizes, seen);
  }
  // Every way was taken.
  EXPECT_GT(seen.single, 50);
  EXPECT_GT(seen.looped, 50);
  EXPECT_GT(seen.by_element, 50);
  EXPECT_GT(seen.exchanged, 50);
}

// x (batch, seq, embed) w (embed, qkv, heads, head_dim), its two gradients, and the head's tied table: one product
// each.
TEST(Contraction, OfATransformerIsASingleProduct) {
  const std::vector<std::int64_t> sizes = {2, 3, 4, 3, 2, 5};  // batch seq embed qkv heads head_dim
  const std::vector<int> x = {0, 1, 2}, w = {2, 3, 4, 5}, y = {0, 1, 3, 4, 5};
  const std::vector<std::vector<std::vector<int>>> cases = {{x, w, y}, {y, w, x}, {x, y, w}};
  for (const auto& dims : cases) {
    IterationSpace space;
    space.inputs = {dims[0], dims[1]};
    space.outputs = {dims[2]};
    const Contraction plan = plan_contraction(space, sizes);
    ASSERT_TRUE(plan.product.has_value());
    EXPECT_TRUE(plan.loops.empty());
    EXPECT_EQ(plan.product->m * plan.product->n * plan.product->k, 2 * 3 * 4 * 3 * 2 * 5);
  }
}

}  // namespace
}  // namespace meshwright::contraction_test
