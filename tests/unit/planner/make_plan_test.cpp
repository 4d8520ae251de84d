// SPDX-License-Identifier: Apache-2.0
#include "core/planner/make_plan.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <set>

#include "core/base/errors.h"
#include "core/base/json.h"
#include "core/planner/search/stage_space.h"
#include "tests/refusal.h"
#include "tests/sanitized.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::make_plan_test {
namespace {

const char* const kMlp = "mlp:layers=4,hidden=64";
const char* const kGpt = "gpt:layers=2,hidden=32,heads=4,seq=8,vocab=64";

PlanRequest ask_four_layers(const std::string& model, const std::string& cluster,
                            const std::string& method = "pipeshard") {
  PlanRequest request = ask(model, cluster, method, 64, 4);
  request.search.layers = 4;
  return request;
}

// Links `slowness` times as slow: what is fast and what is small then differ.
PlanRequest with_slow_links(PlanRequest request, double slowness) {
  request.cluster.only().within_host.beta = SecondsPerByte(slowness * request.cluster.only().within_host.beta.si());
  return request;
}

Method manual(const std::vector<Method::ManualStage>& stages) {
  Method method;
  method.kind = Method::Kind::Manual;
  method.stages = stages;
  method.text = "manual:test";
  return method;
}

// --- methods are constraints ---

// Calls check(op, space, axes by name) for every forward op of the plan.
template <class Check>
void for_each_op(const Planned& result, const Check& check) {
  for (const StagePlan& stage : result.plan->stages)
    for (const auto& [name, sharding] : stage.ops)
      for (const Op& op : result.graph.ops())
        if (op.name == name) check(op, iteration_space(result.graph, op), sharding.axes);
}
std::vector<ParameterSharding> parameters_of(const Plan& plan) {
  std::vector<ParameterSharding> found;
  for (const StagePlan& stage : plan.stages)
    for (const auto& [name, sharding] : stage.parameters) found.push_back(sharding);
  return found;
}

struct DataMethods : testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Methods, DataMethods, testing::Values("data", "zero2", "zero3"));
TEST_P(DataMethods, SplitEveryOpAlongItsBatchOnly) {
  for (const char* model : {kMlp, kGpt}) {
    const Planned result = planned(ask_four_layers(model, "cpu:4", GetParam()));
    ASSERT_TRUE(result.plan) << result.reason;
    ASSERT_EQ(result.plan->stages.size(), 1u);
    EXPECT_EQ(result.plan->stages[0].logical_shape, (std::vector<int>{4, 1}));
    int ops = 0;
    for_each_op(result, [&](const Op& op, const IterationSpace& space, const Names& axes) {
      EXPECT_EQ(axes, space.find("batch") ? (Names{{"batch", 1}}) : Names{}) << op.name;
      ++ops;
    });
    EXPECT_EQ(ops, static_cast<int>(forward_ops(result.graph).size()));
  }
}

TEST(Data, KeepsEveryParameterWhole) {
  for (const auto& [weight, state, eager] : parameters_of(*planned(ask_four_layers(kGpt, "cpu:4", "data")).plan)) {
    EXPECT_EQ(weight, replicated(weight.dims.size()));
    EXPECT_EQ(state, weight);
    EXPECT_FALSE(eager);
  }
}
// Every tensor of this model has a dimension that 4 divides.
TEST(Zero1, SplitsEveryStateAndNoWeightAndSynchronisesOncePerStep) {
  const Planned result = planned(ask_four_layers(kMlp, "cpu:4", "zero1"));
  for (const auto& [weight, state, eager] : parameters_of(*result.plan)) {
    EXPECT_EQ(weight, replicated(weight.dims.size()));
    EXPECT_EQ(state.used(), 1) << state.to_text();
    EXPECT_FALSE(eager);
  }
}
TEST(Zero2, SynchronisesInEveryMicrobatchToo) {
  const Planned result = planned(ask_four_layers(kMlp, "cpu:4", "zero2"));
  for (const auto& [weight, state, eager] : parameters_of(*result.plan)) {
    EXPECT_EQ(weight, replicated(weight.dims.size()));
    EXPECT_EQ(state.used(), 1) << state.to_text();
    EXPECT_TRUE(eager);
  }
}
TEST(Zero3, SplitsEveryWeightAndState) {
  const Planned result = planned(ask_four_layers(kMlp, "cpu:4", "zero3"));
  for (const auto& [weight, state, eager] : parameters_of(*result.plan)) {
    EXPECT_TRUE(eager);
    EXPECT_EQ(weight.used(), 1) << weight.to_text();
    EXPECT_EQ(state.used(), 1) << state.to_text();
  }
}
TEST(Zero, HoldsLessTheMoreItSplits) {
  const auto peak = [](const char* method) {
    return planned(ask_four_layers(kMlp, "cpu:4", method)).plan->predicted.peak_memory;
  };
  EXPECT_LT(peak("zero1"), peak("data"));
  EXPECT_LT(peak("zero2"), peak("zero1"));
  EXPECT_LT(peak("zero3"), peak("zero2"));
}

