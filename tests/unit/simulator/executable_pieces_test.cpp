// SPDX-License-Identifier: Apache-2.0
#include "simulator/program/executable_pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "costmodel/sheets/software_profile.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::executable_pieces_test {
namespace {

constexpr const char* kGpt = "gpt:layers=2,hidden=32,heads=4,seq=8,vocab=64";
constexpr CutOptions kInOrder{Bytes(0.0), 0};  // no buckets, and nothing ahead

std::int64_t left_by(const Program& program, const StageExecutable& executable) {
  std::set<BufferId> read, made;
  for (const StageExecutable::Slot& slot : executable.slots)
    if (slot.buffer && slot.input) read.insert(*slot.buffer);
  for (const StageExecutable::Slot& slot : executable.slots)
    if (slot.buffer && slot.output && !read.contains(*slot.buffer) && !program.buffers[slot.buffer->index()].persistent)
      made.insert(*slot.buffer);
  std::int64_t bytes = 0;
  for (const BufferId buffer : made)
    bytes += static_cast<std::int64_t>(program.buffers[buffer.index()].local.bytes().si());
  return bytes;
}

struct OfPlan {
  Planned result;
  std::unique_ptr<CostModel> costs;
  ProgramTimes times;
};
OfPlan plan_for(const char* model, const char* cluster, const char* method) {
  PlanRequest request = ask(model, cluster, method, 64, 4);
  request.search.layers = 4;
  OfPlan made{planned(request), make_analytic_cost_model(request.cluster), {}};
  made.times = program_costs(made.result.program, *made.costs).times;
  return made;
}

struct Lowered {
  const char *model, *cluster, *method;
};
class PiecesOfPlans : public testing::TestWithParam<Lowered> {};

// Whatever the options: every op once, after those it waits for, and as many bytes left as the Run leaves.
TEST_P(PiecesOfPlans, HaveEveryOpOnceAndInAnOrderThatWorks) {
  const OfPlan plan = plan_for(GetParam().model, GetParam().cluster, GetParam().method);
  const Program& program = plan.result.program;
  for (const CutOptions& options : {kInOrder, CutOptions{}, CutOptions{Bytes(1000.0), 3}}) {
    const auto pieces = cut_executables(program, plan.times, *plan.costs, options);
    ASSERT_EQ(pieces.size(), program.executables.size());
    for (std::size_t e = 0; e < pieces.size(); ++e) {
      const StageExecutable& executable = program.executables[e];
      std::multiset<int> ops;
      std::int64_t left = 0;
      for (std::size_t p = 0; p < pieces[e].size(); ++p) {
        const Piece& piece = pieces[e][p];
        ops.insert(piece.ops.begin(), piece.ops.end());
        for (const int other : piece.after) EXPECT_LT(other, static_cast<int>(p));
        EXPECT_GE(piece.duration.ps, 0);
        EXPECT_GE(piece.memory_at_begin, 0);
        left += piece.memory_at_end;
        for (const int o : piece.ops) {
          const LocalOp& op = executable.ops[static_cast<std::size_t>(o)];
          const bool collective = op.kind == LocalOp::Kind::Reshard && op.step->kind != ReshardStep::Kind::Slice;
          EXPECT_EQ(collective, piece.kind == Piece::Kind::Collective);
        }
      }
      EXPECT_EQ(ops.size(), executable.ops.size());
      EXPECT_EQ(std::set<int>(ops.begin(), ops.end()).size(), executable.ops.size());
      EXPECT_EQ(left, left_by(program, executable));
    }
  }
}

// One after the other pieces are the Run: in time to the picosecond, in memory to the byte.
TEST_P(PiecesOfPlans, OneAfterTheOtherAreTheRun) {
  const OfPlan plan = plan_for(GetParam().model, GetParam().cluster, GetParam().method);
  const Program& program = plan.result.program;
  const auto pieces = cut_executables(program, plan.times, *plan.costs, kInOrder);
  for (std::size_t e = 0; e < pieces.size(); ++e) {
    SimTime time{0};
    std::int64_t level = 0, peak = 0;
    std::vector<int> order;
    for (const Piece& piece : pieces[e]) {
      time += piece.duration;
      peak = std::max(peak, level + piece.memory_at_begin);
      level += piece.memory_at_end;
      order.insert(order.end(), piece.ops.begin(), piece.ops.end());
    }
    EXPECT_EQ(time, plan.times.executable[e]);
    // Sums of gradients that come first, or accumulations that come last, take memory at other times.
    if (std::is_sorted(order.begin(), order.end())) {
      EXPECT_EQ(peak, static_cast<std::int64_t>(program.executables[e].peak_extra.si()));
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, PiecesOfPlans,
                         testing::Values(Lowered{"mlp:layers=4,hidden=32", "cpu:4", "pipeshard"},
                                         Lowered{"mlp:layers=4,hidden=32", "p3.16xlarge:2", "megatron:tp=2,pp=2"},
                                         Lowered{kGpt, "cpu:8", "zero3"}, Lowered{kGpt, "cpu:8", "zero2"},
                                         Lowered{kGpt, "cpu:8", "data"}, Lowered{kGpt, "cpu:8", "megatron:tp=2,pp=2"}),
                         [](const auto& of) { return fmt::format("Case{}", of.index); });

// An attention and a step of an all-gather take what they are told, all else nothing.
struct RingPrices final : CostModel {
  double attention, block;
  RingPrices(double of_attention, double of_block) : attention(of_attention), block(of_block) {}
  [[nodiscard]] TimeEstimate compute(const OpWork& work) const override {
    const bool is = work.kind == OpKind::GroupedAttention || work.kind == OpKind::GroupedAttentionBackward;
    return {Seconds(is ? attention : 0.0), Basis::Modelled};
  }
  [[nodiscard]] TimeEstimate collective(CollectiveKind kind, Bytes, const MeshAxis&) const override {
    return {Seconds(kind == CollectiveKind::AllGather ? 3 * block : 0.0), Basis::Modelled};
  }
  [[nodiscard]] TimeEstimate transfer(Bytes, bool, int) const override { return {Seconds(0.0), Basis::Modelled}; }
  [[nodiscard]] Seconds run_overhead() const override { return Seconds(0.0); }
};
double forward_of_ring(double attention, double block, const CutOptions& options) {
  PlanRequest request = ask("llama:layers=1,hidden=32,heads=4,kv_heads=4,intermediate=32,seq=16,vocab=32", "cpu:4",
                            "context:cp=4,cp-comm=p2p", 8, 1);
  request.search.forced["wte"] = spec_from_text("RR", "wte");  // no all-gather but those of keys and values
  const Planned result = planned(request);
  const RingPrices prices(attention, block);
  const ProgramTimes times = program_costs(result.program, prices).times;
  const auto forward = static_cast<std::size_t>(*result.program.stages[0].forward);
  SimTime sum{0};
  const auto pieces = cut_executables(result.program, times, prices, options);
  for (const Piece& piece : pieces[forward]) sum += piece.duration;
  return to_seconds(sum).si();
}
// Keys and values pass on in three steps, each of a block of keys and one of values, beside a quarter of an attention.
TEST(PiecesOfARing, HideEachBlockBehindTheAttentionOfTheOneBefore) {
  CutOptions in_order;
  in_order.parameters = ParameterTime::Inside;
  EXPECT_NEAR(forward_of_ring(400.0, 10.0, in_order), 400 + 3 * 20, 1e-6);
  EXPECT_NEAR(forward_of_ring(400.0, 10.0, {}), 400, 1e-6);                    // 20 of 100
  EXPECT_NEAR(forward_of_ring(400.0, 80.0, {}), 400 + 3 * (160 - 100), 1e-6);  // of 160 100 are hidden
}

// A software that moves parameters beside computation counts a Run as less than its ops. In order the pieces are that
// Run, and none takes less than nothing; beside each other they take what they do alone, so that only the simulation
// hides any of it.
TEST(PiecesOfASoftware, HideNothingTwice) {
  for (const char* method : {"zero3", "zero2", "megatron:tp=2,pp=1,zero=1"}) {
    PlanRequest request = ask("gpt:layers=2,hidden=256,heads=4,seq=128,vocab=512", "dgx-h100:2", method, 64, 2);
    request.training.dtype = DType::BF16;
    const auto costs = make_physical_cost_model(request.cluster, find_software_profile("fsdp"));
    SimulatedStep evaluator(*costs);
    const Planned result = with_program(make_plan(request, *costs, evaluator), *costs);
    ASSERT_TRUE(result.plan) << result.reason;
    const Program& program = result.program;
    const ProgramTimes times = program_costs(program, *costs).times;
    const CutOptions inside{Bytes(0.0), 0, ParameterTime::Inside}, apart{Bytes(0.0), 0, ParameterTime::Apart};
    const auto in_order = cut_executables(program, times, *costs, inside);
    const auto beside = cut_executables(program, times, *costs, apart);
    bool hidden = false;
    for (std::size_t e = 0; e < in_order.size(); ++e) {
      SimTime run{0}, all{0};
      for (const Piece& piece : in_order[e]) {
        EXPECT_GE(piece.duration, SimTime{0}) << method;
        run += piece.duration;
      }
      EXPECT_EQ(run, times.executable[e]) << method;
      const StageExecutable& executable = program.executables[e];
      const LogicalMesh& mesh = program.stages[executable.stage.index()].mesh;
      for (const Piece& piece : beside[e]) {
        EXPECT_GE(piece.duration, SimTime{0}) << method;
        all += piece.duration;
        if (piece.kind != Piece::Kind::Collective || piece.ops.size() != 1) continue;
        const LocalOp& op = executable.ops[static_cast<std::size_t>(piece.ops[0])];
        const Seconds alone = op_cost(executable, op, mesh, *costs).time;
        EXPECT_NEAR(to_seconds(piece.duration).si(), alone.si(), 1e-6 * alone.si() + 2e-12) << method;
      }
      hidden = hidden || all > run;
    }
    EXPECT_TRUE(hidden) << method;
  }
}

std::vector<Piece> update_of(const HandPlan& made, Bytes bucket) {
  const ProgramTimes times = program_costs(made.program, *made.costs).times;
  const auto pieces = cut_executables(made.program, times, *made.costs, {bucket, 1});
  return pieces[static_cast<std::size_t>(made.program.stages[0].update.value())];
}

// Four weights of 16 x 64 and biases over four replicas, 4 bytes each: the last layer's gradient is made first.
TEST(Pieces, SumGradientsInBucketsInTheOrderInWhichTheBackwardMakesThem) {
  const HandPlan made =
      by_hand("mlp:layers=2,hidden=16", "cpu:4", {.batch = 64, .microbatches = 2}, {{"", {4, 1}, {{"batch", 1}}}});
  const StageExecutable& update =
      made.program.executables[static_cast<std::size_t>(made.program.stages[0].update.value())];
  const auto count = [](const std::vector<Piece>& pieces) {
    return std::count_if(pieces.begin(), pieces.end(), [](const Piece& piece) { return piece.of_gradients; });
  };
  EXPECT_EQ(count(update_of(made, Bytes(0.0))), 8);
  EXPECT_EQ(count(update_of(made, Bytes(1e9))), 1);
  const std::vector<Piece> pieces = update_of(made, Bytes(0.0));
  std::vector<std::string> summed;
  for (const Piece& piece : pieces)
    if (piece.of_gradients) summed.push_back(made.program.buffers[piece.reads.at(0).index()].name);
  ASSERT_EQ(summed.size(), 8u);
  // The update has them in the order of the parameters, first layer first.
  EXPECT_NE(summed.front().find("blk1"), std::string::npos) << summed.front();
  EXPECT_NE(summed.back().find("blk0"), std::string::npos) << summed.back();
  // One bucket saves latencies and nothing else.
  const auto time = [](const std::vector<Piece>& of) {
    SimTime sum{0};
    for (const Piece& piece : of) sum += piece.duration;
    return sum;
  };
  EXPECT_LT(time(update_of(made, Bytes(1e9))), time(pieces));
  EXPECT_EQ(update.phase, Phase::Update);
}

// A backward ends a computation where a gradient is complete.
TEST(Pieces, OfABackwardEndWhereAGradientIsComplete) {
  const HandPlan made =
      by_hand("mlp:layers=2,hidden=16", "cpu:4", {.batch = 64, .microbatches = 2}, {{"", {4, 1}, {{"batch", 1}}}});
  const ProgramTimes times = program_costs(made.program, *made.costs).times;
  const auto pieces = cut_executables(made.program, times, *made.costs, {});
  const auto backward = static_cast<std::size_t>(made.program.stages[0].backward.value());
  EXPECT_GE(pieces[backward].size(), 8u);  // four weights, four biases
  // Alone there is nothing to sum.
  const HandPlan alone =
      by_hand("mlp:layers=2,hidden=16", "cpu:1", {.batch = 64, .microbatches = 2}, {{"", {1, 1}, {}}});
  for (const auto& of :
       cut_executables(alone.program, program_costs(alone.program, *alone.costs).times, *alone.costs, {}))
    EXPECT_EQ(of.size(), 1u);
}

// Sums that are only accumulated are beside the pass; what accumulates them comes at the end.
TEST(Pieces, AccumulateWhatThePassSumsAtItsEnd) {
  const OfPlan plan = plan_for(kGpt, "cpu:8", "zero2");
  const Program& program = plan.result.program;
  const auto pieces = cut_executables(program, plan.times, *plan.costs, {Bytes(0.0), 1});
  const auto e = static_cast<std::size_t>(program.stages[0].backward.value());
  bool summed = false;
  for (const Piece& piece : pieces[e]) summed = summed || piece.of_gradients;
  if (!summed) GTEST_SKIP() << "this plan sums its gradients once per step";
  const LocalOp& last = program.executables[e].ops[static_cast<std::size_t>(pieces[e].back().ops.back())];
  EXPECT_EQ(last.work.kind, OpKind::Accumulate);
}

}  // namespace
}  // namespace meshwright::executable_pieces_test
