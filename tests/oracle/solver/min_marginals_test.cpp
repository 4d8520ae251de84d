// SPDX-License-Identifier: Apache-2.0
// Min-marginals of one elimination against fixing every strategy in turn and solving what is left.
#include "core/solver/elimination/min_marginals.h"
#include "core/solver/elimination/solve_by_elimination.h"

#include <gtest/gtest.h>

#include "core/planner/intra_op/explain.h"
#include "tests/oracle/enumeration.h"
#include "tests/oracle/random_problems.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::min_marginals_test {
namespace {

template <class Solve>
void expect_as_fixed_one_by_one(const ShardingProblem& problem, Solve solve_fixed, int& feasible, int& infeasible) {
  const auto marginals = MinMarginals::of(problem);
  ASSERT_TRUE(marginals.has_value());
  for (int i = 0; i < static_cast<int>(problem.nodes.size()); ++i)
    for (int p = 0; p < static_cast<int>(problem.nodes[i].cost.size()); ++p) {
      const std::optional<ShardingSolution> truth = solve_fixed(fix_strategy(problem, i, p));
      const auto least = marginals->least(i, p);
      ASSERT_EQ(least.has_value(), truth.has_value()) << "node " << i << ", strategy " << p;
      ++(truth ? feasible : infeasible);
      if (!truth) continue;
      EXPECT_DOUBLE_EQ(least->si(), truth->cost.si()) << "node " << i << ", strategy " << p;
      const ShardingChoice choice = marginals->choice(i, p, {std::vector<int>(problem.nodes.size(), 0)});
      EXPECT_EQ(choice.strategy.at(i), p);
      EXPECT_EQ(sharding_cost(problem, choice.strategy, /*with_memory=*/false), truth->cost.si())
          << "node " << i << ", strategy " << p;
    }
}

TEST(MinMarginals, AreTheCostsByEnumerationWithEachStrategyFixed) {
  std::mt19937 random(31);
  int feasible = 0, infeasible = 0;
  for (int n = 0; n < 200; ++n) {
    SCOPED_TRACE(n);
    expect_as_fixed_one_by_one(
        random_problem(random, 6, 4, 0.25),
        [](const ShardingProblem& fixed) { return solve_by_enumeration(fixed, /*with_memory=*/false); }, feasible,
        infeasible);
  }
  EXPECT_GT(feasible, 500);
  EXPECT_GT(infeasible, 100);
}

// Tables over several nodes, so that what is above a bucket is decided in more than one step.
TEST(MinMarginals, AreTheCostsBySolvingWithEachStrategyFixed) {
  std::mt19937 random(32);
  int feasible = 0, infeasible = 0;
  for (int n = 0; n < 30; ++n) {
    SCOPED_TRACE(n);
    expect_as_fixed_one_by_one(random_problem(random, 16, 6, 0.08), solve_by_elimination, feasible, infeasible);
  }
  EXPECT_GT(feasible, 500);
}

TEST(MinMarginals, IgnoreTheMemoryLimit) {
  ShardingProblem problem;
  problem.nodes = {{"a", {}, {Seconds(1), Seconds(2)}, {Bytes(9), Bytes(8)}, 0, 1}};
  problem.memory_limit = Bytes(5);
  EXPECT_EQ(MinMarginals::of(problem)->least(0, 1), Seconds(2));
}

// Node 1 may take either strategy at the same cost; node 2 has one that is better, whatever is liked.
TEST(MinMarginals, TakeWhatIsLikedWhereItCostsNoMore) {
  ShardingProblem problem;
  problem.nodes = {{"a", {}, {Seconds(0.1), Seconds(0.7)}, {}},
                   {"b", {}, {Seconds(0.3), Seconds(0.3)}, {}},
                   {"c", {}, {Seconds(2), Seconds(1)}, {}}};
  problem.edges = {{0, 1, std::vector(4, std::optional(Seconds(0.2)))}};
  const auto marginals = MinMarginals::of(problem);
  ASSERT_TRUE(marginals.has_value());
  for (int liked : {0, 1}) {
    EXPECT_EQ(marginals->choice(0, 1, {{0, liked, 0}}), (ShardingChoice{{1, liked, 1}}));
    EXPECT_EQ(marginals->choice(2, 0, {{0, liked, 0}}), (ShardingChoice{{0, liked, 0}}));
  }
}

TEST(MinMarginals, OfANodeWithoutStrategiesLeaveTheOthersNone) {
  ShardingProblem problem;
  problem.nodes = {{"a", {}, {Seconds(1), Seconds(2)}, {}}, {"none", {}, {}, {}}};
  problem.edges = {{0, 1, {}}};
  const auto marginals = MinMarginals::of(problem);
  ASSERT_TRUE(marginals.has_value());
  EXPECT_EQ(marginals->least(0, 0), std::nullopt);
  EXPECT_EQ(marginals->least(0, 1), std::nullopt);
}

// A cycle of four nodes with two strategies each: tables over 2, 2, 1 and 0 nodes, 4 + 4 + 2 + 1 entries.
TEST(MinMarginals, AreNotMadeWhereTheirTablesAreTooLarge) {
  ShardingProblem problem;
  for (int i = 0; i < 4; ++i) problem.nodes.push_back({"n", {}, std::vector(2, std::optional(Seconds(i))), {}});
  for (int i = 0; i < 4; ++i) problem.edges.push_back({i, (i + 1) % 4, std::vector(4, std::optional(Seconds(10)))});
  EXPECT_FALSE(MinMarginals::of(problem, 10.0).has_value());
  EXPECT_TRUE(MinMarginals::of(problem, 11.0).has_value());
  EXPECT_EQ(MinMarginals::of(problem)->least(2, 1), Seconds(0 + 1 + 2 + 3 + 40));
}

// --- explanations of plans ---

// One elimination per layer, and a solution for every way, as where tables are too large. Bytes are not compared:
// layers that are equally fast take different ones.
TEST(ExplainPlan, PricesEveryWayAsASolutionOfItsOwnDoes) {
  int ways = 0;
  for (const auto& [model, mesh] :
       {std::pair{"mlp:layers=2,hidden=16", std::vector{2, 2}},
        std::pair{"gpt:layers=1,hidden=32,heads=4,seq=8,vocab=32", std::vector{1, 4}},
        std::pair{"llama:layers=1,hidden=32,heads=4,kv_heads=2,intermediate=64,seq=8,vocab=32", std::vector{1, 4}}}) {
    PlanRequest request = ask(model, "cpu:4", "shard", 16, 2);
    request.training.dtype = DType::F32;
    request.search.layers = 1;
    request.search.logical_mesh = mesh;
    const PlanningResult result = planned(request);
    ASSERT_TRUE(result.plan) << result.reason;
    const auto costs = make_analytic_cost_model(result.plan->cluster);
    const auto at_once = explain_plan(*result.plan, result.graph, *costs, "");
    const auto one_by_one = explain_plan(*result.plan, result.graph, *costs, "", /*max_entries=*/0.0);
    ASSERT_EQ(at_once.size(), one_by_one.size());
    for (std::size_t i = 0; i < at_once.size(); ++i) {
      EXPECT_EQ(at_once[i].method, ExplainMethod::MinMarginals);
      EXPECT_EQ(one_by_one[i].method, ExplainMethod::Solves);
      std::map<ShardingSpec, const Alternative*> truth;
      for (const Alternative& way : one_by_one[i].alternatives) truth[way.spec] = &way;
      ASSERT_EQ(at_once[i].alternatives.size(), truth.size()) << at_once[i].tensor;
      for (const Alternative& way : at_once[i].alternatives) {
        ASSERT_TRUE(truth.contains(way.spec)) << at_once[i].tensor << " " << way.strategy;
        const Alternative& other = *truth.at(way.spec);
        EXPECT_EQ(way.chosen, other.chosen) << at_once[i].tensor << " " << way.strategy;
        EXPECT_NEAR(way.time.si(), other.time.si(), 1e-12 * other.time.si()) << at_once[i].tensor << way.strategy;
        EXPECT_EQ(way.bound, way.time) << at_once[i].tensor << " " << way.strategy;
        EXPECT_EQ(other.bound, other.time) << at_once[i].tensor << " " << way.strategy;
        ++ways;
      }
    }
  }
  EXPECT_GT(ways, 300);
}

}  // namespace
}  // namespace meshwright::min_marginals_test
