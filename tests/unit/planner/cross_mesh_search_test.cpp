// SPDX-License-Identifier: Apache-2.0
// Which form the search gives each boundary between stages.
#include "core/planner/cross_mesh_search.h"

#include <gtest/gtest.h>

#include "core/plan/boundaries.h"
#include "core/plan/stage_graph.h"
#include "simulator/fold/folded_plan.h"
#include "simulator/what_if/evaluator.h"
#include "simulator/what_if/simulate_step.h"
#include "tests/unit/network_fixture.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::cross_mesh_search_test {
namespace {

// Every device of a stage computes all of it, so that every tensor goes whole to every device: 8 rows of 16 numbers in
// a micro-batch, 512 bytes. What is computed takes no time to speak of.
PlanOfGraph replicated_stages(const Cluster& cluster, const std::vector<Submesh>& submeshes,
                              ScheduleKind schedule = ScheduleKind::Inference, std::int64_t microbatches = 1) {
  std::vector<HandStage> stages;
  for (std::size_t s = 0; s < submeshes.size(); ++s)
    stages.push_back({s == 0 ? "" : fmt::format("blk{}.up", s), {1, submeshes[s].devices()}, {}});
  HandPlan made = by_hand(fmt::format("mlp:layers={},hidden=16", submeshes.size()), "cpu:64",
                          {.batch = 8 * microbatches, .microbatches = microbatches}, stages, schedule);
  made.plan.cluster = cluster;
  for (std::size_t s = 0; s < submeshes.size(); ++s) made.plan.stages[s].submesh = submeshes[s];
  return {made.plan, std::make_shared<const Graph>(std::move(made.graph))};
}

struct Found {
  Plan plan;
  double step;
};
Found found_for(const PlanOfGraph& made, const OrAuto<CrossMesh>& wanted, const StepRequest& conditions = {}) {
  const auto costs = make_analytic_cost_model(made.plan.cluster);
  SimulatedEvaluator evaluator(*costs, nullptr, conditions);
  PlanOfGraph own = made;
  if (const auto* form = std::get_if<CrossMesh>(&wanted)) set_cross_mesh(own.plan, *own.graph, *form);
  const Program program = lower(own.plan, *own.graph, *costs);
  const ProgramCheck check = check_program(program);
  EXPECT_EQ(check.violations, std::vector<std::string>{});
  if (is_auto(wanted))
    if (auto found = choose_cross_mesh(own, *costs, evaluator))
      return {found->plan, found->plan.predicted.step_time.si()};
  return {own.plan, evaluator.outcome(own).step.si()};
}

StepRequest fluid() {
  StepRequest request;
  request.network = NetworkModel::Fluid;
  return request;
}

constexpr double kTiny = 1e-3;
using Forms = std::map<int, CrossMesh>;

// From host to host 3 s, and 20 byte/s for all four devices together: each message at a quarter of that. Whole tiles
// take 3 + 512 / 5 s. A quarter takes 3 + 128 / 5 s, and three rounds within the host 1 + 128 / 100 s each.
TEST(CrossMeshSearch, GathersWhereTheNetworkBetweenHostsIsSlow) {
  const PlanOfGraph made = replicated_stages(slow_cluster(2, 4), {{1, 4}, {1, 4}});
  EXPECT_NEAR(found_for(made, CrossMesh::Send).step, 3 + 102.4, kTiny);
  EXPECT_NEAR(found_for(made, CrossMesh::Gather).step, 3 + 25.6 + 3 * 2.28, kTiny);
  const Found chosen = found_for(made, Auto{});
  EXPECT_EQ(chosen.plan.stages[1].cross_mesh, (Forms{{0, CrossMesh::Gather}}));
  EXPECT_NEAR(chosen.step, 3 + 25.6 + 3 * 2.28, kTiny);
}

// On one host each device gets its tile at once, 1 + 512 / 100 s; in parts it takes four latencies.
TEST(CrossMeshSearch, SendsWholeTilesWhereNothingIsShared) {
  const PlanOfGraph made = replicated_stages(slow_cluster(1, 8), {{1, 4}, {1, 4}});
  EXPECT_NEAR(found_for(made, CrossMesh::Send).step, 6.12, kTiny);
  EXPECT_NEAR(found_for(made, CrossMesh::Gather).step, 4 * 2.28, kTiny);
  EXPECT_EQ(found_for(made, Auto{}).plan.stages[1].cross_mesh, Forms{});
}

// The NIC of the first host sends the tile four times, twice or once; broadcast, the halves then cross between the two
// other hosts. In the end the devices of each host bring each other halves: 1 + 256 / 100 s.
TEST(CrossMeshSearch, BroadcastsWhereSeveralHostsShareANic) {
  const PlanOfGraph made = replicated_stages(slow_cluster(3, 2), {{1, 2}, {2, 2}});
  EXPECT_NEAR(found_for(made, CrossMesh::Send, fluid()).step, 3 + 4 * 25.6, kTiny);
  EXPECT_NEAR(found_for(made, CrossMesh::Gather, fluid()).step, 3 + 2 * 25.6 + 3.56, kTiny);
  EXPECT_NEAR(found_for(made, CrossMesh::Broadcast, fluid()).step, (3 + 25.6) + (3 + 12.8) + 3.56, kTiny);
  const Found chosen = found_for(made, Auto{}, fluid());
  EXPECT_EQ(chosen.plan.stages[1].cross_mesh, (Forms{{0, CrossMesh::Broadcast}}));
  EXPECT_NEAR(chosen.step, (3 + 25.6) + (3 + 12.8) + 3.56, kTiny);
}

// From host 0 to host 1 parts are faster, within host 1 whole tiles are, in both directions.
TEST(CrossMeshSearch, ChoosesForEachBoundary) {
  const PlanOfGraph made = replicated_stages(slow_cluster(2, 4), {{1, 4}, {1, 2}, {1, 2}}, ScheduleKind::OneFOneB, 4);
  const Plan chosen = found_for(made, Auto{}).plan;
  EXPECT_EQ(chosen.stages[0].cross_mesh, (Forms{{1, CrossMesh::Gather}}));
  EXPECT_EQ(chosen.stages[1].cross_mesh, (Forms{{0, CrossMesh::Gather}}));
  EXPECT_EQ(chosen.stages[2].cross_mesh, Forms{});
}

TEST(CrossMeshSearch, IsNeverSlowerThanOneFormEverywhere) {
  StepRequest overlapped = fluid();
  overlapped.overlap = CutOptions{};
  const std::vector<std::vector<Submesh>> pipelines = {
      {{1, 4}, {1, 4}, {1, 4}}, {{1, 2}, {1, 2}, {2, 4}}, {{2, 4}, {1, 2}, {1, 2}}, {{1, 1}, {1, 1}, {1, 2}, {2, 4}}};
  for (const std::vector<Submesh>& submeshes : pipelines)
    for (const ScheduleKind schedule : {ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::EagerOneFOneB})
      for (const StepRequest& conditions : {StepRequest{}, fluid(), overlapped}) {
        const PlanOfGraph made = replicated_stages(slow_cluster(4, 4), submeshes, schedule, 4);
        const Found chosen = found_for(made, Auto{}, conditions);
        for (const CrossMesh form : kCrossMeshForms) EXPECT_LE(chosen.step, found_for(made, form, conditions).step);
      }
}

// Two boundaries of two classes: plans in which all have a form, then, where a program is quick to simulate, with each
// class by itself. The limit is 2048 devices times micro-batches.
TEST(CrossMeshSearch, OfLongProgramsTriesOneFormForAllBoundariesAlone) {
  const auto simulations = [](std::int64_t microbatches) {
    const PlanOfGraph made =
        replicated_stages(slow_cluster(2, 4), {{1, 4}, {1, 2}, {1, 2}}, ScheduleKind::Inference, microbatches);
    const auto costs = make_analytic_cost_model(made.plan.cluster);
    const SimulatedEvaluator evaluator(*costs, nullptr, {});
    return choose_cross_mesh(made, *costs, evaluator)->simulations;
  };
  const std::int64_t all_alike = 3;  // sent, gathered and broadcast
  EXPECT_GT(simulations(256), all_alike);
  EXPECT_EQ(simulations(257), all_alike);
}

// The eight stages cut a block of the transformer in two; gradients of a sum go past the stage that adds. A plan that
// states a form for them is refused.
TEST(CrossMeshSearch, StatesNoFormForGradientsThatGoPastAStage) {
  PlanRequest request = ask("vit:layers=2,hidden=32,heads=2,image=32,patch=8,classes=16", "cpu:16",
                            "megatron:tp=2,pp=8", 7, std::int64_t{7});
  request.search.cross_mesh = Auto{};
  const Planned made = planned(request);
  ASSERT_TRUE(made.plan);
  const StageGraph stages = stage_graph(*made.plan, made.graph);
  for (int to = 0; to < static_cast<int>(made.plan->stages.size()); ++to)
    for (const auto& [from, form] : made.plan->stages[static_cast<std::size_t>(to)].cross_mesh)
      EXPECT_TRUE(stages.neighbours(from, to)) << from << " to " << to;
}

// A plan folds with parts as without: devices stand for others, on links of their own to the picosecond.
TEST(CrossMeshForms, FoldToTheSameStep) {
  for (const CrossMesh form : kCrossMeshForms)
    for (const ScheduleKind schedule : {ScheduleKind::OneFOneB, ScheduleKind::GPipe})
      for (const StepRequest& conditions : {StepRequest{}, fluid()}) {
        PlanOfGraph made = replicated_stages(slow_cluster(4, 4), {{1, 4}, {2, 4}}, schedule, 3);
        set_cross_mesh(made.plan, *made.graph, form);
        const auto costs = make_analytic_cost_model(made.plan.cluster);
        const FoldedPlan small = load_folded_plan(made, *costs, conditions);
        const LoadedPlan whole = load_plan(made, *costs);
        const ProgramTimes times = program_costs(whole.program, *costs).times;
        const ProgramTimes small_times = program_costs(small.loaded.program, *costs).times;
        const Seconds folded = to_seconds(simulate_step(made.plan, small, small_times, *costs, conditions).step);
        const Seconds step = to_seconds(simulate_step(made.plan, whole, times, *costs, conditions, 1).step);
        EXPECT_NEAR(folded.si(), step.si(), conditions.network == NetworkModel::Static ? 0.0 : 1e-9 * step.si());
        EXPECT_EQ(small.loaded.check.peak_memory, whole.check.peak_memory);
      }
}

}  // namespace
}  // namespace meshwright::cross_mesh_search_test
