// SPDX-License-Identifier: Apache-2.0
// The intra-operator solvers against enumeration of all choices, and against each other where enumeration is too slow.
#include "core/solver/problem/sharding_problem.h"
#include "core/solver/elimination/solve_by_elimination.h"
#include "core/solver/glpk/solve_by_glpk.h"
#include "core/solver/solve.h"
#include "core/solver/solve_between.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/base/errors.h"
#include "core/solver/portfolio/portfolio.h"
#include "tests/oracle/enumeration.h"
#include "tests/oracle/random_problems.h"
#include "tests/refusal.h"

namespace meshwright::sharding_problem_test {
namespace {

using Pair = std::optional<Seconds>;  // nullopt: forbidden; also of a single strategy

// Three nodes in a row. Node costs are units, resharding hundreds, memory thousands of bytes.
ShardingProblem three_nodes() {
  ShardingProblem problem;
  problem.nodes = {{"up", {"S0R", "RS0"}, {Seconds(1), Seconds(2)}, {Bytes(1000), Bytes(2000)}, 0, 2},
                   {"act", {"S0R", "RS0"}, {Seconds(0), Seconds(0)}, {}, 1, 2},
                   {"down", {"S0R", "RS0"}, {Seconds(30), Seconds(40)}, {Bytes(4000), Bytes(8000)}, 1, 2}};
  problem.edges = {{0, 1, {Seconds(0), Seconds(100), Seconds(200), Seconds(0)}},
                   {1, 2, {Seconds(0), Seconds(300), std::nullopt, Seconds(0)}}};
  return problem;
}

void expect_feasible_with_cost(const ShardingProblem& problem, const ShardingSolution& solution, double cost) {
  const Evaluation evaluation = evaluate(problem, solution.choice);
  EXPECT_TRUE(evaluation.violations.empty()) << solution.method << ": " << evaluation.violations.front();
  EXPECT_DOUBLE_EQ(evaluation.total().si(), cost) << solution.method;
  EXPECT_DOUBLE_EQ(solution.cost.si(), cost) << solution.method;
  EXPECT_DOUBLE_EQ(solution.lower_bound.si(), cost) << solution.method;
}

TEST(Evaluate, AddsUpTheDecodableExample) {
  ShardingProblem problem = three_nodes();
  const Evaluation sound = evaluate(problem, {{1, 0, 1}});
  EXPECT_EQ(sound.node_cost, Seconds(42));   // 2 + 0 + 40
  EXPECT_EQ(sound.edge_cost, Seconds(500));  // 200 + 300
  EXPECT_EQ(sound.total(), Seconds(542));
  EXPECT_EQ(sound.peak_memory, Bytes(10000));  // step 1: 2000 + 8000
  EXPECT_TRUE(sound.violations.empty());
}

TEST(Evaluate, FlagsForbiddenStrategyAndPairMemoryAndMissingStrategies) {
  ShardingProblem problem = three_nodes();
  problem.memory_limit = Bytes(5000);
  const auto violations = [&](std::vector<int> strategy) {
    return evaluate(problem, {std::move(strategy)}).violations;
  };
  EXPECT_TRUE(violations({0, 0, 0}).empty());  // 1000 + 4000 is just within the limit
  EXPECT_EQ(violations({0, 1 /* wrong */, 0}), std::vector<std::string>{"act -> down: RS0 cannot be followed by S0R"});
  const auto memory = violations({1 /* wrong */, 0, 0});
  ASSERT_EQ(memory.size(), 1U);
  EXPECT_EQ(memory.front(), "time step 1 needs 6000 bytes, the limit is 5000");  // 2000 + 4000
  problem.nodes[1].cost[0] = std::nullopt;
  EXPECT_EQ(violations({0, 0 /* wrong */, 0}), std::vector<std::string>{"act: S0R cannot be taken"});
  EXPECT_EQ(violations({0, 2, 0}), std::vector<std::string>{"act: strategy 2 does not exist, it has 2"});
  EXPECT_EQ(violations({0, 0}), std::vector<std::string>{"the choice names 2 strategies for 3 nodes"});
}

TEST(Evaluate, CountsMemoryOnlyWhileItsIntervalHoldsTheStep) {
  ShardingProblem problem;
  for (const auto& [begin, end, bytes] :
       {std::tuple(0, 4, 1.0), {2, 5, 10.0}, {4, 6, 100.0}, {3, 3 /* never */, 1000.0}, {1, 2, 10000.0}})
    problem.nodes.push_back({"n", {}, {Seconds(0)}, {Bytes(bytes)}, begin, end});
  EXPECT_EQ(evaluate(problem, {{0, 0, 0, 0, 0}}).peak_memory, Bytes(10001));  // step 1
  problem.nodes[4].memory = {Bytes(0)};
  EXPECT_EQ(evaluate(problem, {{0, 0, 0, 0, 0}}).peak_memory, Bytes(110));  // step 4: the first has ended
  problem.memory_limit = Bytes(10);
  EXPECT_EQ(evaluate(problem, {{0, 0, 0, 0, 0}}).violations,
            (std::vector<std::string>{"time step 2 needs 11 bytes, the limit is 10",
                                      "time step 4 needs 110 bytes, the limit is 10"}));
}

TEST(Solve, EverySolverFindsTheDecodableOptimum) {
  ShardingProblem problem = three_nodes();
  for (const auto& solution : {solve(problem), solve_by_glpk(problem), solve_by_elimination(problem)}) {
    ASSERT_TRUE(solution.has_value());
    EXPECT_EQ(solution->choice, (ShardingChoice{{0, 0, 0}}));
    EXPECT_EQ(solution->cost, Seconds(31));  // 1 + 0 + 30
  }
  EXPECT_EQ(solve(problem)->method, "elimination");
  problem.memory_limit = Bytes(5000);  // the optimum's 1000 + 4000
  EXPECT_EQ(solve(problem)->method, "elimination");
  problem.memory_limit = Bytes(4999);
  EXPECT_FALSE(solve(problem).has_value());
}

// The portfolio proves what it finds without GLPK's help.
void expect_portfolio_finds(const ShardingProblem& problem, const std::optional<ShardingSolution>& truth) {
  portfolio::Options options;
  options.allow_glpk = false;
  const portfolio::Result found = portfolio::solve(portfolio::make_field(problem), options);
  EXPECT_EQ(found.proven_infeasible, !truth);
  ASSERT_EQ(found.labels.has_value(), truth.has_value());
  if (truth)
    expect_feasible_with_cost(problem, {{*found.labels}, Seconds(found.cost), Seconds(found.lower_bound), found.method},
                              truth->cost.si());
}

TEST(Solve, AgreesWithEnumerationAndGlpkOnAThousandRandomProblems) {
  constexpr unsigned kSeed = 20240501;
  constexpr int kProblems = 1000;
  RecordProperty("seed", kSeed);
  std::mt19937 random(kSeed);
  int infeasible = 0, memory_binds = 0;
  for (int n = 0; n < kProblems; ++n) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", problem " << n);
    ShardingProblem problem = random_problem(random, 6, 4, 0.1);
    const auto free = solve_by_enumeration(problem);
    for (const auto& solution : {solve(problem), solve_by_elimination(problem), solve_by_glpk(problem)}) {
      ASSERT_EQ(solution.has_value(), free.has_value());
      if (free) expect_feasible_with_cost(problem, *solution, free->cost.si());
    }
    expect_portfolio_finds(problem, free);
    problem.memory_limit = Bytes(std::uniform_int_distribution<int>(5, 60)(random));
    const auto limited = solve_by_enumeration(problem);
    infeasible += !limited;
    memory_binds += limited && limited->cost > free->cost;
    for (const auto& solution : {solve(problem), solve_by_glpk(problem)}) {
      ASSERT_EQ(solution.has_value(), limited.has_value());
      if (limited) expect_feasible_with_cost(problem, *solution, limited->cost.si());
    }
    expect_portfolio_finds(problem, limited);
  }
  std::cout << "seed " << kSeed << ": " << kProblems << " problems with and without a memory limit; with it "
            << infeasible << " are infeasible, and it binds in " << memory_binds << " others\n";
  EXPECT_GT(infeasible, kProblems / 20);
  EXPECT_GT(memory_binds, kProblems / 20);
  EXPECT_GT(kProblems - infeasible, kProblems / 2);
}

