// SPDX-License-Identifier: Apache-2.0
#include "core/solver/branch_and_bound/branch_and_bound_hubs.h"

#include <gtest/gtest.h>

#include "tests/unit/random_fields.h"

namespace meshwright::portfolio::branch_and_bound_hubs_test {
namespace {

constexpr double kMuch = 1e9;  // work

DualBound bound_of(const Reduced& reduced, int iterations = 30) {
  DualBound bound(reduced);
  for (int i = 0; i < iterations; ++i) bound.iterate(kForbidden);
  return bound;
}

// Every other field is dense, so that its cycles keep the bound of messages away from the optimum.
Field some_field(std::mt19937& random, int round) {
  if (round % 2 == 0) return varied_field(random, 8, 4);
  RandomFieldShape shape;
  shape.nodes = 9;
  shape.most_labels = 3;
  shape.edges = 60;
  shape.forbidden_of_ten = 0;
  shape.limit_of_ten = 8;
  shape.costs = 120;
  return random_field(random, shape);
}

TEST(HubBranching, NeverExceedsTheOptimum) {
  std::mt19937 random(41);
  int raised = 0, split = 0;
  for (int round = 0; round < 800; ++round) {
    const Field field = some_field(random, round);
    const double optimum = least_cost(field);
    const Reduced reduced = unreduced(field);
    const DualBound root = bound_of(reduced, 5);
    HubBranching hubs(reduced, root);
    for (int slice = 0; slice < 20 && !hubs.stuck(); ++slice) {
      hubs.run(kForbidden, 200.0, Budget{});
      ASSERT_LE(hubs.lower_bound(), optimum) << "round " << round << ", slice " << slice;
    }
    raised += optimum < kForbidden && hubs.lower_bound() > root.value() + 1.0;
    split += hubs.parts() > 1;
  }
  EXPECT_GT(raised, 50);
  EXPECT_GT(split, 50);
}

TEST(HubBranching, LosesNothingBelowTheCut) {
  std::mt19937 random(43);
  int dropped = 0, empty = 0;
  for (int round = 0; round < 400; ++round) {
    const Field field = some_field(random, round);
    const Reduced reduced = unreduced(field);
    const std::optional<Labels> best = best_labels(reduced);
    if (!best) continue;
    const double optimum = evaluate(field, *best).cost;
    for (const double cut : {optimum + 20.0, optimum - 20.0}) {
      const DualBound root = bound_of(reduced);
      HubBranching hubs(reduced, root);
      hubs.run(cut, kMuch, Budget{});
      const std::vector<std::vector<bool>> kept = hubs.kept();
      if (cut > optimum) {
        ASSERT_LE(hubs.lower_bound(), optimum) << "round " << round;
        for (std::size_t i = 0; i < best->size(); ++i)
          ASSERT_TRUE(kept[i][static_cast<std::size_t>((*best)[i])]) << round;
      }
      empty += cut < optimum && hubs.lower_bound() == kForbidden;
      for (const std::vector<bool>& of_node : kept)
        dropped += cut > optimum && std::count(of_node.begin(), of_node.end(), false) > 0;
    }
  }
  EXPECT_GT(dropped, 100);
  EXPECT_GT(empty, 100);
}

// Two hubs with three labels each and five blocks that are cycles through both: a path from the first hub to the
// second, and an edge back. Each edge of a path costs nothing where labels agree, the last edge where they differ.
Field two_hubs() {
  Field field;
  field.nodes.assign(12, {{0, 0, 0}, {}, 0, 0});
  const std::vector<double> agree{0, 6, 6, 6, 0, 6, 6, 6, 0}, differ{6, 0, 0, 0, 6, 0, 0, 0, 6};
  for (int block = 0; block < 5; ++block) {
    const int first = 2 + 2 * block, second = first + 1;
    field.edges.push_back({0, first, agree});
    field.edges.push_back({first, second, agree});
    field.edges.push_back({second, 1, agree});
  }
  field.edges.push_back({0, 1, differ});
  return field;
}

TEST(HubBranching, IsTightWhereCyclesMeetInTwoHubs) {
  const Field field = two_hubs();
  const Reduced reduced = unreduced(field);
  const DualBound root = bound_of(reduced, 300);
  EXPECT_LT(root.value(), 1.0);
  HubBranching hubs(reduced, root);
  hubs.run(6.0, kMuch, Budget{});
  EXPECT_NEAR(hubs.lower_bound(), 6.0, 1e-9);
}

TEST(HubBranching, GoesOnWhereItEnded) {
  std::mt19937 random(47);
  for (int round = 0; round < 100; ++round) {
    const Field field = some_field(random, round);
    const Reduced reduced = unreduced(field);
    const DualBound root = bound_of(reduced);
    HubBranching once(reduced, root), by_slices(reduced, root);
    once.run(kForbidden, kMuch, Budget{});
    for (int slice = 0; slice < 10000 && !by_slices.stuck(); ++slice) by_slices.run(kForbidden, 1.0, Budget{});
    ASSERT_EQ(once.lower_bound(), by_slices.lower_bound()) << "round " << round;
    ASSERT_EQ(once.parts(), by_slices.parts()) << "round " << round;
  }
}

TEST(HubBranching, HasTheBoundOfTheRootWhenTheTimeIsOver) {
  const Reduced reduced = unreduced(two_hubs());
  const DualBound root = bound_of(reduced);
  HubBranching hubs(reduced, root);
  hubs.run(6.0, kMuch, Budget{1.0, [] { return 2.0; }});
  EXPECT_GE(hubs.lower_bound(), root.value());
  EXPECT_LE(hubs.lower_bound(), 6.0);
  EXPECT_EQ(hubs.parts(), 0);
}

}  // namespace
}  // namespace meshwright::portfolio::branch_and_bound_hubs_test
