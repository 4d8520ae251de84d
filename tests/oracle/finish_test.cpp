// SPDX-License-Identifier: Apache-2.0
// The exact end game against enumeration of all labels, and its ways against each other where that is too slow.
#include "core/planner/portfolio/finish.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/planner/portfolio/branch_and_bound.h"
#include "core/planner/portfolio/branch_and_bound_search.h"
#include "core/planner/portfolio/elimination.h"
#include "core/planner/portfolio/lazy_glpk.h"
#include "tests/unit/training_fields.h"

namespace meshwright::portfolio {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

struct Draw {
  std::mt19937 random;
  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random); }
};

void add_edge(Field& field, int u, int v, double forbidden, Draw& draw) {
  Field::Edge edge{u, v, {}};
  for (int n = field.labels(u) * field.labels(v); n > 0; --n)
    edge.cost.push_back(draw.chance(forbidden) ? kForbidden : draw.between(-20, 80));
  field.edges.push_back(std::move(edge));
}

// Whole costs times `unit`, some negative, some pairs and labels forbidden; memory on most nodes in steps 0..5.
Field random_field(Draw& draw, int most_nodes, int most_labels, double unit) {
  Field field;
  field.constant = draw.between(-50, 50);
  const int count = draw.between(1, most_nodes);
  for (int i = 0; i < count; ++i) {
    Field::Node node;
    node.begin = draw.between(0, 4);
    node.end = draw.between(node.begin, 6);
    const bool has_memory = draw.chance(0.8);
    for (int x = draw.between(1, most_labels); x > 0; --x) {
      node.cost.push_back(draw.chance(0.04) ? kForbidden : draw.between(-20, 99));
      if (has_memory) node.memory.push_back(draw.between(0, 20));
    }
    field.nodes.push_back(std::move(node));
  }
  for (int u = 0; u < count; ++u)
    for (int v = 0; v < count; ++v)
      if (u < v ? draw.chance(0.3) : u > v && draw.chance(0.05)) {
        const bool joined = std::any_of(field.edges.begin(), field.edges.end(),
                                        [&](const Field::Edge& e) { return e.u == v && e.v == u; });
        if (!joined) add_edge(field, u, v, 0.1, draw);
      }
  if (draw.chance(0.85)) field.limit = draw.between(0, 15 * count);
  field.constant *= unit;
  for (Field::Node& node : field.nodes)
    for (double& cost : node.cost) cost *= unit;
  for (Field::Edge& edge : field.edges)
    for (double& cost : edge.cost) cost *= unit;
  return field;
}

// The least cost over all labels for which `wanted` holds; infinity: there are none.
template <class Wanted>
double enumerate(const Field& field, const Wanted& wanted) {
  double best = kForbidden;
  Labels labels(field.nodes.size(), 0);
  for (;;) {
    const FieldValue value = evaluate(field, labels);
    if (value.cost < best && wanted(labels, value)) best = value.cost;
    std::size_t i = 0;
    while (i < labels.size() && ++labels[i] == field.labels(static_cast<int>(i))) labels[i++] = 0;
    if (i == labels.size()) return best;
  }
}

double optimum(const Field& field) {
  return enumerate(field, [&](const Labels&, const FieldValue& value) { return value.peak <= field.limit; });
}

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
  Draw draw{std::mt19937(1)};
  int infeasible = 0;
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(trial);
    const Field field = random_field(draw, 7, 4, trial % 3 == 0 ? 1.37e-5 : trial % 3 == 1 ? 1.0 : 1e10);
    const double expected = optimum(field);
    infeasible += expected == kForbidden;
    FinishOptions options;
    options.allow_glpk = trial % 2 == 0;
    expect_optimal(field, finish(unreduced(field), options), expected);
  }
  EXPECT_GT(infeasible, 20);
  EXPECT_LT(infeasible, 250);
}

TEST(Finish, IsExactWhereTablesAreSplit) {
  Draw draw{std::mt19937(2)};
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const Field field = random_field(draw, 7, 4, 1.0);
    FinishOptions options;
    options.allow_glpk = false;
    options.largest_table = 4.0;
    expect_optimal(field, finish(unreduced(field), options), optimum(field));
  }
}

