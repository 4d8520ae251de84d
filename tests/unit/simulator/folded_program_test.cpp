// SPDX-License-Identifier: Apache-2.0
// Few devices stand for many: same step, same bytes, same figures.
#include "simulator/fold/folded_program.h"

#include <gtest/gtest.h>

#include "costmodel/cost_models.h"
#include "costmodel/sheets/software_profile.h"
#include "simulator/fold/folded_plan.h"
#include "simulator/program/program_graph.h"
#include "simulator/what_if/prediction.h"
#include "simulator/what_if/simulate_step.h"
#include "tests/unit/planning_fixture.h"
#include "tests/unit/program_fixture.h"

namespace meshwright::folded_program_test {
namespace {

void expect_same_step(const FoldedProgram& folded, const Program& truth, const ProgramTimes& times) {
  ProgramGraphOptions options;
  options.folded = &folded.folded;
  const ProgramGraph small = program_graph(folded.program, folded.times, options), large = program_graph(truth, times);
  check_task_graph(small.graph);
  const TaskTimes of_small = run_in_order(small.graph), of_large = run_in_order(large.graph);
  EXPECT_EQ(of_small.step, of_large.step);
  for (std::size_t d = 0; d < truth.devices.size(); ++d)
    EXPECT_EQ(of_small.peak_memory[folded.folded.representative[d].index()], of_large.peak_memory[d]) << "device " << d;
}

TEST(FoldedProgram, OfAWidePipelineIsThatOfOneDevicePerStage) {
  const Program wide = PipelineProgram(ScheduleKind::OneFOneB, 4, edges_of_line(4), 13, 6, Collectives::Some).take();
  const ProgramTimes times = program_times(wide, equal_stages(4, {10}, {20}, {3}));
  const FoldedProgram folded = fold_program(wide, times);
  EXPECT_EQ(folded.folded.classes, 4);
  EXPECT_EQ(folded.program.transfers.size(), 13u * 6);  // up and down between four devices
  expect_same_step(folded, wide, times);
}

const Names kData = {{"batch", 1}}, kBoth = {{"batch", 1}, {"heads", 2}, {"mlp", 2}, {"vocab", 2}};

// With Runs in pieces, too: who brings which buffer is kept where messages stand for each other.
TEST(FoldedProgram, OverlapsLikeTheWhole) {
  const HandPlan made = by_hand("gpt:layers=3,hidden=16,heads=4,seq=8,vocab=32", "cpu:8",
                                {.batch = 40, .microbatches = 10}, {{"", {2, 2}, kBoth}, {"blk1.ln1", {4, 1}, kData}});
  const ProgramTimes times = program_costs(made.program, *made.costs).times;
  const FoldedProgram folded = fold_program(made.program, times);
  const auto step = [&](const Program& program, const ProgramTimes& own, const FoldedDevices* devices) {
    const auto pieces = cut_executables(program, own, *made.costs, {});
    ProgramGraphOptions options;
    options.overlap = &pieces;
    options.folded = devices;
    return run_in_order(program_graph(program, own, options).graph).step;
  };
  EXPECT_EQ(step(folded.program, folded.times, &folded.folded), step(made.program, times, nullptr));
}

// --- plans that are lowered for representatives alone ---

Prediction prediction_of_all(const LoadedPlan& loaded, const ProgramCosts& costs) {
  return prediction_of(loaded.program, costs, simulate_plain_step(loaded.program, costs.times));
}

void expect_same_figures(const Prediction& folded, const Prediction& whole) {
  EXPECT_EQ(folded.step, whole.step);
  EXPECT_EQ(folded.summary.step, whole.summary.step);
  EXPECT_EQ(folded.summary.compute, whole.summary.compute);
  EXPECT_EQ(folded.summary.waiting, whole.summary.waiting);
  EXPECT_EQ(folded.stage_waits, whole.stage_waits);
  EXPECT_EQ(folded.costs.basis.modelled, whole.costs.basis.modelled);
  ASSERT_EQ(folded.stages.size(), whole.stages.size());
  for (std::size_t s = 0; s < whole.stages.size(); ++s) {
    EXPECT_EQ(folded.stages[s].forward, whole.stages[s].forward);
    EXPECT_EQ(folded.stages[s].backward, whole.stages[s].backward);
    EXPECT_EQ(folded.stages[s].update, whole.stages[s].update);
  }
}

bool equal_lists(const std::vector<Instruction>& a, const std::vector<Instruction>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Instruction& x, const Instruction& y) {
    return x.kind == y.kind && x.executable == y.executable && x.microbatch == y.microbatch && x.sends == y.sends &&
           x.receives == y.receives && x.buffers == y.buffers && x.waits == y.waits;
  });
}

