// SPDX-License-Identifier: Apache-2.0
// How fast the intra-operator planner is on problems of the size it meets: a GPT-3 block, the whole model, and a field
// as Alpa's with too little memory.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/graph/import/find_model.h"
#include "core/graph/models/models.h"
#include "core/planner/spans/stage_search.h"
#include "core/solver/elimination/solve_by_elimination.h"
#include "core/solver/solve.h"
#include "costmodel/cost_models.h"

namespace meshwright {
namespace {

// GPT-3's training step and 64 devices as an 8 x 8 mesh.
struct Gpt3 {
  static Graph build() {
    const ModelConfig model = find_model("gpt3-175b");
    TrainingOptions options;
    options.batch = 256;
    options.microbatches = 16;
    options.dtype = model.default_dtype;
    return build_training_graph(model, options);
  }
  explicit Gpt3(const std::string& name)
      : cluster(find_cluster(name)), mesh(make_logical_mesh(cluster, {8, 8}, {8, 8})) {}

  Graph graph = build();
  Layers layers = layers_of_blocks(graph);
  StepStructure structure{graph, layers};
  Cluster cluster;
  LogicalMesh mesh;
  std::unique_ptr<CostModel> costs = make_analytic_cost_model(cluster);
};
constexpr int kInnerBlock = 48;

// Prices of reshardings are not remembered from before.
void build_one_gpt3_block(benchmark::State& state) {
  const Gpt3 gpt3("p3.16xlarge:8");
  for (auto _ : state) {
    ReshardingCosts prices(gpt3.mesh, *gpt3.costs);
    const LayerModel model(gpt3.structure, kInnerBlock, gpt3.mesh, *gpt3.costs, prices, {});
    benchmark::DoNotOptimize(model.problem({16, 0, 1}));
  }
}
BENCHMARK(build_one_gpt3_block)->Unit(benchmark::kMillisecond);

void solve_one_gpt3_block(benchmark::State& state) {
  const Gpt3 gpt3("p3.16xlarge:8");
  ReshardingCosts prices(gpt3.mesh, *gpt3.costs);
  const LayerModel model(gpt3.structure, kInnerBlock, gpt3.mesh, *gpt3.costs, prices, {});
  const ShardingProblem problem = model.problem({16, 0, 1});
  for (auto _ : state) benchmark::DoNotOptimize(solve(problem));
}
BENCHMARK(solve_one_gpt3_block)->Unit(benchmark::kMillisecond);

// 96 blocks in 73.6 GiB per device, of 181 that the fastest sharding would take; argument: GiB.
void shard_all_of_gpt3(benchmark::State& state) {
  const Gpt3 gpt3("dgx-a100:8");
  const Bytes memory(static_cast<double>(state.range(0)) * (1 << 30));
  for (auto _ : state) {
    const MeshSpans spans(gpt3.structure, gpt3.mesh, *gpt3.costs,
                          {.microbatches = 16, .usable_memory = memory, .one_stage = true, .hosts_apart = true});
    benchmark::DoNotOptimize(spans.bound());
  }
}
BENCHMARK(shard_all_of_gpt3)->Arg(400)->Arg(150)->Arg(73)->Unit(benchmark::kMillisecond);

// A chain of ops with a residual connection at every third, each op's result kept until the mirrored op of the backward
// has read it. Strategies as an op on a mesh has them: 3 to 30, and the less memory one takes the more it costs. The
// limit is `percent` of what the cheapest choice takes at its peak.
ShardingProblem tight_field(int nodes, int percent) {
  std::mt19937 random(7);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  ShardingProblem problem;
  for (int i = 0; i < nodes; ++i) {
    ShardingProblem::Node node{fmt::format("op{}", i), {}, {}, {}, i, i + 1};
    if (i < nodes / 2) node.live_end = nodes - i;
    const int strategies = draw(3, 30);
    const int bytes = draw(1, 64);  // MiB of the whole result
    for (int p = 0; p < strategies; ++p) {
      const int cut = 1 << draw(0, 3);
      node.memory.push_back(Bytes(static_cast<double>(bytes) / cut * (1 << 20)));
      node.cost.push_back(Seconds(1e-6 * (draw(0, 200) + 20 * cut)));
    }
    problem.nodes.push_back(std::move(node));
    for (const int back : {1, 3}) {
      if (i < back || (back == 3 && i % 3 != 0)) continue;
      const auto from = static_cast<std::size_t>(i - back);
      ShardingProblem::Edge edge{i - back, i, {}};
      // Half of all pairs agree on how the tensor lies.
      for (std::size_t pair = 0; pair < problem.nodes[from].cost.size() * static_cast<std::size_t>(strategies); ++pair)
        edge.cost.push_back(Seconds(1e-6 * (draw(0, 1) == 0 ? 0 : draw(1, 400))));
      problem.edges.push_back(std::move(edge));
    }
  }
  const auto free = solve_by_elimination(problem);
  problem.memory_limit = (percent / 100.0) * evaluate(problem, free->choice).peak_memory;
  return problem;
}

void solve_tight_field(benchmark::State& state) {
  const ShardingProblem problem = tight_field(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  for (auto _ : state) {
    const auto solution = solve(problem);
    state.counters["gap"] = solution ? (solution->cost - solution->lower_bound) / solution->cost : 1.0;
  }
}
BENCHMARK(solve_tight_field)
    ->ArgNames({"nodes", "percent"})
    ->Args({200, 95})
    ->Args({200, 80})
    ->Args({200, 60})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace meshwright
