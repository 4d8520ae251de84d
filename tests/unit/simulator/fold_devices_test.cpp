// SPDX-License-Identifier: Apache-2.0
#include "simulator/fold/fold_devices.h"

#include <gtest/gtest.h>

#include <random>

#include "simulator/program/program_graph.h"
#include "tests/unit/planning_fixture.h"
#include "tests/unit/program_fixture.h"

namespace meshwright::fold_devices_test {
namespace {

struct Ran {
  int instruction;
  SimTime begin, end;
  bool operator==(const Ran&) const = default;
};

// [device] its Runs in order.
std::vector<std::vector<Ran>> runs_of(const Program& program, const ProgramGraph& made, const TaskTimes& times) {
  std::vector<std::vector<Ran>> runs(program.devices.size());
  for (std::size_t t = 0; t < made.of.size(); ++t) {
    const TaskKind kind = made.graph.of(TaskId(static_cast<int>(t))).kind;
    if (made.of[t].transfer >= 0 || kind == TaskKind::Join) continue;
    runs[static_cast<std::size_t>(made.of[t].device)].push_back({made.of[t].instruction, times.begin[t], times.end[t]});
  }
  return runs;
}

// Every device does what its representative does, to the picosecond and the byte. Returns the number of classes.
int expect_alike(const Program& program, const ProgramTimes& times) {
  const FoldedDevices folded = fold_devices(program, times);
  ProgramGraphOptions options;
  options.folded = &folded;
  options.steps = 2;
  options.name_tasks = true;
  const ProgramGraph small = program_graph(program, times, options);
  options.folded = nullptr;
  const ProgramGraph large = program_graph(program, times, options);
  check_task_graph(small.graph);
  const TaskTimes of_small = run_in_order(small.graph), of_large = run_in_order(large.graph);
  EXPECT_EQ(of_small.step, of_large.step);
  const auto runs_small = runs_of(program, small, of_small), runs_large = runs_of(program, large, of_large);
  for (std::size_t d = 0; d < program.devices.size(); ++d) {
    const std::size_t representative = folded.representative[d].index();
    EXPECT_LE(representative, d);
    EXPECT_EQ(runs_large[d], runs_small[representative]) << "device " << d;
    EXPECT_EQ(of_large.peak_memory[d], of_small.peak_memory[representative]) << "device " << d;
  }
  return folded.classes;
}

TEST(FoldDevices, LeavesOneDeviceOfEachStageWhoseDevicesWorkInStep) {
  for (const auto collectives : {Collectives::None, Collectives::Some}) {
    const Program program = PipelineProgram(ScheduleKind::OneFOneB, 4, edges_of_line(4), 6, 5, collectives).take();
    EXPECT_EQ(expect_alike(program, program_times(program, equal_stages(4, {10}, {20}, {3}))), 4);
  }
}

// One message of device 1 is slower: it, and what receives it, and what receives from that, have classes of their own.
TEST(FoldDevices, KeepsDevicesApartThatReceiveAtOtherTimes) {
  const Program program = PipelineProgram(ScheduleKind::Inference, 3, 2, 4).take();
  ProgramTimes times = program_times(program, equal_stages(3, {10}, {0}, {3}));
  for (std::size_t t = 0; t < program.transfers.size(); ++t)
    if (program.transfers[t].source.value == 1) times.transfer[t].ps = 50;
  const FoldedDevices folded = fold_devices(program, times);
  EXPECT_EQ(folded.classes, 6);
  EXPECT_EQ(folded.representative, (std::vector<DeviceId>{DeviceId(0), DeviceId(1), DeviceId(0), DeviceId(0),  //
                                                          DeviceId(4), DeviceId(5), DeviceId(4), DeviceId(4),
                                                          DeviceId(8), DeviceId(9), DeviceId(8), DeviceId(8)}));
  expect_alike(program, times);
}

// Random messages: little is alike, and nothing is taken for it that is not.
TEST(FoldDevices, IsExactWhereMessagesDiffer) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    const auto edges = random_edges(random, 4);
    const Program program =
        PipelineProgram(ScheduleKind::OneFOneB, 4, edges, 3, 4, round % 2 ? Collectives::Some : Collectives::None)
            .take();
    ProgramTimes times = program_times(program, equal_branches(4, edges, {10}, {20}, {3}, {1}));
    std::uniform_int_distribution<std::int64_t> any(1, round % 3 == 0 ? 40 : 2);
    std::uniform_int_distribution<int> rarely(0, 20);
    for (SimTime& time : times.transfer)
      if (rarely(random) == 0) time.ps = any(random);
    SCOPED_TRACE(round);
    expect_alike(program, times);
  }
}

struct Lowered {
  const char *model, *cluster, *method;
  int most;  // classes
};
class FoldDevicesOfPlans : public testing::TestWithParam<Lowered> {};
TEST_P(FoldDevicesOfPlans, IsExact) {
  const auto& [model, cluster, method, most] = GetParam();
  PlanRequest request = ask(model, cluster, method, 64, 4);
  request.search.layers = 4;
  const Planned result = planned(request);
  ASSERT_TRUE(result.plan) << result.reason;
  const auto costs = make_analytic_cost_model(request.cluster);
  const ProgramTimes times = program_costs(result.program, *costs).times;
  EXPECT_LE(expect_alike(result.program, times), most);
}
constexpr const char* kGpt = "gpt:layers=2,hidden=32,heads=4,seq=8,vocab=64";
INSTANTIATE_TEST_SUITE_P(All, FoldDevicesOfPlans,
                         testing::Values(Lowered{"mlp:layers=4,hidden=32", "p3.16xlarge:2", "megatron:tp=2,pp=2", 4},
                                         Lowered{kGpt, "cpu:8", "zero3", 1}, Lowered{kGpt, "cpu:8", "data", 1},
                                         Lowered{kGpt, "cpu:8", "megatron:tp=2,pp=2", 4},
                                         Lowered{kGpt, "p3.16xlarge:2", "pipeshard", 16}),
                         [](const auto& of) { return fmt::format("Case{}", of.index); });

// Stages of other shapes: each device of the one sends tiles to several of the other.
TEST(FoldDevices, OfStagesThatAreSplitDifferentlyIsExact) {
  const Names data = {{"batch", 1}}, tensor = {{"heads", 2}, {"mlp", 2}, {"vocab", 2}};
  const Names both = {{"batch", 1}, {"heads", 2}, {"mlp", 2}, {"vocab", 2}};
  const TrainingOptions training{.batch = 16, .microbatches = 4};
  for (const auto& stages :
       {std::vector<HandStage>{{"", {2, 2}, both}, {"blk1.ln1", {4, 1}, data}},
        std::vector<HandStage>{{"", {4, 1}, data}, {"blk1.ln1", {1, 4}, tensor}},
        std::vector<HandStage>{{"", {1, 1}, {}}, {"blk1.ln1", {2, 2}, both}, {"blk2.ln1", {2, 1}, data}}}) {
    const HandPlan made = by_hand("gpt:layers=3,hidden=16,heads=4,seq=8,vocab=32", "cpu:8", training, stages);
    EXPECT_LE(expect_alike(made.program, program_costs(made.program, *made.costs).times), 7);
  }
}

}  // namespace
}  // namespace meshwright::fold_devices_test