// The part that is lowered is what is left of the whole, list by list, and every figure is the same.
void expect_folds(const Plan& plan, std::unique_ptr<CostModel> costs = nullptr) {
  ASSERT_TRUE(can_fold(plan));
  if (costs == nullptr) costs = make_analytic_cost_model(plan.cluster);
  const LoadedPlan whole = load_plan(plan, *costs);
  const ProgramCosts whole_costs = program_costs(whole.program, *costs);
  const FoldedProgram truth = fold_program(whole.program, whole_costs.times);
  const FoldedPlan folded = load_folded_plan(plan, *costs);
  EXPECT_EQ(folded.folded.representative, truth.folded.representative);
  EXPECT_EQ(folded.folded.message, truth.folded.message);
  EXPECT_EQ(folded.loaded.program.transfers, truth.program.transfers);
  for (std::size_t d = 0; d < truth.program.devices.size(); ++d)
    EXPECT_TRUE(equal_lists(folded.loaded.program.devices[d], truth.program.devices[d])) << "device " << d;
  EXPECT_EQ(folded.loaded.check.peak_memory, whole.check.peak_memory);
  EXPECT_EQ(folded.loaded.program.persistent_bytes, whole.program.persistent_bytes);
  EXPECT_EQ(folded.loaded.program.host_bytes, whole.program.host_bytes);

  const Program& part = folded.loaded.program;
  const ProgramCosts own = program_costs(part, *costs);
  EXPECT_EQ(own.times.transfer, truth.times.transfer);
  EXPECT_EQ(own.times.executable, truth.times.executable);
  const Prediction all = prediction_of_all(whole, whole_costs);
  expect_same_figures(prediction_of(part, own, simulate_plain_step(part, own.times, &folded.folded), &folded.folded),
                      all);
  expect_same_figures(prediction_of(truth.program, whole_costs,
                                    simulate_plain_step(truth.program, truth.times, &truth.folded), &truth.folded),
                      all);
  EXPECT_EQ(folded.events, all.events);
}

// Stages of other shapes: a device receives tiles from several, some of which stand for each other.
TEST(FoldedPlan, IsWhatIsLeftOfTheWhole) {
  for (const ScheduleKind kind : all_schedules()) {
    SCOPED_TRACE(name_of(kind));
    if (traits_of(kind).splits_backward || traits_of(kind).chunks != 1) continue;
    for (const std::int64_t microbatches : {1, 2, 7}) {
      const TrainingOptions training{.batch = 4 * microbatches, .microbatches = microbatches};
      const char* const model = "gpt:layers=3,hidden=16,heads=4,seq=8,vocab=32";
      expect_folds(by_hand(model, "cpu:8", training, {{"", {2, 2}, kBoth}, {"blk1.ln1", {4, 1}, kData}}, kind).plan);
      expect_folds(
          by_hand(model, "p3.16xlarge:1", training, {{"", {4, 1}, kData}, {"blk1.ln1", {2, 2}, kBoth}}, kind).plan);
      expect_folds(by_hand(model, "cpu:8", training,
                           {{"", {1, 1}, {}}, {"blk1.ln1", {2, 2}, kBoth}, {"blk2.ln1", {2, 1}, kData}}, kind)
                       .plan);
    }
  }
}

