// SPDX-License-Identifier: Apache-2.0
// A plan for a worse cluster is among the plans of the better one: whatever the better one's search finds takes no
// longer. The requests are ones where stage costs that differ from those of the program hid the better plan.
#include <gtest/gtest.h>

#include "tests/sanitized.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::worse_cluster_test {
namespace {

constexpr double kSame = 1.0 + 1e-9;

// The plan for the worse cluster takes no less on the request's than its own.
void expect_no_better_plan(const PlanRequest& request, const Cluster& worse) {
  const Planned own = planned(request);
  PlanRequest slower = request;
  slower.cluster = worse;
  const Planned other = planned(slower);
  ASSERT_TRUE(own.plan && other.plan);
  Plan moved = *other.plan;
  moved.cluster = request.cluster;
  const auto costs = make_analytic_cost_model(request.cluster);
  const LoadedPlan loaded = load_plan(moved, *costs);
  const Seconds step = SimulatedStep(*costs).step_of(loaded.program, loaded.check);
  EXPECT_LE(own.plan->predicted.step_time.si(), kSame * step.si());
}

void expect_no_better_plan_of_slower_links(const PlanRequest& request) {
  Cluster slower = request.cluster;
  LinkCost& links = slower.only().within_host;
  links.beta = SecondsPerByte(2.0 * links.beta.si());
  expect_no_better_plan(request, slower);
}

// Gradients are summed where they are scattered to, which costs a tile's time.
TEST(WorseCluster, WithSlowerLinksShowsNoPlanOfEagerGradientsThatWasMissed) {
  PlanRequest gpt = ask("gpt:layers=2,hidden=96,heads=4,seq=8,vocab=1000", "cpu:6", "pipeshard", 32, Auto{});
  gpt.search.logical_mesh_space = LogicalMeshSpace::SameAsPhysical;
  expect_no_better_plan_of_slower_links(gpt);
  if (kSanitized) return;  // the second is of the same kind, with everything open
  PlanRequest vit = ask("vit:layers=3,hidden=96,heads=1,image=64,patch=16,classes=10", "cpu:8", "pipeshard", 4, Auto{});
  vit.search.layers = Auto{};
  vit.training.dtype = DType::F64;
  expect_no_better_plan_of_slower_links(vit);
}

// Stages of one rank may be split in different ways.
TEST(WorseCluster, WithLaterMessagesShowsNoPlanOfRanksWithTwoLogicalMeshes) {
  if (kSanitized) GTEST_SKIP() << "under a sanitizer smaller clusters are made worse";
  PlanRequest request =
      ask("moe:layers=5,hidden=40,heads=4,seq=33,vocab=1000,experts=8", "cpu:8", "pipeshard", 256, 32);
  request.search.schedule = ScheduleKind::Interleaved;
  request.training.dtype = DType::F64;
  Cluster later = request.cluster;
  later.only().within_host.alpha = Seconds(4.0 * later.only().within_host.alpha.si());
  expect_no_better_plan(request, later);
}

// A norm and a residual read the embedding: a program brings it to both at once, a layer model to each.
TEST(WorseCluster, WithSlowerMemoryShowsNoPlanOfAnEmbeddingBroughtToTwoReaders) {
  const PlanRequest request =
      ask("llama:layers=1,hidden=64,heads=4,kv_heads=2,seq=16,vocab=1000,intermediate=64", "cpu:2", "pipeshard", 8, 1);
  Cluster slower = request.cluster;
  BytesPerSecond& memory = slower.only().device.memory_bandwidth;
  memory = BytesPerSecond(0.25 * memory.si());
  expect_no_better_plan(request, slower);
}

// Two stages become the fastest plan only when their border moves into a layer; one stage on all devices is before.
TEST(WorseCluster, WithLaterMessagesShowsNoPlanWhoseBordersWouldHaveHadToMove) {
  PlanRequest request =
      ask("t5:layers=1,hidden=32,heads=4,seq=9,vocab=50,intermediate=64", "cpu:4", "pipeshard", 7, Auto{});
  request.training.dtype = DType::F32;
  request.search.logical_mesh_space = LogicalMeshSpace::ModelParallelOnly;
  Cluster later = request.cluster;
  later.only().within_host.alpha = Seconds(1.25 * later.only().within_host.alpha.si());
  expect_no_better_plan(request, later);
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

}  // namespace
}  // namespace meshwright::worse_cluster_test
