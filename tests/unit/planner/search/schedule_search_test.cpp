// SPDX-License-Identifier: Apache-2.0
// Plans of every schedule: what is found lowers, is sound, and is of the schedule that was asked for.
#include <gtest/gtest.h>

#include <set>

#include "core/plan/ranks.h"
#include "tests/refusal.h"
#include "tests/sanitized.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::schedule_search_test {
namespace {

PlanRequest small_gpt(const std::string& cluster, ScheduleKind schedule) {
  PlanRequest request = ask("gpt:layers=8,hidden=64,heads=4,seq=32,vocab=128", cluster, "pipeshard", 32, 8);
  request.search.layers = 8;
  request.search.schedule = schedule;
  return request;
}

std::set<std::vector<int>> ranks_of(const Plan& plan) {
  std::set<std::vector<int>> ranks;
  for (const StagePlan& stage : plan.stages) ranks.insert(stage.devices);
  return ranks;
}

// make_plan lowers, and throws an InternalError for a program that is not sound.
TEST(ScheduleSearch, FindsAPlanOfEveryKind) {
  for (const char* cluster : fewer_of<const char*>({"cpu:4", "cpu:8"}))
    for (const ScheduleKind kind : all_schedules()) {
      const PlanRequest request = small_gpt(cluster, kind);
      const PlanningResult result = planned(request);
      ASSERT_TRUE(result.plan.has_value()) << cluster << " " << name_of(kind) << ": " << result.reason;
      const Plan& plan = *result.plan;
      EXPECT_EQ(plan.schedule, kind);
      EXPECT_TRUE(check_plan(plan, result.graph).empty()) << name_of(kind);
      EXPECT_LE(plan.predicted.lower_bound, plan.predicted.step_time) << name_of(kind);
      const int chunks = chunks_of(plan);
      EXPECT_EQ(plan.stages.size(), static_cast<std::size_t>(chunks) * ranks_of(plan).size());
      EXPECT_GE(chunks, traits_of(kind).chunks.value_or(2)) << name_of(kind);
      EXPECT_LE(chunks, traits_of(kind).chunks.value_or(4)) << name_of(kind);
      EXPECT_EQ(load_plan(plan, *make_analytic_cost_model(plan.cluster)).check.violations.size(), 0u);
    }
}

// Who brings whole tiles is looked for in a program of the fewest micro-batches that the schedule runs.
TEST(ScheduleSearch, ChoosesHowTilesGetToCopies) {
  PlanRequest request = small_gpt("cpu:8", ScheduleKind::DualPipe);
  request.search.submeshes = std::vector<Submesh>{{1, 4}};
  request.search.cross_mesh = Auto{};
  const PlanningResult result = planned(request);
  ASSERT_TRUE(result.plan.has_value()) << result.reason;
  EXPECT_EQ(result.plan->stages.size(), 4u);
  EXPECT_TRUE(check_plan(*result.plan, result.graph).empty());
}

TEST(ScheduleSearch, GivesEachRankAsManyStagesAsAskedFor) {
  for (const int chunks : {2, 3, 4}) {
    PlanRequest request = small_gpt("cpu:2", ScheduleKind::Interleaved);
    request.search.chunks = chunks;
    const PlanningResult result = planned(request);
    ASSERT_TRUE(result.plan.has_value()) << result.reason;
    EXPECT_EQ(chunks_of(*result.plan), chunks);
    EXPECT_EQ(ranks_of(*result.plan).size(), 2u);
  }
}

TEST(ScheduleSearch, OfAllSchedulesIsNoWorseThanOneFOneB) {
  for (const std::int64_t microbatches : fewer_of<std::int64_t>({4, 8})) {
    PlanRequest request = small_gpt("cpu:4", ScheduleKind::OneFOneB);
    request.search.microbatches = microbatches;
    const PlanningResult one = planned(request);
    request.search.schedule = Auto{};
    const PlanningResult any = planned(request);
    ASSERT_TRUE(one.plan && any.plan);
    EXPECT_LE(any.plan->predicted.step_time, one.plan->predicted.step_time);
    EXPECT_TRUE(traits_of(any.plan->schedule).trains);
    EXPECT_LE(any.plan->predicted.lower_bound, any.plan->predicted.step_time);
  }
}

TEST(ScheduleSearch, SaysWhatAScheduleNeeds) {
  const auto says = [](PlanRequest request) { return refusal([&] { return planned(request); }); };
  EXPECT_EQ(says(small_gpt("cpu:1", ScheduleKind::ZeroBubbleV)),
            "schedule zb-v needs at least 2 like groups of devices with 2 stages on each, and cpu:1 has 1 device; give "
            "more devices or another schedule.");
  PlanRequest many = small_gpt("cpu:4", ScheduleKind::Interleaved);
  many.search.chunks = 5;
  EXPECT_EQ(says(many),
            "schedule interleaved needs at least 10 layers, 5 stages on each of 2 groups of devices, and the model is "
            "cut into 8; ask for more layers, fewer stages or another schedule.");
  PlanRequest one_stage = small_gpt("cpu:4", ScheduleKind::VHalf);
  one_stage.search.method = method_from_text("zero2");
  EXPECT_EQ(says(one_stage),
            "schedule v-half has several stages on each device, and method 'zero2' says what the stages are; choose "
            "method pipeshard or another schedule.");
  PlanRequest few = small_gpt("cpu:4", ScheduleKind::DualPipe);
  few.search.microbatches = 2;
  EXPECT_EQ(says(few),
            "schedule dualpipe needs at least two micro-batches for each of 2 ranks, and there are 2; give other "
            "--micro-batches or another schedule.");
  few.search.method = method_from_text("megatron:pp=4");
  few.search.microbatches = 4;
  EXPECT_EQ(says(few),
            "schedule dualpipe needs at least two micro-batches for each of 4 ranks, and there are 4; give other "
            "--micro-batches or another schedule.");
  few.search.microbatches = Auto{};
  few.training.batch = 6;
  EXPECT_EQ(
      says(few),
      "no number of micro-batches of a batch of 6 suits schedule dualpipe, which needs at least two "
      "micro-batches for each of 4 ranks, and there are 6; give another --batch or --method, or another schedule.");
}

// Towers wait for nobody: the second halves of their backwards have no common order.
TEST(ScheduleSearch, SplitsBackwardsOfLinesOnly) {
  PlanRequest towers =
      ask("two_tower:layers=2,hidden=16,heads=4,image=16,patch=4,text_layers=2,text_hidden=16,text_heads=4,seq=16,"
          "vocab=32,embed=16",
          "cpu:4", "pipeshard", 32, 4);
  for (const ScheduleKind kind : {ScheduleKind::ZeroBubbleH1, ScheduleKind::Interleaved}) {
    towers.search.schedule = kind;
    EXPECT_NE(refusal([&] { return planned(towers); }).find("needs stages that feed one the next"), std::string::npos);
  }
  towers.search.schedule = ScheduleKind::OneFOneB;
  towers.search.schedule = Auto{};
  const PlanningResult any = planned(towers);
  ASSERT_TRUE(any.plan.has_value());
  EXPECT_FALSE(traits_of(any.plan->schedule).splits_backward || traits_of(any.plan->schedule).line);
}

TEST(ScheduleSearch, TakesAPartOfTheBackwardForWeights) {
  const PlanRequest request = small_gpt("cpu:1", ScheduleKind::OneFOneB);
  TrainingOptions training = request.training_with(8);
  const Graph graph = build_training_graph(request.model, training);
  const Layers layers = make_layers(graph, {}, 8, request.search.method);
  const StepStructure structure(graph, layers);
  const auto costs = make_analytic_cost_model(request.cluster);
  const LogicalMesh mesh = make_logical_mesh(request.cluster, {1, 1}, {1});
  ReshardingCosts prices(mesh, *costs);
  for (int layer = 0; layer < layers.count; ++layer) {
    const LayerModel model(structure, layer, mesh, *costs, prices, {});
    ShardingChoice choice;
    choice.strategy.assign(model.problem({}).nodes.size(), 0);
    const StepCost cost = model.cost(choice);
    EXPECT_GT(cost.weights, Seconds(0.0)) << layer;
    EXPECT_LT(cost.weights, cost.backward) << layer;
    EXPECT_GT(cost.held, Bytes(0.0)) << layer;
  }
}

}  // namespace
}  // namespace meshwright::schedule_search_test
