// SPDX-License-Identifier: Apache-2.0
// Borders that move inside layers: what the pieces take, where borders go, and that a plan gets no slower.
#include "core/planner/borders/border_refinement.h"

#include <gtest/gtest.h>

#include "core/planner/borders/border_search.h"
#include "core/planner/borders/moved_plan.h"
#include "core/planner/degrees/eased_degrees.h"
#include "simulator/what_if/evaluator.h"
#include "tests/sanitized.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::border_refinement_test {
namespace {

// The loss is as much work as the four blocks, so a stage with it and as many blocks as others sets the time.
const std::string kHeavyEnd = "gpt:layers=4,hidden=64,heads=4,seq=32,vocab=3072";

struct MadePlan {
  PlanRequest request;
  std::unique_ptr<CostModel> costs;
  std::unique_ptr<SimulatedEvaluator> evaluator;
  PlanOfGraph made;

  explicit MadePlan(const std::string& method, int devices, int layers = 4,
                    ScheduleKind schedule = ScheduleKind::OneFOneB)
      : request(ask(kHeavyEnd, fmt::format("cpu:{}", devices), method, 16, 8)) {
    request.training.dtype = DType::F32;
    request.search.layers = layers;
    request.search.schedule = schedule;
    costs = make_analytic_cost_model(request.cluster);
    evaluator = std::make_unique<SimulatedEvaluator>(*costs, nullptr);
    PlanningResult found = make_plan(request, *costs, *evaluator);
    MW_CHECK(found.plan.has_value(), "no plan: {}", found.reason);
    made = {*found.plan, std::make_shared<const Graph>(found.graph)};
  }
  [[nodiscard]] std::optional<PlanWithBorders> moved() const {
    return move_borders(made, std::nullopt, made.plan.predicted.step_time, *costs, *evaluator);
  }
};

TEST(StagePieces, OfAStageTakeWhatThePlanSaysOfIt) {
  const MadePlan of("megatron:pp=2,exact=1", 2);
  const StagePieces found = cut_into_pieces(of.made, *of.costs);
  ASSERT_EQ(found.first_of_stage.size(), 2u);
  EXPECT_EQ(found.first_of_stage[0], 0);
  for (int s = 0; s < 2; ++s) {
    const std::size_t end = s == 0 ? static_cast<std::size_t>(found.first_of_stage[1]) : found.pieces.size();
    Seconds forward(0.0), backward(0.0);
    for (auto p = static_cast<std::size_t>(found.first_of_stage[s]); p < end; ++p) {
      forward += found.pieces[p].forward;
      backward += found.pieces[p].backward;
    }
    const StagePlan& stage = of.made.plan.stages[s];
    EXPECT_NEAR(forward / stage.forward, 1.0, 1e-9);
    EXPECT_NEAR(backward / stage.backward, 1.0, 1e-9);
  }
  // Four blocks of attention and feed-forward, and what is before and after them: two places in each block but no more
  // than three beside them.
  EXPECT_GE(found.pieces.size(), 8u);
  EXPECT_LE(found.pieces.size(), 11u);
}

// A plan by hand says nothing of its stages' times, so that pieces take what their ops do. Where a stage is cut, each
// of its pieces takes at least 1/32 of the mean stage: what is left at its end is part of the piece before.
TEST(StagePieces, OfAStageThatIsCutAreLongEnough) {
  int cut = 0;
  for (const int hidden : {16, 64}) {
    const std::string model = fmt::format("gpt:layers=2,hidden={},heads=4,seq=32,vocab=64", hidden);
    const TrainingOptions training{.batch = 4, .microbatches = 2};
    const Graph graph = build_training_graph(find_model(model), training);
    const std::vector<OpId> ops = forward_ops(graph);
    for (std::size_t second = 2; second < ops.size(); second += 2) {
      const std::string& first_op = graph.op(ops[second]).name;
      const HandPlan made = by_hand(model, "cpu:2", training, {{"", {1}, {}}, {first_op, {1}, {}}});
      const StagePieces found = cut_into_pieces({made.plan, std::make_shared<const Graph>(made.graph)}, *made.costs);
      ASSERT_EQ(found.first_of_stage.size(), 2u);
      Seconds mean(0.0);
      for (const StagePiece& piece : found.pieces) mean += 0.5 * piece.pass();
      for (std::size_t s = 0; s < 2; ++s) {
        const auto begin = static_cast<std::size_t>(found.first_of_stage[s]);
        const std::size_t end = s == 0 ? static_cast<std::size_t>(found.first_of_stage[1]) : found.pieces.size();
        ASSERT_LT(begin, end);
        EXPECT_EQ(found.pieces[begin].begin, made.plan.layer_starts[s]);
        if (end - begin == 1) continue;
        ++cut;
        for (std::size_t p = begin; p < end; ++p)
          EXPECT_GE(found.pieces[p].pass() / mean, (1 - 1e-9) / 32) << hidden << ", " << first_op << ", piece " << p;
      }
    }
  }
  EXPECT_GT(cut, 20);
}

// Of three stages, the second wherever it may begin and end: with parameters, or with none, so that its backward has no
// second half.
TEST(StagePieces, TakeAsLongWhetherOrNotTheBackwardIsSplitInTwo) {
  const std::string model = "mlp:layers=2,hidden=64";
  const TrainingOptions training{.batch = 16, .microbatches = 4};
  const Graph graph = build_training_graph(find_model(model), training);
  const std::vector<OpId> ops = forward_ops(graph);
  int without_weights = 0;
  for (std::size_t second = 1; second < ops.size(); ++second)
    for (std::size_t third = second + 1; third < ops.size(); ++third) {
      const auto pieces = [&](ScheduleKind schedule) {
        const HandPlan made = by_hand(
            model, "cpu:3", training,
            {{"", {1}, {}}, {graph.op(ops[second]).name, {1}, {}}, {graph.op(ops[third]).name, {1}, {}}}, schedule);
        return cut_into_pieces({made.plan, std::make_shared<const Graph>(made.graph)}, *made.costs);
      };
      const StagePieces whole = pieces(ScheduleKind::OneFOneB), halves = pieces(ScheduleKind::ZeroBubbleH1);
      ASSERT_EQ(whole.first_of_stage, halves.first_of_stage);
      ASSERT_EQ(whole.pieces.size(), halves.pieces.size());
      for (std::size_t p = 0; p < whole.pieces.size(); ++p) {
        const StagePiece &a = whole.pieces[p], &b = halves.pieces[p];
        EXPECT_EQ(a.begin, b.begin);
        EXPECT_EQ(a.forward, b.forward) << second << ", " << third << ", piece " << p;
        EXPECT_NEAR(a.backward / b.backward, 1.0, 1e-9) << second << ", " << third << ", piece " << p;
        EXPECT_EQ(a.update, b.update);
        EXPECT_EQ(a.weight, Seconds(0.0));
        EXPECT_LE(b.weight, (1.0 + 1e-9) * b.backward);
        without_weights += b.weight == Seconds(0.0) ? 1 : 0;
      }
      // The first stage makes gradients of parameters alone.
      EXPECT_NEAR(halves.pieces.front().weight / halves.pieces.front().backward, 1.0, 1e-9);
    }
  EXPECT_GT(without_weights, 5);
}

// A clip takes thousands of times less than the products around it: as a stage it is a piece, however short.
TEST(StagePieces, BeginWhereStagesDoHoweverShortOneIs) {
  const HandPlan made = by_hand("mlp:layers=1,hidden=4096", "cpu:3", {.batch = 4096, .microbatches = 1},
                                {{"", {1}, {}}, {"blk0.up.relu", {1}, {}}, {"blk0.down", {1}, {}}});
  const StagePieces found = cut_into_pieces({made.plan, std::make_shared<const Graph>(made.graph)}, *made.costs);
  ASSERT_EQ(found.first_of_stage.size(), 3u);
  Seconds all(0.0);
  for (const StagePiece& piece : found.pieces) all += piece.pass();
  for (std::size_t s = 0; s < 3; ++s) {
    const auto piece = static_cast<std::size_t>(found.first_of_stage[s]);
    ASSERT_LT(piece, found.pieces.size());
    EXPECT_EQ(found.pieces[piece].begin, made.plan.layer_starts[s]);
  }
  ASSERT_EQ(found.first_of_stage[2] - found.first_of_stage[1], 1);
  EXPECT_LT(found.pieces[static_cast<std::size_t>(found.first_of_stage[1])].pass(), all / (3 * 32));
}

// Times of pieces by hand: forward as long as given, backward twice that.
StagePieces pieces_of(const std::vector<int>& forward_us, std::vector<int> first_of_stage) {
  StagePieces made;
  for (const int time : forward_us) {
    const int begin = static_cast<int>(made.pieces.size());
    made.pieces.push_back({{Seconds(1e-6 * time), Seconds(2e-6 * time)}, begin});
  }
  made.first_of_stage = std::move(first_of_stage);
  return made;
}

BorderRequest on_ranks(std::vector<int> rank_of, ScheduleKind schedule, int chunks) {
  const std::size_t stages = rank_of.size();
  BorderRequest request{schedule,
                        8,
                        chunks,
                        std::move(rank_of),
                        std::vector<bool>(stages, true),
                        std::vector<SimTime>(stages, SimTime{0})};
  request.movable[0] = false;
  return request;
}

std::vector<int> best_borders(const StagePieces& pieces, const BorderRequest& request) {
  const Cluster cluster = find_cluster("cpu:2");
  const auto costs = make_analytic_cost_model(cluster);
  SimulatedEvaluator evaluator(*costs, nullptr);
  const std::vector<Borders> found = search_borders(pieces, request, evaluator, 1);
  return found.empty() ? pieces.first_of_stage : found.front().first_of_stage;
}

// Ten pieces of 1 us: 8 and 2 become 5 and 5.
TEST(BorderSearch, EvensOutTwoStages) {
  EXPECT_EQ(best_borders(pieces_of(std::vector<int>(10, 1), {0, 8}), on_ranks({0, 1}, ScheduleKind::OneFOneB, 1)),
            (std::vector<int>{0, 5}));
}

// The last of three stages gives what the first lacks, past the one between: 2, 4, 6 become 4, 4, 4.
TEST(BorderSearch, PassesPiecesOnThroughStagesBetween) {
  EXPECT_EQ(best_borders(pieces_of(std::vector<int>(12, 1), {0, 2, 6}), on_ranks({0, 1, 2}, ScheduleKind::OneFOneB, 1)),
            (std::vector<int>{0, 4, 8}));
}

// What is even stays, and a border between unlike meshes too.
TEST(BorderSearch, LeavesWhatIsEvenOrCannotMove) {
  const StagePieces even = pieces_of(std::vector<int>(8, 1), {0, 4});
  EXPECT_EQ(best_borders(even, on_ranks({0, 1}, ScheduleKind::OneFOneB, 1)), even.first_of_stage);
  const StagePieces uneven = pieces_of(std::vector<int>(8, 1), {0, 7});
  BorderRequest fixed = on_ranks({0, 1}, ScheduleKind::OneFOneB, 1);
  fixed.movable[1] = false;
  EXPECT_EQ(best_borders(uneven, fixed), uneven.first_of_stage);
}

// Two ranks with two stages each: the last piece, a loss, takes 3 us beside as many pieces as others have. Rank 1 does
// 4 + 4 - 1 + 3 = 10 us of 18; what is even is 9.
TEST(BorderSearch, EvensOutRanksOfSeveralStages) {
  std::vector<int> times(16, 1);
  times.back() = 3;
  const std::vector<int> found =
      best_borders(pieces_of(times, {0, 4, 8, 12}), on_ranks({0, 1, 0, 1}, ScheduleKind::Interleaved, 2));
  const int of_rank_1 = found[2] - found[1] + (16 - found[3]) + 2;
  EXPECT_EQ(of_rank_1, 9);
}

// Ten pieces lie 8 and 2 on two ranks: only borders that are faster than the second best are found.
TEST(BorderSearch, FindsWhatIsWantedAlone) {
  const Cluster cluster = find_cluster("cpu:2");
  const auto costs = make_analytic_cost_model(cluster);
  SimulatedEvaluator evaluator(*costs, nullptr);
  BorderRequest request = on_ranks({0, 1}, ScheduleKind::OneFOneB, 1);
  const StagePieces pieces = pieces_of(std::vector<int>(10, 1), {0, 8});
  const std::vector<Borders> all = search_borders(pieces, request, evaluator, 10);
  ASSERT_GE(all.size(), 2u);
  const Seconds before = evaluator.step_time(request.schedule, request.microbatches,
                                             {.forward = {SimTime{8'000'000}, SimTime{2'000'000}},
                                              .backward = {SimTime{16'000'000}, SimTime{4'000'000}},
                                              .update = {SimTime{0}, SimTime{0}},
                                              .edges = {{0, 1, SimTime{0}, SimTime{0}}}},
                                             1);
  request.share = all[1].step / before;
  const std::vector<Borders> found = search_borders(pieces, request, evaluator, 10);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].first_of_stage, all[0].first_of_stage);
}