TEST(Solve, EliminationAgreesWithTheIlpOnLargerProblems) {
  constexpr unsigned kSeed = 77;
  std::mt19937 random(kSeed);
  int feasible = 0;
  for (int n = 0; n < 40; ++n) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", problem " << n);
    const ShardingProblem problem = random_problem(random, 14, 6, 0.05);
    const auto eliminated = solve_by_elimination(problem), ilp = solve_by_glpk(problem);
    ASSERT_EQ(eliminated.has_value(), ilp.has_value());
    if (!ilp) continue;
    ++feasible;
    expect_feasible_with_cost(problem, *eliminated, ilp->cost.si());
  }
  std::cout << "seed " << kSeed << ": 40 problems, " << feasible << " feasible\n";
  EXPECT_GT(feasible, 20);
}

TEST(Solve, MemoryLimitIsKeptToTheByte) {
  // 1 byte in 16 GiB is far below GLPK's tolerance of 1e-7: the cheap strategy must still be refused.
  ShardingProblem problem;
  const Bytes limit = gibibytes(16);
  problem.nodes = {{"a", {}, {Seconds(1), Seconds(2)}, {limit + Bytes(1), limit}, 0, 1}};
  problem.memory_limit = limit;
  ASSERT_TRUE(solve(problem).has_value());
  EXPECT_EQ(solve(problem)->choice, (ShardingChoice{{1}}));
  problem.nodes[0].memory[1] = limit + Bytes(1);
  EXPECT_FALSE(solve(problem).has_value());
}