TEST(Megatron, CutsEqualStagesWithBatchOnTheFirstAxisOnly) {
  const Planned result = planned(ask_four_layers(kGpt, "cpu:8", "megatron:tp=2,pp=2"));
  ASSERT_TRUE(result.plan) << result.reason;
  ASSERT_EQ(result.plan->stages.size(), 2u);
  for (const StagePlan& stage : result.plan->stages) {
    EXPECT_EQ(stage.logical_shape, (std::vector<int>{2, 2}));  // dp x tp
    EXPECT_EQ(stage.last_layer - stage.first_layer, 1);
  }
  int tensor_parallel = 0;
  for_each_op(result, [&](const Op& op, const IterationSpace& space, const Names& axes) {
    for (const auto& [name, mask] : axes) {
      EXPECT_EQ(mask & 1, name == "batch" ? 1 : 0) << op.name << " " << name;
      if (name == "batch" || name == "seq") {
        EXPECT_EQ(mask & 2, 0) << op.name << " " << name;
      } else {
        tensor_parallel += mask >> 1;
      }
    }
    EXPECT_EQ(axes.contains("batch"), space.find("batch").has_value()) << op.name;
  });
  EXPECT_GT(tensor_parallel, 0);
}

// --- requests that make no sense ---

std::string complaint(const PlanRequest& request) {
  return refusal([&] { (void)planned(request); });
}
void expect_complaint(const PlanRequest& request, const std::string& part) {
  const std::string said = complaint(request);
  EXPECT_NE(said.find(part), std::string::npos) << "'" << said << "' does not say '" << part << "'";
}

TEST(Refusals, NameTheArithmeticOfMegatron) {
  expect_complaint(ask_four_layers(kMlp, "cpu:4", "megatron:tp=3"), "4 devices do not divide into tp=3 x pp=1");
  expect_complaint(ask_four_layers(kMlp, "cpu:4", "megatron:tp=4,pp=2"), "4 devices do not divide");
  expect_complaint(ask_four_layers(kMlp, "cpu:4", "megatron:tp=2,dp=1"), "dp=1 x tp=2 x pp=1 is not the 4 devices");
  expect_complaint(ask_four_layers(kMlp, "cpu:8", "megatron:tp=1,pp=8"), "4 layers cannot make 8 stages");
  // 24 devices in 2 stages of 12, on hosts of 8.
  expect_complaint(ask_four_layers(kMlp, "p3.16xlarge:3", "megatron:tp=4,pp=2"),
                   "12 devices does not fill whole hosts");
}
TEST(Refusals, NameTheBatchAndTheLayers) {
  expect_complaint(ask(kMlp, "cpu:2", "data", 0, 1), "batch");
  expect_complaint(ask(kMlp, "cpu:2", "data", 10, 4), "10 samples do not divide into 4 micro-batches");
  PlanRequest request = ask_four_layers("mlp:layers=1,hidden=64", "cpu:2");
  request.search.layers = 8;  // of 7 ops
  expect_complaint(request, "7 forward ops");
}
TEST(Refusals, NameManualStagesThatDoNotFitTheCluster) {
  PlanRequest request = ask_four_layers(kMlp, "cpu:4");
  request.search.method = manual({{0, 3, {1, 8}, {8, 1}}});
  expect_complaint(request, "1x8 submesh, but cpu:4 is 1x4");
  request.search.method = manual({{0, 1, {1, 4}, {4, 1}}, {2, 3, {1, 4}, {4, 1}}});
  expect_complaint(request, "8 devices, but cpu:4 has 4");
  request.search.method = manual({{0, 2, {1, 4}, {4, 1}}});
  expect_complaint(request, "layers 0..2, but there are 4 layers");
}