// A software whose messages hold up the Runs beside them: those of the first device count, whoever stands for them.
TEST(FoldedPlan, OfMessagesThatBlockIsWhatIsLeftOfTheWhole) {
  const SoftwareProfile software = find_software_profile("megatron-deepspeed");
  for (const char* method : {"megatron:tp=2,pp=4", "megatron:tp=4,pp=2"}) {
    const PlanRequest request = ask("gpt:layers=4,hidden=64,heads=4,seq=32,vocab=64", "p4d.24xlarge:4", method, 768, 4);
    const auto made = planned(request);
    ASSERT_GT(make_physical_cost_model(request.cluster, software)->messages().blocking, 0.0);
    expect_folds(*made.plan, make_physical_cost_model(request.cluster, software));
  }
}

// Stages within blocks send to the next stage and past it. In one micro-batch both messages are alike; in many the two
// stages take them at different times.
TEST(FoldedPlan, OfStagesThatSendPastOthersIsWhatIsLeftOfTheWhole) {
  const PlanRequest request = ask("llama:layers=4,hidden=40,heads=2,seq=32,vocab=32,kv_heads=2,intermediate=64",
                                  "dgx-h100:6", "megatron:tp=1,pp=24", 64, 64);
  expect_folds(*planned(request).plan);
}

// --- under circumstances that leave devices alike ---

struct Circumstances {
  StepSimulation step;
  Prediction prediction;
  std::vector<Bytes> peaks;
};
Circumstances of_all_devices(const Plan& plan, const CostModel& costs, const StepRequest& request) {
  const LoadedPlan whole = load_plan(plan, costs);
  ProgramCosts own = program_costs(whole.program, costs);
  Circumstances found{simulate_step(plan, whole, own.times, costs, request, 1), {}, {}};
  found.prediction = prediction_of(whole.program, std::move(own), found.step);
  found.peaks = peak_memory(found.step, whole.program);
  return found;
}
Circumstances of_representatives(const Plan& plan, const CostModel& costs, const StepRequest& request) {
  const FoldedPlan folded = load_folded_plan(plan, costs, request);
  ProgramCosts own = program_costs(folded.loaded.program, costs);
  Circumstances found{simulate_step(plan, folded, own.times, costs, request), {}, {}};
  found.prediction = prediction_of(folded.loaded.program, std::move(own), found.step, &folded.folded);
  found.peaks = peak_memory(found.step, folded.loaded.program, &folded.folded);
  return found;
}

// Returns how many tasks of all devices there are for one of representatives.
double expect_same_under_circumstances(const Plan& plan, const StepRequest& request) {
  const auto costs = make_analytic_cost_model(cluster_of_step(plan.cluster, request));
  const Circumstances all = of_all_devices(plan, *costs, request), some = of_representatives(plan, *costs, request);
  EXPECT_EQ(some.step.step, all.step.step);
  EXPECT_EQ(some.step.by_events, all.step.by_events);
  EXPECT_EQ(some.peaks, all.peaks);
  expect_same_figures(some.prediction, all.prediction);
  return static_cast<double>(all.step.tasks.graph.size()) / static_cast<double>(some.step.tasks.graph.size());
}

std::vector<StepRequest> circumstances() {
  std::vector<StepRequest> found;
  for (const NetworkModel network : {NetworkModel::Static, NetworkModel::Fluid})
    for (const bool overlap : {false, true}) {
      if (network == NetworkModel::Static && !overlap) continue;
      StepRequest& request = found.emplace_back();
      request.network = network;
      if (overlap) request.overlap = CutOptions{};
    }
  return found;
}

// Four hosts per stage that do the same: the devices of one host of each stand for all.
TEST(FoldedPlan, SharesLinksAndOverlapsLikeTheWhole) {
  PlanRequest wide =
      ask("gpt:layers=4,hidden=64,heads=8,seq=16,vocab=128", "p3.16xlarge:8", "megatron:tp=8,pp=2", 64, 8);
  const PlanningResult result = planned(wide);
  ASSERT_TRUE(result.plan) << result.reason;
  for (const StepRequest& request : circumstances()) {
    SCOPED_TRACE(testing::Message() << static_cast<int>(request.network) << request.overlap.has_value());
    EXPECT_GE(expect_same_under_circumstances(*result.plan, request), 3.9);
  }
}

