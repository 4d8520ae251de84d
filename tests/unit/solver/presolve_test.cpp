// SPDX-License-Identifier: Apache-2.0
#include "core/solver/presolve/presolve.h"

#include <gtest/gtest.h>

#include "tests/unit/random_fields.h"

namespace meshwright::portfolio::presolve_test {
namespace {

constexpr double kNo = kForbidden;

void expect_same_optimum(const Field& field, const Reduced& reduced) {
  const double optimum = least_cost(field);
  if (reduced.infeasible) {
    EXPECT_EQ(optimum, kForbidden);
    return;
  }
  const std::optional<Labels> best = best_labels(reduced);
  ASSERT_EQ(best.has_value(), optimum < kForbidden);
  if (!best) return;
  EXPECT_EQ(evaluate(reduced.field, *best).cost, optimum);
  const FieldValue lifted = evaluate(field, reduced.lift(*best));
  EXPECT_EQ(lifted.cost, optimum);
  EXPECT_LE(lifted.peak, field.limit);
}

TEST(Presolve, KeepsTheOptimum) {
  std::mt19937 random(1);
  for (int round = 0; round < 1500; ++round) {
    RandomFieldShape shape;
    shape.edges = round % 11;
    shape.forbidden_of_ten = round % 7;
    shape.limit_of_ten = round % 12;
    const Field field = random_field(random, shape);
    SCOPED_TRACE(round);
    expect_same_optimum(field, presolve(field, Budget{}));
  }
}

TEST(Presolve, KeepsTheOptimumOfDenseFieldsThatDoNotVanish) {
  std::mt19937 random(2);
  int left = 0;
  for (int round = 0; round < 150; ++round) {
    const Field field = random_field(random, {6, 5, 24, 4, 1, 4});
    const Reduced reduced = presolve(field, Budget{});
    SCOPED_TRACE(round);
    expect_same_optimum(field, reduced);
    if (!reduced.infeasible && !reduced.row_limit.empty()) ++left;
  }
  EXPECT_GT(left, 50) << "too few fields kept rows for this test to say much";
}

TEST(Presolve, KeepsTheOptimumWhereverTheTimeEnds) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const Field field = random_field(random, {6, 4, 9, 4, round % 5, 2 + round % 8});
    int asked = 0;
    Budget budget;
    budget.limit_s = round % 9;
    budget.elapsed = [&] { return static_cast<double>(asked++); };
    SCOPED_TRACE(round);
    const Reduced reduced = presolve(field, budget);
    expect_same_optimum(field, reduced);
    if (reduced.infeasible) continue;
    expect_same_optimum(field, presolve(reduced, {}, Budget{}));
  }
}

TEST(Presolve, GoesOnFromAnEarlierReduction) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const Field field = random_field(random, {6, 4, 12, 4, 1, 4});
    const Reduced once = presolve(field, Budget{});
    if (once.infeasible) continue;
    // Without the labels of all solutions but the best, the optimum stays.
    const std::optional<Labels> found = best_labels(once);
    if (!found) continue;
    const std::optional<Labels> best = once.project(once.lift(*found));  // the one of equals that project chooses
    ASSERT_TRUE(best.has_value());
    std::vector<std::vector<bool>> dropped;
    for (std::size_t i = 0; i < once.field.nodes.size(); ++i) {
      dropped.emplace_back(once.field.nodes[i].cost.size());
      for (std::size_t a = 0; a < dropped[i].size(); ++a)
        dropped[i][a] = static_cast<int>(a) != (*best)[i] && draw(random, 2) == 0;
    }
    SCOPED_TRACE(round);
    const Reduced twice = presolve(once, dropped, Budget{});
    expect_same_optimum(field, twice);
    const std::optional<Labels> projected = twice.project(once.lift(*best));
    ASSERT_TRUE(projected.has_value());
    EXPECT_EQ(evaluate(twice.field, *projected).cost, least_cost(field));
  }
}