TEST(MoveBorders, MakesAPipelineWithAHeavyEndFaster) {
  for (const auto& [method, devices, layers, schedule] :
       {std::tuple("megatron:pp=2,exact=1", 2, 4, ScheduleKind::OneFOneB),
        std::tuple("megatron:tp=2,pp=2,sp=1,exact=1", 4, 4, ScheduleKind::OneFOneB),
        std::tuple("megatron:pp=2,vpp=2,exact=1", 2, 4, ScheduleKind::Interleaved),
        std::tuple("megatron:pp=2,exact=1", 2, 4, ScheduleKind::ZeroBubbleH1)}) {
    SCOPED_TRACE(method);
    const MadePlan of(method, devices, layers, schedule);
    const auto found = of.moved();
    ASSERT_TRUE(found.has_value());
    const Plan& plan = found->plan;
    EXPECT_LT(plan.predicted.step_time, 0.99 * of.made.plan.predicted.step_time);
    EXPECT_TRUE(check_plan(plan, *of.made.graph).empty());
    EXPECT_EQ(of.evaluator->outcome({plan, of.made.graph}).step, plan.predicted.step_time);
    EXPECT_EQ(plan.stages.size(), of.made.plan.stages.size());
    for (std::size_t s = 0; s < plan.stages.size(); ++s)
      EXPECT_EQ(plan.stages[s].devices, of.made.plan.stages[s].devices);
    // What it expects of its stages is what their pieces take, all together as much as before.
    Seconds before(0.0), after(0.0);
    for (const StagePlan& stage : of.made.plan.stages) before += stage.forward + stage.backward;
    for (const StagePlan& stage : plan.stages) after += stage.forward + stage.backward;
    EXPECT_NEAR(after / before, 1.0, 1e-9);
  }
}

