// SPDX-License-Identifier: Apache-2.0
// Updates of weights, and the norm that gradients are clipped to.
#include <gtest/gtest.h>

#include "core/graph/import/find_model.h"
#include "core/graph/models/models.h"
#include "tests/op_fixture.h"

namespace meshwright::ops_optimizer_test {
namespace {

const Dim kIn{"in", 4}, kOut{"out", 6};
constexpr double kRate = 0.1, kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;

// One update op on a weight of 24 elements: with a master copy (of other values than the weight's, so that it shows
// which one is read), states, and a norm where gradients are clipped.
struct Update {
  OpCase c;
  TensorId weight, gradient;
  std::vector<TensorId> states;
  std::optional<TensorId> master;
};

Update update(OpKind kind, bool with_master, Attributes attributes, double squares = 0.0) {
  OpCase c;
  attributes.learning_rate = kRate;
  const TensorId weight = c.parameter("w", {kIn, kOut}), gradient = c.input("g", {kIn, kOut});
  Update made{{}, weight, gradient, {}, {}};
  std::vector<TensorId> operands = {weight};
  if (with_master) made.master = c.state("w.master", weight);
  if (made.master) operands.push_back(*made.master);
  if (kind == OpKind::MomentumUpdate) made.states = {c.state("w.momentum", weight)};
  if (kind == OpKind::AdamUpdate) made.states = {c.state("w.adam_m", weight), c.state("w.adam_v", weight, 0.1, 1.0)};
  operands.insert(operands.end(), made.states.begin(), made.states.end());
  const std::size_t updates = operands.size();
  operands.push_back(gradient);
  if (attributes.max_norm > 0.0) {
    operands.push_back(c.input("norm", {}));
    c.values[operands.back()] = {squares};
  }
  c.add_in_place(kind, operands, updates, attributes);
  made.c = std::move(c);
  return made;
}

// One step of every element by the formulas of optimizer kinds, in double.
struct Expected {
  Values weight, state;
};
Expected expected(const Update& u, OpKind kind, const Attributes& a, double factor) {
  const Values& given = u.c.values.at(u.gradient);
  Expected next{u.c.values.at(u.master.value_or(u.weight)), {}};
  for (std::size_t i = 0; i < given.size(); ++i) {
    double &w = next.weight[i], g = factor * given[i];
    if (kind == OpKind::SgdUpdate) w -= kRate * (g + a.weight_decay * w);
    if (kind == OpKind::MomentumUpdate) {
      next.state.push_back(a.momentum * u.c.values.at(u.states[0])[i] + g + a.weight_decay * w);
      w -= kRate * next.state[i];
    }
    if (kind != OpKind::AdamUpdate) continue;
    const double m = kBeta1 * u.c.values.at(u.states[0])[i] + (1 - kBeta1) * g;
    const double v = kBeta2 * u.c.values.at(u.states[1])[i] + (1 - kBeta2) * g * g;
    next.state.push_back(m);
    w -= kRate * a.weight_decay * w;
    w -= kRate * (m / (1 - kBeta1)) / (std::sqrt(v / (1 - kBeta2)) + kEpsilon);
  }
  return next;
}

constexpr OpKind kKinds[] = {OpKind::SgdUpdate, OpKind::MomentumUpdate, OpKind::AdamUpdate};
const Attributes kPlain{};
const Attributes kDecaying{.momentum = 0.8, .weight_decay = 0.3};
const Attributes kClipping{.momentum = 0.8, .weight_decay = 0.3, .max_norm = 2.0};

void expect_near(const Values& found, const Values& wanted, double tolerance) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], tolerance) << i;
}

