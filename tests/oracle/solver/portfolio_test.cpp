// SPDX-License-Identifier: Apache-2.0
// The portfolio against trying every labelling.
#include "core/solver/portfolio/portfolio.h"
#include "core/solver/solve.h"

#include <gtest/gtest.h>

#include "tests/unit/random_fields.h"
#include "tests/unit/training_fields.h"

namespace meshwright::portfolio::portfolio_test {
namespace {

void expect_solved(const Field& field, const Options& options) {
  const double optimum = least_cost(field);
  const Result result = solve(field, options);
  EXPECT_EQ(result.proven_infeasible, optimum == kForbidden);
  ASSERT_EQ(result.labels.has_value(), optimum < kForbidden);
  if (!result.labels) return;
  EXPECT_EQ(result.cost, optimum);
  EXPECT_EQ(result.gap(), 0.0) << "by " << result.method;
  EXPECT_EQ(result.lower_bound, optimum);
  const FieldValue value = evaluate(field, *result.labels);
  EXPECT_EQ(value.cost, optimum);
  EXPECT_LE(value.peak, field.limit);
}

TEST(Portfolio, EqualsEnumeration) {
  std::mt19937 random(21);
  for (int round = 0; round < 1000; ++round) {
    RandomFieldShape shape;
    shape.edges = round % 17;
    shape.forbidden_of_ten = round % 6;
    shape.limit_of_ten = round % 12;
    SCOPED_TRACE(round);
    expect_solved(random_field(random, shape), Options{});
  }
}

TEST(Portfolio, EqualsEnumerationOnDenseFieldsWithTightLimits) {
  std::mt19937 random(22);
  int solvable = 0;
  for (int round = 0; round < 60; ++round) {
    const Field field = random_field(random, {7, 4, 40, 4, round % 2, 1 + round % 5});
    SCOPED_TRACE(round);
    expect_solved(field, Options{});
    solvable += least_cost(field) < kForbidden ? 1 : 0;
  }
  EXPECT_GT(solvable, 20);
}

TEST(Portfolio, EqualsEnumerationOfCostsThatAreNoWholeNumbers) {
  std::mt19937 random(23);
  for (int round = 0; round < 100; ++round) {
    Field field = random_field(random, {6, 4, 14, 4, 1, 4});
    for (Field::Node& node : field.nodes)
      for (double& cost : node.cost) cost = 1e-3 * cost + 1e-5 * draw(random, 100);
    for (Field::Edge& edge : field.edges)
      for (double& cost : edge.cost) cost *= 1e-3;
    const double optimum = least_cost(field);
    const Result result = solve(field, Options{});
    ASSERT_EQ(result.labels.has_value(), optimum < kForbidden) << round;
    if (!result.labels) continue;
    EXPECT_NEAR(result.cost, optimum, 1e-8 * optimum) << round;
    EXPECT_EQ(result.gap(), 0.0) << round;
  }
}

TEST(Portfolio, TellsWholeCostsOfATrillionApart) {
  std::mt19937 random(26);
  for (int round = 0; round < 200; ++round) {
    Field field = random_field(random, {6, 4, 4 + round % 12, 4, 1, 2 + round % 6});
    for (Field::Node& node : field.nodes)
      for (double& cost : node.cost) cost += 1e11 * draw(random, 2);
    SCOPED_TRACE(round);
    expect_solved(field, Options{});
  }
}

TEST(Portfolio, ProvesTrainingGraphsWithTightMemory) {
  for (int nodes : {30, 100, 200})
    for (double tightness : {0.05, 0.3, 0.7}) {
      const Field field = training_field(nodes, 11, tightness);
      const Result result = solve(field, Options{});
      ASSERT_TRUE(result.labels.has_value()) << nodes << " nodes, " << tightness;
      EXPECT_EQ(result.gap(), 0.0) << nodes << " nodes, " << tightness;
      const FieldValue value = evaluate(field, *result.labels);
      EXPECT_EQ(value.cost, result.cost);
      EXPECT_LE(value.peak, field.limit);
    }
}

// A clock that moves by 1 whenever it is looked at: looking seldom after the end is stopping soon.
TEST(Portfolio, StopsSoonAfterItsLimitWithWhatItHas) {
  const Field field = training_field(100, 12, 0.05);
  const double optimum = solve(field, Options{}).cost;
  int with_labels = 0, proven = 0;
  for (int limit = 1; limit < 30000; limit = limit * 2 + 1) {
    int looked = 0;
    Options options;
    options.budget.limit_s = limit;
    options.budget.elapsed = [&] { return static_cast<double>(looked++); };
    const Result result = solve(field, options);
    EXPECT_LT(looked, limit + 100) << limit;
    EXPECT_LE(result.lower_bound, optimum) << limit;
    EXPECT_FALSE(result.proven_infeasible) << limit;
    EXPECT_GE(result.cost, optimum) << limit;
    if (!result.labels) continue;
    EXPECT_LE(evaluate(field, *result.labels).peak, field.limit) << limit;
    EXPECT_EQ(evaluate(field, *result.labels).cost, result.cost) << limit;
    ++with_labels;
    proven += result.gap() == 0.0 ? 1 : 0;
  }
  EXPECT_GT(with_labels, 3);
  EXPECT_GT(proven, 1);
}

TEST(Portfolio, GivesTheSameAnswerTwice) {
  std::mt19937 random(24);
  for (int round = 0; round < 20; ++round) {
    const Field field = random_field(random, {8, 5, 30, 5, 1, 3});
    EXPECT_EQ(solve(field, Options{}).labels, solve(field, Options{}).labels) << round;
  }
}

TEST(Portfolio, SaysHowLittleMemoryIsEnough) {
  // Two nodes live together take 3 + 4 at least, and a pair that would take less is forbidden.
  Field field;
  field.nodes = {{{1, 2}, {3, 9}, 0, 2}, {{1, 2}, {2, 4}, 1, 3}};
  field.edges = {{0, 1, {kForbidden, 0, 0, 0}}};
  field.limit = 5;
  const Result result = solve(field, Options{});
  EXPECT_TRUE(result.proven_infeasible);
  ASSERT_TRUE(result.least_peak.has_value());
  EXPECT_EQ(*result.least_peak, 7.0);
  EXPECT_LE(result.least_peak_bound, 7.0);
  EXPECT_GE(result.least_peak_bound, 5.0);
  field.limit = 7;
  EXPECT_EQ(solve(field, Options{}).cost, 3.0);
}

TEST(Portfolio, SaysThatThePairsAloneAllowNothing) {
  Field field;
  field.nodes = {{{1, 2}, {3, 9}, 0, 2}, {{1, 2}, {2, 4}, 1, 3}};
  field.edges = {{0, 1, {kForbidden, kForbidden, kForbidden, kForbidden}}};
  const Result result = solve(field, Options{});
  EXPECT_TRUE(result.proven_infeasible);
  EXPECT_FALSE(result.least_peak.has_value());
  EXPECT_EQ(result.gap(), kForbidden);
}

TEST(Portfolio, ReportsItsProgress) {
  std::mt19937 random(25);
  const Field field = random_field(random, {8, 5, 30, 5, 0, 3});
  Options options;
  double last = -kForbidden;
  int reports = 0;
  options.on_progress = [&](const Progress& progress) {
    EXPECT_GE(progress.lower_bound, last);
    last = progress.lower_bound;
    ++reports;
  };
  const Result result = solve(field, options);
  EXPECT_GT(reports, 0);
  EXPECT_LE(last, result.cost);
}

}  // namespace
}  // namespace meshwright::portfolio::portfolio_test
