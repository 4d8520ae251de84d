// SPDX-License-Identifier: Apache-2.0
// Stages that branch: which of them wait for which, that branches work side by side, and that whatever the graph and
// however it is cut, the program of its stages is sound and trains the weights of one device.
#include "core/plan/stage_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "executor/check/run_reference.h"
#include "executor/executor.h"
#include "tests/deviation.h"
#include "tests/run_on_host.h"
#include "tests/truth/instruction_engines.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::stage_graph_test {
namespace {

using Feeds = std::vector<std::vector<int>>;

constexpr double kSame = 1e-12;
const RunOptions kTwoSteps{.steps = 2, .seed = 3, .precision = DType::F64};
constexpr ScheduleKind kKinds[] = {ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::Inference};

// The program of the plan is sound, its memory and numbers are those of one device, and both engines agree about it.
void expect_trains_like_one_device(const HandPlan& made) {
  ASSERT_EQ(check_plan(made.plan, made.graph), std::vector<std::string>{});
  ASSERT_EQ(made.check.violations, std::vector<std::string>{});
  const ProgramTimes times = program_costs(made.program, *made.costs).times;
  EXPECT_EQ(simulate_by_events(made.program, times).timeline.spans,
            simulate_in_order(made.program, made.check.order, times).timeline.spans);
  const RunResult run = run_program(made.graph, made.program, made.check, kTwoSteps);
  const RunResult truth = run_reference(made.graph, kTwoSteps);
  EXPECT_EQ(run.peak_memory, made.check.peak_memory);
  expect_same_training(run, truth, kSame);
}

// --- graphs by hand: layers of tensors (batch, embed) ---

constexpr std::int64_t kBatch = 8, kWidth = 4;

class LayerWriter {
 public:
  explicit LayerWriter(std::int64_t microbatches) {
    graph_.name = "layers";
    graph_.batch = kBatch;
    graph_.microbatches = microbatches;
    graph_.dtype = DType::F32;
    batch_.size = kBatch / microbatches;
  }
  TensorId input(const std::string& name) {
    return graph_.add_tensor(name, TensorKind::Input, graph_.dtype, {batch_, embed_});
  }
  TensorId weight(const std::string& name) {
    return graph_.add_tensor(name, TensorKind::Parameter, graph_.dtype, {embed_, mlp_});
  }
  // tanh(x W V), W its own or `tied`.
  TensorId dense(const std::string& name, TensorId x, std::optional<TensorId> tied = std::nullopt) {
    const TensorId in = tied ? *tied : weight(name + ".weight");
    const TensorId out = graph_.add_tensor(name + ".back.weight", TensorKind::Parameter, graph_.dtype, {mlp_, embed_});
    x = graph_.add_op(OpKind::Contract, name, {x, in}, {.result_names = {"batch", "mlp"}})[0];
    x = graph_.add_op(OpKind::Contract, name + ".back", {x, out}, {.result_names = {"batch", "embed"}})[0];
    return add(OpKind::Tanh, name + ".tanh", {x});
  }
  TensorId add(OpKind kind, const std::string& name, std::vector<TensorId> inputs) {
    return graph_.add_op(kind, name, std::move(inputs))[0];
  }
  // The training step of the squared distance between the two; inference: the forward alone.
  Graph finish(TensorId x, TensorId y, ScheduleKind schedule) {
    graph_.loss = graph_.add_op(OpKind::SquaredErrorLoss, "loss", {x, y}, {.scale = 1.0 / (kBatch * kWidth)})[0];
    if (schedule != ScheduleKind::Inference)
      append_training_step(graph_, {.kind = Optimizer::Kind::Momentum, .learning_rate = 0.1}, Recompute::None);
    return std::move(graph_);
  }

