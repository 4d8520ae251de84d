// SPDX-License-Identifier: Apache-2.0
// What a schedule asks of a plan and makes of its program: which stages share devices, in which order they run, what
// is copied instead of sent, and how a backward comes apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/graph/import/find_model.h"
#include "core/plan/ranks.h"
#include "simulator/program/program_costs.h"
#include "simulator/what_if/simulate_step.h"
#include "tests/truth/instruction_engines.h"
#include "tests/unit/planning_fixture.h"
#include "tests/unit/program_fixture.h"
#include "tests/unit/program_runs.h"

namespace meshwright::scheduled_program_test {
namespace {

using Sentences = std::vector<std::string>;

constexpr const char* kMlp = "mlp:layers=12,hidden=8";
constexpr const char* kT5 = "t5:layers=1,hidden=8,heads=2,intermediate=8,seq=4,vocab=8";  // its decoder begins anew

const TrainingOptions kTraining{.batch = 8, .microbatches = 4, .dtype = DType::F32};

// Stages of one device each and of about as many ops, each on the device of its rank.
HandPlan lowered(ScheduleKind kind, int stages, int chunks, int microbatches = 4, const std::string& model = kMlp) {
  TrainingOptions training = kTraining;
  training.microbatches = microbatches;
  const Graph graph = build_training_graph(find_model(model), training);
  const std::vector<OpId> forward = forward_ops(graph);
  std::vector<HandStage> cut;
  const int once = stages / traits_of(kind).copies;
  for (int s = 0; s < once; ++s) {
    const std::size_t first = forward.size() * static_cast<std::size_t>(s) / static_cast<std::size_t>(once);
    cut.push_back({s == 0 ? "" : graph.op(forward[first]).name, {1, 1}, {}});
  }
  HandPlan made = by_hand(model, fmt::format("cpu:{}", stages), training, cut);
  made.plan.schedule = kind;
  add_copies(made.plan);
  const std::vector<int> rank_of = ranks_of_stages(kind, stages, chunks);
  for (std::size_t s = 0; s < rank_of.size(); ++s) made.plan.stages[s].devices = {rank_of[s]};
  EXPECT_EQ(check_plan(made.plan, made.graph), Sentences{});
  made.program = lower(made.plan, made.graph, *made.costs);
  made.check = check_program(made.program);
  return made;
}

Sentences violations(ScheduleKind kind, const std::vector<std::vector<int>>& devices) {
  std::vector<HandStage> cut;
  for (std::size_t s = 0; s < devices.size(); ++s)
    cut.push_back({s == 0 ? "" : fmt::format("blk{}.up", s), {1, static_cast<int>(devices[s].size())}, {}});
  HandPlan made = by_hand(kMlp, "cpu:16", kTraining, cut);
  made.plan.schedule = kind;
  for (std::size_t s = 0; s < devices.size(); ++s) made.plan.stages[s].devices = devices[s];
  return check_plan(made.plan, made.graph);
}

TEST(Ranks, AreStagesOnTheSameDevices) {
  EXPECT_EQ(violations(ScheduleKind::ZeroBubbleV, {{0}, {1}, {1}, {0}}), Sentences{});
  EXPECT_EQ(violations(ScheduleKind::VHalf, {{4, 5}, {2, 3}, {2, 3}, {4, 5}}), Sentences{});
  EXPECT_EQ(violations(ScheduleKind::Interleaved, {{1}, {0}, {1}, {0}, {1}, {0}}), Sentences{});
  EXPECT_EQ(violations(ScheduleKind::Interleaved, {{3}, {3}}), Sentences{});
}

TEST(Ranks, OfOtherPlacesAreRefusedInASentence) {
  EXPECT_EQ(violations(ScheduleKind::OneFOneB, {{0}, {1}, {0}}),
            Sentences{"device 0 belongs to stage 0 and to stage 2"});
  EXPECT_EQ(violations(ScheduleKind::ZeroBubbleV, {{0}, {1}, {0}, {1}}),
            Sentences{"stage 2 is not on the devices of stage 1, where zb-v puts it"});
  EXPECT_EQ(violations(ScheduleKind::Interleaved, {{0}, {1}, {1}, {0}}),
            Sentences{"stage 2 is not on the devices of stage 0, where interleaved puts it"});
  EXPECT_EQ(violations(ScheduleKind::ZeroBubbleV, {{0}, {1}, {0}, {1}, {0}, {1}}),
            Sentences{"6 stages are on 2 lists of devices; under zb-v each list must have 2 stages"});
  EXPECT_EQ(violations(ScheduleKind::Interleaved, {{0}, {1}, {2}}),
            Sentences{"3 stages are on 3 lists of devices; under interleaved each list must have equally many, at "
                      "least 2, stages"});
  EXPECT_EQ(violations(ScheduleKind::Interleaved, {{0, 1}, {1, 0}}),
            Sentences{"stages 0 and 1 share device 1; under interleaved such stages must have one submesh and the same "
                      "devices in the same order"});
}

TEST(Ranks, OfStagesThatFormNoLineAreRefused) {
  HandPlan made = lowered(ScheduleKind::OneFOneB, 8, 1, 4, kT5);
  made.plan.schedule = ScheduleKind::ZeroBubbleV;
  for (std::size_t s = 4; s < 8; ++s) made.plan.stages[s].devices = {static_cast<int>(7 - s)};
  EXPECT_EQ(check_plan(made.plan, made.graph),
            Sentences{"under zb-v every stage must feed the next, but stage 2 does not feed stage 3"});
}

TEST(ScheduledProgram, RunsWhatItsScheduleSays) {
  for (const ScheduleKind kind : all_schedules()) {
    const ScheduleTraits traits = traits_of(kind);
    if (!traits.trains) continue;
    SCOPED_TRACE(name_of(kind));
    const int chunks = traits.chunks.value_or(3), stages = 4 * chunks, microbatches = 4 * traits.copies;
    const HandPlan made = lowered(kind, stages, chunks, microbatches);
    std::vector<Sentences> expected;
    for (const auto& runs : make_schedule(kind, line_of(stages, traits.copies), microbatches, chunks)) {
      expected.emplace_back();
      for (const ScheduledRun& run : runs)
        // Nobody waits for a gradient of a copy's first stage: it has weight gradients alone.
        if (run.pass != Pass::BackwardInput || run.stage.value % (stages / traits.copies) > 0)
          expected.back().push_back(text_of(run));
    }
    EXPECT_EQ(runs_of(made.program), expected);
  }
}

// However many ranks, chunks and microbatches; of a line, and where they may branch of stages that do.
TEST(ScheduledProgram, IsSoundForEveryShape) {
  int sound = 0;
  for (const ScheduleKind kind : all_schedules()) {
    const ScheduleTraits traits = traits_of(kind);
    if (!traits.trains) continue;
    for (int ranks = 1; ranks <= 4; ++ranks)
      for (const int chunks : traits.chunks ? std::vector<int>{*traits.chunks} : std::vector<int>{2, 3})
        for (const int microbatches : {1, 2, 4, 8})
          for (const char* model : {kMlp, kT5}) {
            if ((traits.line && model == kT5) || unmet_by(kind, ranks, microbatches)) continue;
            const HandPlan made = lowered(kind, ranks * chunks, chunks, microbatches, model);
            ASSERT_EQ(made.check.violations, Sentences{}) << name_of(kind) << " " << ranks << " ranks of " << chunks
                                                          << " stages, " << microbatches << " microbatches";
            ++sound;
          }
  }
  // With one stage per rank there are five kinds, with several three of 2 and one of 2 or 3. dualpipe has 2 ranks and 4
  // or 8 microbatches, or 4 and 8.
  EXPECT_EQ(sound, 5 * 4 * 4 * 2 + 5 * 4 * 4 + 3);
}

// A Run takes 1 s, and 2 s where a pass of another micro-batch goes on beside it.
class PairCosts final : public CostModel {
 public:
  TimeEstimate compute(const OpWork&) const override { return {Seconds(0.0), Basis::Modelled}; }
  TimeEstimate collective(CollectiveKind, Bytes, const MeshAxis&) const override {
    return {Seconds(0.0), Basis::Modelled};
  }
  TimeEstimate transfer(Bytes, bool, int) const override { return {Seconds(0.0), Basis::Modelled}; }
  Seconds run_overhead() const override { return Seconds(1.0); }
  bool run_depends_on_work() const override { return true; }
  Seconds run_overhead(const RunWork& work) const override { return Seconds(work.interleaved ? 2.0 : 1.0); }
};

// Of 8 micro-batches on 2 ranks, rank 0 has 5 pairs of a forward of its first stage and a backward of its second, and 6
// the other way round; rank 1 has 6 of both.
TEST(DualPipeV, HasAPassBesideMostOthers) {
  const HandPlan made = lowered(ScheduleKind::DualPipeV, 4, 2, 8);
  const std::vector<SimTime> times = program_costs(made.program, PairCosts()).times.executable;
  const auto beside = [&](const std::optional<int>& executable) {
    return to_seconds(times[static_cast<std::size_t>(executable.value())]).si() - 1.0;
  };
  const std::vector<ProgramStage>& stages = made.program.stages;
  EXPECT_NEAR(beside(stages[0].forward), 5.0 / 8, 1e-9);
  EXPECT_NEAR(beside(stages[3].forward), 6.0 / 8, 1e-9);
  EXPECT_NEAR(beside(stages[3].backward_input), 5.0 / 8, 1e-9);
  EXPECT_NEAR(beside(stages[3].backward_weight), 5.0 / 8, 1e-9);
  EXPECT_NEAR(beside(stages[0].backward_weight), 6.0 / 8, 1e-9);
  for (const std::size_t s : {1, 2}) EXPECT_NEAR(beside(stages[s].forward), 6.0 / 8, 1e-9);
  EXPECT_NEAR(beside(stages[1].update), 0.0, 1e-9);
}

TEST(ScheduledProgram, CopiesWhatStaysOnADevice) {
  const HandPlan made = lowered(ScheduleKind::ZeroBubbleV, 4, 2);
  const Program& program = made.program;
  EXPECT_EQ(program.devices.size(), 2u);
  EXPECT_EQ(program.stage_of_device, (std::vector<StageId>{StageId(0), StageId(1)}));
  int copies = 0;
  for (const Transfer& transfer : program.transfers) {
    const int from = program.buffers[transfer.source_buffer.index()].stage.value;
    const int to = program.buffers[transfer.destination_buffer.index()].stage.value;
    EXPECT_EQ(transfer.source == transfer.destination, std::min(from, to) == 1 && std::max(from, to) == 2);
    copies += transfer.source == transfer.destination ? 1 : 0;
  }
  EXPECT_EQ(copies, 2 * 4);  // there and back, of 4 microbatches
}

TEST(ScheduledProgram, KeepsTheWeightsOfAllStagesOfADevice) {
  const HandPlan apart = lowered(ScheduleKind::OneFOneB, 4, 1), together = lowered(ScheduleKind::ZeroBubbleV, 4, 2);
  const auto& one = apart.program.persistent_bytes;
  EXPECT_EQ(together.program.persistent_bytes, (std::vector<Bytes>{one[0] + one[3], one[1] + one[2]}));
}

// Weights and accumulators of both stages, but the states of the optimizer of the first copy alone.
TEST(ScheduledProgram, KeepsTheStatesOfAStageOnceUnderDualPipe) {
  HandPlan once = lowered(ScheduleKind::OneFOneB, 4, 1, 8), twice = lowered(ScheduleKind::DualPipe, 8, 2, 8);
  std::vector<Bytes> copied(4, Bytes(0.0));  // [rank]
  for (const Buffer& buffer : once.program.buffers) {
    const TensorKind kind = once.graph.tensor(buffer.local.tensor).kind;
    if (buffer.persistent && (kind == TensorKind::Parameter || kind == TensorKind::Accumulator))
      copied[buffer.stage.index()] += buffer.local.bytes();
  }
  for (std::size_t r = 0; r < 4; ++r) {
    EXPECT_GT(once.program.persistent_bytes[r], copied[r]);
    EXPECT_EQ(twice.program.persistent_bytes[r], once.program.persistent_bytes[r] + copied[3 - r]);
  }
}

// At the end of a step each device sends the gradients of the stage whose states the other has, and gets the weights
// back: once the bytes of its accumulators and of its weights, each way.
TEST(ScheduledProgram, AddsTheGradientsOfItsCopiesOncePerStep) {
  const HandPlan made = lowered(ScheduleKind::DualPipe, 8, 2, 8);
  std::map<std::pair<int, int>, std::pair<Bytes, Bytes>> between;  // devices -> added, overwritten
  for (const Transfer& transfer : made.program.transfers) {
    const Buffer& to = made.program.buffers[transfer.destination_buffer.index()];
    if (!to.persistent) continue;
    auto& [added, written] =
        between.try_emplace({transfer.source.value, transfer.destination.value}, std::pair{Bytes(0.0), Bytes(0.0)})
            .first->second;
    (transfer.accumulate ? added : written) += transfer.bytes;
  }
  std::map<int, Bytes> weights;  // [stage of the first copy]
  for (const Buffer& buffer : made.program.buffers)
    if (made.graph.tensor(buffer.local.tensor).kind == TensorKind::Parameter && buffer.stage.value < 4)
      weights.try_emplace(buffer.stage.value, Bytes(0.0)).first->second += buffer.local.bytes();
  ASSERT_EQ(between.size(), 4u);
  for (int device = 0; device < 4; ++device) {
    const auto& [added, written] = between.at({device, 3 - device});
    EXPECT_EQ(added, weights.at(3 - device));  // F32, as the weights
    EXPECT_EQ(written, weights.at(device));
  }
}

TEST(Ranks, OfCopiesThatDifferAreRefusedInASentence) {
  HandPlan made = lowered(ScheduleKind::DualPipe, 4, 2);
  made.plan.training.microbatches = 2;
  EXPECT_EQ(wrong_ranks(made.plan, stage_graph(made.plan, made.graph)),
            Sentences{"dualpipe needs at least two micro-batches for each of 2 ranks, and there are 2"});
  made.plan.training.microbatches = 4;
  std::swap(made.plan.stages[2], made.plan.stages[3]);
  std::swap(made.plan.stages[2].devices, made.plan.stages[3].devices);
  EXPECT_EQ(check_plan(made.plan, made.graph),
            (Sentences{"stage 2 is the copy of stage 0 under dualpipe, but has other layers",
                       "stage 3 is the copy of stage 1 under dualpipe, but has other layers"}));
  made.plan.stages.pop_back();
  EXPECT_EQ(check_plan(made.plan, made.graph),
            Sentences{"3 stages are not 2 copies of the same; under dualpipe the second half repeats the first"});
}

TEST(ScheduledProgram, TakesAsLongInEveryEngine) {
  for (const ScheduleKind kind : all_schedules()) {
    const ScheduleTraits traits = traits_of(kind);
    if (!traits.trains) continue;
    SCOPED_TRACE(name_of(kind));
    const HandPlan made = lowered(kind, traits.copies > 1 ? 8 : 6, traits.chunks.value_or(3), 8);
    const ProgramTimes times = program_costs(made.program, *made.costs).times;
    const SimTime step = simulate_by_events(made.program, times).timeline.end;
    EXPECT_EQ(simulate_in_order(made.program, made.check.order, times).timeline.end, step);
    EXPECT_EQ(simulate_plain_step(made.program, times).step, step);
  }
}

// With random times of passes and messages: what other runs lie before is no reason to wait. Under 1f1b a message is
// waited for in one Exchange with others, so that it may take longer.
TEST(ScheduledProgram, TakesNoLongerThanItsSchedule) {
  std::mt19937 random(41);
  for (const ScheduleKind kind : all_schedules()) {
    const ScheduleTraits traits = traits_of(kind);
    // Where stages have copies, their devices wait for each other's gradients before the update.
    if (!traits.trains || kind == ScheduleKind::OneFOneB || traits.copies > 1) continue;
    const int chunks = traits.chunks.value_or(3), stages = 4 * chunks;
    const HandPlan made = lowered(kind, stages, chunks, 8);
    for (int round = 0; round < 20; ++round) {
      SCOPED_TRACE(fmt::format("{}, round {}", name_of(kind), round));
      const auto some = [&](int most) { return SimTime{std::uniform_int_distribution<std::int64_t>(0, most)(random)}; };
      PipelineTimes pipeline = equal_stages(stages, {0}, {0});
      pipeline.backward_weight.resize(pipeline.backward.size());
      ProgramTimes program;
      program.executable.assign(made.program.executables.size(), SimTime{0});
      program.transfer.assign(made.program.transfers.size(), SimTime{0});
      for (std::size_t s = 0; s < made.program.stages.size(); ++s) {
        const ProgramStage& stage = made.program.stages[s];
        const auto set = [&](const std::optional<int>& executable, SimTime time) {
          if (executable) program.executable[static_cast<std::size_t>(*executable)] = time;
          return executable ? time : SimTime{0};
        };
        pipeline.forward[s] = set(stage.forward, some(1000));
        pipeline.update[s] = set(stage.update, some(1000));
        pipeline.backward_weight[s] = set(stage.backward_weight, some(1000));
        pipeline.backward[s] = pipeline.backward_weight[s] + set(stage.backward_input, some(1000));
        pipeline.backward[s] += set(stage.backward, some(1000));
      }
      for (PipelineTimes::Edge& edge : pipeline.edges)
        for (const bool back : {false, true}) {
          const SimTime time = some(300);
          (back ? edge.backward : edge.forward) = time;
          for (std::size_t t = 0; t < made.program.transfers.size(); ++t) {
            const Transfer& transfer = made.program.transfers[t];
            const int from = made.program.buffers[transfer.source_buffer.index()].stage.value;
            if (transfer.source != transfer.destination && from == (back ? edge.to : edge.from) &&
                made.program.buffers[transfer.destination_buffer.index()].stage.value == edge.from + edge.to - from)
              program.transfer[t] = time;
          }
        }
      EXPECT_EQ(simulate_plain_step(made.program, program).step, simulate_pipeline(kind, 8, pipeline, chunks).step);
    }
  }
}

TEST(PipelineBubble, IsThatOfADeviceWithAllItsStages) {
  const auto span = [](int device, int stage, std::int64_t begin, std::int64_t end) {
    return Span{Span::Kind::Forward, DeviceId(device), StageId(stage), MicrobatchId(0), {begin}, {end}};
  };
  // Device 0 is never idle between its stages 0 and 2; device 1 has 10 of 40 between 1 and 3.
  const Timeline timeline{{span(0, 0, 0, 10), span(0, 2, 10, 30), span(1, 1, 10, 30), span(1, 3, 40, 50)}, {50}};
  EXPECT_DOUBLE_EQ(stage_waits(timeline).longest, 0.25);
  const std::string trace = to_chrome_trace(timeline, "chunks");
  EXPECT_NE(trace.find("device 0 (stages 0, 2)"), std::string::npos);
}

// --- the backward in two ---

// Ops of the graph that an executable computes.
std::vector<int> computed(const Program& program, const std::optional<int>& executable) {
  std::vector<int> ops;
  if (!executable) return ops;
  for (const LocalOp& op : program.executables[static_cast<std::size_t>(*executable)].ops)
    if (op.kind == LocalOp::Kind::Compute) ops.push_back(op.op.value);
  return ops;
}

TEST(SplitBackward, ComputesEveryOpOnce) {
  for (const char* model : {kMlp, "gpt:layers=2,hidden=8,heads=2,seq=4,vocab=8"}) {
    const HandPlan whole = lowered(ScheduleKind::OneFOneB, 4, 1, 4, model);
    const HandPlan halves = lowered(ScheduleKind::ZeroBubbleH1, 4, 1, 4, model);
    for (std::size_t s = 0; s < 4; ++s) {
      const ProgramStage& stage = halves.program.stages[s];
      EXPECT_FALSE(stage.backward.has_value());
      EXPECT_EQ(stage.backward_input.has_value(), s > 0);
      std::vector<int> both = computed(halves.program, stage.backward_input);
      for (const int op : computed(halves.program, stage.backward_weight)) both.push_back(op);
      std::sort(both.begin(), both.end());
      EXPECT_EQ(both, computed(whole.program, whole.program.stages[s].backward));
    }
  }
}

// One layer: x w + b, relu. Its first half is what the stage before waits for, its second what the update waits for.
TEST(SplitBackward, LeavesTheGradientsOfWeightsToTheSecondHalf) {
  const HandPlan made = lowered(ScheduleKind::ZeroBubbleH1, 4, 1);
  const auto accumulates = [&](int op) { return made.graph.op(OpId(op)).kind == OpKind::Accumulate; };
  for (const ProgramStage& stage : made.program.stages) {
    const std::vector<int> first = computed(made.program, stage.backward_input);
    const std::vector<int> second = computed(made.program, stage.backward_weight);
    EXPECT_EQ(std::count_if(first.begin(), first.end(), accumulates), 0);
    EXPECT_GT(std::count_if(second.begin(), second.end(), accumulates), 0);
  }
}

// --- check_program of copies ---

// Stages 0 and 1 both on device 0; what 0 makes is copied for 1.
struct TwoChunks {
  ProgramBuilder builder{1};
  StageId first = builder.stage(), second = builder.stage();
  BufferId left = builder.buffer(first, "left", 8), right = builder.buffer(second, "right", 8);
  int make = builder.executable(first, Phase::Forward, {}, {left});
  int read = builder.executable(second, Phase::Forward, {right}, {});
  int copy = builder.transfer(0, 0, left, right, 0);

