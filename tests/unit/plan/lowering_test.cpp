// SPDX-License-Identifier: Apache-2.0
// Lowered programs small enough to be checked by hand. That they compute the right numbers is executor_test's business.
#include "core/plan/lowering/lowering.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/base/errors.h"
#include "core/plan/program/check_program.h"
#include "tests/unit/planning_fixture.h"
#include "tests/unit/sharding_fixture.h"

namespace meshwright::lowering_test {
namespace {

using Kind = ReshardStep::Kind;

// --- tile copies ---

// Global index along each dimension at which a device's tile begins, and its size.
struct Box {
  std::vector<std::int64_t> begin, size;
};
Box box_of(const std::vector<Dim>& dims, const ShardingSpec& as, const LogicalMesh& mesh, int rank) {
  Box box;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    std::int64_t begin = 0, size = dims[d].size;
    for (int axis = 0; axis < mesh.rank(); ++axis) {
      if ((as.dims[d] >> axis & 1) == 0) continue;
      size /= mesh.shape()[static_cast<std::size_t>(axis)];
      begin += size * mesh.coordinates(rank)[static_cast<std::size_t>(axis)];
    }
    box.begin.push_back(begin);
    box.size.push_back(size);
  }
  return box;
}

// Every element of every destination tile is written once, with the element of the same global index.
void expect_exact_cover(const std::vector<Dim>& dims, const ShardingSpec& from, const LogicalMesh& source,
                        const ShardingSpec& to, const LogicalMesh& destination) {
  std::vector<std::map<std::pair<std::int64_t, std::int64_t>, int>> written(
      static_cast<std::size_t>(destination.devices()));
  for (const TileCopy& copy : tile_copies(dims, from, source, to, destination)) {
    ASSERT_TRUE(copy.source_rank >= 0 && copy.source_rank < source.devices());
    const Box a = box_of(dims, from, source, copy.source_rank);
    const Box b = box_of(dims, to, destination, copy.destination_rank);
    for (std::size_t d = 0; d < 2; ++d) {
      ASSERT_EQ(a.begin[d] + copy.source_offset[d], b.begin[d] + copy.destination_offset[d]);
      ASSERT_TRUE(copy.source_offset[d] >= 0 && copy.source_offset[d] + copy.extent[d] <= a.size[d]);
      ASSERT_TRUE(copy.destination_offset[d] >= 0 && copy.destination_offset[d] + copy.extent[d] <= b.size[d]);
    }
    for (std::int64_t i = 0; i < copy.extent[0]; ++i)
      for (std::int64_t j = 0; j < copy.extent[1]; ++j)
        ++written[static_cast<std::size_t>(copy.destination_rank)]
                 [{copy.destination_offset[0] + i, copy.destination_offset[1] + j}];
  }
  for (int rank = 0; rank < destination.devices(); ++rank) {
    const Box box = box_of(dims, to, destination, rank);
    const auto& own = written[static_cast<std::size_t>(rank)];
    ASSERT_EQ(static_cast<std::int64_t>(own.size()), box.size[0] * box.size[1]);
    for (const auto& [element, times] : own) ASSERT_EQ(times, 1);
  }
}

TEST(TileCopies, WriteEveryElementOnceForAllPairsOfSpecs) {
  const std::vector<Dim> dims = {{"a", 12}, {"b", 6}};
  const std::vector<std::vector<int>> shapes = {{1, 1}, {1, 2}, {3, 1}, {2, 2}, {2, 3}};
  for (const auto& source : shapes)
    for (const auto& destination : shapes)
      for (const ShardingSpec& from : enumerate_specs(dims, mesh_of(source)))
        for (const ShardingSpec& to : enumerate_specs(dims, mesh_of(destination))) {
          SCOPED_TRACE(from.to_text() + " to " + to.to_text());
          expect_exact_cover(dims, from, mesh_of(source), to, mesh_of(destination));
        }
}

TEST(TileCopies, OfEqualTilesGoFromRankToRank) {
  const auto copies = tile_copies({{"a", 8}, {"b", 8}}, spec("S0R"), mesh_of({2, 2}), spec("S0R"), mesh_of({2, 2}));
  ASSERT_EQ(copies.size(), 4u);
  for (const TileCopy& copy : copies) EXPECT_EQ(copy.source_rank, copy.destination_rank);
}
TEST(TileCopies, AreTakenFromAllReplicas) {
  std::set<int> senders;
  for (const TileCopy& copy : tile_copies({{"a", 8}}, spec("R"), mesh_of({4}), spec("S0"), mesh_of({4})))
    senders.insert(copy.source_rank);
  EXPECT_EQ(senders, (std::set<int>{0, 1, 2, 3}));
}
TEST(TileCopies, RefusePartialSums) {
  EXPECT_THROW((void)tile_copies({{"a", 8}}, spec("R+P0"), mesh_of({2}), spec("R"), mesh_of({2})), InternalError);
}

// Every device of one mesh sends its part to every device of the other: a million copies, all of one size. What is
// known of them grows with the tiles, and each receiver is asked for by itself.
TEST(TileMeetings, OfAMillionCopiesHaveOneSize) {
  const TileMeetings meetings({{"a", 4096}, {"b", 8}}, spec("S0R"), mesh_of({1024}), spec("RR"), mesh_of({1024}));
  EXPECT_EQ(meetings.sizes(), std::vector<std::int64_t>{32});
  int copies = 0;
  meetings.to(1000, [&](int source, std::int64_t elements) {
    EXPECT_EQ(source, copies++);
    EXPECT_EQ(elements, 32);
  });
  EXPECT_EQ(copies, 1024);
}

// --- stages first, instructions later ---

void expect_same_program(const Program& a, const Program& b) {
  EXPECT_EQ(a.microbatches, b.microbatches);
  EXPECT_EQ(a.transfers, b.transfers);
  EXPECT_EQ(a.persistent_bytes, b.persistent_bytes);
  EXPECT_EQ(a.buffers.size(), b.buffers.size());
  ASSERT_EQ(a.executables.size(), b.executables.size());
  for (std::size_t e = 0; e < a.executables.size(); ++e) {
    EXPECT_EQ(a.executables[e].ops.size(), b.executables[e].ops.size());
    EXPECT_EQ(a.executables[e].peak_extra, b.executables[e].peak_extra);
  }
  ASSERT_EQ(a.devices.size(), b.devices.size());
  for (std::size_t d = 0; d < a.devices.size(); ++d)
    EXPECT_TRUE(std::equal(a.devices[d].begin(), a.devices[d].end(), b.devices[d].begin(), b.devices[d].end(),
                           [](const Instruction& x, const Instruction& y) {
                             return x.kind == y.kind && x.executable == y.executable && x.microbatch == y.microbatch &&
                                    x.sends == y.sends && x.receives == y.receives && x.buffers == y.buffers &&
                                    x.waits == y.waits;
                           }))
        << "device " << d;
}

HandPlan two_stages(ScheduleKind schedule, std::int64_t microbatches) {
  const Names data = {{"batch", 1}}, both = {{"batch", 1}, {"heads", 2}, {"mlp", 2}, {"vocab", 2}};
  return by_hand("gpt:layers=3,hidden=16,heads=4,seq=8,vocab=32", "cpu:8",
                 {.batch = 4 * microbatches, .microbatches = microbatches},
                 {{"", {2, 2}, both}, {"blk1.ln1", {4, 1}, data}}, schedule);
}

// What an earlier call added leaves no trace.
TEST(LoweredStages, GiveTheProgramOfOneMicrobatchAndThenTheWhole) {
  for (const ScheduleKind schedule : all_schedules()) {
    SCOPED_TRACE(name_of(schedule));
    if (traits_of(schedule).chunks != 1) continue;
    const HandPlan whole = two_stages(schedule, 3), one = two_stages(schedule, 1);
    LoweredStages stages(whole.plan, whole.graph, *whole.costs);
    expect_same_program(stages.of_one_microbatch(), lower(one.plan, whole.graph, *whole.costs));
    expect_same_program(std::move(stages).take_program(), lower(whole.plan, whole.graph, *whole.costs));
  }
}
// DualPipe needs twice as many micro-batches as ranks, whatever the number of its stages.
TEST(LoweredStages, GiveTheFewestMicrobatchesThatTheScheduleRuns) {
  PlanRequest request = ask("gpt:layers=4,hidden=16,heads=4,seq=8,vocab=32", "cpu:2", "megatron:pp=2", 32, 8);
  request.search.schedule = ScheduleKind::DualPipe;
  const Planned made = planned(request);
  ASSERT_TRUE(made.plan.has_value()) << made.reason;
  ASSERT_EQ(made.plan->stages.size(), 4u);
  const auto costs = make_analytic_cost_model(request.cluster);
  LoweredStages stages(*made.plan, made.graph, *costs);
  EXPECT_EQ(stages.of_one_microbatch().microbatches, 4);
}
TEST(LoweredStages, GiveTheWholeAsThePartThatKeepsAll) {
  const HandPlan made = two_stages(ScheduleKind::OneFOneB, 3);
  LoweredStages stages(made.plan, made.graph, *made.costs);
  const Program& one = stages.of_one_microbatch();
  const KeptPart all{std::vector<bool>(one.devices.size(), true), std::vector<bool>(one.transfers.size(), true)};
  const PartialProgram part = std::move(stages).take_part(all);
  expect_same_program(part.program, made.program);
  EXPECT_EQ(part.like.size(), made.program.transfers.size());
}

// --- collectives ---

const TrainingOptions kTwoMicrobatches{.batch = 64, .microbatches = 2};

std::map<Kind, int> collectives(const Program& program, const std::optional<int>& executable) {
  std::map<Kind, int> count;
  if (!executable) return count;
  for (const LocalOp& op : program.executables[static_cast<std::size_t>(*executable)].ops)
    if (op.kind == LocalOp::Kind::Reshard && op.step->kind != Kind::Slice) ++count[op.step->kind];
  return count;
}
using Counts = std::map<Kind, int>;

void expect_sound(const HandPlan& made) {
  EXPECT_EQ(check_plan(made.plan, made.graph), std::vector<std::string>{});
  EXPECT_EQ(made.check.violations, std::vector<std::string>{});
}

TEST(DataParallelMlp, ReducesEachGradientOncePerStepAndNothingElse) {
  const HandPlan made = by_hand("mlp:layers=2,hidden=16", "cpu:4", kTwoMicrobatches, {{"", {4, 1}, {{"batch", 1}}}});
  expect_sound(made);
  const ProgramStage& stage = made.program.stages[0];
  EXPECT_EQ(collectives(made.program, stage.forward), (Counts{{Kind::AllReduce, 1}}));  // the loss, 4 bytes
  EXPECT_EQ(collectives(made.program, stage.backward), Counts{});
  EXPECT_EQ(collectives(made.program, stage.update), (Counts{{Kind::AllReduce, 8}}));  // 4 weights, 4 biases
  EXPECT_FALSE(stage.sync);
  EXPECT_TRUE(made.program.transfers.empty());
}

TEST(Zero2Mlp, ScattersGradientsAndGathersWeights) {
  HandPlan made = by_hand("mlp:layers=2,hidden=16", "cpu:4", kTwoMicrobatches, {{"", {4, 1}, {{"batch", 1}}}});
  for (auto& [name, sharding] : made.plan.stages[0].parameters) sharding.state.dims[0] = 1;
  made.program = lower(made.plan, made.graph, *made.costs);
  made.check = check_program(made.program);
  expect_sound(made);
  EXPECT_EQ(collectives(made.program, made.program.stages[0].update),
            (Counts{{Kind::ReduceScatter, 8}, {Kind::AllGather, 8}}));
}

// Each pair up, down: the down-projection's sum forward, the up-projection's input gradient backward; the first pair's
// input needs no gradient.
TEST(MegatronMlp, ReducesOncePerPairAndDirection) {
  for (const int pairs : {1, 3}) {
    const HandPlan made =
        by_hand(fmt::format("mlp:layers={},hidden=16", pairs), "cpu:2", kTwoMicrobatches, {{"", {1, 2}, {{"mlp", 2}}}});
    expect_sound(made);
    const ProgramStage& stage = made.program.stages[0];
    EXPECT_EQ(collectives(made.program, stage.forward), (Counts{{Kind::AllReduce, pairs}}));
    EXPECT_EQ(collectives(made.program, stage.backward), pairs > 1 ? (Counts{{Kind::AllReduce, pairs - 1}}) : Counts{});
    EXPECT_EQ(collectives(made.program, stage.update), Counts{});
  }
}

// Attention and feed-forward reduce once each way; the split vocabulary reduces the looked-up rows, the row maximum,
// the sum and the picked label forward, and the gradient of the logits' input backward. Nothing in the update.
TEST(MegatronGpt, ReducesTwicePerBlockAndDirection) {
  const HandPlan made = by_hand("gpt:layers=2,hidden=16,heads=4,seq=8,vocab=32", "cpu:2", kTwoMicrobatches,
                                {{"", {1, 2}, {{"heads", 2}, {"mlp", 2}, {"vocab", 2}}}});
  expect_sound(made);
  const ProgramStage& stage = made.program.stages[0];
  EXPECT_EQ(collectives(made.program, stage.forward), (Counts{{Kind::AllReduce, 2 * 2 + 4}}));
  EXPECT_EQ(collectives(made.program, stage.backward), (Counts{{Kind::AllReduce, 2 * 2 + 1}}));
  EXPECT_EQ(collectives(made.program, stage.update), Counts{});
}
TEST(MegatronGpt, ReducesMaximaByMaximum) {
  const HandPlan made = by_hand("gpt:layers=1,hidden=16,heads=4,seq=8,vocab=32", "cpu:2", kTwoMicrobatches,
                                {{"", {1, 2}, {{"vocab", 2}}}});
  int maxima = 0;
  for (const StageExecutable& executable : made.program.executables)
    for (const LocalOp& op : executable.ops) {
      if (op.reduce != IterationSpace::Reduce::Max) continue;
      ++maxima;
      const LocalTensor& reduced = executable.slots[static_cast<std::size_t>(op.inputs[0])].local;
      EXPECT_EQ(made.graph.tensor(reduced.tensor).name, "head.row_max");
    }
  EXPECT_EQ(maxima, 1);
}

// --- pipelines ---

constexpr double kFloat = 4;

// embed 16, mlp 64: two matrices and two biases.
constexpr double kPairParameters = 16 * 64 + 64 + 64 * 16 + 16;

TEST(TwoStageMlp, SendsOneActivationAndOneGradientPerMicrobatch) {
  const TrainingOptions training{.batch = 64, .microbatches = 4};
  for (const ScheduleKind schedule : {ScheduleKind::OneFOneB, ScheduleKind::GPipe}) {
    const HandPlan made =
        by_hand("mlp:layers=2,hidden=16", "cpu:2", training, {{"", {1, 1}, {}}, {"blk1.up", {1, 1}, {}}}, schedule);
    expect_sound(made);
    ASSERT_EQ(made.program.transfers.size(), 4u + 4u);
    std::vector<int> forward(4, 0), backward(4, 0);
    for (const Transfer& transfer : made.program.transfers) {
      EXPECT_EQ(transfer.bytes, Bytes(kFloat * 16 * 16));  // 64 / 4 samples of 16 numbers
      EXPECT_FALSE(transfer.hosts_apart);
      ++(transfer.source == DeviceId(0) ? forward : backward)[transfer.microbatch.index()];
    }
    EXPECT_EQ(forward, std::vector<int>(4, 1));
    EXPECT_EQ(backward, std::vector<int>(4, 1));
    // Weights, their gradients' sums and Adam's two moments, all in floats.
    EXPECT_EQ(made.program.persistent_bytes, std::vector<Bytes>(2, Bytes(kFloat * kPairParameters * 4)));
  }
}

TEST(TwoStageMlp, RunsInTheOrderOfTheSchedule) {
  const TrainingOptions training{.batch = 64, .microbatches = 4};
  const HandPlan made =
      by_hand("mlp:layers=2,hidden=16", "cpu:2", training, {{"", {1, 1}, {}}, {"blk1.up", {1, 1}, {}}});
  const auto runs = [&](std::size_t device) {
    std::string text;
    for (const Instruction& instruction : made.program.devices[device]) {
      if (instruction.kind != Instruction::Kind::Run) continue;
      const Phase phase = made.program.executables[static_cast<std::size_t>(instruction.executable)].phase;
      text += (phase == Phase::Forward    ? "F"
               : phase == Phase::Backward ? "B"
                                          : "U") +
              (phase == Phase::Update ? "" : std::to_string(instruction.microbatch.value)) + " ";
    }
    return text;
  };
  EXPECT_EQ(runs(0), "F0 F1 B0 F2 B1 F3 B2 B3 U ");
  EXPECT_EQ(runs(1), "F0 B0 F1 B1 F2 B2 F3 B3 U ");
}

TEST(TwoStageMlp, HoldsFewerMicrobatchesThanGPipe) {
  const TrainingOptions training{.batch = 64, .microbatches = 8};
  const std::vector<HandStage> stages = {{"", {1, 1}, {}}, {"blk1.up", {1, 1}, {}}};
  const HandPlan one = by_hand("mlp:layers=2,hidden=16", "cpu:2", training, stages);
  const HandPlan all = by_hand("mlp:layers=2,hidden=16", "cpu:2", training, stages, ScheduleKind::GPipe);
  // Kept per microbatch on stage 1: the input of both products and of both ReLUs (16 + 64 + 64 + 16 numbers) and the
  // prediction, for 8 samples. GPipe keeps all 8 microbatches, 1f1b one; what a pass needs on top is the same.
  const double saved = kFloat * 8 * (16 + 64 + 64 + 16 + 16);
  EXPECT_EQ((all.check.peak_memory[1] - one.check.peak_memory[1]).si(), 7 * saved);
}

TEST(ThreeStageMlp, InferenceRunsForwardOnly) {
  const TrainingOptions training{.batch = 64, .microbatches = 4};
  const HandPlan made =
      by_hand("mlp:layers=3,hidden=16", "cpu:4", training,
              {{"", {1, 1}, {}}, {"blk1.up", {1, 2}, {{"mlp", 2}}}, {"blk2.up", {1, 1}, {}}}, ScheduleKind::Inference);
  expect_sound(made);
  for (const ProgramStage& stage : made.program.stages) EXPECT_FALSE(stage.backward || stage.update || stage.sync);
  // 4 microbatches to both devices of stage 1, and back from one of them.
  EXPECT_EQ(made.program.transfers.size(), 4u * 2u + 4u);
  EXPECT_EQ(made.program.persistent_bytes[0], Bytes(kFloat * kPairParameters));
}

// --- a parameter on two stages ---

const char* const kGpt = "gpt:layers=2,hidden=16,heads=4,seq=8,vocab=32";
constexpr double kTable = kFloat * 32 * 16;

TEST(TiedEmbedding, SendsItsGradientOncePerStepAndGetsTheWeightsBack) {
  const TrainingOptions training{.batch = 8, .microbatches = 4};
  const HandPlan made = by_hand(kGpt, "cpu:2", training, {{"", {1, 1}, {}}, {"blk1.ln1", {1, 1}, {}}});
  expect_sound(made);
  std::vector<std::string> once;  // transfers that are not per microbatch
  for (const Transfer& transfer : made.program.transfers) {
    const Buffer& to = made.program.buffers[transfer.destination_buffer.index()];
    const TensorKind kind = made.graph.tensor(to.local.tensor).kind;
    if (kind == TensorKind::Intermediate) continue;
    once.push_back(fmt::format("{} {} to {}: {} bytes", kind == TensorKind::Parameter ? "weights" : "gradient",
                               transfer.source.value, transfer.destination.value, transfer.bytes.si()));
  }
  std::sort(once.begin(), once.end());
  EXPECT_EQ(once, (std::vector<std::string>{fmt::format("gradient 1 to 0: {} bytes", kTable),
                                            fmt::format("weights 0 to 1: {} bytes", kTable)}));
  EXPECT_FALSE(made.program.stages[1].sync);  // whole already

  // Stage 1 holds a copy of the table and its own sum of gradients, but no moments.
  double table = 0;
  for (const Buffer& buffer : made.program.buffers) {
    const Tensor& tensor = made.graph.tensor(buffer.local.tensor);
    const bool of_table =
        tensor.name == "wte" || (tensor.parameter && made.graph.tensor(*tensor.parameter).name == "wte");
    if (buffer.stage == StageId(1) && buffer.persistent && of_table) table += buffer.local.bytes().si();
  }
  EXPECT_EQ(table, 2 * kTable);
}

TEST(TiedEmbedding, SumsWhatItsStageHoldsInPartsBeforeSending) {
  const TrainingOptions training{.batch = 8, .microbatches = 2};
  const HandPlan made =
      by_hand(kGpt, "cpu:4", training, {{"", {1, 2}, {{"vocab", 2}}}, {"blk1.ln1", {2, 1}, {{"batch", 1}}}});
  expect_sound(made);
  EXPECT_EQ(collectives(made.program, made.program.stages[1].sync), (Counts{{Kind::AllReduce, 1}}));
  // The owner's two devices hold half of the rows each: two halves of gradient, two halves of weights to two devices.
  double gradient = 0, weights = 0;
  for (const Transfer& transfer : made.program.transfers) {
    const Tensor& tensor = made.graph.tensor(made.program.buffers[transfer.destination_buffer.index()].local.tensor);
    if (tensor.kind == TensorKind::Accumulator) gradient += transfer.bytes.si();
    if (tensor.kind == TensorKind::Parameter) weights += transfer.bytes.si();
  }
  EXPECT_EQ(gradient, kTable);
  EXPECT_EQ(weights, 2 * kTable);
}

// --- everything the planner makes ---

double seconds_of(const ProgramCosts& priced, const std::optional<int>& executable, const CostModel& costs) {
  if (!executable) return 0;
  return (to_seconds(priced.times.executable[static_cast<std::size_t>(*executable)]) - costs.run_overhead()).si();
}

// The program of a found plan is sound, survives its file, and costs what the search expected. What is already at hand
// may save; a gradient that two ops of a stage contribute to is summed there, but priced with the op that made the
// tensor, on the stage before.
void expect_as_planned(const PlanRequest& request) {
  const Planned result = planned(request);
  ASSERT_TRUE(result.plan) << result.reason;
  EXPECT_EQ(check_plan(*result.plan, result.graph), std::vector<std::string>{});
  EXPECT_EQ(check_program(result.program).violations, std::vector<std::string>{});
  const auto costs = make_analytic_cost_model(request.cluster);
  const LoadedPlan loaded = load_plan(plan_from_json(to_json(*result.plan), "plan"), *costs);
  EXPECT_EQ(loaded.check.peak_memory, result.check.peak_memory);
  EXPECT_EQ(loaded.program.transfers, result.program.transfers);

  const ProgramCosts priced = program_costs(result.program, *costs);
  const double slack = result.plan->stages.size() == 1 ? 1 + 1e-6 : 1.05;
  for (std::size_t s = 0; s < result.plan->stages.size(); ++s) {
    const ProgramStage& stage = result.program.stages[s];
    const StagePlan& plan = result.plan->stages[s];
    const double time = seconds_of(priced, stage.forward, *costs) + seconds_of(priced, stage.backward, *costs);
    const double estimate = (plan.forward + plan.backward).si();
    EXPECT_LE(time, slack * estimate) << "stage " << s;
    EXPECT_GE(time, 0.5 * estimate) << "stage " << s;
  }
}

struct EveryPlan : testing::TestWithParam<std::tuple<std::string, std::string, std::string>> {};
TEST_P(EveryPlan, LowersToASoundProgramOfTheExpectedCost) {
  const auto& [model, cluster, method] = GetParam();
  PlanRequest request = ask(model, cluster, method, 64, 4);
  request.search.layers = 4;
  const bool large = request.cluster.devices() > 4;
  for (const ScheduleKind schedule : {ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::Inference})
    for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
      if (schedule != ScheduleKind::OneFOneB && (recompute == Recompute::Full || large)) continue;
      SCOPED_TRACE(fmt::format("{}, {}", name_of(schedule), recompute == Recompute::Full ? "recomputed" : "kept"));
      request.search.schedule = schedule;
      request.search.recompute = recompute;
      expect_as_planned(request);
    }
}
const auto kModels = testing::Values("mlp:layers=4,hidden=32", "gpt:layers=2,hidden=32,heads=4,seq=8,vocab=64");
INSTANTIATE_TEST_SUITE_P(Methods, EveryPlan,
                         testing::Combine(kModels, testing::Values("cpu:1", "cpu:2", "cpu:4", "cpu:8", "p3.16xlarge:2"),
                                          testing::Values("pipeshard", "shard", "data", "zero2", "zero3")));
INSTANTIATE_TEST_SUITE_P(Megatron, EveryPlan,
                         testing::Combine(kModels, testing::Values("cpu:4", "cpu:8", "p3.16xlarge:2"),
                                          testing::Values("megatron:tp=2,pp=2")));

}  // namespace
}  // namespace meshwright::lowering_test