TEST(Presolve, ProjectsLabelsToLabelsThatCostNoMore) {
  std::mt19937 random(4);
  for (int round = 0; round < 100; ++round) {
    const Field field = random_field(random, {5, 4, 7, 4, 2, 5});
    const Reduced reduced = presolve(field, Budget{});
    if (reduced.infeasible) continue;
    for_every_labelling(field, [&](const Labels& labels) {
      const FieldValue value = evaluate(field, labels);
      if (value.cost == kForbidden || value.peak > field.limit) return;
      const std::optional<Labels> projected = reduced.project(labels);
      ASSERT_TRUE(projected.has_value()) << round;
      EXPECT_LE(evaluate(reduced.field, *projected).cost, value.cost) << round;
      EXPECT_LE(excess(reduced, *projected), 0.0) << round;
    });
  }
}

TEST(Presolve, MergingNodesKeepsTheOptimum) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const Field field = random_field(random, {6, 4, 15, 4, 1 + round % 3, 2 + round % 6});
    const Reduced once = presolve(field, Budget{});
    if (once.infeasible) continue;
    const Reduced merged = merge_nodes(once, round % 2 == 0 ? 20.0 : 200.0, Budget{});
    SCOPED_TRACE(round);
    expect_same_optimum(field, merged);
    const std::optional<Labels> best = best_labels(once);
    if (!best) continue;
    const std::optional<Labels> projected = merged.project(once.lift(*best));
    ASSERT_TRUE(projected.has_value());
    EXPECT_EQ(evaluate(merged.field, *projected).cost, least_cost(field));
  }
}

TEST(Presolve, MergesNodesWhileThereIsRoom) {
  std::mt19937 random(6);
  const Field field = random_field(random, {8, 5, 60, 4, 0, 4});
  const Reduced once = presolve(field, Budget{});
  ASSERT_GT(once.field.nodes.size(), 2u);
  EXPECT_LT(merge_nodes(once, 1e6, Budget{}).field.nodes.size(), 3u);
}

TEST(Presolve, SeesThatNoLabellingIsAllowed) {
  Field field;
  field.nodes = {{{0, 0}, {}, 0, 0}, {{0, 0}, {}, 0, 0}, {{0, 0}, {}, 0, 0}};
  // 0-1 equal, 1-2 equal, 0-2 different.
  field.edges = {{0, 1, {0, kNo, kNo, 0}}, {1, 2, {0, kNo, kNo, 0}}, {0, 2, {kNo, 0, 0, kNo}}};
  EXPECT_TRUE(presolve(field, Budget{}).infeasible);
}

TEST(Presolve, SeesThatTheLeastMemoryDoesNotFit) {
  Field field;
  field.nodes = {{{0, 0}, {3, 4}, 0, 2}, {{0, 0}, {4, 3}, 1, 3}};
  field.limit = 6;
  EXPECT_FALSE(presolve(field, Budget{}).infeasible);
  field.limit = 5;
  EXPECT_TRUE(presolve(field, Budget{}).infeasible);
}

TEST(Presolve, EliminatesTreesWhole) {
  Field field;
  for (int i = 0; i < 7; ++i) field.nodes.push_back({{1, 2, 0}, {}, 0, 0});
  for (int i = 1; i < 7; ++i) field.edges.push_back({(i - 1) / 2, i, {0, 5, 1, 2, 9, 3, 7, 4, 8}});
  const Reduced reduced = presolve(field, Budget{});
  EXPECT_TRUE(reduced.field.nodes.empty());
  EXPECT_EQ(reduced.field.constant, least_cost(field));
  EXPECT_EQ(evaluate(field, reduced.lift({})).cost, least_cost(field));
}

TEST(Presolve, EliminatesARingWhole) {
  Field field;
  for (int i = 0; i < 6; ++i) field.nodes.push_back({{1, 2, 0}, {}, 0, 0});
  for (int i = 0; i < 6; ++i) field.edges.push_back({i, (i + 1) % 6, {0, 5, 1, 2, 9, 3, 7, 4, 8}});
  const Reduced reduced = presolve(field, Budget{});
  EXPECT_TRUE(reduced.field.nodes.empty());
  EXPECT_EQ(reduced.field.constant, least_cost(field));
}

