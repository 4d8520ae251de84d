// SPDX-License-Identifier: Apache-2.0
// Few devices and few micro-batches stand for many of both: same step, same bytes.
#include "simulator/fold/folded_program.h"

#include <gtest/gtest.h>

#include "simulator/fold/repeat_microbatches.h"
#include "simulator/program/program_graph.h"
#include "tests/unit/planning_fixture.h"
#include "tests/unit/program_fixture.h"

namespace meshwright {
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
  const auto pipeline = [](int microbatches) {
    return PipelineProgram(ScheduleKind::OneFOneB, 4, edges_of_line(4), microbatches, 6, Collectives::Some).take();
  };
  const auto times = [](const Program& program) { return program_times(program, equal_stages(4, {10}, {20}, {3})); };
  const Program few = pipeline(13), many = pipeline(200);
  const FoldedProgram folded = fold_program(few, times(few));
  EXPECT_EQ(folded.folded.classes, 4);
  EXPECT_EQ(folded.program.transfers.size(), 13u * 6);  // up and down between four devices
  expect_same_step(folded, few, times(few));
  const FoldedProgram repeated = repeat_microbatches(folded, 200);
  EXPECT_EQ(repeated.program.microbatches, 200);
  EXPECT_EQ(repeated.program.transfers.size(), 200u * 6);
  expect_same_step(repeated, many, times(many));
}

// Stages of other shapes: a device receives tiles from several, some of which stand for each other.
TEST(FoldedProgram, OfLoweredPlansIsTheirStep) {
  const Names data = {{"batch", 1}}, both = {{"batch", 1}, {"heads", 2}, {"mlp", 2}, {"vocab", 2}};
  for (const ScheduleKind kind : {ScheduleKind::OneFOneB, ScheduleKind::GPipe}) {
    const auto lowered = [&](std::int64_t microbatches) {
      return by_hand("gpt:layers=3,hidden=16,heads=4,seq=8,vocab=32", "cpu:8",
                     {.batch = 4 * microbatches, .microbatches = microbatches},
                     {{"", {2, 2}, both}, {"blk1.ln1", {4, 1}, data}}, kind);
    };
    const HandPlan few = lowered(10), many = lowered(40);
    const FoldedProgram folded = fold_program(few.program, program_costs(few.program, *few.costs).times);
    EXPECT_LT(folded.folded.classes, 8);
    expect_same_step(repeat_microbatches(folded, 40), many.program, program_costs(many.program, *many.costs).times);
  }
}

// With Runs in pieces, too: who brings which buffer is kept where messages stand for each other.
TEST(FoldedProgram, OverlapsLikeTheWhole) {
  const Names data = {{"batch", 1}}, both = {{"batch", 1}, {"heads", 2}, {"mlp", 2}, {"vocab", 2}};
  const HandPlan made = by_hand("gpt:layers=3,hidden=16,heads=4,seq=8,vocab=32", "cpu:8",
                                {.batch = 40, .microbatches = 10}, {{"", {2, 2}, both}, {"blk1.ln1", {4, 1}, data}});
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

}  // namespace
}  // namespace meshwright