// --- memory ---

TEST(Memory, OfAFoundPlanIsThatOfItsProgramAndFits) {
  for (const char* method : {"pipeshard", "data", "megatron:tp=2,pp=2"}) {
    const PlanRequest request = ask_four_layers(kGpt, "cpu:4", method);
    const Planned result = planned(request);
    EXPECT_EQ(result.plan->predicted.peak_memory, result.check.largest_peak());
    EXPECT_LE(result.check.largest_peak(), request.cluster.usable_memory());
    Bytes largest(0);
    for (const StagePlan& stage : result.plan->stages) largest = std::max(largest, stage.peak_memory);
    EXPECT_EQ(largest, result.plan->predicted.peak_memory);
  }
}

// Less and less memory: plans that fit, then none; never again one below a size that was too small.
TEST(Memory, IsNeverExceededHoweverLittleThereIs) {
  for (const char* method : {"pipeshard", "shard", "zero2", "megatron:tp=2,pp=2"})
    for (const ScheduleKind schedule : {ScheduleKind::OneFOneB, ScheduleKind::GPipe}) {
      PlanRequest request = with_slow_links(ask_four_layers(kMlp, "cpu:4", method), 100);
      request.search.schedule = schedule;
      const double most = planned(request).plan->predicted.peak_memory.si();
      bool fitted = false;
      for (double share = 0.2; share < 1.2; share *= kSanitized ? 1.8 : 1.15) {
        request.cluster.only().device.memory = Bytes(share * most / request.cluster.only().device.usable_memory);
        const Planned result = planned(request);
        if (result.plan) {
          EXPECT_LE(result.check.largest_peak(), request.cluster.usable_memory()) << method << " " << share;
        } else {
          EXPECT_FALSE(fitted) << method << " at " << share << ": " << result.reason;
        }
        fitted = fitted || result.plan;
      }
      EXPECT_TRUE(fitted) << method;
    }
}

TEST(Memory, ThatIsTooLittleIsNamedWithTheStageThatLacksIt) {
  for (const char* method : {"pipeshard", "data", "megatron:tp=1,pp=4"}) {
    PlanRequest request = ask_four_layers(kMlp, "cpu:4", method);
    request.cluster.only().device.memory = Bytes(102400 / request.cluster.only().device.usable_memory);
    const Planned result = planned(request);
    ASSERT_FALSE(result.plan);
    EXPECT_NE(result.reason.find("stage 0 of "), std::string::npos) << result.reason;
    EXPECT_NE(result.reason.find("(layers 0.."), std::string::npos) << result.reason;
    EXPECT_NE(result.reason.find(" of 100.0 KiB per device"), std::string::npos) << result.reason;
    // What it asks for is enough (it says so to a tenth of its unit).
    double amount = 0;
    char unit = '?';
    const std::string needs = result.reason.substr(result.reason.find("needs "));
    ASSERT_EQ(std::sscanf(needs.c_str(), "needs %lf %ciB", &amount, &unit), 2) << result.reason;
    const double bytes = (amount + 0.1) * (unit == 'M' ? 1048576 : 1024);
    request.cluster.only().device.memory = Bytes(bytes / request.cluster.only().device.usable_memory);
    EXPECT_TRUE(planned(request).plan) << amount << " " << unit << "iB do not suffice for " << method;
  }
}

