// SPDX-License-Identifier: Apache-2.0
#include "core/solver/bound/bound.h"

#include <gtest/gtest.h>

#include "tests/unit/random_fields.h"

namespace meshwright::portfolio::dual_bound_test {
namespace {

// Least cost of the labellings that use each label, memory kept.
Guide exact_min_marginals(const Reduced& reduced) {
  Guide least;
  for (const Field::Node& node : reduced.field.nodes) least.emplace_back(node.cost.size(), kForbidden);
  for_every_labelling(reduced.field, [&](const Labels& labels) {
    if (excess(reduced, labels) > 0.0) return;
    const double cost = evaluate(reduced.field, labels).cost;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      double& of_label = least[i][static_cast<std::size_t>(labels[i])];
      of_label = std::min(of_label, cost);
    }
  });
  return least;
}

Reduced random_problem(std::mt19937& random, int round) {
  return unreduced(random_field(random, {5, 4, 4 + round % 8, 4, round % 3, 2 + round % 9}));
}

bool has_stuck_label(const Field& field) {  // a label without a partner across some edge: presolve leaves none
  for (const Field::Edge& edge : field.edges) {
    const int rows = field.labels(edge.u), columns = field.labels(edge.v);
    for (int p = 0; p < rows; ++p)
      if (std::all_of(edge.cost.begin() + p * columns, edge.cost.begin() + (p + 1) * columns,
                      [](double c) { return c == kForbidden; }))
        return true;
    for (int q = 0; q < columns; ++q) {
      bool stuck = true;
      for (int p = 0; p < rows; ++p)
        stuck = stuck && edge.cost[static_cast<std::size_t>(p * columns + q)] == kForbidden;
      if (stuck) return true;
    }
  }
  return false;
}

TEST(DualBound, NeverExceedsTheOptimum) {
  std::mt19937 random(11);
  int tried = 0;
  for (int round = 0; round < 300; ++round) {
    const Reduced reduced = random_problem(random, round);
    if (has_stuck_label(reduced.field)) continue;
    const std::optional<Labels> best = best_labels(reduced);
    if (!best) continue;
    ++tried;
    const double optimum = evaluate(reduced.field, *best).cost;
    DualBound bound(reduced);
    for (int i = 0; i < 60; ++i) {
      bound.iterate(optimum);
      ASSERT_LE(bound.value(), optimum) << "round " << round << ", iteration " << i;
    }
  }
  EXPECT_GT(tried, 100);
}

TEST(DualBound, MinMarginalsNeverExceedTheCostOfALabelling) {
  std::mt19937 random(12);
  for (int round = 0; round < 300; ++round) {
    const Reduced reduced = random_problem(random, round);
    if (has_stuck_label(reduced.field)) continue;
    const Guide exact = exact_min_marginals(reduced);
    DualBound bound(reduced);
    for (int i = 0; i < 40; ++i) bound.iterate(kForbidden);
    for (std::size_t i = 0; i < exact.size(); ++i)
      for (std::size_t x = 0; x < exact[i].size(); ++x)
        ASSERT_LE(bound.min_marginals()[i][x], exact[i][x] + 1e-9) << "round " << round << ", node " << i;
  }
}

TEST(DualBound, ForbidsOnlyPairsThatCostMore) {
  std::mt19937 random(13);
  std::size_t forbidden = 0;
  for (int round = 0; round < 200; ++round) {
    const Reduced reduced = random_problem(random, round);
    const std::optional<Labels> best = best_labels(reduced);
    if (has_stuck_label(reduced.field) || !best) continue;
    const double room = evaluate(reduced.field, *best).cost + 5.0;
    DualBound bound(reduced);
    for (int i = 0; i < 30; ++i) bound.iterate(room);
    Field fewer = reduced.field;
    forbidden += bound.forbid_pairs(room + 1e-6, fewer);
    for_every_labelling(reduced.field, [&](const Labels& labels) {
      const double cost = evaluate(reduced.field, labels).cost;
      if (cost > room || excess(reduced, labels) > 0.0) return;
      ASSERT_EQ(evaluate(fewer, labels).cost, cost) << "round " << round;
    });
  }
  EXPECT_GT(forbidden, 100u);
}

TEST(DualBound, IsTightOnAChain) {
  Field field;
  for (int i = 0; i < 5; ++i) field.nodes.push_back({{1, 2, 0}, {}, 0, 0});
  for (int i = 0; i < 4; ++i) field.edges.push_back({i, i + 1, {9, 5, 1, 2, 9, 3, 7, 4, 9}});
  const Reduced reduced = unreduced(field);
  DualBound bound(reduced);
  bound.iterate(kForbidden);
  EXPECT_NEAR(bound.value(), least_cost(field), 1e-9);
}

TEST(DualBound, PricesMemory) {
  // Two nodes that cost 10 less with 4 more memory, and room for one of them: half of each is the relaxation's best.
  Field field;
  field.nodes = {{{0, 10}, {4, 0}, 0, 1}, {{0, 10}, {4, 0}, 0, 1}};
  field.limit = 4;
  const Reduced reduced = unreduced(field);
  DualBound bound(reduced);
  for (int i = 0; i < 200; ++i) bound.iterate(10.0);
  EXPECT_NEAR(bound.value(), 10.0, 0.01);
  EXPECT_NEAR(bound.multipliers()[0], 2.5, 0.01);
}

TEST(DualBound, BeginsWithTheMultipliersOfItsSteps) {
  Field field;
  field.nodes = {{{0, 10}, {4, 0}, 7, 8}, {{0, 10}, {4, 0}, 7, 8}};
  field.limit = 4;
  const Reduced reduced = unreduced(field);
  DualBound bound(reduced, {{3, 100.0}, {7, 2.5}});
  bound.iterate(kForbidden);
  EXPECT_NEAR(bound.value(), 10.0, 1e-9);
}

}  // namespace
}  // namespace meshwright::portfolio::dual_bound_test