TEST(Updates, FollowTheirFormulas) {
  for (const OpKind kind : kKinds)
    for (const Attributes& attributes : {kPlain, kDecaying, kClipping})
      for (const bool master : {false, true}) {
        SCOPED_TRACE(fmt::format("{} decay {} norm {} master {}", name_of(kind), attributes.weight_decay,
                                 attributes.max_norm, master));
        const Update u = update(kind, master, attributes, 25.0);  // a norm of 5, clipped to 2
        const double factor = attributes.max_norm > 0.0 ? 2.0 / (5.0 + 1e-6) : 1.0;
        const Expected next = expected(u, kind, attributes, factor);
        for (const auto& [precision, tolerance] : {std::pair(DType::F64, 1e-14), std::pair(DType::F32, 1e-6)}) {
          expect_near(computed(u.c, u.weight, precision), next.weight, tolerance);
          if (master) expect_near(computed(u.c, *u.master, precision), next.weight, tolerance);
          if (!next.state.empty()) expect_near(computed(u.c, u.states[0], precision), next.state, tolerance);
        }
      }
}

TEST(Updates, LeaveAGradientOfASmallerNormAsItIs) {
  for (const OpKind kind : kKinds) {
    const Update small = update(kind, false, kClipping, 3.99);
    expect_near(computed(small.c, small.weight), expected(small, kind, kClipping, 1.0).weight, 1e-14);
  }
}

// {2}: in and out; {4}: in (6 does not divide); {2,2}: 3 x 3 ways less both on out and none.
TEST(Updates, CanBeSplitAlongEveryName) {
  for (const OpKind kind : kKinds)
    for (const Attributes& attributes : {kDecaying, kClipping})
      for (const bool master : {false, true})
        EXPECT_EQ(expect_sharded_equals_whole(update(kind, master, attributes, 25.0).c, 1e-14), 2 + 1 + 7);
}

TEST(Updates, RefuseOperandsThatDoNotFit) {
  OpCase c;
  const TensorId w = c.parameter("w", {kIn}), g = c.input("g", {kOut}), same = c.input("same", {kIn});
  const TensorId norm = c.input("norm", {});
  const auto refused = [&](std::vector<TensorId> operands, const Attributes& attributes) {
    return refusal([&] { c.add_in_place(OpKind::SgdUpdate, std::move(operands), 1, attributes); });
  };
  EXPECT_NE(
      refused({w, g}, {}).find("its operands must have the same dimensions; it was given w 'w' f64 (in=4), g 'g'"),
      std::string::npos);
  EXPECT_NE(refused({w, same}, {.max_norm = 1.0}).find("its last operand must be the norm"), std::string::npos);
  EXPECT_NE(refused({w, same, same}, {.max_norm = 1.0}).find("norm must be a floating-point scalar"),
            std::string::npos);
  EXPECT_NE(refused({w, same, norm}, {}).find("its operands must have the same dimensions"), std::string::npos);
  EXPECT_NE(refused({w, w, same, norm}, {}).find("a norm is read only with max_norm > 0"), std::string::npos);
}

TEST(SumSquares, AddsUpInDoubleAlsoOfFloats) {
  OpCase c;
  const TensorId g = c.input("g", {{"in", 1 << 16}});
  c.add(OpKind::SumSquares, {g});
  double wanted = 0.0;
  for (double& value : c.values[g]) {
    value = static_cast<float>(value);
    wanted += value * value;
  }
  EXPECT_NEAR(computed(c)[0], wanted, 1e-12 * wanted);
  EXPECT_NEAR(computed(c, c.result(), DType::F32)[0], wanted, 1e-7 * wanted);  // one rounding, of the sum
}

TEST(SumSquares, OfAShardIsAPartOfTheSum) {
  OpCase c;
  c.add(OpKind::SumSquares, {c.input("g", {kIn, kOut})});
  EXPECT_EQ(expect_sharded_equals_whole(c), 2 + 1 + 7);
}

