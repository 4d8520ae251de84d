// SPDX-License-Identifier: Apache-2.0
// How fast the planner's searches are: the intra-operator solvers, the layer cut and the stage search.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <random>

#include "core/planner/choose_pipeline.h"
#include "core/planner/cluster_layers.h"
#include "core/planner/sharding_problem.h"

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

// All stage times differ. Proportional: about what the work of the layers takes on the submesh, give or take a half (as
// in real tables); otherwise times say nothing about layers and devices.
StageTable random_table(int layers, const std::vector<Submesh>& submeshes, int options, bool proportional) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> factor(0.5, 1.5);
  StageTable table(layers, submeshes);
  for (int first = 0; first < layers; ++first)
    for (int last = first; last < layers; ++last)
      for (int m = 0; m < static_cast<int>(submeshes.size()); ++m)
        for (int c = 0; c < options; ++c) {
          const double work =
              proportional ? (last - first + 1.0) / submeshes[static_cast<std::size_t>(m)].devices() : 1.0;
          const int successors = std::uniform_int_distribution<int>(0, layers)(random);
          table.at(first, last, m).push_back({Seconds(work * factor(random)), successors, c});
        }
  return table;
}

std::vector<Submesh> submeshes_of(int count) {
  std::vector<Submesh> submeshes{{1, 1}, {1, 2}, {1, 4}, {1, 8}};
  for (int hosts = 2; static_cast<int>(submeshes.size()) < count; hosts *= 2) submeshes.push_back({hosts, 8});
  return submeshes;
}

// Arguments: layers, submeshes, options, devices, microbatches, proportional, pipelines asked for.
void choose_stages(benchmark::State& state) {
  const StageTable table =
      random_table(static_cast<int>(state.range(0)), submeshes_of(static_cast<int>(state.range(1))),
                   static_cast<int>(state.range(2)), state.range(5) != 0);
  const PipelineSearch search{.devices = static_cast<int>(state.range(3)), .microbatches = state.range(4)};
  for (auto _ : state) benchmark::DoNotOptimize(choose_pipelines(table, search, static_cast<int>(state.range(6))));
}
BENCHMARK(choose_stages)
    ->ArgNames({"layers", "submeshes", "options", "devices", "microbatches", "proportional", "count"})
    ->Args({16, 7, 8, 64, 16, 0, 1})
    ->Args({16, 7, 8, 64, 16, 1, 1})
    ->Args({16, 7, 8, 64, 1024, 1, 1})
    ->Args({16, 7, 8, 64, 16, 1, 8})
    ->Args({48, 8, 32, 64, 4, 1, 1})
    ->Args({48, 8, 32, 64, 64, 0, 1})
    ->Args({48, 8, 32, 64, 64, 1, 1})
    ->Args({48, 8, 32, 64, 64, 1, 8})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace meshwright
