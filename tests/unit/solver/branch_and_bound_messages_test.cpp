// SPDX-License-Identifier: Apache-2.0
#include "core/solver/branch_and_bound/branch_and_bound_messages.h"

#include <gtest/gtest.h>

#include "tests/unit/random_fields.h"

namespace meshwright::portfolio::branch_and_bound_messages_test {
namespace {

constexpr double kNoElimination = 0.0;  // so that every part is bounded by messages and split

TEST(MessageBranching, FindsTheOptimumAndProvesIt) {
  std::mt19937 random(23);
  int feasible = 0, infeasible = 0, split = 0;
  for (int round = 0; round < 1500; ++round) {
    const Field field = varied_field(random, 8, 4);
    const double optimum = least_cost(field);
    const Reduced reduced = unreduced(field);
    Incumbent incumbent(reduced, kForbidden);
    MessageBranching search(reduced, {}, kForbidden, incumbent, Budget{}, kNoElimination);
    search.run();
    ASSERT_EQ(incumbent.cost(), optimum) << "round " << round;
    ASSERT_GE(search.lower_bound(), incumbent.cut()) << "round " << round;
    ++(optimum < kForbidden ? feasible : infeasible);
    split += search.parts() > 1;
  }
  EXPECT_GT(feasible, 500);
  EXPECT_GT(infeasible, 100);
  EXPECT_GT(split, 100);
}

TEST(MessageBranching, KeepsTheLabelsOfEveryOptimumBelowTheUpperBound) {
  std::mt19937 random(29);
  int dropped = 0;
  for (int round = 0; round < 200; ++round) {
    const Field field = varied_field(random, 6, 4);
    const Reduced reduced = unreduced(field);
    const std::optional<Labels> best = best_labels(reduced);
    if (!best) continue;
    Incumbent incumbent(reduced, evaluate(field, *best).cost + 1.0);
    MessageBranching search(reduced, {}, 1.0, incumbent, Budget{}, kNoElimination);  // the root only
    search.run();
    std::size_t first = 0;
    for (std::size_t i = 0; i < best->size(); ++i) {
      ASSERT_TRUE(incumbent.labels() || search.kept()[first + static_cast<std::size_t>((*best)[i])]) << round;
      first += field.nodes[i].cost.size();
    }
    dropped += std::count(search.kept().begin(), search.kept().end(), false) > 0;
  }
  EXPECT_GT(dropped, 20);
}

TEST(MessageBranching, ReportsABoundWhenItsWorkIsSpent) {
  std::mt19937 random(31);
  int unfinished = 0;
  for (int round = 0; round < 200; ++round) {
    const Field field = varied_field(random, 7, 4);
    const double optimum = least_cost(field);
    const Reduced reduced = unreduced(field);
    Incumbent incumbent(reduced, kForbidden);
    MessageBranching search(reduced, {}, 2000.0, incumbent, Budget{}, kNoElimination);
    search.run();
    ASSERT_LE(std::min(search.lower_bound(), incumbent.cost()), optimum) << "round " << round;
    unfinished += search.lower_bound() < incumbent.cut();
  }
  EXPECT_GT(unfinished, 20);
}

// Two nodes side by side, memory 8 or 3 each under a limit of 11, so that one pays: 10 for the first, 20 for the
// second. The relaxation mixes the labels of the first.
TEST(MessageBranching, SplitsWhereMemoryIsMixed) {
  Field field;
  field.nodes = {{{0, 10}, {8, 3}, 0, 1}, {{0, 20}, {8, 3}, 0, 1}};
  field.limit = 11;
  const Reduced reduced = unreduced(field);
  Incumbent incumbent(reduced, kForbidden);
  MessageBranching search(reduced, {}, kForbidden, incumbent, Budget{}, kNoElimination);
  search.run();
  EXPECT_EQ(incumbent.cost(), 10.0);
  EXPECT_EQ(*incumbent.labels(), (Labels{1, 0}));
  EXPECT_LE(search.parts(), 3);
}

TEST(DualBound, WithoutALabelBoundsTheRest) {
  std::mt19937 random(37);
  int raised = 0;
  for (int round = 0; round < 200; ++round) {
    const Field field = varied_field(random, 5, 4);
    const Reduced reduced = unreduced(field);
    const std::size_t node = static_cast<std::size_t>(draw(random, static_cast<int>(field.nodes.size())));
    std::vector<bool> kept(field.nodes[node].cost.size(), true);
    kept[static_cast<std::size_t>(draw(random, static_cast<int>(kept.size())))] = false;
    const double rest = least_cost_where(field, [&](const Labels& labels, const FieldValue& value) {
      return value.peak <= field.limit && kept[static_cast<std::size_t>(labels[node])];
    });
    DualBound all(reduced);
    for (int i = 0; i < 20; ++i) all.iterate(kForbidden);
    DualBound some(all);
    some.renew();
    some.keep_only(node, kept);
    for (int i = 0; i < 20; ++i) {
      some.iterate(kForbidden);
      ASSERT_LE(some.value(), rest) << "round " << round;
    }
    ASSERT_LE(all.value(), least_cost(field)) << "the copy changed what it was copied from in round " << round;
    raised += some.value() > all.value() + 1.0;
  }
  EXPECT_GT(raised, 20);
}

}  // namespace
}  // namespace meshwright::portfolio::branch_and_bound_messages_test
