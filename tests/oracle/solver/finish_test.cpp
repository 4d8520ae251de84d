// SPDX-License-Identifier: Apache-2.0
// The exact end game against enumeration of all labels, and its ways against each other where that is too slow.
#include "core/solver/portfolio/finish.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/solver/branch_and_bound/branch_and_bound.h"
#include "core/solver/branch_and_bound/branch_and_bound_search.h"
#include "core/solver/elimination/elimination.h"
#include "core/solver/glpk/solve_by_glpk.h"
#include "tests/unit/random_fields.h"
#include "tests/unit/training_fields.h"

namespace meshwright::portfolio::finish_test {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

void expect_optimal(const Field& field, const Finish& found, double expected) {
  EXPECT_TRUE(found.complete) << found.method;
  ASSERT_EQ(found.labels.has_value(), expected != kForbidden) << found.method << ", expected " << expected;
  if (!found.labels) return;
  const FieldValue value = evaluate(field, *found.labels);
  const double tolerance = 1e-9 * std::abs(expected);
  EXPECT_NEAR(value.cost, expected, tolerance) << found.method;
  EXPECT_NEAR(found.cost, value.cost, tolerance);
  EXPECT_NEAR(found.lower_bound, expected, tolerance);
  EXPECT_LE(value.peak, field.limit);
}

TEST(Finish, FindsTheOptimumOrProvesThatThereIsNone) {
  std::mt19937 random(1);
  int infeasible = 0;
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(trial);
    const Field field = varied_field(random, 7, 4, trial % 3 == 0 ? 1.37e-5 : trial % 3 == 1 ? 1.0 : 1e10);
    const double expected = least_cost(field);
    infeasible += expected == kForbidden;
    FinishOptions options;
    options.allow_glpk = trial % 2 == 0;
    expect_optimal(field, finish(unreduced(field), options), expected);
  }
  EXPECT_GT(infeasible, 20);
  EXPECT_LT(infeasible, 250);
}

TEST(Finish, IsExactWhereTablesAreSplit) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const Field field = varied_field(random, 7, 4);
    FinishOptions options;
    options.allow_glpk = false;
    options.max_table = 4.0;
    expect_optimal(field, finish(unreduced(field), options), least_cost(field));
  }
}

TEST(Finish, LooksOnlyBelowTheUpperBound) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const Field field = varied_field(random, 6, 4);
    const double best = least_cost(field);
    if (best == kForbidden) continue;
    FinishOptions options;
    options.upper_bound = best + 1.0;
    expect_optimal(field, finish(unreduced(field), options), best);
    options.upper_bound = best;
    const Finish none = finish(unreduced(field), options);
    EXPECT_TRUE(none.complete);
    EXPECT_FALSE(none.labels.has_value());
    EXPECT_EQ(none.lower_bound, best);
  }
}

TEST(Finish, GivesAValidBoundWithoutAnyTime) {
  std::mt19937 random(4);
  for (int trial = 0; trial < 100; ++trial) {
    const Field field = varied_field(random, 6, 4);
    FinishOptions options;
    options.budget.limit_s = 0.0;
    const Finish found = finish(unreduced(field), options);
    const double best = least_cost(field);
    EXPECT_LE(found.lower_bound, best);
    if (found.labels) {
      EXPECT_GE(found.cost, best);
    }
  }
}

TEST(Finish, GivesAValidBoundWhereverTheTimeEnds) {
  const Field field = training_field(60, 5, 0.3);
  const Finish full = finish(unreduced(field), {});
  ASSERT_TRUE(full.complete);
  for (int asked = 1; asked < 200; asked += 7) {
    int calls = 0;
    FinishOptions options;
    options.budget.limit_s = 1.0;
    options.budget.elapsed = [&] { return ++calls > asked ? 2.0 : 0.0; };
    const Finish found = finish(unreduced(field), options);
    EXPECT_LE(found.lower_bound, full.cost);
    if (found.labels) {
      EXPECT_GE(found.cost, full.cost);
    }
    if (found.complete) {
      EXPECT_EQ(found.cost, full.cost);
    }
  }
}

TEST(Finish, GivesAValidBoundWhereverItsWorkEndsAndTheOptimumWithEnoughOfIt) {
  const Field field = training_field(100, 12, 0.05);
  const Finish full = finish(unreduced(field), {});
  ASSERT_TRUE(full.complete);
  int open = 0;
  bool complete = false;
  for (double work = 1.0; work < 1e12 && !complete; work *= 3.0) {
    FinishOptions options;
    options.allow_glpk = false;
    options.max_work = work;
    const Finish found = finish(unreduced(field), options);
    EXPECT_LE(found.lower_bound, full.cost);
    if (found.labels) {
      EXPECT_GE(found.cost, full.cost);
    }
    complete = found.complete;
    if (complete) {
      EXPECT_EQ(found.cost, full.cost);
    }
    open += complete ? 0 : 1;
  }
  EXPECT_TRUE(complete);
  EXPECT_GT(open, 3);
}

TEST(Finish, TellsWholeCostsOfATrillionApart) {
  std::mt19937 random(10);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(trial);
    Field field = varied_field(random, 7, 4);
    // Costs of a common step of 1 whose differences are units, or nearly as large as they are themselves.
    if (trial % 2 == 0) {
      field.constant += 9e11;
    } else {
      for (Field::Node& node : field.nodes)
        for (double& cost : node.cost) cost += 1e11 * draw(random, 2);
    }
    const double expected = least_cost(field);
    FinishOptions options;
    options.allow_glpk = false;
    const Finish found = finish(unreduced(field), options);
    EXPECT_TRUE(found.complete);
    EXPECT_EQ(found.cost, expected);
    if (expected == kForbidden) continue;
    EXPECT_EQ(found.lower_bound, expected);
    options.upper_bound = expected + 1.0;
    EXPECT_EQ(finish(unreduced(field), options).cost, expected);
  }
}