TEST(Accumulate, OverwritesASumThatCountsAsZero) {
  OpCase c;
  const TensorId w = c.parameter("w", {{"n", 3}});
  c.add_in_place(OpKind::Accumulate, {c.state("sum", w), c.input("g", {{"n", 3}})}, 1);
  const OpCallPlan call = plan_op(c.graph, c.graph.ops().front(), {3});
  std::vector<double> sum = {std::nan(""), 5, 6};
  const std::vector<double> g = {1, 2, 3};
  const std::vector<void*> in = {sum.data(), const_cast<double*>(g.data())}, out = {sum.data()};
  run_op<double>(call, in, out, OpMoment{.first = true});
  EXPECT_EQ(sum, g);
  run_op<double>(call, in, out, OpMoment{});
  EXPECT_EQ(sum, (std::vector<double>{2, 4, 6}));
}

TEST(Accumulate, CanBeSplitAlongEveryName) {
  OpCase c;
  const TensorId w = c.parameter("w", {kIn, kOut});
  c.add_in_place(OpKind::Accumulate, {c.state("sum", w), c.input("g", {kIn, kOut})}, 1);
  EXPECT_EQ(expect_sharded_equals_whole(c), 2 + 1 + 7);
}

// --- the update phase of a training graph ---

constexpr const char* kGpt = "gpt:layers=2,hidden=8,heads=2,seq=4,vocab=16";

Graph training(const Optimizer& optimizer, DType dtype = DType::F64) {
  return build_training_graph(find_model(kGpt),
                              {.batch = 4, .microbatches = 2, .dtype = dtype, .optimizer = optimizer});
}

const Op& op_named(const Graph& graph, const std::string& name) {
  for (const Op& op : graph.ops())
    if (op.name == name) return op;
  throw InputError("no op " + name);
}

std::vector<std::string> names(const Graph& graph, const std::vector<TensorId>& tensors) {
  std::vector<std::string> result;
  for (const TensorId id : tensors) result.push_back(graph.tensor(id).name);
  return result;
}

TEST(UpdatePhase, KeepsOneStateForMomentum) {
  const Graph graph = training({.kind = Optimizer::Kind::Momentum, .momentum = 0.5, .weight_decay = 0.25}, DType::F16);
  const Op& op = op_named(graph, "wte.update");
  EXPECT_EQ(op.kind, OpKind::MomentumUpdate);
  EXPECT_EQ(names(graph, op.inputs), (std::vector<std::string>{"wte", "wte.master", "wte.momentum", "wte.acc_sum"}));
  EXPECT_EQ(op.attributes.momentum, 0.5);
  EXPECT_EQ(op.attributes.weight_decay, 0.25);
  EXPECT_EQ(graph.tensor(op.inputs[2]).dtype, DType::F32);
  EXPECT_EQ(graph.tensor(op.inputs[2]).kind, TensorKind::OptimizerState);
}

// Summed in the order in which a pipeline's stages hold the parameters, and read by every update.
TEST(UpdatePhase, MeasuresAllGradientsBeforeItClipsOne) {
  const Graph graph = training({.max_norm = 1.0});
  std::optional<OpId> last_reader;
  std::optional<TensorId> total;
  int measured = 0;
  for (const Op& op : graph.ops()) {
    if (op.kind == OpKind::SumSquares) {
      EXPECT_TRUE(!last_reader || *last_reader <= *op.forward) << op.name;
      last_reader = op.forward;
      ++measured;
      if (!total) total = op.outputs[0];
    }
    if (op.phase == Phase::Update && op.kind == OpKind::Add && op.name.starts_with("gradient_norm")) {
      EXPECT_EQ(op.inputs[0], *total) << op.name;
      EXPECT_EQ(op.forward, last_reader) << op.name;
      total = op.outputs[0];
    }
  }
  EXPECT_EQ(graph.tensor(*total).name, "gradient_norm");
  EXPECT_EQ(names(graph, op_named(graph, "wte.sum_squares").inputs), std::vector<std::string>{"wte.acc_sum"});
  int updates = 0;
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::AdamUpdate) continue;
    EXPECT_EQ(op.inputs.back(), *total) << op.name;
    ++updates;
  }
  EXPECT_EQ(measured, updates);
  EXPECT_EQ(measured, 26);  // 12 of each block, the embedding and the head's bias
}

