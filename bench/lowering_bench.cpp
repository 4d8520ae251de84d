// SPDX-License-Identifier: Apache-2.0
// What the prediction of a published run takes before its simulation: the plan that its degrees give, and the program
// of that plan, in whole or for the devices that stand for all others. And the reshardings that both ask for.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "core/graph/import/find_model.h"
#include "core/planner/given_plan.h"
#include "costmodel/cost_models.h"
#include "simulator/fold/folded_plan.h"

namespace meshwright {
namespace {

// GPT-3 with tensor parallelism within each host of 8, 8 stages, and data parallelism over the rest.
struct Gpt3Run {
  PlanRequest request;
  std::unique_ptr<CostModel> costs;

  explicit Gpt3Run(std::int64_t hosts) {
    request.model = find_model("gpt3-175b");
    request.cluster = find_cluster("dgx-h100:" + std::to_string(hosts));
    request.training.batch = 64 * hosts / 8;
    request.training.dtype = request.model.default_dtype;
    request.search.microbatches = std::int64_t{32};
    request.search.method = method_from_text("megatron:tp=8,pp=8,sp=1");
    request.search.layer_cut.cut = LayerOptions::Cut::Blocks;
    costs = make_analytic_cost_model(request.cluster);
  }
};

void make_given_plan(benchmark::State& state) {
  const Gpt3Run run(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(given_plan(run.request, *run.costs));
}
BENCHMARK(make_given_plan)->Arg(8)->Arg(128)->Unit(benchmark::kMillisecond);

void load_whole(benchmark::State& state) {
  const Gpt3Run run(state.range(0));
  const PlanOfGraph made = given_plan(run.request, *run.costs);
  for (auto _ : state) benchmark::DoNotOptimize(load_plan(made, *run.costs));
}
BENCHMARK(load_whole)->Arg(8)->Arg(16)->Unit(benchmark::kMillisecond);

void load_for_representatives(benchmark::State& state) {
  const Gpt3Run run(state.range(0));
  const PlanOfGraph made = given_plan(run.request, *run.costs);
  for (auto _ : state) benchmark::DoNotOptimize(load_folded_plan(made, *run.costs));
}
BENCHMARK(load_for_representatives)->Arg(8)->Arg(128)->Arg(512)->Unit(benchmark::kMillisecond);

// From partial sums of an activation on three mesh axes to the whole tensor alone, or to every layout there is.
void reshard(benchmark::State& state) {
  const Cluster cluster = find_cluster("dgx-h100:8");
  const LogicalMesh mesh = make_logical_mesh(cluster, {8, 8}, {4, 2, 8});
  const auto costs = make_analytic_cost_model(cluster);
  const std::vector<Dim> dims = {{"batch", 64}, {"seq", 2048}, {"heads", 96}, {"head", 128}};
  std::vector<ShardingSpec> targets = {replicated(dims.size())};
  if (state.range(0) != 0) targets = enumerate_specs(dims, mesh);
  const ShardingSpec from = spec_from_text("S0RRR+P2", "the benchmark");
  for (auto _ : state) benchmark::DoNotOptimize(resharding_times(dims, DType::F16, from, targets, mesh, *costs));
}
BENCHMARK(reshard)->ArgName("all")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace meshwright
