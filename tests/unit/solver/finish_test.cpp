// SPDX-License-Identifier: Apache-2.0
#include "core/solver/portfolio/finish.h"

#include <gtest/gtest.h>

#include "core/solver/branch_and_bound/branch_and_bound.h"
#include "core/solver/branch_and_bound/branch_and_bound_master.h"
#include "core/solver/elimination/elimination.h"

namespace meshwright::portfolio::finish_test {
namespace {

// Node costs are units, edge costs hundreds; a cycle of four nodes, so one message over two nodes is needed.
Field cycle() {
  Field field;
  field.nodes = {{{1, 2}, {}, 0, 0}, {{0, 3}, {}, 0, 0}, {{5, 0}, {}, 0, 0}, {{0, 0}, {}, 0, 0}};
  field.edges = {
      {0, 1, {0, 100, 200, 0}}, {1, 2, {300, 0, 0, 300}}, {2, 3, {0, 400, 400, 0}}, {3, 0, {0, 500, 500, 0}}};
  return field;
}

// Two nodes live at once: label 0 costs nothing and takes 8, label 1 costs 10 (20 for the second node) and takes 3.
Field two_live(double limit) {
  Field field;
  field.nodes = {{{0, 10}, {8, 3}, 0, 1}, {{0, 20}, {8, 3}, 0, 1}};
  field.limit = limit;
  return field;
}

TEST(Elimination, SolvesACycleThatNoChoiceSatisfiesFully) {
  // Edges 0-1, 2-3 and 3-0 want equal labels, 1-2 wants different ones: the cheapest break is 0-1 at 100.
  const Field field = cycle();
  const EliminationPlan plan(field, elimination_order(field, kForbidden)->nodes, kForbidden);
  Elimination elimination(plan);
  EXPECT_EQ(elimination.run(side_by_side(field)), 1 + 3 + 100 + 5);
  Labels labels;
  elimination.decode(labels);
  EXPECT_EQ(labels, (Labels{0, 1, 0, 0}));
}

TEST(Elimination, EndsWithItsBudget) {
  const Field field = cycle();
  const EliminationPlan plan(field, elimination_order(field, kForbidden)->nodes, kForbidden);
  Elimination elimination(plan);
  EXPECT_EQ(elimination.run_within({}, side_by_side(field)), 109.0);
  Budget none;
  none.limit_s = 0.0;
  EXPECT_FALSE(elimination.run_within(none, side_by_side(field)).has_value());
}

TEST(Elimination, RefusesATableThatDoesNotFit) {
  EXPECT_FALSE(elimination_order(cycle(), 3.0).has_value());
  EXPECT_EQ(elimination_order(cycle(), 4.0)->largest, 4.0);
}

TEST(Elimination, SplitsABucketWhoseMessageWouldBeTooLarge) {
  const Field field = cycle();
  const EliminationPlan split(field, bounded_elimination_order(field, 2.0), 2.0);
  EXPECT_FALSE(split.exact());
  Elimination elimination(split);
  EXPECT_LE(elimination.run(side_by_side(field)), 109.0);
}

TEST(CuttingPlanes, StandWhereTwoPlanesMeet) {
  // min(0 + 2 m, 6 - m): m = 2, value 4.
  CuttingPlanes planes(100.0);
  planes.add_row({});
  planes.add_plane(0.0, {2.0});
  planes.add_plane(6.0, {-1.0});
  std::vector<double> multiplier;
  EXPECT_NEAR(planes.solve(multiplier), 4.0, 1e-6);
  EXPECT_NEAR(multiplier.at(0), 2.0, 1e-6);
  EXPECT_FALSE(planes.pays_excess());
}

TEST(CuttingPlanes, PayTheMostWhereNoPlaneKeepsTheRow) {
  CuttingPlanes planes(7.0);
  planes.add_row({});
  planes.add_plane(1.0, {2.0});
  std::vector<double> multiplier;
  EXPECT_NEAR(planes.solve(multiplier), 15.0, 1e-6);
  EXPECT_EQ(multiplier, std::vector<double>{7.0});
  EXPECT_TRUE(planes.pays_excess());
}

TEST(Shrink, FoldsADecidedNodeIntoItsNeighboursAndRows) {
  Field field = two_live(13.0);
  field.edges = {{0, 1, {1, 2, 3, 4}}};
  const ShrunkField shrunk = shrink(unreduced(field), {false, true, true, true});  // node 0 takes label 1
  EXPECT_EQ(shrunk.reduced.field.constant, 10.0);
  ASSERT_EQ(shrunk.reduced.field.nodes.size(), 1u);
  EXPECT_EQ(shrunk.reduced.field.nodes[0].cost, (std::vector<double>{3, 24}));
  EXPECT_TRUE(shrunk.reduced.row_limit.empty());  // 3 + 8 fits
  EXPECT_EQ(shrunk.reduced.lift({1}), (Labels{1, 1}));
  EXPECT_TRUE(shrink(unreduced(field), {false, false, true, true}).reduced.infeasible);
  field.limit = 10.0;
  EXPECT_TRUE(shrink(unreduced(field), {true, false, true, false}).reduced.infeasible);
}

TEST(Finish, PaysForMemoryOnlyAsMuchAsTheLimitAsks) {
  const auto cost = [](double limit) { return finish(unreduced(two_live(limit)), {}).cost; };
  EXPECT_EQ(cost(16.0), 0.0);
  EXPECT_EQ(cost(15.0), 10.0);
  EXPECT_EQ(cost(11.0), 10.0);
  EXPECT_EQ(cost(10.0), 30.0);
  EXPECT_EQ(cost(6.0), 30.0);
  EXPECT_EQ(cost(5.0), kForbidden);
}

TEST(Finish, NamesItsMethod) {
  EXPECT_EQ(finish(unreduced(cycle()), {}).method, "elimination");
  EXPECT_EQ(finish(unreduced(two_live(15.0)), {}).method, "branch and bound");
}

TEST(Finish, SolvesAFieldWithoutNodes) {
  Field field;
  field.constant = 42.0;
  const Finish found = finish(unreduced(field), {});
  EXPECT_TRUE(found.complete);
  EXPECT_EQ(found.cost, 42.0);
  EXPECT_EQ(found.lower_bound, 42.0);
}

TEST(Incumbent, LooksBelowByTheStepOfWholeCosts) {
  const Reduced reduced = unreduced(two_live(16.0));  // all costs are multiples of 10
  EXPECT_NEAR(Incumbent(reduced, 30.0).cut(), 20.0, 1e-3);
  EXPECT_NEAR(Incumbent(reduced, 29.0).cut(), 20.0, 1e-3);
  EXPECT_EQ(Incumbent(reduced, kForbidden).cut(), kForbidden);
}

}  // namespace
}  // namespace meshwright::portfolio::finish_test