// A field whose nodes all carry memory in one row that binds, so that only what a test adds is reduced.
Field binding_pair() {
  Field field;
  field.nodes = {{{0, 10}, {8, 0}, 0, 1}, {{0, 11}, {8, 0}, 0, 1}};
  field.limit = 8;
  return field;
}

TEST(Presolve, KeepsWhatBinds) {
  const Field field = binding_pair();
  const Reduced reduced = presolve(field, Budget{});
  EXPECT_EQ(reduced.field.nodes.size(), 2u);
  EXPECT_EQ(reduced.row_limit, std::vector<double>{8});
}

TEST(Presolve, MergesFollowersAndTheirMemory) {
  Field field = binding_pair();
  field.nodes.push_back({{0, 0}, {1, 5}, 1, 2});
  field.nodes.push_back({{0, 0}, {5, 1}, 1, 2});
  field.edges = {{0, 2, {0, kNo, kNo, 0}}, {1, 3, {kNo, 3, 4, kNo}}};  // 2 as 0, 3 not as 1
  const Reduced reduced = presolve(field, Budget{});
  EXPECT_EQ(reduced.field.nodes.size(), 2u);
  EXPECT_TRUE(reduced.field.edges.empty());
  const Labels lifted = reduced.lift({0, 1});
  EXPECT_EQ(lifted[0], lifted[2]);
  EXPECT_NE(lifted[1], lifted[3]);
}

TEST(Presolve, DropsDominatedLabels) {
  Field field = binding_pair();
  field.nodes[0].cost = {0, 10, 10, 12};
  field.nodes[0].memory = {8, 0, 1, 0};  // the last two: dearer in memory, dearer in cost
  EXPECT_EQ(presolve(field, Budget{}).field.labels(0), 2);
}

TEST(Presolve, DropsEdgesThatAreSums) {
  Field field = binding_pair();
  field.edges = {{0, 1, {1, 2, 11, 12}}};
  EXPECT_TRUE(presolve(field, Budget{}).field.edges.empty());
}

TEST(Presolve, DropsRowsThatCannotBeExceeded) {
  Field field = binding_pair();
  field.nodes.push_back({{0, 1}, {8, 0}, 1, 2});  // alone at its step
  const Reduced reduced = presolve(field, Budget{});
  EXPECT_EQ(reduced.row_limit.size(), 1u);
  EXPECT_EQ(reduced.field.nodes.size(), 2u);  // and without memory, the third node vanishes
}

TEST(Presolve, DropsRowsThatAnotherImplies) {
  Field field = binding_pair();
  field.nodes[0].end = 2;
  field.nodes[1].end = 2;
  field.nodes.push_back({{0, 1}, {3, 0}, 1, 2});  // joins at the second step: only that row is left
  const Reduced reduced = presolve(field, Budget{});
  EXPECT_EQ(reduced.row_limit.size(), 1u);
  for (int node : {0, 1, 2})
    EXPECT_EQ(
        std::count_if(reduced.pieces.begin(), reduced.pieces.end(), [&](const auto& p) { return p.node == node; }), 1);
}

TEST(Presolve, DropsLabelsThatNeverFit) {
  Field field = binding_pair();
  field.nodes[0].cost = {0, 10, -5};
  field.nodes[0].memory = {8, 0, 9};
  EXPECT_EQ(presolve(field, Budget{}).field.labels(0), 2);
}

TEST(Presolve, MovesConstantMemoryIntoTheLimit) {
  Field field = binding_pair();
  field.nodes[0].memory = {10, 2};
  field.nodes.push_back({{7}, {5}, 0, 1});
  field.limit = 15;
  const Reduced reduced = presolve(field, Budget{});
  EXPECT_EQ(reduced.row_limit, std::vector<double>{8});
  EXPECT_EQ(reduced.field.constant, 7.0);
}

}  // namespace
}  // namespace meshwright::portfolio::presolve_test
