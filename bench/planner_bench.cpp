// SPDX-License-Identifier: Apache-2.0
// How fast the planner's searches are: the intra-operator solvers, the layer cut and the stage search.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <random>

#include "core/planner/layers/cluster_layers.h"
#include "core/solver/elimination/solve_by_elimination.h"
#include "core/solver/glpk/solve_by_glpk.h"
#include "core/solver/problem/sharding_problem.h"
#include "core/solver/solve.h"
#include "core/solver/solve_between.h"

namespace meshwright {
namespace {

// Like a model graph: every node follows the one before it, every third also a node three before (a residual
// connection).
ShardingProblem chain_like_problem(int nodes, int strategies) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> milliseconds(0.0, 1e-3);
  ShardingProblem problem;
  for (int i = 0; i < nodes; ++i) {
    ShardingProblem::Node node{fmt::format("n{}", i), {}, {}, {}, i, i + 5};
    for (int p = 0; p < strategies; ++p) {
      node.cost.push_back(Seconds(milliseconds(random)));
      node.memory.push_back(Bytes(1e9 * std::uniform_int_distribution<int>(1, 8)(random)));
    }
    problem.nodes.push_back(std::move(node));
    for (int back : {1, 3}) {
      if (i < back || (back == 3 && i % 3 != 0)) continue;
      ShardingProblem::Edge edge{i - back, i, {}};
      for (int pair = 0; pair < strategies * strategies; ++pair) edge.cost.push_back(Seconds(milliseconds(random)));
      problem.edges.push_back(std::move(edge));
    }
  }
  return problem;
}

void solve_chain_by_elimination(benchmark::State& state) {
  const ShardingProblem problem =
      chain_like_problem(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  for (auto _ : state) benchmark::DoNotOptimize(solve_by_elimination(problem));
}
BENCHMARK(solve_chain_by_elimination)->Args({40, 8})->Args({200, 16})->Args({2000, 16})->Unit(benchmark::kMillisecond);

void solve_chain_by_glpk(benchmark::State& state) {
  const ShardingProblem problem =
      chain_like_problem(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  for (auto _ : state) benchmark::DoNotOptimize(solve_by_glpk(problem));
}
BENCHMARK(solve_chain_by_glpk)->Args({40, 4})->Args({40, 8})->Unit(benchmark::kMillisecond);

// Five nodes of mean size 4.5 GB are live at a time; the unconstrained optimum exceeds this limit.
void solve_chain_within_memory(benchmark::State& state) {
  ShardingProblem problem = chain_like_problem(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  problem.memory_limit = Bytes(2e10);
  for (auto _ : state) benchmark::DoNotOptimize(solve(problem));
}
BENCHMARK(solve_chain_within_memory)->Args({40, 4})->Unit(benchmark::kMillisecond);

// Every pair of the ends' strategies: by one BetweenSolver, and each from the beginning.
void solve_between_ends(benchmark::State& state) {
  const ShardingProblem problem = chain_like_problem(40, 16);
  for (auto _ : state) {
    BetweenSolver between(problem, 0, 39);
    for (int pair = 0; pair < 16 * 16; ++pair) benchmark::DoNotOptimize(between.solve(pair / 16, pair % 16));
  }
}
BENCHMARK(solve_between_ends)->Unit(benchmark::kMillisecond);

void solve_fixed_ends(benchmark::State& state) {
  const ShardingProblem problem = chain_like_problem(40, 16);
  for (auto _ : state)
    for (int pair = 0; pair < 16 * 16; ++pair)
      benchmark::DoNotOptimize(solve(fix_strategy(fix_strategy(problem, 0, pair / 16), 39, pair % 16)));
}
BENCHMARK(solve_fixed_ends)->Unit(benchmark::kMillisecond);

void cut_layers(benchmark::State& state) {
  const int ops = static_cast<int>(state.range(0));
  std::mt19937 random(2);
  LayerClusteringInput input;
  for (int op = 0; op < ops; ++op) {
    input.flops.push_back(Flops(op % 3 == 0 ? 1e9 : 0));
    if (op + 4 < ops)
      input.uses.push_back({op, {op + 1, op + 4}, Bytes(std::uniform_int_distribution<int>(1, 1000)(random))});
  }
  input.layers = static_cast<int>(state.range(1));
  for (auto _ : state) benchmark::DoNotOptimize(cluster_layers(input));
}
BENCHMARK(cut_layers)->Args({1000, 32})->Args({2000, 64})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace meshwright
