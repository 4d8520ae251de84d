// SPDX-License-Identifier: Apache-2.0
// Dynamic loss scaling: invisible while nothing overflows, and a step that overflows anywhere is left out everywhere.
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/errors.h"
#include "core/graph/import/find_model.h"
#include "core/graph/op_table.h"
#include "executor/check/check_run.h"
#include "executor/check/graph_interpreter.h"
#include "executor/check/run_reference.h"
#include "executor/executor.h"
#include "tests/run_on_host.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::loss_scaling_test {
namespace {

constexpr const char* kGpt = "gpt:layers=2,hidden=16,heads=4,seq=8,vocab=32";
constexpr double kOverflow = 0x1p600;  // the squares of gradients of it are beyond f64, whose largest is near 2^1024

TrainingOptions scaled(Optimizer optimizer, DType dtype = DType::F32) {
  return {.batch = 8, .microbatches = 2, .dtype = dtype, .optimizer = optimizer};
}
RunOptions in_f64(int steps) { return {.steps = steps, .seed = 3, .precision = DType::F64}; }

const Names kTensor = {{"heads", 2}, {"mlp", 2}, {"vocab", 2}};

// One device; a pipeline of a data-parallel and a tensor-parallel stage; the loss alone on a third.
std::vector<std::vector<HandStage>> cuts() {
  return {{{"", {1, 1}, {}}},
          {{"", {2, 1}, {{"batch", 1}}}, {"blk1.ln1", {1, 2}, kTensor}},
          {{"", {1, 1}, {}}, {"blk1.ln1", {1, 2}, kTensor}, {"head.row_max", {1, 1}, {}}}};
}

HandPlan made_of(const std::vector<HandStage>& cut, const TrainingOptions& training) {
  HandPlan made = by_hand(kGpt, "cpu:4", training, cut);
  EXPECT_EQ(made.plan.stages.size(), cut.size());
  EXPECT_EQ(check_plan(made.plan, made.graph), std::vector<std::string>{});
  EXPECT_EQ(made.check.violations, std::vector<std::string>{});
  return made;
}

RunResult run(const HandPlan& made, int steps) {
  RunResult result = run_program(made.graph, made.program, made.check, in_f64(steps));
  EXPECT_EQ(result.peak_memory, made.check.peak_memory);
  return result;
}

void expect_all(const RunResult& result, std::size_t devices, double scale) {
  EXPECT_EQ(result.loss_scales, std::vector<double>(devices, scale));
}

std::size_t devices_of(const HandPlan& made) { return made.program.devices.size(); }

// Powers of two only move the exponents.
TEST(LossScaling, ChangesNoBitOfWhatIsTrained) {
  for (const auto& cut : cuts())
    for (const Optimizer::Kind kind : {Optimizer::Kind::Sgd, Optimizer::Kind::Momentum, Optimizer::Kind::Adam})
      for (const double max_norm : {0.0, 0.01}) {
        const Optimizer plain{.kind = kind, .learning_rate = 0.125, .weight_decay = 0.25, .max_norm = max_norm};
        Optimizer with = plain;
        with.loss_scale = 65536.0;
        const HandPlan made = made_of(cut, scaled(with));
        const RunResult result = run(made, 3), truth = run(made_of(cut, scaled(plain)), 3);
        EXPECT_EQ(result.losses, truth.losses);
        EXPECT_EQ(result.weights, truth.weights);
        EXPECT_EQ(result.second_moments, truth.second_moments);
        expect_all(result, devices_of(made), 65536.0);
        EXPECT_TRUE(truth.loss_scales.empty());
      }
}

TEST(LossScaling, ScalesWeightedTerms) {
  TrainingOptions plain = scaled({.kind = Optimizer::Kind::Sgd}), with = scaled({.kind = Optimizer::Kind::Sgd});
  with.optimizer.loss_scale = 1024.0;
  plain.loss = with.loss = LossReduction::TokenWeighted;
  const HandPlan made = made_of(cuts()[2], with);
  for (const Op& op : made.graph.ops()) {
    if (op.kind == OpKind::CrossEntropyBackward) {
      EXPECT_EQ(op.inputs.size(), 7u);
    }
  }
  EXPECT_EQ(run(made, 2).weights, run(made_of(cuts()[2], plain), 2).weights);
}

TEST(LossScaling, LeavesOutAStepThatOverflowsAndHalvesTheScaleOnEveryStage) {
  for (const auto& cut : cuts())
    for (const Optimizer::Kind kind : {Optimizer::Kind::Sgd, Optimizer::Kind::Momentum, Optimizer::Kind::Adam}) {
      Optimizer optimizer{.kind = kind, .learning_rate = 0.125, .weight_decay = 0.25, .loss_scale = kOverflow};
      const HandPlan made = made_of(cut, scaled(optimizer));
      Optimizer still{.kind = Optimizer::Kind::Sgd, .learning_rate = 0.0};
      const RunResult result = run(made, 2), before = run(made_of(cut, scaled(still)), 1);
      EXPECT_EQ(result.weights, before.weights);
      for (const auto& [name, moments] : result.second_moments)
        EXPECT_EQ(moments, std::vector<double>(moments.size(), 0.0)) << name;
      expect_all(result, devices_of(made), kOverflow / 4);
    }
}

// The norms of these gradients are near 1: from 2^514 down they have squares.
TEST(LossScaling, GoesOnWhenTheScaleFits) {
  for (const auto& cut : cuts()) {
    const HandPlan made =
        made_of(cut, scaled({.kind = Optimizer::Kind::Adam, .learning_rate = 0.01, .loss_scale = 0x1p514}));
    const RunResult result = run(made, 8), truth = run_reference(made.graph, in_f64(8));
    ASSERT_LT(truth.loss_scales.at(0), 0x1p514);
    ASSERT_GT(truth.loss_scales.at(0), 0x1p506);  // some steps were taken
    expect_all(result, devices_of(made), truth.loss_scales[0]);
    for (const auto& [name, values] : truth.weights)
      for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(result.weights.at(name)[i], values[i], 1e-10) << name;
  }
}

TEST(LossScaling, DoublesTheScaleAfterEveryIntervalOfGoodSteps) {
  for (const auto& [steps, doublings] : {std::pair{2, 0}, std::pair{3, 1}, std::pair{5, 1}, std::pair{6, 2}}) {
    const HandPlan made = made_of(cuts()[1], scaled({.loss_scale = 1024.0, .loss_scale_interval = 3}));
    expect_all(run(made, steps), 4, std::ldexp(1024.0, doublings));
  }
}

TEST(LossScaling, CountsGoodStepsFromTheLastOverflow) {
  double state[3] = {0, 0, 0};
  const auto after = [&](bool good) {
    double values[3];
    const double norm = good ? 1.0 : std::numeric_limits<double>::infinity();
    Graph graph;
    const TensorId scaling = graph.add_tensor("scaling", TensorKind::StepState, DType::F64, {{"scaling", 3}});
    const TensorId squares = graph.add_tensor("norm", TensorKind::Input, DType::F64, {});
    graph.current_phase = Phase::Update;
    graph.add_in_place_op(OpKind::ScalingUpdate, "update", {scaling, squares}, {scaling}, {.growth_interval = 2});
    GraphInterpreter interpreter(graph, 1, DType::F64);
    interpreter.set(scaling, {state[0], state[1], state[2]});
    interpreter.set(squares, {norm});
    interpreter.run(Phase::Update);
    std::copy_n(interpreter.get(scaling).begin(), 3, values);
    std::copy_n(values, 3, state);
    return std::vector<double>(values, values + 3);
  };
  using State = std::vector<double>;
  EXPECT_EQ(after(true), (State{0, 1, 0}));
  EXPECT_EQ(after(false), (State{-1, 0, 1}));
  EXPECT_EQ(after(true), (State{-1, 1, 1}));
  EXPECT_EQ(after(true), (State{0, 0, 1}));
  EXPECT_EQ(after(true), (State{0, 1, 1}));
}

// After three steps that were left out, the fourth is Adam's first.
TEST(LossScaling, IsNoStepOfAdamWhereItLeavesOneOut) {
  const auto weights_after = [](double loss_scale, double left_out, int step) {
    const Graph graph = build_training_graph(find_model("mlp:layers=1,hidden=8"), scaled({.loss_scale = loss_scale}));
    GraphInterpreter interpreter(graph, 3, DType::F64);
    if (graph.loss_scaling) interpreter.set(graph.loss_scaling->state, {0, 0, left_out});
    interpreter.load_inputs(0, 0);
    for (const Phase phase : {Phase::Forward, Phase::Backward}) interpreter.run(phase);
    interpreter.run(Phase::Update, step);
    std::vector<std::vector<double>> weights;
    for (const Tensor& tensor : graph.tensors())
      if (tensor.kind == TensorKind::Parameter) weights.push_back(interpreter.get(tensor.id));
    return weights;
  };
  EXPECT_EQ(weights_after(8.0, 3, 4), weights_after(0.0, 0, 1));
  EXPECT_NE(weights_after(8.0, 0, 4), weights_after(0.0, 0, 1));
}

TEST(LossScaling, IsCheckedAgainstOneDevice) {
  for (const double first : {65536.0, 0x1p514}) {
    const TrainingOptions training =
        scaled({.kind = Optimizer::Kind::Adam, .learning_rate = 0.001, .loss_scale = first});
    const HandPlan made = made_of(cuts()[1], training);
    const CheckedWork work{made.plan.model, training, true};
    EXPECT_NO_THROW((void)check_run(work, in_f64(6), run(made, 6))) << first;
  }
  // In f32, where half of the steps overflow.
  const TrainingOptions training =
      scaled({.kind = Optimizer::Kind::Adam, .learning_rate = 0.001, .loss_scale = 0x1p66});
  const HandPlan made = made_of(cuts()[1], training);
  const RunOptions options{.steps = 6, .seed = 3, .precision = DType::F32};
  const RunResult result = run_program(made.graph, made.program, made.check, options);
  EXPECT_LT(result.loss_scales.at(0), 0x1p66);
  EXPECT_NO_THROW((void)check_run({made.plan.model, training, true}, options, result));
}

TEST(LossScaling, TrainsHalfPrecisionWithMasterCopies) {
  const TrainingOptions training = scaled({.loss_scale = 65536.0, .loss_scale_interval = 1}, DType::F16);
  const HandPlan made = made_of(cuts()[2], training);
  const RunResult result = run(made, 2), truth = run_reference(made.graph, in_f64(2));
  expect_all(result, 4, 4 * 65536.0);
  for (const auto& [name, values] : truth.weights)
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(result.weights.at(name)[i], values[i], 1e-12) << name;
}

// --- the graph ---

TEST(LossScaling, IsReadByTheLossAndByEveryUpdate) {
  const Graph graph = build_training_graph(find_model(kGpt), scaled({.loss_scale = 1024.0}));
  const TensorId state = graph.loss_scaling.value().state;
  int losses = 0, updates = 0;
  for (const Op& op : graph.ops()) {
    const std::vector<std::string> operands = operand_names(op.kind, op.inputs.size(), op.attributes);
    if (op.kind == OpKind::CrossEntropyBackward) {
      EXPECT_EQ(op.inputs.back(), state);
      EXPECT_EQ(operands.back(), "scaling");
      ++losses;
    } else if (op.kind == OpKind::AdamUpdate) {
      EXPECT_EQ(op.inputs.back(), state);
      EXPECT_EQ(operands, (std::vector<std::string>{"w", "m", "v", "g", "norm", "scaling"}));
      ++updates;
    }
  }
  EXPECT_EQ(losses, 1);
  EXPECT_EQ(updates, 26);  // 12 of each block, the embedding and the head's bias
  EXPECT_EQ(graph.ops().back().kind, OpKind::ScalingUpdate);
}

TEST(LossScaling, SaysNothingWhereItIsOff) {
  const std::string text = canonical_text(build_training_graph(find_model(kGpt), scaled({})));
  for (const char* word : {"scaling", "loss_scale", "growth"}) EXPECT_EQ(text.find(word), std::string::npos) << word;
  Plan plan = made_of(cuts()[0], scaled({})).plan;
  EXPECT_EQ(to_json(plan).dump().find("loss_scale"), std::string::npos);
  plan.training.optimizer.loss_scale = 1024.0;
  plan.training.optimizer.loss_scale_interval = 7;
  const Optimizer read = plan_from_json(to_json(plan), "plan.json").training.optimizer;
  EXPECT_EQ(read.loss_scale, 1024.0);
  EXPECT_EQ(read.loss_scale_interval, 7);
}

std::string refusal(const Optimizer& optimizer) {
  try {
    (void)build_training_graph(find_model(kGpt), scaled(optimizer));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(LossScaling, RefusesNumbersOutOfTheirRange) {
  EXPECT_EQ(refusal({.loss_scale = -1.0}),
            "optimizer: the loss cannot be scaled by -1; give a positive number, or 0 not to scale it.");
  EXPECT_EQ(refusal({.loss_scale = 1.0, .loss_scale_interval = 0}),
            "optimizer: the loss scale cannot grow after 0 steps; give a number from 1 upwards.");
}

}  // namespace
}  // namespace meshwright::loss_scaling_test