TEST(NoPlan, NamesTheOpThatTheMeshCannotSplit) {
  const Planned result = planned(ask(kMlp, "cpu:8", "data", 4, 1));  // 4 samples on 8 devices
  ASSERT_FALSE(result.plan);
  EXPECT_NE(result.reason.find("blk0.up cannot be split over a 8x1 mesh"), std::string::npos) << result.reason;
}
// No mesh of the stages can be used at all: 2 samples on 4 devices. Other numbers of micro-batches can have a plan.
TEST(NoPlan, NamesTheOpWhereNoMeshOfAnyStageCanSplitIt) {
  const Planned result = planned(ask(kMlp, "cpu:8", "megatron:tp=1,pp=2", 2, 1));
  ASSERT_FALSE(result.plan);
  EXPECT_NE(result.reason.find("blk0.up cannot be split over a 4x1 mesh"), std::string::npos) << result.reason;
  PlanRequest interleaved = ask(kMlp, "cpu:8", "megatron:tp=1,pp=2", 2, 1);
  interleaved.search.schedule = ScheduleKind::Interleaved;
  EXPECT_FALSE(planned(interleaved).plan);
  const Planned over_numbers = planned(ask(kMlp, "cpu:16", "megatron:tp=1,pp=2", 16, Auto{}));
  ASSERT_TRUE(over_numbers.plan) << over_numbers.reason;
}
// Stages of 6 devices on hosts of 8: 4 of them are all 24 devices, but none fits beside another.
TEST(NoPlan, SaysThatStagesHaveNoPlaceOnTheHosts) {
  const Planned megatron = planned(ask("mlp:layers=4,hidden=48", "p3.16xlarge:3", "megatron:tp=2,pp=4", 96, 2));
  ASSERT_FALSE(megatron.plan);
  EXPECT_NE(megatron.reason.find("place"), std::string::npos) << "'" << megatron.reason << "'";
}

// --- the search ---

TEST(Search, IsTheSameInEveryRunAndOnAnyNumberOfThreads) {
  for (const char* model : {kMlp, kGpt}) {
    PlanRequest request = ask_four_layers(model, "cpu:8");
    const std::string once = to_json(*planned(request).plan).dump();
    EXPECT_EQ(to_json(*planned(request).plan).dump(), once);
    for (const int threads : {2, 3}) {
      request.threads = threads;
      EXPECT_EQ(to_json(*planned(request).plan).dump(), once) << threads << " threads";
    }
  }
}

// Schedules, and the parts of the stages of a large request, are ranked side by side.
TEST(Search, RanksSchedulesTheSameOnAnyNumberOfThreads) {
  PlanRequest request = ask(fmt::format("gpt:layers={},hidden=32,heads=4,seq=8,vocab=64", kSanitized ? 1 : 4), "cpu:8",
                            "pipeshard", 264, 264);
  request.search.layers = Auto{};
  request.search.schedule = Auto{};
  request.search.recompute = Auto{};
  ASSERT_GT(request.cluster.devices() * 264, 2048);  // large
  const Planned once = planned(request);
  ASSERT_TRUE(once.plan) << once.reason;
  for (const int threads : {2, 3}) {
    request.threads = threads;
    const Planned again = planned(request);
    EXPECT_EQ(to_json(*again.plan).dump(), to_json(*once.plan).dump()) << threads << " threads";
    EXPECT_EQ(again.log.ranked, once.log.ranked) << threads << " threads";
    EXPECT_EQ(again.log.simulations, once.log.simulations) << threads << " threads";
  }
}

TEST(Search, CountsItsWorkAndReportsIt) {
  PlanRequest request = ask_four_layers(kMlp, "cpu:4");
  std::vector<std::string> said;
  request.progress = [&](const std::string& line) { said.push_back(line); };
  const auto costs = make_analytic_cost_model(request.cluster);
  SimulatedStep evaluator(*costs);
  const Planned result = with_program(make_plan(request, *costs, evaluator), *costs);
  // What refines the plan counts only where it makes it faster, and here it does not.
  EXPECT_LT(result.log.simulations, evaluator.calls);
  // 10 spans of 4 layers; 1x1: 1 price, 1x2: 2 shapes x 5 prices; of 1x4, all devices, only the span of all layers, 3
  // shapes x 5 prices. One stage is best: it is priced once more by itself, 3 shapes, and by data parallelism and three
  // ZeRO levels, which have one shape each.
  ASSERT_EQ(result.plan->stages.size(), 1u);
  EXPECT_EQ(result.log.stages_costed, 10 * (1 + 2 * 5) + 3 * 5 + 3 + 4);
  EXPECT_EQ(result.log.points, 1 + 1 + 4);
  ASSERT_EQ(said.size(), 6u + static_cast<std::size_t>(result.log.simulations));
  EXPECT_EQ(said.front(), "4 layers, 4 micro-batches: computing stage costs");
}