TEST(Finish, LooksOnlyBelowTheUpperBound) {
  Draw draw{std::mt19937(3)};
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const Field field = random_field(draw, 6, 4, 1.0);
    const double best = optimum(field);
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
  Draw draw{std::mt19937(4)};
  for (int trial = 0; trial < 100; ++trial) {
    const Field field = random_field(draw, 6, 4, 1.0);
    FinishOptions options;
    options.budget.limit_s = 0.0;
    const Finish found = finish(unreduced(field), options);
    const double best = optimum(field);
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
    options.most_work = work;
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
  Draw draw{std::mt19937(10)};
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(trial);
    Field field = random_field(draw, 7, 4, 1.0);
    // Costs of a common step of 1 whose differences are units, or nearly as large as they are themselves.
    if (trial % 2 == 0) {
      field.constant += 9e11;
    } else {
      for (Field::Node& node : field.nodes)
        for (double& cost : node.cost) cost += 1e11 * draw.between(0, 1);
    }
    const double expected = optimum(field);
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
      const LazyGlpk glpk = solve_by_lazy_glpk(reduced, kForbidden, {});
      ASSERT_TRUE(glpk.complete);
      ASSERT_TRUE(glpk.labels.has_value());
      expect_optimal(field, found, evaluate(field, *glpk.labels).cost);
    }
}

TEST(LazyGlpk, FindsTheOptimumBelowItsCut) {
  Draw draw{std::mt19937(6)};
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const Field field = random_field(draw, 6, 4, 1.0);
    const double best = optimum(field);
    const LazyGlpk all = solve_by_lazy_glpk(unreduced(field), kForbidden, {});
    EXPECT_TRUE(all.complete);
    ASSERT_EQ(all.labels.has_value(), best != kForbidden);
    if (!all.labels) continue;
    EXPECT_EQ(evaluate(field, *all.labels).cost, best);
    EXPECT_LE(evaluate(field, *all.labels).peak, field.limit);
    EXPECT_LE(all.lower_bound, best);
    const LazyGlpk none = solve_by_lazy_glpk(unreduced(field), best - 0.5, {});
    EXPECT_TRUE(none.complete);
    EXPECT_FALSE(none.labels.has_value());
  }
}

TEST(Elimination, GivesTheLeastCostAndAllMinMarginals) {
  Draw draw{std::mt19937(7)};
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const Field field = random_field(draw, 7, 4, 1.0);
    const EliminationPlan plan(field, elimination_order(field, kForbidden)->nodes, kForbidden);
    ASSERT_TRUE(plan.exact());
    Elimination elimination(plan);
    const auto any = [](const Labels&, const FieldValue&) { return true; };
    const double least = elimination.run(side_by_side(field)) + field.constant;
    ASSERT_EQ(least, enumerate(field, any));
    if (least == kForbidden) continue;
    Labels labels;
    elimination.decode(labels);
    EXPECT_EQ(evaluate(field, labels).cost, least);
    std::vector<double> marginals;
    elimination.min_marginals(marginals);
    for (int i = 0; i < static_cast<int>(field.nodes.size()); ++i)
      for (int x = 0; x < field.labels(i); ++x)
        EXPECT_EQ(marginals[plan.first()[at(i)] + at(x)] + field.constant,
                  enumerate(field, [&](const Labels& l, const FieldValue&) { return l[at(i)] == x; }));
  }
}

TEST(Elimination, NeverExceedsTheLeastCostWhereTablesAreSplitAndRisesByMatching) {
  Draw draw{std::mt19937(8)};
  double risen = 0.0;
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const Field field = random_field(draw, 8, 3, 1.0);
    const EliminationPlan plan(field, bounded_elimination_order(field, 3.0), 3.0);
    Elimination elimination(plan);
    const double least = enumerate(field, [](const Labels&, const FieldValue&) { return true; });
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
                enumerate(field, [&](const Labels& l, const FieldValue&) { return l[0] == x; }) + 1e-9);
  }
  EXPECT_GT(risen, 100.0);
}

TEST(RowDual, NeverExceedsTheOptimumAndSearchClosesTheRest) {
  Draw draw{std::mt19937(9)};
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const Field field = random_field(draw, 7, 4, 1.0);
    const Reduced reduced = unreduced(field);
    const double best = optimum(field);
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
}  // namespace meshwright::portfolio
