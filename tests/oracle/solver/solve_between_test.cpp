// SPDX-License-Identifier: Apache-2.0
// BetweenSolver against solving each pair's own problem from the beginning.
#include "core/solver/solve_between.h"
#include "core/solver/elimination/solve_by_elimination.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/oracle/plain_elimination.h"
#include "tests/oracle/random_problems.h"

namespace meshwright::solve_between_test {
namespace {

// What BetweenSolver stands for.
std::optional<ShardingChoice> solve_fixed(const ShardingProblem& problem, int a, int p, int b, int q) {
  auto solution = solve_by_elimination(fix_strategy(fix_strategy(problem, a, p), b, q));
  if (!solution) return std::nullopt;
  solution->choice.strategy[static_cast<std::size_t>(a)] = p;
  solution->choice.strategy[static_cast<std::size_t>(b)] = q;
  return std::move(solution->choice);
}

int strategies(const ShardingProblem& problem, int node) {
  return static_cast<int>(problem.nodes[static_cast<std::size_t>(node)].cost.size());
}

TEST(BetweenSolver, ChoosesAsEveryPairsOwnProblemDoes) {
  constexpr unsigned kSeed = 23;
  std::mt19937 random(kSeed);
  int solved = 0;
  for (int n = 0; n < 200; ++n) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", problem " << n);
    ShardingProblem problem = random_problem(random, 12, 4, 0.15);
    // Every second one has many optima: which of them is chosen must be the same too.
    if (n % 2 == 1)
      for (ShardingProblem::Edge& edge : problem.edges)
        for (auto& cost : edge.cost)
          if (cost) cost = Seconds(static_cast<double>(random() % 2));
    problem.memory_limit = std::nullopt;
    const int last = static_cast<int>(problem.nodes.size()) - 1;
    if (last < 1) continue;
    for (const auto& [a, b] : {std::pair(0, last), std::pair(last, 0), std::pair(last / 2, last)}) {
      if (a == b) continue;
      BetweenSolver between(problem, a, b);
      EXPECT_EQ(between.costs(), PlainElimination(problem).pairwise_costs(a, b));
      for (int p = 0; p < strategies(problem, a); ++p)
        for (int q = 0; q < strategies(problem, b); ++q) {
          const auto truth = solve_fixed(problem, a, p, b, q);
          EXPECT_EQ(between.solve(p, q), truth);
          if (truth) ++solved;
        }
    }
  }
  EXPECT_GT(solved, 500);
}

TEST(BetweenSolver, TakesTheGivenStrategies) {
  // Three nodes in a chain; the middle follows its neighbours: 10 for each that it differs from, and 1 for strategy 1.
  ShardingProblem problem;
  for (const char* name : {"left", "middle", "right"})
    problem.nodes.push_back({name, {}, {Seconds(0), Seconds(1)}, {}, 0, 0});
  const std::vector<std::optional<Seconds>> differ = {Seconds(0), Seconds(10), Seconds(10), Seconds(0)};
  problem.edges = {{0, 1, differ}, {1, 2, differ}};
  BetweenSolver between(problem, 0, 2);
  EXPECT_EQ(between.solve(1, 1)->strategy, (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(between.solve(0, 1)->strategy, (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(between.solve(1, 0)->strategy, (std::vector<int>{1, 0, 0}));
}

}  // namespace
}  // namespace meshwright::solve_between_test
