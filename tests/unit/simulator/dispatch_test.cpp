// SPDX-License-Identifier: Apache-2.0
#include "simulator/program/dispatch.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "simulator/program/program_graph.h"
#include "tests/unit/planning_fixture.h"
#include "tests/unit/program_fixture.h"

namespace meshwright::dispatch_test {
namespace {

constexpr Seconds picoseconds(double n) { return Seconds(n * 1e-12); }

SimTime among_many(const Program& program, const ProgramTimes& times, const Controller& controller, int steps,
                   int period = 1) {
  ProgramGraphOptions options;
  options.controller = controller;
  options.steps = steps;
  const ProgramGraph made = program_graph(program, times, options);
  check_task_graph(made.graph);
  return step_among_many(made, run_in_order(made.graph), period);
}

// Two stages of one device: forwards 100, backwards 200, updates 10, messages 5; one microbatch. A step among many is
// the way down and up again: 100 + 5 + 100 + 200 + 5 + 200 + 10.
struct TwoStages {
  Program program = PipelineProgram(ScheduleKind::OneFOneB, 2, 1).take();
  ProgramTimes times = program_times(program, equal_stages(2, {100}, {200}, {5}, {10}));
  static constexpr std::int64_t kStep = 620;
};

TEST(Dispatch, IsHiddenWhereTheControllerRunsAhead) {
  const TwoStages two;
  Controller controller;
  controller.per_instruction = picoseconds(20);
  // Three Runs on either device and three Exchanges in all take 180 of the controller's time, less than a step.
  EXPECT_EQ(among_many(two.program, two.times, controller, 6).ps, TwoStages::kStep);
  controller.kind = Controller::Kind::Multi;
  EXPECT_EQ(among_many(two.program, two.times, controller, 6).ps, TwoStages::kStep);
}

TEST(Dispatch, IsWhatAStepTakesWhereItTakesLonger) {
  const TwoStages two;
  // Three Runs on each device; one Exchange on the first, and one more on the last, which receives and sends apart.
  std::vector<int> issued;
  for (const auto& list : two.program.devices)
    issued.push_back(static_cast<int>(std::count_if(list.begin(), list.end(), [](const Instruction& instruction) {
      return instruction.kind != Instruction::Kind::Free;
    })));
  Controller controller;
  controller.per_instruction = picoseconds(1000);
  EXPECT_EQ(among_many(two.program, two.times, controller, 6).ps, 1000 * (issued[0] + issued[1]));
  // Each host issues its own.
  controller.kind = Controller::Kind::Multi;
  EXPECT_EQ(among_many(two.program, two.times, controller, 6).ps, 1000 * std::max(issued[0], issued[1]));
}

TEST(Dispatch, OfAFetchedLossCostsWhatItHidOtherwise) {
  const TwoStages two;
  Controller controller;
  controller.per_call = picoseconds(7);
  controller.fetch = picoseconds(3);
  EXPECT_EQ(among_many(two.program, two.times, controller, 6).ps, TwoStages::kStep);
  // The last stage ends at 100 + 5 + 100 + 200 + 10 = 415 of a step of 620: fetched and called by 415 + 3 + 7 + 7.
  controller.fetch_every = 1;
  EXPECT_EQ(among_many(two.program, two.times, controller, 6).ps, TwoStages::kStep);
  // With a result that takes 300 to come the next step begins at 415 + 300 + 7 of the one before.
  controller.fetch = picoseconds(300);
  EXPECT_EQ(among_many(two.program, two.times, controller, 6).ps, 415 + 300 + 7);
  // Every second step only: half of the difference.
  controller.fetch_every = 2;
  EXPECT_EQ(among_many(two.program, two.times, controller, 9, 2).ps, (TwoStages::kStep + 415 + 300 + 7) / 2);
}

// On one host of two devices that do the same: what is issued, is issued once.
TEST(Dispatch, IssuesOnceWhatTheDevicesOfAHostDoAlike) {
  const Program narrow = PipelineProgram(ScheduleKind::OneFOneB, 2, 3).take();
  Program wide = PipelineProgram(ScheduleKind::OneFOneB, 2, 3, 2).take();
  for (ProgramStage& stage : wide.stages) stage.mesh.of = {1, 2, 0};
  const PipelineTimes times = equal_stages(2, {10}, {20}, {5});
  Controller controller;
  controller.per_instruction = picoseconds(1000);
  EXPECT_EQ(among_many(wide, program_times(wide, times), controller, 3),
            among_many(narrow, program_times(narrow, times), controller, 3));
  for (ProgramStage& stage : wide.stages) stage.mesh.of = {2, 1, 0};
  EXPECT_EQ(among_many(wide, program_times(wide, times), controller, 3).ps,
            2 * among_many(narrow, program_times(narrow, times), controller, 3).ps);
}

TEST(Dispatch, OfManySmallOpsKeepsARunAsLongAsItsLaunches) {
  EXPECT_EQ(issue_of({5}, {100}, {300}).before.ps, 5);
  EXPECT_EQ(issue_of({5}, {100}, {300}).after.ps, 100);
  EXPECT_EQ(issue_of({5}, {300}, {100}).before.ps, 5 + 200);
  EXPECT_EQ(issue_of({5}, {300}, {100}).after.ps, 100);

  // A single device, no collectives: the host launches every op of a step in ops * launch.
  const HandPlan made =
      by_hand("mlp:layers=2,hidden=16", "cpu:1", {.batch = 16, .microbatches = 2}, {{"", {1, 1}, {}}});
  const ProgramTimes times = program_costs(made.program, *made.costs).times;
  std::int64_t ops = 0, compute = 0;
  for (const Instruction& instruction : made.program.devices[0])
    if (instruction.kind == Instruction::Kind::Run) {
      const auto e = static_cast<std::size_t>(instruction.executable);
      ops += static_cast<std::int64_t>(made.program.executables[e].ops.size());
      compute += times.executable[e].ps;
    }
  Controller controller;
  controller.kind = Controller::Kind::Multi;
  controller.launch = picoseconds(1);
  EXPECT_EQ(among_many(made.program, times, controller, 4).ps, compute);
  controller.launch = Seconds(1e-3);
  EXPECT_EQ(among_many(made.program, times, controller, 4).ps, ops * 1000000000);
}

// What is issued in time changes nothing where pieces overlap, either; what is not, is what the step takes.
TEST(Dispatch, IsHiddenOrNotWhereRunsOverlap) {
  const HandPlan made = by_hand("mlp:layers=4,hidden=64", "cpu:4", {.batch = 64, .microbatches = 4},
                                {{"", {2, 1}, {{"batch", 1}}}, {"blk2.up", {2, 1}, {{"batch", 1}}}});
  const ProgramTimes times = program_costs(made.program, *made.costs).times;
  const auto pieces = cut_executables(made.program, times, *made.costs, {});
  ProgramGraphOptions options;
  options.overlap = &pieces;
  options.steps = 8;
  const auto among_eight = [&] {
    const ProgramGraph graph = program_graph(made.program, times, options);
    check_task_graph(graph.graph);
    return step_among_many(graph, run_in_order(graph.graph));
  };
  const SimTime in_time = among_eight();
  options.controller = Controller{};
  options.controller->per_instruction = picoseconds(1);
  EXPECT_EQ(among_eight(), in_time);
  options.controller->per_instruction = Seconds(1.0);
  int issued = 0;
  for (const int device : {0, 2})  // two of a stage do the same
    for (const Instruction& instruction : made.program.devices[static_cast<std::size_t>(device)])
      issued += static_cast<int>(instruction.kind != Instruction::Kind::Free);
  EXPECT_EQ(among_eight().ps, issued * std::int64_t{1000000000000});
}

TEST(Dispatch, SendsTheBatchWithTheRunThatReadsIt) {
  const HandPlan made =
      by_hand("mlp:layers=2,hidden=16", "cpu:1", {.batch = 16, .microbatches = 2}, {{"", {1, 1}, {}}});
  const StageExecutable& forward =
      made.program.executables[static_cast<std::size_t>(made.program.stages[0].forward.value())];
  // Inputs and targets of 8 rows of 16 numbers.
  EXPECT_EQ(batch_bytes(forward), Bytes(2 * 8 * 16 * 4));
  Controller controller;
  controller.arguments = BytesPerSecond(1.0);  // a second per byte: all else is nothing
  const ProgramTimes times = program_costs(made.program, *made.costs).times;
  EXPECT_EQ(among_many(made.program, times, controller, 4).ps, 2 * 1024 * std::int64_t{1000000000000});
}

TEST(Dispatch, NamesItsKindsAndKnowsAlpas) {
  EXPECT_STREQ(name_of(Controller::Kind::Single), "single");
  EXPECT_STREQ(name_of(Controller::Kind::Multi), "multi");
  EXPECT_EQ(alpa_controller().per_call, Seconds(2.5e-3));
}

TEST(Dispatch, FindsHostsFromSubmeshes) {
  Program program = PipelineProgram(ScheduleKind::OneFOneB, 2, 1, 4).take();
  program.stages[0].mesh.of = {2, 2, 0};
  program.stages[1].mesh.of = {1, 4, 0};
  EXPECT_EQ(hosts_of(program), (std::vector<int>{0, 0, 1, 1, 2, 2, 2, 2}));
}

}  // namespace
}  // namespace meshwright::dispatch_test