// No plan that a method finds with the same layers and micro-batches is below the free search's lower bound, nor, on
// one host, faster than what it finds.
TEST(Search, IsBoundedBelowAndNotBeatenByItsOwnSpecialCases) {
  for (const auto& [model, cluster] : {std::pair{kMlp, "cpu:4"}, std::pair{kGpt, "cpu:4"}, std::pair{kMlp, "cpu:8"}})
    for (const double slowness : {1.0, 10.0}) {
      PlanRequest request = with_slow_links(ask_four_layers(model, cluster), slowness);
      const PlanPrediction free = planned(request).plan->predicted;
      EXPECT_LE(free.lower_bound, free.step_time);
      EXPECT_GT(free.lower_bound, 0.1 * free.step_time);
      for (const char* method : {"shard", "data", "zero2", "megatron:tp=2,pp=2", "megatron:tp=1,pp=4"}) {
        request.search.method = method_from_text(method);
        const Seconds step = planned(request).plan->predicted.step_time;
        EXPECT_LE(free.lower_bound, step) << method << " " << slowness;
        EXPECT_LE(free.step_time.si(), step.si() * (1 + 1e-9)) << method << " " << slowness;
      }
    }
}

// Between hosts the sharding in which a stage receives its input matters more than how it computes: whole copies for
// every device of a data-parallel stage cost several times what its samples' share does.
TEST(Search, CountsWhatTravelsBetweenHosts) {
  PlanRequest request = ask("mlp:layers=8,hidden=512", "p3.16xlarge:2", "pipeshard", 256, 16);
  request.search.layers = 8;
  const Seconds free = planned(request).plan->predicted.step_time;
  request.search.method = method_from_text("megatron:tp=1,pp=8");
  EXPECT_LE(free, planned(request).plan->predicted.step_time);
}

TEST(Search, OverMicrobatchesIsAsGoodAsEachAlone) {
  PlanRequest request = ask_four_layers(kGpt, "cpu:4");
  request.search.microbatches = Auto{};
  const Planned searched = planned(request);
  const std::int64_t chosen = searched.plan->training.microbatches;
  EXPECT_EQ(64 % chosen, 0);
  for (const std::int64_t alone : {std::int64_t{1}, std::int64_t{2}, chosen}) {
    request.search.microbatches = alone;
    const Seconds step = planned(request).plan->predicted.step_time;
    EXPECT_LE(searched.plan->predicted.step_time, step) << alone;
    if (alone == chosen) {
      EXPECT_EQ(searched.plan->predicted.step_time, step);
    }
  }
}

// --- stages given by hand ---

std::vector<Method::ManualStage> stages_of(const Plan& plan) {
  std::vector<Method::ManualStage> stages;
  for (const StagePlan& stage : plan.stages)
    stages.push_back({stage.first_layer, stage.last_layer, stage.submesh, stage.logical_shape});
  return stages;
}

TEST(Manual, StagesOfAFoundPlanTakeItsTime) {
  std::set<std::size_t> stage_counts;
  for (const double slowness : {1.0, 3.0, 30.0}) {
    PlanRequest request = with_slow_links(ask_four_layers(kMlp, "cpu:4"), slowness);
    const Plan found = *planned(request).plan;
    request.search.method = manual(stages_of(found));
    const Planned again = planned(request);
    EXPECT_EQ(again.plan->predicted.step_time, found.predicted.step_time);
    stage_counts.insert(found.stages.size());
  }
  EXPECT_GE(stage_counts.size(), 2u);
}