// Devices of a stage receive tiles from several, over NICs that others use as well.
TEST(FoldedPlan, SharesLinksBetweenStagesOfOtherShapesLikeTheWhole) {
  const char* const model = "gpt:layers=3,hidden=16,heads=4,seq=8,vocab=32";
  for (const char* const cluster : {"p3.16xlarge:1", "cpu:8", "dgx-a100:1"})
    for (const StepRequest& request : circumstances()) {
      SCOPED_TRACE(cluster);
      const TrainingOptions training{.batch = 12, .microbatches = 3};
      expect_same_under_circumstances(
          by_hand(model, cluster, training, {{"", {4, 1}, kData}, {"blk1.ln1", {2, 2}, kBoth}}).plan, request);
      expect_same_under_circumstances(
          by_hand(model, cluster, training,
                  {{"", {1, 1}, {}}, {"blk1.ln1", {2, 2}, kBoth}, {"blk2.ln1", {2, 1}, kData}})
              .plan,
          request);
    }
}

// A network of any kind only says when communication ends: without links to share, no device is idle for longer.
TEST(FoldedPlan, IsAsBusyOnANetworkAsWithoutOne) {
  PlanRequest request =
      ask("gpt:layers=4,hidden=64,heads=8,seq=16,vocab=128", "p3.16xlarge:1", "megatron:tp=4,pp=1", 64, 8);
  const PlanningResult result = planned(request);
  ASSERT_TRUE(result.plan) << result.reason;
  const auto costs = make_analytic_cost_model(result.plan->cluster);
  const Circumstances plain = of_all_devices(*result.plan, *costs, {});
  StepRequest fluid;
  fluid.network = NetworkModel::Fluid;
  const Circumstances shared = of_all_devices(*result.plan, *costs, fluid);
  EXPECT_EQ(shared.step.step, plain.step.step);
  EXPECT_NEAR(shared.prediction.summary.waiting, plain.prediction.summary.waiting, 1e-6);
  EXPECT_NEAR(shared.prediction.stage_waits.longest, plain.prediction.stage_waits.longest, 1e-6);
  EXPECT_NEAR(shared.prediction.stages[0].forward / plain.prediction.stages[0].forward, 1.0, 1e-6);
  EXPECT_NEAR(shared.prediction.stages[0].update / plain.prediction.stages[0].update, 1.0, 1e-6);
}

struct Search {
  const char *model, *cluster, *method, *schedule;
};
class FoldedPlanOfSearch : public testing::TestWithParam<Search> {};
TEST_P(FoldedPlanOfSearch, IsWhatIsLeftOfTheWhole) {
  const auto& [model, cluster, method, schedule] = GetParam();
  PlanRequest request = ask(model, cluster, method, 64, 8);
  request.search.layers = 4;
  const ScheduleKind kind = schedule_from_name(schedule);
  request.search.schedule = kind;
  if (kind == ScheduleKind::Interleaved) request.search.chunks = 2;
  const PlanningResult result = planned(request);
  ASSERT_TRUE(result.plan) << result.reason;
  expect_folds(*result.plan);
  for (const StepRequest& circumstance : circumstances()) expect_same_under_circumstances(*result.plan, circumstance);
}
constexpr const char* kGpt = "gpt:layers=4,hidden=32,heads=4,seq=8,vocab=64";
INSTANTIATE_TEST_SUITE_P(
    All, FoldedPlanOfSearch,
    testing::Values(Search{"mlp:layers=4,hidden=32", "p3.16xlarge:2", "megatron:tp=2,pp=2", "1f1b"},
                    Search{kGpt, "p3.16xlarge:2", "megatron:tp=4,pp=4", "1f1b"},
                    Search{kGpt, "p3.16xlarge:2", "pipeshard", "1f1b"}, Search{kGpt, "cpu:8", "pipeshard", "gpipe"},
                    Search{kGpt, "cpu:8", "zero3", "1f1b"}, Search{kGpt, "cpu:8", "megatron:tp=2,pp=2", "eager-1f1b"},
                    Search{kGpt, "p3.16xlarge:1", "pipeshard", "interleaved"},
                    Search{kGpt, "cpu:8", "megatron:tp=2,pp=2", "inference"}),
    [](const auto& of) { return fmt::format("Case{}", of.index); });

}  // namespace
}  // namespace meshwright::folded_program_test