TEST(UpdatePhase, MeasuresSixteenBitGradientsInF32) {
  const Graph graph = training({.max_norm = 1.0}, DType::F16);
  EXPECT_EQ(graph.tensor(op_named(graph, "gradient_norm").outputs[0]).dtype, DType::F32);
}

// Plain descent with and without clipping: the steps differ by the factor alone.
TEST(UpdatePhase, ClipsAllGradientsByOneFactor) {
  constexpr double kMaxNorm = 0.01;
  const auto moved = [](const Graph& graph) {
    GraphInterpreter interpreter(graph, 3, DType::F64);
    Values steps;
    std::vector<Values> before;
    for (const Tensor& tensor : graph.tensors()) before.push_back(interpreter.get(tensor.id));
    for (int m = 0; m < 2; ++m) {
      interpreter.load_inputs(0, m);
      for (const Phase phase : {Phase::Forward, Phase::Backward}) interpreter.run(phase);
    }
    interpreter.run(Phase::Update);
    for (const Tensor& tensor : graph.tensors()) {
      if (tensor.kind != TensorKind::Parameter) continue;
      const Values after = interpreter.get(tensor.id);
      for (std::size_t i = 0; i < after.size(); ++i) steps.push_back(before[tensor.id.index()][i] - after[i]);
    }
    return steps;
  };
  const Values whole = moved(training({.kind = Optimizer::Kind::Sgd, .learning_rate = 1.0}));
  const Values clipped = moved(training({.kind = Optimizer::Kind::Sgd, .learning_rate = 1.0, .max_norm = kMaxNorm}));
  double squares = 0.0, clipped_squares = 0.0;
  for (const double step : whole) squares += step * step;
  for (const double step : clipped) clipped_squares += step * step;
  ASSERT_GT(std::sqrt(squares), 10 * kMaxNorm);
  EXPECT_NEAR(std::sqrt(clipped_squares), kMaxNorm * std::sqrt(squares) / (std::sqrt(squares) + 1e-6), 1e-12);
  const double factor = std::sqrt(clipped_squares / squares);
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(clipped[i], factor * whole[i], 1e-14) << i;
}

// Plans of graphs without any of it keep their fingerprints.
TEST(UpdatePhase, SaysNothingOfWhatItDoesNotDo) {
  const std::string text = canonical_text(training({}));
  for (const char* word : {"momentum", "decay", "max_norm", "sum_squares", "gradient_norm"})
    EXPECT_EQ(text.find(word), std::string::npos) << word;
  EXPECT_NE(text, canonical_text(training({.weight_decay = 0.1})));
  EXPECT_NE(text, canonical_text(training({.max_norm = 1.0})));
}

TEST(UpdatePhase, RefusesNumbersOutOfTheirRange) {
  EXPECT_EQ(refusal([] { (void)training({.momentum = 1.0}); }),
            "optimizer: a momentum of 1; give a number from 0 to below 1.");
  EXPECT_EQ(refusal([] { (void)training({.weight_decay = -1.0}); }),
            "optimizer: a weight decay of -1; give a number from 0 upwards.");
  EXPECT_EQ(refusal([] { (void)training({.max_norm = -1.0}); }),
            "optimizer: gradients cannot be clipped to a norm of -1; give a positive number, or 0 not to clip.");
}

TEST(Optimizer, HasNamesForItsKinds) {
  for (const char* name : {"sgd", "momentum", "adam", "adafactor"})
    EXPECT_STREQ(name_of(optimizer_from_name(name)), name);
  EXPECT_EQ(refusal([] { (void)optimizer_from_name("adamw"); }),
            "unknown name 'adamw'; expected sgd, momentum, adam or adafactor.");
}

}  // namespace
}  // namespace meshwright::ops_optimizer_test