 private:
  Graph graph_;
  Dim batch_{"batch", 0};
  const Dim embed_{"embed", kWidth}, mlp_{"mlp", 2 * kWidth};
};

HandStage one_device(const std::string& first_op) { return {first_op, {1}, {}}; }

TrainingOptions in_microbatches(std::int64_t microbatches) {
  TrainingOptions training;
  training.batch = kBatch;
  training.microbatches = microbatches;
  return training;
}

const Op& op_of(const Graph& graph, const std::string& name) {
  const auto found =
      std::find_if(graph.ops().begin(), graph.ops().end(), [&](const Op& op) { return op.name == name; });
  if (found == graph.ops().end()) throw InternalError("no op " + name);
  return *found;
}

// A stem, stage 0, feeds two branches, of stages 1 and 2 and of stage 3, that stage 4 joins.
HandPlan stem_and_two_branches(ScheduleKind schedule, int microbatches) {
  LayerWriter layers(microbatches);
  const TensorId x = layers.input("x"), y = layers.input("y");
  const TensorId stem = layers.dense("stem", x);
  const TensorId long_one = layers.dense("long.second", layers.dense("long.first", stem));
  const TensorId short_one = layers.dense("short", stem);
  const TensorId joined = layers.dense("head", layers.add(OpKind::Multiply, "join", {long_one, short_one}));
  return by_hand(
      layers.finish(joined, y, schedule), "cpu:8", in_microbatches(microbatches),
      {one_device(""), one_device("long.first"), one_device("long.second"), one_device("short"), one_device("join")},
      schedule);
}

TEST(StageGraph, CountsTheLongestWayToAnEnd) {
  const HandPlan made = stem_and_two_branches(ScheduleKind::OneFOneB, 2);
  const StageGraph stages = stage_graph(made.plan, made.graph);
  EXPECT_EQ(stages.feeds, (Feeds{{1, 3}, {2}, {4}, {4}, {}}));
  EXPECT_EQ(stages.stages_after, (std::vector<int>{3, 2, 1, 1, 0}));
  for (std::size_t s = 0; s < 5; ++s) EXPECT_EQ(made.program.stages[s].stages_after, stages.stages_after[s]);
  EXPECT_TRUE(stages.reaches(0, 4) && stages.reaches(1, 4) && stages.reaches(3, 3));
  EXPECT_FALSE(stages.reaches(1, 3) || stages.reaches(2, 3) || stages.reaches(4, 0));
}

TEST(StageGraph, OfAModelThatIsALineIsALine) {
  const HandPlan made = by_hand("mlp:layers=4,hidden=8", "cpu:4", in_microbatches(2),
                                {one_device(""), one_device("blk1.up"), one_device("blk2.up"), one_device("blk3.up")});
  EXPECT_EQ(stage_graph(made.plan, made.graph).feeds, (Feeds{{1}, {2}, {3}, {}}));
  EXPECT_EQ(stage_graph(made.plan, made.graph).stages_after, line_of(4));
}

// Of layers 0 -> {1 -> 2, 3} -> 4: stages in which one layer waits for another of its stage's, wait as a whole.
TEST(StageGraph, OfLayersFollowsFromTheirCut) {
  const Feeds layers = {{1, 3}, {2}, {4}, {4}, {}};
  EXPECT_EQ(stage_graph(layers, {0, 1, 2, 3, 4}).stages_after, (std::vector<int>{3, 2, 1, 1, 0}));
  EXPECT_EQ(stage_graph(layers, {0, 1, 3, 4}).stages_after, (std::vector<int>{2, 1, 1, 0}));
  EXPECT_EQ(stage_graph(layers, {0, 2}).feeds, (Feeds{{1}, {}}));
  EXPECT_EQ(stage_graph(layers, {0}).stages_after, (std::vector<int>{0}));
}

// The stem's gradient has a term from each branch. Each goes to the stem, and no gradient from branch to branch.
TEST(SharedStem, AddsUpItsGradientBeforeItsBranchesPart) {
  for (const ScheduleKind schedule : {ScheduleKind::OneFOneB, ScheduleKind::GPipe}) {
    const HandPlan made = stem_and_two_branches(schedule, 4);
    expect_trains_like_one_device(made);
    const Program& program = made.program;
    std::set<std::pair<int, int>> ways;
    for (const Transfer& t : program.transfers)
      ways.insert(
          {program.stage_of_device[t.source.index()].value, program.stage_of_device[t.destination.index()].value});
    EXPECT_EQ(ways, (std::set<std::pair<int, int>>{
                        {0, 1}, {0, 3}, {1, 2}, {2, 4}, {3, 4}, {4, 3}, {4, 2}, {2, 1}, {3, 0}, {1, 0}}));
    const OpId sum = op_of(made.graph, "stem.tanh.grad_sum").id;
    for (const StageExecutable& executable : program.executables)
      for (const LocalOp& op : executable.ops)
        if (op.kind == LocalOp::Kind::Compute && op.op == sum) {
          EXPECT_EQ(executable.stage, StageId(0));
        }
  }
}

// In a line the terms are added up on the way: one message goes from stage to stage, none past one.
TEST(SharedStem, OfALineSendsOneSum) {
  LayerWriter layers(1);
  const TensorId input = layers.input("x"), y = layers.input("y");
  const TensorId stem = layers.dense("stem", input);
  TensorId x = stem;
  for (const char* name : {"first", "second", "third"})
    x = layers.dense(name, layers.add(OpKind::Multiply, std::string(name) + ".join", {x, stem}));
  const HandPlan made =
      by_hand(layers.finish(x, y, ScheduleKind::OneFOneB), "cpu:4", in_microbatches(1),
              {one_device(""), one_device("first.join"), one_device("second.join"), one_device("third.join")});
  expect_trains_like_one_device(made);
  std::vector<std::string> gradients;
  for (const Transfer& t : made.program.transfers)
    if (t.source.value > t.destination.value && made.program.buffers[t.source_buffer.index()].name.starts_with("stem"))
      gradients.push_back(fmt::format("{} to {}", t.source.value, t.destination.value));
  EXPECT_EQ(gradients, (std::vector<std::string>{"2 to 1", "1 to 0"}));
}

// x is read in stage 3 directly and, through a sum that hands its gradient on, in stage 2; the terms of stages 2 and 3
// meet on stage 1, the last before both that has x.
TEST(SharedStem, TakesTermsThatPassThroughAStageWithoutIt) {
  LayerWriter layers(2);
  const TensorId input = layers.input("x"), y = layers.input("y");
  const TensorId x = layers.dense("stem", input);
  const TensorId z = layers.add(OpKind::Add, "residual", {x, layers.dense("first", x)});
  const TensorId second = layers.dense("second", z);
  const TensorId last = layers.dense("third", layers.add(OpKind::Multiply, "join", {second, x}));
  const HandPlan made = by_hand(layers.finish(last, y, ScheduleKind::OneFOneB), "cpu:4", in_microbatches(2),
                                {one_device(""), one_device("first"), one_device("second"), one_device("join")});
  expect_trains_like_one_device(made);
}

// --- the two-tower model ---

const char* const kTwoTower =
    "two_tower:layers=2,hidden=16,heads=4,image=16,patch=4,text_layers=2,text_hidden=8,text_heads=4,seq=8,vocab=32,"
    "embed=8";

// The image tower on stages 0 and 1, the text tower on stage 2, both of two devices, the scores on stage 3.
HandPlan two_towers(ScheduleKind schedule, int microbatches, Recompute recompute = Recompute::None) {
  const TrainingOptions training{.batch = 16,
                                 .microbatches = microbatches,
                                 .optimizer = {.kind = Optimizer::Kind::Momentum},
                                 .recompute = recompute};
  return by_hand(kTwoTower, "cpu:8", training,
                 {{"", {1, 2}, {{"batch", 2}}},
                  {"image.blk1.ln1", {1, 2}, {{"batch", 2}}},
                  {"text.embed", {1, 2}, {{"batch", 2}}},
                  {"head.temperature.scaled", {1, 1}, {}}},
                 schedule);
}

TEST(TwoTowers, OnTheirOwnDevicesTrainLikeOneDevice) {
  for (const ScheduleKind schedule : {ScheduleKind::OneFOneB, ScheduleKind::GPipe})
    for (const auto& [microbatches, recompute] :
         {std::pair(1, Recompute::None), std::pair(2, Recompute::Full), std::pair(4, Recompute::Selective)}) {
      const HandPlan made = two_towers(schedule, microbatches, recompute);
      EXPECT_EQ(stage_graph(made.plan, made.graph).feeds, (Feeds{{1}, {3}, {3}, {}}));
      expect_trains_like_one_device(made);
    }
}

TEST(TwoTowers, WorkSideBySide) {
  for (const ScheduleKind schedule : kKinds) {
    const HandPlan made = two_towers(schedule, 4);
    ASSERT_EQ(made.check.violations, std::vector<std::string>{});
    const Timeline timeline =
        simulate_in_order(made.program, made.check.order, program_costs(made.program, *made.costs).times).timeline;
    std::vector<SimTime> begins(4, timeline.end);
    for (const Span& span : timeline.spans)
      if (span.kind == Span::Kind::Forward)
        begins[span.stage.index()] = std::min(begins[span.stage.index()], span.begin);
    EXPECT_EQ(begins[0].ps, 0);
    EXPECT_EQ(begins[2].ps, 0);
    EXPECT_GT(begins[1].ps, 0);
    EXPECT_GT(begins[3], begins[1]);
  }
}

// The largest number of forwards that wait for their backward.
int most_in_flight(const Program& program, DeviceId device) {
  int now = 0, most = 0;
  for (const Instruction& instruction : program.devices[device.index()]) {
    if (instruction.kind != Instruction::Kind::Run) continue;
    const Phase phase = program.executables[static_cast<std::size_t>(instruction.executable)].phase;
    now += phase == Phase::Forward ? 1 : phase == Phase::Backward ? -1 : 0;
    most = std::max(most, now);
  }
  return most;
}

TEST(TwoTowers, KeepAsManyMicrobatchesAsStagesComeAfterThem) {
  const HandPlan made = two_towers(ScheduleKind::OneFOneB, 4);
  const int kept[] = {3, 2, 2, 1};
  for (std::size_t s = 0; s < 4; ++s)
    for (const DeviceId device : made.program.stages[s].devices)
      EXPECT_EQ(most_in_flight(made.program, device), kept[s]) << "stage " << s;
}

// --- any graph, cut anywhere ---

// Layers that read one or two tensors made anywhere before, some with the weights of another; every loose end is added
// into the loss.
HandPlan random_plan(std::mt19937& random, ScheduleKind schedule) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const int microbatches = 1 << draw(0, 3);
  LayerWriter layers(microbatches);
  const TensorId input = layers.input("x"), y = layers.input("y"), shared = layers.weight("shared");
  std::vector<TensorId> made;
  std::vector<std::string> first_ops;
  std::vector<bool> read;
  // Mostly what was made last, so that there are lines; else anything.
  const auto any = [&]() -> TensorId {
    if (made.empty() || draw(0, 9) == 0) return input;
    const int i = draw(0, 1) == 0 ? static_cast<int>(made.size()) - 1 : draw(0, static_cast<int>(made.size()) - 1);
    read[static_cast<std::size_t>(i)] = true;
    return made[static_cast<std::size_t>(i)];
  };
  const auto keep = [&](const std::string& name, TensorId tensor) {
    first_ops.push_back(name);
    made.push_back(tensor);
    read.push_back(false);
  };
  for (int layer = draw(4, 14); layer > 0; --layer) {
    const std::string name = fmt::format("layer{}", layer);
    const int kind = made.empty() ? 0 : draw(0, 4);
    if (kind == 3) {
      const TensorId a = any();
      keep(name, layers.add(OpKind::Add, name, {a, any()}));
    } else if (kind == 4) {
      const TensorId a = any();
      keep(name, layers.add(OpKind::Multiply, name, {a, any()}));
    } else {
      const TensorId x = any();
      keep(name, layers.dense(name, x, made.empty() || draw(0, 4) == 0 ? std::optional(shared) : std::nullopt));
    }
  }
  TensorId total = made.back();
  for (std::size_t i = 0; i + 1 < made.size(); ++i)
    if (!read[i]) {
      const std::string name = fmt::format("end{}", i);
      total = layers.add(OpKind::Add, name, {total, made[i]});
      first_ops.push_back(name);
    }
  const std::vector<Names> splits = {{}, {{"embed", 2}}, {{"mlp", 2}}, {{"batch", 2}}};
  std::vector<HandStage> stages;
  for (std::size_t i = 0; i < first_ops.size() && stages.size() < 6; ++i)
    if (i == 0 || draw(0, 2) == 0) {
      const bool wide = stages.size() < 2 && draw(0, 1) == 0;
      const int split = !wide ? 0 : draw(0, microbatches == kBatch ? 2 : 3);
      stages.push_back({i == 0 ? "" : first_ops[i], {1, wide ? 2 : 1}, splits[static_cast<std::size_t>(split)]});
    }
  return by_hand(layers.finish(total, y, schedule), "cpu:8", in_microbatches(microbatches), stages, schedule);
}

TEST(RandomGraphs, CutAnywhereTrainLikeOneDevice) {
  std::mt19937 random(20251121);
  int branching = 0, skipping = 0;
  std::vector<ScheduleKind> of_any_stages = all_schedules();
  std::erase_if(of_any_stages, [](ScheduleKind kind) { return traits_of(kind).line; });
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const HandPlan made = random_plan(random, of_any_stages[static_cast<std::size_t>(round) % of_any_stages.size()]);
    expect_trains_like_one_device(made);
    if (testing::Test::HasFatalFailure()) return;
    const StageGraph stages = stage_graph(made.plan, made.graph);
    for (std::size_t s = 0; s + 1 < stages.feeds.size(); ++s) {
      branching += stages.reaches(static_cast<int>(s), static_cast<int>(s) + 1) ? 0 : 1;
      for (const int fed : stages.feeds[s])
        skipping += stages.stages_after[s] - stages.stages_after[static_cast<std::size_t>(fed)] > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(branching, 30);
  EXPECT_GT(skipping, 30);
}

}  // namespace
}  // namespace meshwright::stage_graph_test