// With as much memory as the plan takes itself, the faster borders, which take more, are out of reach.
TEST(MoveBorders, StaysWithinTheMemory) {
  MadePlan of("megatron:pp=2,exact=1", 2);
  const auto free = of.moved();
  ASSERT_TRUE(free.has_value());
  Bytes most(0.0), before(0.0);
  for (const StagePlan& stage : free->plan.stages) most = std::max(most, stage.peak_memory);
  for (const StagePlan& stage : of.made.plan.stages) before = std::max(before, stage.peak_memory);
  ASSERT_GT(most, before) << "the faster plan takes more memory";
  DeviceKind& device = of.made.plan.cluster.only().device;
  device.memory = (before / of.made.plan.cluster.only().usable_memory()) * device.memory;
  const auto found = of.moved();
  if (found) {
    for (const StagePlan& stage : found->plan.stages) EXPECT_LE(stage.peak_memory, 1.0001 * before);
  }
}

// What does not beat another plan is not looked for.
TEST(MoveBorders, BeatWhatTheyHaveTo) {
  const MadePlan of("megatron:pp=2,exact=1", 2);
  const auto found = of.moved();
  ASSERT_TRUE(found.has_value());
  const Seconds step = found->plan.predicted.step_time;
  EXPECT_EQ(move_borders(of.made, std::nullopt, 1.001 * step, *of.costs, *of.evaluator)->plan.predicted.step_time,
            step);
  EXPECT_FALSE(move_borders(of.made, std::nullopt, step, *of.costs, *of.evaluator).has_value());
}

