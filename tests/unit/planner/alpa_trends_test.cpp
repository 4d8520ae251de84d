// SPDX-License-Identifier: Apache-2.0
// What Alpa's evaluation on V100s found (OSDI'22), with the costs of `--software alpa`: the trends, not the figures,
// which experiments/alpa_v100 compares.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "costmodel/sheets/software_profile.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::alpa_trends_test {
namespace {

struct Run {
  std::string model;
  int hosts;
  std::string method;
  std::vector<int> mesh;  // logical; empty: the method's
  std::int64_t microbatches;
};

// TFLOP/s per device of the products of the training graph.
double throughput(const Run& run) {
  PlanRequest request = ask(run.model, "p3.16xlarge:" + std::to_string(run.hosts), run.method, 1024, run.microbatches);
  request.training.dtype = request.model.default_dtype;
  request.training.optimizer.kind =
      request.model.family == "moe" ? Optimizer::Kind::Sgd : Optimizer::Kind::Adam;  // Adafactor keeps next to no state
  request.search.recompute = Recompute::Full;
  if (!run.mesh.empty()) request.search.logical_mesh = run.mesh;
  const auto costs = make_physical_cost_model(request.cluster, find_software_profile("alpa"));
  SimulatedStep evaluator(*costs);
  const PlanningResult made = make_plan(request, *costs, evaluator);
  if (!made.plan) throw InputError(run.model + ": " + made.reason);
  return 1e-12 * static_cast<double>(run.microbatches) * graph_flops(made.graph).si() /
         made.plan->predicted.step_time.si() / (8 * run.hosts);
}

}  // namespace

// Published: 46.7, 22.9 and 1.5 TFLOP/s per device on 8, 16 and 32.
TEST(AlpaTrends, MixturesInOneStageCollapseAcrossHosts) {
  const double one = throughput({"moe-2.4b", 1, "shard", {8, 1}, 16}),
               two = throughput({"moe-10b", 2, "shard", {2, 8}, 32}),
               four = throughput({"moe-27b", 4, "shard", {1, 32}, 32});
  EXPECT_LT(two, 0.75 * one);
  EXPECT_LT(four, 0.1 * two);
}

// Published: 50.8 TFLOP/s per device, and 61.6 of the pipeline that Alpa found. Pairs of V100s have one link.
TEST(AlpaTrends, PairsInOneStageAreSlowerThanTheirPipeline) {
  const double pairs = throughput({"gpt-2.6b", 1, "megatron:tp=2,pp=1", {}, 32}),
               pipeline = throughput({"gpt-2.6b", 1, "megatron:tp=1,pp=4", {}, 128});
  EXPECT_LT(pairs, 0.95 * pipeline);
}

}  // namespace meshwright::alpa_trends_test
