// SPDX-License-Identifier: Apache-2.0
// Matrices whose rows and columns are made to add up to 1, against plain loops.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/op_fixture.h"

namespace meshwright::ops_sinkhorn_test {
namespace {

constexpr std::size_t kRows = 3, kColumns = 4;

OpCase sinkhorn(double turns, double epsilon) {
  OpCase c;
  c.add(OpKind::Sinkhorn, {c.parameter("x", {{"batch", 2}, {"seq", 2}, {"rows", kRows}, {"columns", kColumns}}, -2, 2)},
        {.epsilon = epsilon, .value = turns}, "y");
  return c;
}

double sum_of_row(const Values& y, std::size_t matrix, std::size_t row) {
  double sum = 0.0;
  for (std::size_t column = 0; column < kColumns; ++column) sum += y[(matrix * kRows + row) * kColumns + column];
  return sum;
}
double sum_of_column(const Values& y, std::size_t matrix, std::size_t column) {
  double sum = 0.0;
  for (std::size_t row = 0; row < kRows; ++row) sum += y[(matrix * kRows + row) * kColumns + column];
  return sum;
}

// One turn: the softmax of each row plus the epsilon, over its columns' sums.
TEST(Sinkhorn, OfOneTurnDividesTheSoftmaxByTheSumsOfColumns) {
  constexpr double kEpsilon = 0.125;
  const OpCase c = sinkhorn(1, kEpsilon);
  const Values &x = c.values.at(TensorId(0)), y = computed(c), narrow = computed(c, c.result(), DType::F32);
  for (std::size_t m = 0; m < 4; ++m) {
    Values p(kRows * kColumns);
    for (std::size_t row = 0; row < kRows; ++row) {
      double all = 0.0;
      for (std::size_t column = 0; column < kColumns; ++column)
        all += std::exp(x[(m * kRows + row) * kColumns + column]);
      for (std::size_t column = 0; column < kColumns; ++column)
        p[row * kColumns + column] = std::exp(x[(m * kRows + row) * kColumns + column]) / all + kEpsilon;
    }
    for (std::size_t column = 0; column < kColumns; ++column)
      for (std::size_t row = 0; row < kRows; ++row) {
        const double expected = p[row * kColumns + column] / (sum_of_column(p, 0, column) + kEpsilon);
        const std::size_t at = (m * kRows + row) * kColumns + column;
        EXPECT_NEAR(y[at], expected, 1e-15);
        EXPECT_NEAR(narrow[at], expected, 1e-6);
      }
  }
}

// Of 3 rows and 4 columns no matrix has sums of 1 both ways: columns, which come last, have them.
TEST(Sinkhorn, LeavesColumnsThatAddUpToOneAndEqualRows) {
  const Values y = computed(sinkhorn(50, 0.0));
  for (std::size_t m = 0; m < 4; ++m) {
    for (std::size_t column = 0; column < kColumns; ++column) EXPECT_NEAR(sum_of_column(y, m, column), 1.0, 1e-12);
    for (std::size_t row = 0; row < kRows; ++row) EXPECT_NEAR(sum_of_row(y, m, row), 4.0 / 3, 1e-9);
  }
}

TEST(Sinkhorn, HasTheGradientsOfItsDefinition) {
  expect_true_vjp(sinkhorn(1, 0.125));
  expect_true_vjp(sinkhorn(4, 1e-6));
}

TEST(Sinkhorn, CanBeSplitAlongAllButItsMatrices) {
  const OpCase c = sinkhorn(3, 1e-6);
  for (const IterationAxis& axis : iteration_space(c.graph, c.graph.ops()[0]).axes)
    EXPECT_EQ(axis.splittable, axis.name == "batch" || axis.name == "seq") << axis.name;
  expect_sharded_equals_whole(c);
}

TEST(Sinkhorn, RefusesPartsOfATurn) {
  const std::string text = refusal([] { (void)sinkhorn(1.5, 0.0); });
  EXPECT_NE(text.find("the number of turns, must be a whole number of at least 1"), std::string::npos) << text;
}

}  // namespace
}  // namespace meshwright::ops_sinkhorn_test