  TwoChunks() {
    Program& program = builder.program;
    program.stages[1].devices = {DeviceId(0)};
    program.devices.pop_back();
    program.stage_of_device.pop_back();
    program.persistent_bytes.pop_back();
  }
};

TEST(CheckProgram, TakesACopyOnADevice) {
  TwoChunks two;
  two.builder.on(0).run(two.make).exchange({two.copy}, {two.copy}).free({two.left}).run(two.read).free({two.right});
  const ProgramCheck check = check_program(two.builder.program);
  EXPECT_EQ(check.violations, Sentences{});
  EXPECT_EQ(check.peak_memory, std::vector<Bytes>{Bytes(16)});
}

TEST(CheckProgram, FlagsACopyInTwoExchanges) {
  TwoChunks two;
  two.builder.on(0).run(two.make).exchange({two.copy}, {}).exchange({}, {two.copy}).run(two.read);
  two.builder.free({two.left}).free({two.right});
  EXPECT_EQ(check_program(two.builder.program).violations,
            Sentences{"device 0 at #1 sends transfer 0 ('left' of microbatch 0, device 0 to 0) to itself, but does not "
                      "receive it there"});
}

TEST(CheckProgram, FlagsABufferOfAStageElsewhere) {
  TwoChunks two;
  const StageId elsewhere = two.builder.stage();
  const int foreign = two.builder.executable(elsewhere, Phase::Forward, {}, {});
  two.builder.on(0).run(foreign);
  EXPECT_FALSE(check_program(two.builder.program).violations.empty());
}

}  // namespace
}  // namespace meshwright::scheduled_program_test
