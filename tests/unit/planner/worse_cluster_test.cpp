// SPDX-License-Identifier: Apache-2.0
// A plan for a worse cluster is among the plans of the better one: whatever the better one's search finds takes no
// longer. The requests are ones where stage costs that differ from those of the program hid the better plan.
#include <gtest/gtest.h>

#include "core/planner/spans/mesh_spans.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::worse_cluster_test {
namespace {

constexpr double kSame = 1.0 + 1e-9;

template <class Change>
void expect_no_better_plan_where(const PlanRequest& request, const Change& change) {
  const Planned own = planned(request);
  PlanRequest worse = request;
  change(worse.cluster.only());
  const Planned other = planned(worse);
  ASSERT_TRUE(own.plan && other.plan);
  Plan moved = *other.plan;
  moved.cluster = request.cluster;
  const auto costs = make_analytic_cost_model(request.cluster);
  const LoadedPlan loaded = load_plan(moved, *costs);
  const Seconds step = SimulatedStep(*costs).step_of(loaded.program, loaded.check);
  EXPECT_LE(own.plan->predicted.step_time.si(), kSame * step.si());
}
void halve_links(HostGroup& hosts) { hosts.within_host.beta = SecondsPerByte(2.0 * hosts.within_host.beta.si()); }
void slow_memory_down(HostGroup& hosts) {
  hosts.device.memory_bandwidth = BytesPerSecond(0.25 * hosts.device.memory_bandwidth.si());
}

// Gradients are summed where they are scattered to, which costs a tile's time.
TEST(WorseCluster, WithSlowerLinksShowsNoPlanOfEagerGradientsThatWasMissed) {
  PlanRequest gpt = ask("gpt:layers=2,hidden=96,heads=4,seq=8,vocab=1000", "cpu:6", "pipeshard", 32, Auto{});
  gpt.search.logical_mesh_space = LogicalMeshSpace::SameAsPhysical;
  expect_no_better_plan_where(gpt, halve_links);
  PlanRequest vit = ask("vit:layers=3,hidden=96,heads=1,image=64,patch=16,classes=10", "cpu:8", "pipeshard", 4, Auto{});
  vit.search.layers = Auto{};
  vit.training.dtype = DType::F64;
  expect_no_better_plan_where(vit, halve_links);
}

// An embedding that a norm and a residual sum read as the samples are split is brought there once.
TEST(WorseCluster, WithSlowerMemoryShowsNoPlanOfASharedReshardingThatWasMissed) {
  PlanRequest request =
      ask("deepseek_v3:layers=1,hidden=64,heads=4,seq=16,vocab=1000,intermediate=64,experts=8,top_k=2,dense_layers=0,"
          "q_rank=32,kv_rank=16,nope_dim=16,rope_dim=8,value_dim=16",
          "cpu:3", "pipeshard", 8, Auto{});
  expect_no_better_plan_where(request, slow_memory_down);
}

// What one stage of an MLP costs by its layer models is what its program takes, however its gradients are summed.
TEST(StageCosts, AreThoseOfTheProgramUnderEveryZeroLevel) {
  for (const char* method : {"data", "zero1", "zero2", "zero3"}) {
    const PlanRequest request = ask("mlp:layers=3,hidden=256", "cpu:4", method, 16, 2);
    const Planned found = planned(request);
    ASSERT_TRUE(found.plan && found.sharding) << method;
    const double step = found.plan->predicted.step_time.si();
    EXPECT_NEAR(2.0 * found.sharding->cost.si(), step, 1e-3 * step) << method;
  }
}

// The pass is as short as if the update were spread over so many micro-batches that it did not count.
TEST(Spans, OfferTheFastestPassesWhateverTheUpdateTakes) {
  const Cluster cluster = find_cluster("cpu:4");
  const auto costs = make_analytic_cost_model(cluster);
  TrainingOptions training;
  training.batch = 256;
  const Graph graph = build_training_graph(find_model("mlp:layers=2,hidden=64"), training);
  const Layers layers = assign_layers(graph, {0});
  const StepStructure structure(graph, layers);
  const auto fastest = [&](std::int64_t microbatches, bool every_weight) {
    const MeshSpans spans(
        structure, make_logical_mesh(cluster, {1, 4}, {1, 4}), *costs,
        {.microbatches = microbatches, .usable_memory = cluster.usable_memory(), .every_step_weight = every_weight});
    Seconds least(1e30);
    for (int option = 0; option < spans.options(); ++option) {
      const StepCost& cost = spans.cost(0, 0, option);
      least = std::min(least, cost.forward + cost.backward);
    }
    return least;
  };
  const Seconds free = fastest(std::int64_t{1} << 40, false);
  EXPECT_GT(fastest(1, false), kSame * free);
  EXPECT_NEAR(fastest(1, true).si(), free.si(), 1e-9 * free.si());
}

}  // namespace
}  // namespace meshwright::worse_cluster_test