TEST(Solve, IlpTellsNanosecondsApart) {
  // As numbers, costs in seconds are far below GLPK's tolerances.
  constexpr unsigned kSeed = 13;
  std::mt19937 random(kSeed);
  for (int n = 0; n < 40; ++n) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", problem " << n);
    ShardingProblem problem = random_problem(random, 10, 5, 0.05);
    for (auto& node : problem.nodes)
      for (Pair& cost : node.cost)
        if (cost) cost = 1e-9 * *cost;
    for (auto& edge : problem.edges)
      for (Pair& cost : edge.cost)
        if (cost) cost = 1e-9 * *cost;
    const auto eliminated = solve_by_elimination(problem), ilp = solve_by_glpk(problem);
    ASSERT_EQ(eliminated.has_value(), ilp.has_value());
    if (!ilp) continue;
    EXPECT_NEAR(ilp->cost.si(), eliminated->cost.si(), 1e-15);  // costs are whole nanoseconds
  }
}

TEST(Solve, ContradictionsThatOnlyIntegersShowAreInfeasible) {
  // Three nodes, two strategies, neighbours must differ: halves satisfy the linear program, but the cycle is odd.
  ShardingProblem problem;
  for (const char* name : {"a", "b", "c"}) problem.nodes.push_back({name, {}, {Seconds(1), Seconds(1)}, {}});
  for (const auto& [from, to] : {std::pair(0, 1), std::pair(1, 2), std::pair(0, 2)})
    problem.edges.push_back({from, to, {std::nullopt, Seconds(0), Seconds(0), std::nullopt}});
  EXPECT_FALSE(solve_by_glpk(problem).has_value());
  EXPECT_FALSE(solve_by_elimination(problem).has_value());
}

TEST(Solve, ContradictionsOfMemoryAndPairsAreInfeasible) {
  // Each node alone may take its small strategy, both together not; small and big together exceed the limit.
  ShardingProblem problem;
  for (const char* name : {"a", "b"})
    problem.nodes.push_back({name, {"small", "big"}, {Seconds(1), Seconds(1)}, {Bytes(10), Bytes(20)}, 0, 1});
  problem.edges = {{0, 1, {std::nullopt, Seconds(0), Seconds(0), Seconds(0)}}};
  problem.memory_limit = Bytes(30);
  EXPECT_TRUE(solve(problem).has_value());
  problem.memory_limit = Bytes(29);
  EXPECT_FALSE(solve(problem).has_value());
  EXPECT_FALSE(solve_by_glpk(problem).has_value());
}

