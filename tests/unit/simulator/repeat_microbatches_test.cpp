// SPDX-License-Identifier: Apache-2.0
#include "simulator/fold/repeat_microbatches.h"

#include <gtest/gtest.h>

#include "core/base/errors.h"
#include "core/plan/program/check_program.h"
#include "simulator/program/program_graph.h"
#include "tests/truth/instruction_engines.h"
#include "tests/unit/planning_fixture.h"
#include "tests/unit/program_fixture.h"

namespace meshwright {
namespace {

// What a device does, with transfers in the place of their numbers.
std::vector<std::string> told(const Program& program, const std::vector<Instruction>& list) {
  std::vector<std::string> lines;
  for (const Instruction& instruction : list) {
    std::string line = fmt::format("{} {}", static_cast<int>(instruction.kind), instruction.executable);
    if (instruction.kind != Instruction::Kind::Exchange) line += fmt::format(" m{}", instruction.microbatch.value);
    for (const auto* transfers : {&instruction.sends, &instruction.receives})
      for (const int t : *transfers) {
        const Transfer& transfer = program.transfers[static_cast<std::size_t>(t)];
        line += fmt::format(" {}>{} b{} m{}", transfer.source.value, transfer.destination.value,
                            transfer.source_buffer.value, transfer.microbatch.value);
      }
    for (const BufferId buffer : instruction.buffers) line += fmt::format(" b{}", buffer.value);
    lines.push_back(std::move(line));
  }
  return lines;
}

void expect_same(const Program& repeated, const Program& truth) {
  EXPECT_EQ(check_program(repeated).violations, std::vector<std::string>{});
  EXPECT_EQ(repeated.transfers.size(), truth.transfers.size());
  ASSERT_EQ(repeated.microbatches, truth.microbatches);
  for (std::size_t d = 0; d < truth.devices.size(); ++d)
    EXPECT_EQ(told(repeated, repeated.devices[d]), told(truth, truth.devices[d])) << "device " << d;
}

TEST(RepeatMicrobatches, MakesTheProgramOfManyFromThatOfFew) {
  const std::vector<StageEdge> skips = {{0, 1}, {1, 2}, {0, 2}, {2, 3}};
  for (const ScheduleKind kind : {ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::Inference})
    for (const auto& [stages, edges] :
         {std::pair{1, edges_of_line(1)}, {2, edges_of_line(2)}, {5, edges_of_line(5)}, {4, skips}}) {
      const Program few = PipelineProgram(kind, stages, edges, 3 * (stages - 1) + 4, 2, Collectives::Some).take();
      EXPECT_LE(microbatches_that_repeat(few), few.microbatches);
      for (const int microbatches : {few.microbatches, few.microbatches + 1, 40}) {
        SCOPED_TRACE(fmt::format("{} {} stages, {} microbatches", name_of(kind), stages, microbatches));
        expect_same(repeat_microbatches(few, microbatches),
                    PipelineProgram(kind, stages, edges, microbatches, 2, Collectives::Some).take());
      }
    }
}

// Of the same rows per micro-batch: transfers by tile intersection, a tied weight, accumulators.
TEST(RepeatMicrobatches, MakesWhatTheLoweringMakes) {
  const Names data = {{"batch", 1}}, both = {{"batch", 1}, {"heads", 2}, {"mlp", 2}, {"vocab", 2}};
  for (const ScheduleKind kind : {ScheduleKind::OneFOneB, ScheduleKind::GPipe}) {
    const auto lowered = [&](std::int64_t microbatches) {
      return by_hand("gpt:layers=3,hidden=16,heads=4,seq=8,vocab=32", "cpu:8",
                     {.batch = 4 * microbatches, .microbatches = microbatches},
                     {{"", {2, 2}, both}, {"blk1.ln1", {2, 1}, data}, {"blk2.ln1", {1, 1}, {}}}, kind);
    };
    const HandPlan few = lowered(10), many = lowered(32);
    const Program repeated = repeat_microbatches(few.program, 32);
    expect_same(repeated, many.program);
    const ProgramTimes times = program_costs(repeated, *many.costs).times;
    EXPECT_EQ(run_in_order(program_graph(repeated, times).graph).step,
              simulate_by_events(many.program, program_costs(many.program, *many.costs).times).timeline.end);
  }
}

TEST(RepeatMicrobatches, RefusesTooFew) {
  const Program few = PipelineProgram(ScheduleKind::OneFOneB, 4, 12).take();
  EXPECT_EQ(microbatches_that_repeat(few), 13);
  EXPECT_THROW((void)repeat_microbatches(few, 20), InternalError);
}

}  // namespace
}  // namespace meshwright
