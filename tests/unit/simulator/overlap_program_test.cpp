// SPDX-License-Identifier: Apache-2.0
// Runs in pieces: what overlaps, and that nothing begins before what it reads is there.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "simulator/fold/fold_devices.h"
#include "simulator/program/program_graph.h"
#include "tests/truth/instruction_engines.h"
#include "tests/unit/planning_fixture.h"
#include "tests/unit/program_fixture.h"

namespace meshwright::overlap_program_test {
namespace {

struct Overlapped {
  ProgramGraph made;
  TaskTimes run;
};
Overlapped overlapped(const Program& program, const ProgramTimes& times, const CostModel& costs,
                      const CutOptions& cut = {}, int steps = 1, const FoldedDevices* folded = nullptr) {
  const auto pieces = cut_executables(program, times, costs, cut);
  ProgramGraphOptions options;
  options.overlap = &pieces;
  options.steps = steps;
  options.folded = folded;
  options.name_tasks = true;
  ProgramGraph made = program_graph(program, times, options);
  check_task_graph(made.graph);
  TaskTimes run = run_in_order(made.graph);
  return {std::move(made), std::move(run)};
}

// What a step takes leaves nothing behind.
void expect_balanced(const ProgramGraph& made) {
  std::vector<std::int64_t> left(static_cast<std::size_t>(made.graph.devices), 0);
  for (int t = 0; t < static_cast<int>(made.graph.size()); ++t)
    left[made.graph.streams[made.graph.stream_of(TaskId(t)).index()].device.index()] +=
        made.graph.of(TaskId(t)).memory_at_end;
  for (const std::int64_t bytes : left) EXPECT_EQ(bytes, 0);
}

// Goes through the lists as they stand: what a piece or a message reads was written or brought before, whoever did so
// last.
void expect_dataflow(const Program& program, const std::vector<std::vector<Piece>>& pieces, const ProgramGraph& made,
                     const TaskTimes& run) {
  std::map<std::tuple<int, int, int>, std::size_t> of_piece;  // device, instruction, piece
  std::map<int, std::size_t> of_transfer;
  for (std::size_t t = 0; t < made.of.size(); ++t) {
    if (made.graph.of(TaskId(static_cast<int>(t))).kind == TaskKind::Join) continue;
    const ProgramTask& of = made.of[t];
    if (of.transfer >= 0)
      of_transfer[of.transfer] = t;
    else
      of_piece[{of.device, of.instruction, of.piece}] = t;
  }
  for (std::size_t d = 0; d < program.devices.size(); ++d) {
    std::map<std::pair<BufferId, int>, SimTime> there;  // since when, by buffer and micro-batch
    const auto known = [&](BufferId buffer, MicrobatchId microbatch) -> SimTime& {
      return there[{buffer, program.buffers[buffer.index()].persistent ? 0 : microbatch.value}];
    };
    for (std::size_t i = 0; i < program.devices[d].size(); ++i) {
      const Instruction& instruction = program.devices[d][i];
      for (const int t : instruction.sends) {
        const Transfer& transfer = program.transfers[static_cast<std::size_t>(t)];
        EXPECT_GE(run.begin[of_transfer.at(t)], known(transfer.source_buffer, transfer.microbatch));
      }
      for (const int t : instruction.receives) {
        const Transfer& transfer = program.transfers[static_cast<std::size_t>(t)];
        SimTime& since = known(transfer.destination_buffer, transfer.microbatch);
        since = std::max(since, run.end[of_transfer.at(t)]);
      }
      if (instruction.kind != Instruction::Kind::Run) continue;
      const std::vector<Piece>& own = pieces[static_cast<std::size_t>(instruction.executable)];
      for (std::size_t p = 0; p < own.size(); ++p) {
        const std::size_t task = of_piece.at({static_cast<int>(d), static_cast<int>(i), static_cast<int>(p)});
        for (const int other : own[p].after)
          EXPECT_GE(run.begin[task], run.end[of_piece.at({static_cast<int>(d), static_cast<int>(i), other})]);
        for (const BufferId buffer : own[p].reads) EXPECT_GE(run.begin[task], known(buffer, instruction.microbatch));
        for (const BufferId buffer : own[p].writes) known(buffer, instruction.microbatch) = run.end[task];
      }
    }
  }
}

struct Lowered {
  const char *model, *cluster, *method;
  Offload offload = Offload::None;
};
class OverlapOfPlans : public testing::TestWithParam<Lowered> {};
TEST_P(OverlapOfPlans, IsNoSlowerAndReadsWhatIsThere) {
  const auto& [model, cluster, method, offload] = GetParam();
  PlanRequest request = ask(model, cluster, method, 64, 4);
  request.training.offload = offload;
  request.cluster.only().device.host_memory = Bytes(1e9);
  request.cluster.only().device.host_bandwidth = BytesPerSecond(1e9);
  request.search.layers = 4;
  const Planned result = planned(request);
  ASSERT_TRUE(result.plan) << result.reason;
  const auto costs = make_analytic_cost_model(request.cluster);
  const ProgramTimes times = program_costs(result.program, *costs).times;
  for (const double bucket : {0.0, 1000.0, 25e6})
    for (const int prefetch : {0, 1, 4}) {
      SCOPED_TRACE(fmt::format("buckets of {} bytes, {} ahead", bucket, prefetch));
      const Overlapped found = overlapped(result.program, times, *costs, {Bytes(bucket), prefetch}, 2);
      expect_balanced(found.made);
      ProgramGraphOptions whole;
      whole.steps = 2;
      EXPECT_LE(found.run.step, run_in_order(program_graph(result.program, times, whole).graph).step);
      const auto pieces = cut_executables(result.program, times, *costs, {Bytes(bucket), prefetch});
      const Overlapped once = overlapped(result.program, times, *costs, {Bytes(bucket), prefetch});
      expect_dataflow(result.program, pieces, once.made, once.run);
      const FoldedDevices folded = fold_devices(result.program, times);
      const Overlapped small = overlapped(result.program, times, *costs, {Bytes(bucket), prefetch}, 2, &folded);
      EXPECT_EQ(small.run.step, found.run.step);
      for (std::size_t d = 0; d < result.program.devices.size(); ++d)
        EXPECT_EQ(small.run.peak_memory[folded.representative[d].index()], found.run.peak_memory[d]);
    }
}

INSTANTIATE_TEST_SUITE_P(All, OverlapOfPlans,
                         testing::Values(Lowered{"mlp:layers=4,hidden=32", "cpu:4", "pipeshard"},
                                         Lowered{"mlp:layers=4,hidden=32", "p3.16xlarge:2", "megatron:tp=2,pp=2"},
                                         Lowered{"gpt:layers=2,hidden=32,heads=4,seq=8,vocab=64", "cpu:8", "pipeshard"},
                                         Lowered{"gpt:layers=2,hidden=32,heads=4,seq=8,vocab=64", "cpu:8", "zero3"},
                                         Lowered{"gpt:layers=2,hidden=32,heads=4,seq=8,vocab=64", "cpu:4", "zero2"},
                                         Lowered{"gpt:layers=2,hidden=32,heads=4,seq=8,vocab=64", "cpu:4", "zero3",
                                                 Offload::Activations | Offload::Weights},
                                         Lowered{"mlp:layers=4,hidden=32", "cpu:4", "megatron:tp=2,pp=2",
                                                 Offload::Activations | Offload::Optimizer},
                                         Lowered{"gpt:layers=2,hidden=32,heads=4,seq=8,vocab=64", "cpu:8",
                                                 "megatron:tp=2,pp=2"}),
                         [](const auto& of) { return fmt::format("Case{}", of.index); });

// Nothing to overlap: one device, and no messages.
TEST(Overlap, OfOneDeviceIsTheProgram) {
  const HandPlan made = by_hand("gpt:layers=2,hidden=16,heads=4,seq=8,vocab=32", "cpu:1",
                                {.batch = 8, .microbatches = 2}, {{"", {1, 1}, {}}});
  const ProgramTimes times = program_costs(made.program, *made.costs).times;
  const Overlapped found = overlapped(made.program, times, *made.costs);
  EXPECT_EQ(found.run.step, simulate_by_events(made.program, times).timeline.end);
  EXPECT_EQ(found.run.peak_memory[0],
            static_cast<std::int64_t>((made.check.peak_memory[0] - made.program.persistent_bytes[0]).si()));
}

// Device 1 sends after 1000 what device 0 reads in its second Run: the first, which takes 10, does not wait.
TEST(Overlap, LetsOnlyThoseWaitForAMessageThatReadIt) {
  ProgramBuilder builder;
  const StageId first = builder.stage(), second = builder.stage();
  const BufferId weight = builder.buffer(first, "weight", 4, Kept::Always);
  const BufferId received = builder.buffer(first, "received", 16);
  const BufferId made = builder.buffer(second, "made", 16);
  const int makes = builder.executable(second, Phase::Forward, {}, {made});
  const int ignores = builder.executable(first, Phase::Forward, {weight}, {weight});
  const int reads = builder.executable(first, Phase::Forward, {received}, {});
  const int transfer = builder.transfer(1, 0, made, received);
  builder.on(1).run(makes).exchange({transfer}, {}).free({made});
  builder.on(0).exchange({}, {transfer}).run(ignores).run(reads).free({received});
  const ProgramTimes times{{{1000}, {10}, {20}}, {{5}}};
  const auto costs = make_analytic_cost_model(find_cluster("cpu:2"));
  const Overlapped found = overlapped(builder.program, times, *costs);
  expect_balanced(found.made);
  std::map<std::pair<int, int>, std::int64_t> begins;  // device, instruction
  for (std::size_t t = 0; t < found.made.of.size(); ++t)
    begins[{found.made.of[t].device, found.made.of[t].instruction}] = found.run.begin[t].ps;
  EXPECT_EQ((begins[{1, 0}]), 0);
  EXPECT_EQ((begins[{1, 1}]), 1000);  // the message
  EXPECT_EQ((begins[{0, 1}]), 0);
  EXPECT_EQ((begins[{0, 2}]), 1005);
  // As a whole the first Run waits, too.
  EXPECT_EQ(run_in_order(program_graph(builder.program, times).graph).step.ps, 1035);
  EXPECT_EQ(found.run.peak_memory, (std::vector<std::int64_t>{16, 16}));
}

// Gradients of data-parallel replicas are summed while the backward goes on, in the order in which it makes them.
TEST(Overlap, SumsGradientsWhileTheBackwardGoesOn) {
  const HandPlan made = by_hand("mlp:layers=8,hidden=1024", "p3.16xlarge:1", {.batch = 1024, .microbatches = 2},
                                {{"", {8, 1}, {{"batch", 1}}}});
  const ProgramTimes times = program_costs(made.program, *made.costs).times;
  const Overlapped found = overlapped(made.program, times, *made.costs, {Bytes(40e6), 1});
  SimTime backward_ends{0}, computed{0}, first_begins{INT64_MAX};
  int buckets = 0;
  for (int t = 0; t < static_cast<int>(found.made.graph.size()); ++t) {
    const TaskKind kind = found.made.graph.of(TaskId(t)).kind;
    const auto i = static_cast<std::size_t>(t);
    const ProgramTask& of = found.made.of[i];
    if (of.device != 0 || kind == TaskKind::Join) continue;
    if (kind == TaskKind::Backward) backward_ends = std::max(backward_ends, found.run.end[i]);
    if (kind != TaskKind::Collective) {
      computed += found.run.end[i] - found.run.begin[i];
      continue;
    }
    const auto& runs = made.program.devices[0][static_cast<std::size_t>(of.instruction)];
    if (runs.executable != made.program.stages[0].update) continue;
    ++buckets;
    first_begins = std::min(first_begins, found.run.begin[i]);
  }
  EXPECT_GT(buckets, 1);
  EXPECT_LT(buckets, 32);  // weights and biases of 8 pairs of layers
  EXPECT_LT(first_begins, backward_ends);
  // What is left over: the last bucket, and little else.
  const SimTime alone = simulate_by_events(made.program, times).timeline.end;
  EXPECT_LT(found.run.step, alone);
  EXPECT_GE(found.run.step, computed);
}

// Weights that are gathered before each use: one computation ahead hides what none ahead does not, for more memory.
TEST(Overlap, GathersWeightsAheadOfTheirUse) {
  PlanRequest request = ask("mlp:layers=8,hidden=1024", "p3.16xlarge:1", "zero3", 1024, 2);
  const Planned result = planned(request);
  ASSERT_TRUE(result.plan) << result.reason;
  const auto costs = make_analytic_cost_model(request.cluster);
  const ProgramTimes times = program_costs(result.program, *costs).times;
  const Overlapped none = overlapped(result.program, times, *costs, {Bytes(0), 0});
  const Overlapped one = overlapped(result.program, times, *costs, {Bytes(0), 1});
  const Overlapped four = overlapped(result.program, times, *costs, {Bytes(0), 4});
  EXPECT_LT(one.run.step, none.run.step);
  EXPECT_LE(four.run.step, one.run.step);
  EXPECT_GT(four.run.peak_memory[0], none.run.peak_memory[0]);
}

}  // namespace
}  // namespace meshwright::overlap_program_test