TEST(Solve, HandlesNoNodesNoStrategiesAndSingleStrategies) {
  ShardingProblem problem;
  for (const auto& solution : {solve(problem), solve_by_glpk(problem)}) {
    ASSERT_TRUE(solution.has_value());
    EXPECT_EQ(solution->cost, Seconds(0));
  }
  problem.nodes = {{"only", {"R"}, {Seconds(7)}, {}}};
  EXPECT_EQ(solve_by_glpk(problem)->cost, Seconds(7));
  problem.nodes.push_back({"none", {}, {}, {}});
  EXPECT_FALSE(solve(problem).has_value());
  EXPECT_FALSE(solve_by_glpk(problem).has_value());
}

TEST(Solve, ProvesGraphsTooWideForElimination) {
  // A complete graph of 9 nodes with 10 strategies: the first table of elimination would have 10^8 entries. The pair
  // (p, p) is the only one allowed, so all nodes take the same strategy: 0 + 1 + ... + 8 nodes' costs of p = 3 are 0,
  // others 1.
  ShardingProblem problem;
  for (int i = 0; i < 9; ++i) {
    problem.nodes.push_back({fmt::format("n{}", i), {}, std::vector<Pair>(10, Seconds(1)), {}});
    problem.nodes.back().cost[3] = Seconds(0);
    for (int j = 0; j < i; ++j) {
      problem.edges.push_back({j, i, std::vector<Pair>(100)});
      for (int p = 0; p < 10; ++p) problem.edges.back().cost[11 * p] = Seconds(0);
    }
  }
  EXPECT_FALSE(fits_elimination(problem));
  EXPECT_THROW((void)solve_by_elimination(problem), InputError);
  const auto solution = solve(problem);
  ASSERT_TRUE(solution.has_value());
  EXPECT_EQ(solution->lower_bound, solution->cost);
  EXPECT_EQ(solution->choice, (ShardingChoice{std::vector<int>(9, 3)}));
}

TEST(Solve, IlpGivesTheSameOnTwoThreadsAtOnce) {
  std::mt19937 random(5);
  std::vector<ShardingProblem> problems;
  for (int n = 0; n < 20; ++n) problems.push_back(random_problem(random, 8, 4, 0.1));
  std::vector<std::optional<double>> costs[2];
  const auto solve_all = [&](int t) {
    for (const auto& problem : problems) {
      const auto solution = solve_by_glpk(problem);
      costs[t].push_back(solution ? std::optional(solution->cost.si()) : std::nullopt);
    }
  };
  std::thread other(solve_all, 1);
  solve_all(0);
  other.join();
  EXPECT_EQ(costs[0], costs[1]);
}

TEST(PairwiseCosts, AreTheCostsWithBothNodesFixed) {
  constexpr unsigned kSeed = 11;
  std::mt19937 random(kSeed);
  for (int n = 0; n < 100; ++n) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", problem " << n);
    const ShardingProblem problem = random_problem(random, 6, 3, 0.2);
    if (problem.nodes.size() < 2) continue;
    const int last = static_cast<int>(problem.nodes.size()) - 1;
    for (const auto& [a, b] : {std::pair(0, last), std::pair(last, 0)}) {
      const std::vector<Pair> costs = BetweenSolver(problem, a, b).costs();
      const std::size_t a_count = problem.nodes[a].cost.size(), b_count = problem.nodes[b].cost.size();
      ASSERT_EQ(costs.size(), a_count * b_count);
      EXPECT_EQ(BetweenSolver(problem, a, b).costs_pair_by_pair(), costs);
      for (std::size_t p = 0; p < a_count; ++p)
        for (std::size_t q = 0; q < b_count; ++q) {
          const auto fixed = fix_strategy(fix_strategy(problem, a, static_cast<int>(p)), b, static_cast<int>(q));
          const auto truth = solve_by_enumeration(fixed, /*with_memory=*/false);
          ASSERT_EQ(costs[p * b_count + q].has_value(), truth.has_value());
          if (!truth) continue;
          EXPECT_DOUBLE_EQ(costs[p * b_count + q]->si(), truth->cost.si());
        }
    }
  }
}