// 1 x 2 and 2 x 1 are the same two devices: a stage is no slower because another one has the other shape.
TEST(Manual, StagesOfOneSubmeshMayHaveDifferentShapes) {
  PlanRequest request = with_slow_links(ask("mlp:layers=2,hidden=128", "cpu:4", "pipeshard", 64, 2), 1000);
  request.search.layers = 2;
  request.cluster.only().device.memory = Bytes(4e6);  // little enough for smaller, slower options to exist
  request.search.method = manual({{0, 0, {1, 2}, {1, 2}}, {1, 1, {1, 2}, {1, 2}}});
  const Seconds equal = planned(request).plan->predicted.step_time;
  request.search.method = manual({{0, 0, {1, 2}, {1, 2}}, {1, 1, {1, 2}, {2, 1}}});
  EXPECT_NEAR(planned(request).plan->predicted.step_time.si(), equal.si(), 1e-9 * equal.si());
}

TEST(Manual, StagesMayLeaveDevicesIdle) {
  PlanRequest request = ask_four_layers(kMlp, "cpu:8");
  request.search.method = manual({{0, 1, {1, 2}, {2, 1}}, {2, 3, {1, 1}, {1, 1}}});
  const Planned result = planned(request);
  ASSERT_TRUE(result.plan) << result.reason;
  EXPECT_EQ(result.plan->stages[0].devices, (std::vector<int>{0, 1}));
  EXPECT_EQ(result.plan->stages[1].devices, (std::vector<int>{2}));
}

// A micro-batch of dualpipe passes through both copies of the stages, which are one where the schedule is searched.
TEST(Manual, StagesAreTheRanksOfASearchedSchedule) {
  PlanRequest request = ask_four_layers(kMlp, "cpu:4");
  request.search.method = manual({{0, 1, {1, 2}, {2, 1}}, {2, 3, {1, 2}, {2, 1}}});
  request.search.schedule = Auto{};
  for (const std::int64_t microbatches : {1, 2, 3, 4, 8})
    EXPECT_EQ(unmet_by(request, ScheduleKind::DualPipe, microbatches),
              unmet_by(ScheduleKind::DualPipe, 2, microbatches));
}

// --- a step to beat ---

// Stages' costs count a resharding once per reader, and programs once per value, which may make a hair of difference.
TEST(StepToBeat, LeavesThePlanThatBeatsItAndNoSlowerOne) {
  for (const char* method : {"pipeshard", "megatron:tp=2,pp=2", "data", "zero3"}) {
    PlanRequest request = ask_four_layers(kGpt, "cpu:4", method);
    request.search.microbatches = Auto{};
    const Plan free = *planned(request).plan;
    request.to_beat = 1.05 * free.predicted.step_time;
    const Planned beats = planned(request);
    ASSERT_TRUE(beats.plan) << method;
    EXPECT_EQ(to_json(*beats.plan), to_json(free)) << method;
    request.to_beat = free.predicted.step_time;
    EXPECT_FALSE(planned(request).plan) << method;
  }
}

TEST(StepToBeat, SparesProgramsWhoseStagesAloneTakeLonger) {
  PlanRequest request = ask_four_layers(kMlp, "cpu:4", "megatron:tp=2,pp=2");
  request.search.microbatches = Auto{};
  const Planned free = planned(request);
  EXPECT_GE(free.log.simulations, 4);
  request.to_beat = 0.5 * free.plan->predicted.step_time;
  EXPECT_EQ(planned(request).log.simulations, 0);
}

// --- inference ---

TEST(Inference, PaysForNoUpdate) {
  for (const char* method : {"shard", "data", "zero2"}) {
    PlanRequest request = ask_four_layers(kMlp, "cpu:4", method);
    request.search.schedule = ScheduleKind::Inference;
    const Planned result = planned(request);
    ASSERT_TRUE(result.plan) << result.reason;
    EXPECT_EQ(result.plan->stages[0].backward, Seconds(0)) << method;
    EXPECT_EQ(result.plan->stages[0].update, Seconds(0)) << method;
  }
}

}  // namespace
}  // namespace meshwright::make_plan_test