// Copies of stages would have to move together.
TEST(MoveBorders, LeavesSchedulesWithCopiesAndSingleStages) {
  EXPECT_FALSE(MadePlan("megatron:pp=2,exact=1", 2, 4, ScheduleKind::DualPipe).moved().has_value());
  EXPECT_FALSE(MadePlan("data", 2).moved().has_value());
}

// tp 2 in 2 stages, with shardings of ops left to the search: the same meshes, and no slower than Megatron's own.
TEST(EaseDegrees, KeepsMeshesAndIsNoSlower) {
  const MadePlan exact("megatron:tp=2,pp=2,sp=1,zero=1,exact=1", 4);
  Degrees degrees{.tp = 2, .pp = 2, .sequence_parallel = true, .zero = 1, .micro_batch = 2, .micro_batches = 8};
  PlanRequest request = exact.request;
  request.search.method = method_from_text("pipeshard");
  const std::vector<PlanOfGraph> eased = ease_degrees(request, {degrees}, *exact.costs, *exact.evaluator);
  ASSERT_EQ(eased.size(), 1u);
  const Plan& plan = eased.front().plan;
  ASSERT_EQ(plan.stages.size(), 2u);
  for (const StagePlan& stage : plan.stages) EXPECT_EQ(stage.devices.size(), 2u);
  EXPECT_EQ(plan.method, "pipeshard");
  EXPECT_LE(plan.predicted.step_time, exact.made.plan.predicted.step_time);
}