TEST(Finish, AgreesWithGlpkOnTrainingGraphs) {
  for (unsigned seed = 1; seed <= 4; ++seed)
    for (double tightness : {0.05, 0.4, 0.8}) {
      const Field field = training_field(24, seed, tightness);
      const Reduced reduced = unreduced(field);
      FinishOptions options;
      options.allow_glpk = false;
      const Finish found = finish(reduced, options);
      const GlpkResult glpk = solve_by_lazy_glpk(reduced, kForbidden, {});
      ASSERT_TRUE(glpk.complete);
      ASSERT_TRUE(glpk.labels.has_value());
      expect_optimal(field, found, evaluate(field, *glpk.labels).cost);
    }
}

TEST(LazyGlpk, FindsTheOptimumBelowItsCut) {
  std::mt19937 random(6);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const Field field = varied_field(random, 6, 4);
    const double best = least_cost(field);
    const GlpkResult all = solve_by_lazy_glpk(unreduced(field), kForbidden, {});
    EXPECT_TRUE(all.complete);
    ASSERT_EQ(all.labels.has_value(), best != kForbidden);
    if (!all.labels) continue;
    EXPECT_EQ(evaluate(field, *all.labels).cost, best);
    EXPECT_LE(evaluate(field, *all.labels).peak, field.limit);
    EXPECT_LE(all.lower_bound, best);
    const GlpkResult none = solve_by_lazy_glpk(unreduced(field), best - 0.5, {});
    EXPECT_TRUE(none.complete);
    EXPECT_FALSE(none.labels.has_value());
  }
}

TEST(Elimination, GivesTheLeastCostAndAllMinMarginals) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const Field field = varied_field(random, 7, 4);
    const EliminationPlan plan(field, elimination_order(field, kForbidden)->nodes, kForbidden);
    ASSERT_TRUE(plan.exact());
    Elimination elimination(plan);
    const auto any = [](const Labels&, const FieldValue&) { return true; };
    const double least = elimination.run(side_by_side(field)) + field.constant;
    ASSERT_EQ(least, least_cost_where(field, any));
    if (least == kForbidden) continue;
    Labels labels;
    elimination.decode(labels);
    EXPECT_EQ(evaluate(field, labels).cost, least);
    std::vector<double> marginals;
    elimination.min_marginals(marginals);
    for (int i = 0; i < static_cast<int>(field.nodes.size()); ++i)
      for (int x = 0; x < field.labels(i); ++x)
        EXPECT_EQ(marginals[plan.first()[i] + at(x)] + field.constant,
                  least_cost_where(field, [&](const Labels& l, const FieldValue&) { return l[at(i)] == x; }));
  }
}

TEST(Elimination, NeverExceedsTheLeastCostWhereTablesAreSplitAndRisesByMatching) {
  std::mt19937 random(8);
  double risen = 0.0;
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const Field field = varied_field(random, 8, 3);
    const EliminationPlan plan(field, bounded_elimination_order(field, 3.0), 3.0);
    Elimination elimination(plan);
    const double least = least_cost_where(field, [](const Labels&, const FieldValue&) { return true; });
    const double first = elimination.run(side_by_side(field)) + field.constant;
    EXPECT_LE(first, least);
    if (least == kForbidden) continue;
    double best = first;
    for (int pass = 0; pass < 20; ++pass) {
      elimination.match(0.2);
      const double value = elimination.run(side_by_side(field)) + field.constant;
      EXPECT_LE(value, least + 1e-9);
      best = std::max(best, value);
    }
    risen += best - first;
    std::vector<double> marginals;
    elimination.min_marginals(marginals);
    for (int x = 0; x < field.labels(0); ++x)
      EXPECT_LE(marginals[at(x)] + field.constant,
                least_cost_where(field, [&](const Labels& l, const FieldValue&) { return l[0] == x; }) + 1e-9);
  }
  EXPECT_GT(risen, 100.0);
}

TEST(RowDual, NeverExceedsTheOptimumAndSearchClosesTheRest) {
  std::mt19937 random(9);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const Field field = varied_field(random, 7, 4);
    const Reduced reduced = unreduced(field);
    const double best = least_cost(field);
    if (best == kForbidden || reduced.row_limit.empty()) continue;
    const EliminationPlan plan(field, elimination_order(field, kForbidden)->nodes, kForbidden);
    RowDual dual(reduced, plan);
    dual.ascend({}, kForbidden, 100, {});
    EXPECT_LE(dual.value(), best + 1e-9);
    if (dual.labels()) {
      EXPECT_GE(dual.cost(), best);
    }
    std::vector<int> watched;
    for (int r = 0; r < static_cast<int>(reduced.row_limit.size()); ++r) watched.push_back(r);
    TreeSearch tree(reduced, plan, {dual.multipliers()}, watched);
    const SearchResult all = tree.run(best + 1.0, 100000, {});
    EXPECT_EQ(all.cost, best);
    EXPECT_EQ(all.left_out, kForbidden);
    const SearchResult narrow = tree.run(best + 1.0, 1, {});
    EXPECT_LE(std::min(narrow.left_out, narrow.cost), best + 1e-9);
    TreeSearch blind(reduced, plan, {dual.multipliers()}, {});
    const SearchResult unwatched = blind.run(best + 1.0, 100000, {});
    EXPECT_LE(std::min({unwatched.left_out, unwatched.broken, unwatched.cost}), best + 1e-9);
    EXPECT_EQ(unwatched.broken == kForbidden, unwatched.broken_rows.empty());
  }
}

}  // namespace
}  // namespace meshwright::portfolio::finish_test