// Between two ends nine nodes of a clique take the same of ten strategies, of which number 3 costs nothing and each
// other 1 a node; an end goes with its own number alone. No pair's tables fit.
TEST(PairwiseCosts, OfWideProblemsAreFoundPairByPair) {
  constexpr int kBetween = 9, kEnds = 4;
  ShardingProblem problem;
  const auto strategies = [](int node) { return node == 0 || node == kBetween + 1 ? kEnds : 10; };
  for (int i = 0; i < kBetween + 2; ++i) {
    const bool end = strategies(i) == kEnds;
    problem.nodes.push_back({fmt::format("n{}", i), {}, std::vector<Pair>(strategies(i), Seconds(end ? 0 : 1)), {}});
    if (!end) problem.nodes.back().cost[3] = Seconds(0);
    for (int j = 0; j < i; ++j) {
      problem.edges.push_back({j, i, {}});
      for (int p = 0; p < strategies(j); ++p)
        for (int q = 0; q < strategies(i); ++q)
          problem.edges.back().cost.push_back(p == q ? Pair(Seconds(0)) : std::nullopt);
    }
  }
  const std::vector<Pair> costs = BetweenSolver(problem, 0, kBetween + 1).costs();
  ASSERT_EQ(costs.size(), kEnds * kEnds);
  for (int p = 0; p < kEnds; ++p)
    for (int q = 0; q < kEnds; ++q) {
      const Pair expected = p == q ? Pair(Seconds(p == 3 ? 0 : kBetween)) : std::nullopt;
      EXPECT_EQ(costs[static_cast<std::size_t>(kEnds * p + q)], expected) << p << " " << q;
    }
}

TEST(FixStrategy, LeavesOneStrategyAndItsPairs) {
  const ShardingProblem fixed = fix_strategy(three_nodes(), 1, 1);
  EXPECT_EQ(fixed.nodes[1].strategies, std::vector<std::string>{"RS0"});
  EXPECT_EQ(fixed.edges[0].cost, (std::vector<Pair>{Seconds(100), Seconds(0)}));
  EXPECT_EQ(fixed.edges[1].cost, (std::vector<Pair>{std::nullopt, Seconds(0)}));
  EXPECT_EQ(solve(fixed)->cost, Seconds(42));  // 2 + 0 + 40, no resharding
}

TEST(RequireConsistent, NamesWhatDoesNotFit) {
  const auto message = [](const ShardingProblem& problem) { return refusal([&] { require_consistent(problem); }); };
  ShardingProblem problem = three_nodes();
  EXPECT_EQ(message(problem), "not refused");
  problem.edges[1].cost.pop_back();
  EXPECT_EQ(message(problem),
            "sharding problem: edge 1 (act -> down) has 3 costs, but its ends have 4 pairs of strategies.");
  problem = three_nodes();
  problem.edges[0].to = 0;
  EXPECT_EQ(message(problem), "sharding problem: edge 0 goes from 0 to 0, but needs two different nodes of 0..2.");
  problem = three_nodes();
  problem.nodes[1].live_begin = 3;
  EXPECT_EQ(message(problem), "sharding problem: node 1 (act) is live from step 3 to 2; give 0 <= begin <= end.");
  problem = three_nodes();
  problem.nodes[2].memory[1] = Bytes(-1);
  EXPECT_EQ(message(problem), "sharding problem: node 2 (down) has a negative memory size; give 0 or more bytes.");
  problem = three_nodes();
  problem.memory_limit = Bytes(-1);
  EXPECT_EQ(message(problem), "sharding problem: the memory limit is -1; give a finite number of bytes, or none.");
}

}  // namespace
}  // namespace meshwright::sharding_problem_test