struct Fitting : SearchRecord {
  std::vector<ConsideredPlan> plans;
  void add(ConsideredPlan of) override {
    if (of.fate == ConsideredPlan::Fate::Fits) plans.push_back(std::move(of));
  }
};

// No stage table has its stages.
TEST(EaseDegrees, ThatAreTheAnswerAreRecordedWithTheirStages) {
  if (kSanitized) GTEST_SKIP() << "no smaller request is known whose answer they are";
  Fitting fitting;
  PlanRequest request =
      ask("gpt:layers=48,hidden=256,heads=8,seq=256,vocab=1000", "p3.16xlarge:2", "pipeshard", 128, 8);
  request.training.dtype = request.model.default_dtype;
  request.search.layers = Auto{};
  request.search.schedule = ScheduleKind::Interleaved;
  request.record = &fitting;
  const auto costs = make_analytic_cost_model(request.cluster);
  SimulatedEvaluator evaluator(*costs);
  const PlanningResult found = make_plan(request, *costs, evaluator);
  ASSERT_TRUE(found.plan) << found.reason;
  ASSERT_NE(found.log.how.find("each op split as is fastest"), std::string::npos) << found.log.how;
  const Plan& plan = *found.plan;
  const auto recorded = std::min_element(fitting.plans.begin(), fitting.plans.end(),
                                         [](const auto& a, const auto& b) { return *a.score < *b.score; });
  ASSERT_NE(recorded, fitting.plans.end());
  EXPECT_EQ(recorded->simulated, plan.predicted.step_time);
  EXPECT_EQ(recorded->layer_starts, plan.layer_starts);
  ASSERT_EQ(recorded->stages.size(), plan.stages.size());
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const ConsideredStage& stage = recorded->stages[s];
    EXPECT_EQ(stage.name.place.first, plan.stages[s].first_layer) << s;
    EXPECT_EQ(stage.name.place.submesh, plan.stages[s].submesh) << s;
    EXPECT_EQ(stage.costs.forward, plan.stages[s].forward) << s;
    EXPECT_GT(stage.costs.boundary_in + stage.costs.boundary_out, Bytes(0.0)) << s;
  }
}

}  // namespace
}  // namespace meshwright::border_refinement_test
