// SPDX-License-Identifier: Apache-2.0
#include "core/graph/autodiff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/errors.h"
#include "core/graph/import/find_model.h"
#include "core/graph/models/models.h"
#include "tests/refusal.h"

namespace meshwright::autodiff_test {
namespace {

Graph training(const std::string& model, Recompute recompute = Recompute::None, DType dtype = DType::F32,
               Optimizer::Kind optimizer = Optimizer::Kind::Adam) {
  return build_training_graph(
      find_model(model),
      {.batch = 4, .microbatches = 2, .dtype = dtype, .optimizer = {.kind = optimizer}, .recompute = recompute});
}
constexpr const char* kGpt = "gpt:layers=2,hidden=8,heads=2,seq=4,vocab=16";
constexpr const char* kMlp = "mlp:layers=2,hidden=8";

const Op* find_op(const Graph& graph, const std::string& name) {
  for (const Op& op : graph.ops())
    if (op.name == name) return &op;
  return nullptr;
}
const Op& op_named(const Graph& graph, const std::string& name) {
  const Op* op = find_op(graph, name);
  if (op == nullptr) throw InputError("no op " + name);
  return *op;
}
std::vector<std::string> names(const Graph& graph, const std::vector<TensorId>& tensors) {
  std::vector<std::string> result;
  for (const TensorId id : tensors) result.push_back(graph.tensor(id).name);
  return result;
}
std::vector<std::string> tensors_of(const Graph& graph, TensorKind kind, const std::string& parameter) {
  std::vector<std::string> result;
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == kind && tensor.parameter && graph.tensor(*tensor.parameter).name == parameter)
      result.push_back(tensor.name);
  return result;
}
using Names = std::vector<std::string>;

// --- every training graph ---

class TrainingGraphs : public testing::TestWithParam<std::tuple<const char*, Recompute, DType>> {
 protected:
  Graph graph_ = training(std::get<0>(GetParam()), std::get<1>(GetParam()), std::get<2>(GetParam()));
};

TEST_P(TrainingGraphs, AreInTopologicalOrderWithPhasesOneAfterAnother) {
  std::vector<bool> ready;
  for (const Tensor& tensor : graph_.tensors()) ready.push_back(tensor.kind != TensorKind::Intermediate);
  Phase phase = Phase::Forward;
  for (const Op& op : graph_.ops()) {
    EXPECT_LE(phase, op.phase) << op.name;
    phase = op.phase;
    for (const TensorId input : op.inputs) EXPECT_TRUE(ready[input.index()]) << op.name;
    for (const TensorId output : op.outputs) ready[output.index()] = true;
  }
}

TEST_P(TrainingGraphs, StampEveryLaterOpWithAForwardOpAndItsBlock) {
  for (const Op& op : graph_.ops()) {
    EXPECT_EQ(op.forward.has_value(), op.phase != Phase::Forward) << op.name;
    if (!op.forward) continue;
    EXPECT_EQ(graph_.op(*op.forward).phase, Phase::Forward) << op.name;
    EXPECT_EQ(op.block, graph_.op(*op.forward).block) << op.name;
  }
}

// What lets a backward op be split like its forward op.
TEST_P(TrainingGraphs, IterateInTheBackwardOverNamesOfTheForwardOp) {
  for (const Op& op : graph_.ops()) {
    if (op.phase != Phase::Backward) continue;
    const IterationSpace forward = iteration_space(graph_, graph_.op(*op.forward));
    for (const IterationAxis& axis : iteration_space(graph_, op).axes)
      EXPECT_TRUE(forward.find(axis.name)) << op.name << " walks " << axis.name;
  }
}

TEST_P(TrainingGraphs, AccumulateEveryUseAndUpdateEveryParameterOnce) {
  std::map<std::string, int> uses, accumulations, updates;
  for (const Op& op : graph_.ops()) {
    for (const TensorId input : op.inputs)
      if (op.phase == Phase::Forward && graph_.tensor(input).kind == TensorKind::Parameter)
        ++uses[graph_.tensor(input).name];
    if (op.kind == OpKind::Accumulate) ++accumulations[graph_.tensor(*graph_.tensor(op.inputs[0]).parameter).name];
    if (op.kind == OpKind::AdamUpdate) ++updates[graph_.tensor(op.inputs[0]).name];
  }
  EXPECT_EQ(accumulations, uses);
  for (const auto& [parameter, count] : uses) EXPECT_EQ(updates[parameter], 1) << parameter;
  EXPECT_EQ(updates.size(), uses.size());
}

TEST_P(TrainingGraphs, ReadEveryGradientTheyMake) {
  std::set<int> read;
  for (const Op& op : graph_.ops())
    for (const TensorId input : op.inputs) read.insert(input.value);
  for (const Op& op : graph_.ops()) {
    const bool repeated = op.forward && graph_.op(*op.forward).kind == op.kind && op.name.ends_with(".recompute");
    for (const TensorId output : op.outputs)
      EXPECT_TRUE(op.phase != Phase::Backward || repeated || read.count(output.value) == 1) << op.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TrainingGraphs,
                         testing::Combine(testing::Values(kGpt, kMlp),
                                          testing::Values(Recompute::None, Recompute::Full, Recompute::Selective),
                                          testing::Values(DType::F32, DType::BF16)));

// --- parameters ---

TEST(Accumulators, OneForEachUseOfTheTiedEmbedding) {
  const Graph graph = training(kGpt);
  EXPECT_EQ(tensors_of(graph, TensorKind::Accumulator, "wte"), (Names{"wte.acc.head.logits", "wte.acc"}));
  EXPECT_EQ(tensors_of(graph, TensorKind::Accumulator, "blk1.mlp.up.weight"), Names{"blk1.mlp.up.weight.acc"});
  EXPECT_EQ(op_named(graph, "embed.accumulate_table").forward, op_named(graph, "embed").id);
  EXPECT_EQ(op_named(graph, "head.logits.accumulate_w").forward, op_named(graph, "head.logits").id);
}

TEST(Updates, SumTheUsesInForwardOrder) {
  const Graph graph = training(kGpt);
  const Op& sum = op_named(graph, "wte.acc_sum");
  EXPECT_EQ(sum.phase, Phase::Update);
  EXPECT_EQ(names(graph, sum.inputs), (Names{"wte.acc", "wte.acc.head.logits"}));
  const Op& update = op_named(graph, "wte.update");
  EXPECT_EQ(names(graph, update.inputs), (Names{"wte", "wte.adam_m", "wte.adam_v", "wte.acc_sum"}));
  EXPECT_EQ(names(graph, update.outputs), (Names{"wte", "wte.adam_m", "wte.adam_v"}));
  EXPECT_EQ(update.forward, op_named(graph, "embed").id);
}

TEST(Updates, SixteenBitWeightsHaveF32MasterCopies) {
  const Graph adam = training(kMlp, Recompute::None, DType::F16);
  EXPECT_EQ(
      names(adam, op_named(adam, "blk0.up.bias.update").inputs),
      (Names{"blk0.up.bias", "blk0.up.bias.master", "blk0.up.bias.adam_m", "blk0.up.bias.adam_v", "blk0.up.bias.acc"}));
  const Graph sgd = training(kMlp, Recompute::None, DType::BF16, Optimizer::Kind::Sgd);
  EXPECT_EQ(names(sgd, op_named(sgd, "blk0.up.bias.update").inputs),
            (Names{"blk0.up.bias", "blk0.up.bias.master", "blk0.up.bias.acc"}));
  for (const Tensor& tensor : adam.tensors()) {
    if (tensor.kind == TensorKind::OptimizerState) {
      EXPECT_EQ(tensor.dtype, DType::F32) << tensor.name;
    } else if (tensor.kind == TensorKind::Parameter || tensor.kind == TensorKind::Accumulator) {
      EXPECT_EQ(tensor.dtype, DType::F16) << tensor.name;
    }
  }
  for (const Tensor& tensor : sgd.tensors())
    if (tensor.kind == TensorKind::Accumulator) {
      EXPECT_EQ(tensor.dtype, DType::F32) << tensor.name;
    }
}

TEST(Updates, WideWeightsAreTheirOwnMasters) {
  const Graph graph = training(kMlp, Recompute::None, DType::F64, Optimizer::Kind::Sgd);
  EXPECT_EQ(names(graph, op_named(graph, "blk1.down.weight.update").inputs),
            (Names{"blk1.down.weight", "blk1.down.weight.acc"}));
  for (const Tensor& tensor : graph.tensors()) EXPECT_EQ(tensor.dtype, DType::F64) << tensor.name;
}

TEST(Updates, CarryTheLearningRate) {
  Optimizer optimizer{.learning_rate = 0.25};
  const Graph graph = build_training_graph(find_model(kMlp), {.batch = 4, .optimizer = optimizer});
  EXPECT_EQ(op_named(graph, "blk0.up.weight.update").attributes.learning_rate, 0.25);
}

// --- the shape of the backward ---

TEST(Backward, MakesNoGradientOfInputs) {
  const Graph mlp = training(kMlp);
  EXPECT_EQ(find_op(mlp, "blk0.up.grad_x"), nullptr);
  EXPECT_NE(find_op(mlp, "blk1.up.grad_x"), nullptr);
  const Graph gpt = training(kGpt);
  EXPECT_EQ(names(gpt, op_named(gpt, "embed.grad_table").inputs)[0], "tokens");
}

TEST(Backward, OfAContractionIsTwoContractions) {
  const Graph graph = training(kMlp);
  const Op& grad_x = op_named(graph, "blk1.up.grad_x");
  EXPECT_EQ(names(graph, grad_x.inputs), (Names{"blk1.up.relu.grad_x", "blk1.up.weight"}));
  EXPECT_EQ(grad_x.attributes.result_names, (Names{"batch", "embed"}));
  const Op& grad_w = op_named(graph, "blk1.up.grad_w");
  EXPECT_EQ(names(graph, grad_w.inputs), (Names{"blk0.down.relu", "blk1.up.relu.grad_x"}));
  EXPECT_EQ(grad_w.attributes.result_names, (Names{"embed", "mlp"}));
}

TEST(Backward, PassesThroughBiasesAndResiduals) {
  const Graph graph = training(kGpt);
  // The stream's cotangent after block 1 is read as it is by the last projection and by its bias.
  const TensorId dy = op_named(graph, "head.logits.grad_x").outputs[0];
  EXPECT_EQ(op_named(graph, "blk1.mlp.down.grad_w").inputs[1], dy);
  EXPECT_EQ(op_named(graph, "blk1.mlp.down.bias_add.grad_bias").inputs[0], dy);
}

TEST(Backward, CombinesTheContributionsOfSeveralReadersUnderTheProducer) {
  const Graph graph = training(kGpt);
  const Op& sum = op_named(graph, "blk1.attn.residual.grad_sum");
  EXPECT_EQ(sum.kind, OpKind::Add);
  EXPECT_EQ(names(graph, sum.inputs), (Names{"head.logits.grad_x", "blk1.ln2.grad_x"}));
  EXPECT_EQ(sum.forward, op_named(graph, "blk1.attn.residual").id);
}

TEST(Backward, KeepsTheSelectingBiasSelecting) {
  const Graph graph = training(kGpt);
  EXPECT_TRUE(op_named(graph, "blk0.attn.query.bias_add.grad_bias").attributes.bias_select);
}

TEST(Backward, OfTheCrossEntropyIsOneOpUnderTheLabelPicker) {
  const Graph graph = training(kGpt);
  const Op& grad = op_named(graph, "head.pick_label.grad_x");
  EXPECT_EQ(grad.kind, OpKind::CrossEntropyBackward);
  EXPECT_EQ(names(graph, grad.inputs), (Names{"head.logits.bias_add", "head.row_max", "head.sum_exp", "labels"}));
  EXPECT_EQ(grad.attributes.scale, 1.0 / 16);  // batch 4 x seq 4: the whole batch, not the microbatch of 2
}

TEST(Backward, OfAnIntermediateStartsFromItsSeed) {
  Graph graph;
  const Dim a{"a", 2}, b{"b", 3};
  const TensorId x = graph.add_tensor("x", TensorKind::Input, DType::F32, {a, b});
  const TensorId w = graph.add_tensor("w", TensorKind::Parameter, DType::F32, {b});
  const TensorId y = graph.add_op(OpKind::BiasAdd, "y", {x, w})[0];
  const TensorId dy = graph.add_tensor("dy", TensorKind::Input, DType::F32, {a, b});
  append_backward(graph, y, dy, Recompute::None);
  EXPECT_EQ(names(graph, op_named(graph, "y.grad_bias").inputs), Names{"dy"});
  EXPECT_EQ(graph.ops().back().kind, OpKind::Accumulate);
  EXPECT_EQ(graph.current_phase, Phase::Forward);
  EXPECT_FALSE(graph.current_forward.has_value());
}

// y = x (w + 1): the sum passes its gradient on, and w, a parameter, has it from an op of the sum's own.
TEST(Backward, AnOpMakesTheGradientThatItPassesToAParameter) {
  Graph graph;
  const Dim a{"a", 2}, b{"b", 3}, c{"c", 4};
  const TensorId x = graph.add_tensor("x", TensorKind::Input, DType::F32, {a, b});
  const TensorId w = graph.add_tensor("w", TensorKind::Parameter, DType::F32, {b, c});
  const TensorId more = graph.add_op(OpKind::Shift, "more", {w}, {.value = 1.0})[0];
  const TensorId y = graph.add_op(OpKind::Contract, "y", {x, more}, {.result_names = {"a", "c"}})[0];
  const TensorId dy = graph.add_tensor("dy", TensorKind::Input, DType::F32, {a, c});
  append_backward(graph, y, dy, Recompute::None);
  const Op& accumulate = graph.ops().back();
  const Op& maker = graph.op(*graph.tensor(accumulate.inputs[1]).producer);
  EXPECT_EQ(accumulate.kind, OpKind::Accumulate);
  EXPECT_EQ(maker.name, "more.grad_x");
  EXPECT_EQ(graph.op(*maker.forward).name, "more");
}

TEST(Backward, ReadsOfOneParameterTwiceInOneOpAreTwoUses) {
  Graph graph;
  const Dim a{"a", 2};
  const TensorId w = graph.add_tensor("w", TensorKind::Parameter, DType::F32, {a});
  const TensorId y = graph.add_op(OpKind::Add, "y", {w, w})[0];
  const TensorId dy = graph.add_tensor("dy", TensorKind::Input, DType::F32, {a});
  append_backward(graph, y, dy, Recompute::None);
  append_updates(graph, {});
  EXPECT_EQ(tensors_of(graph, TensorKind::Accumulator, "w"), (Names{"w.acc", "w.acc.y.y"}));
  EXPECT_EQ(names(graph, op_named(graph, "w.acc_sum").inputs), (Names{"w.acc", "w.acc.y.y"}));
}

// --- recomputation ---

TEST(Recompute, RepeatsEveryForwardOpOfEveryBlockAndNoOther) {
  const Graph graph = training(kGpt, Recompute::Full);
  for (const OpId id : forward_ops(graph)) {
    const Op* repeated = find_op(graph, graph.op(id).name + ".recompute");
    EXPECT_EQ(repeated != nullptr, graph.op(id).block >= 0) << graph.op(id).name;
    if (repeated == nullptr) continue;
    EXPECT_EQ(repeated->forward, id);
    EXPECT_EQ(repeated->phase, Phase::Backward);
    EXPECT_EQ(repeated->kind, graph.op(id).kind);
  }
}

TEST(Recompute, LeavesOfABlockOnlyWhatEntersIt) {
  const Graph graph = training(kGpt, Recompute::Full);
  std::set<std::string> kept;
  for (const Op& op : graph.ops())
    for (const TensorId input : op.inputs) {
      const Tensor& tensor = graph.tensor(input);
      if (op.phase != Phase::Backward || !tensor.producer) continue;
      const Op& producer = graph.op(*tensor.producer);
      if (producer.phase == Phase::Forward && op.block >= 0) kept.insert(tensor.name);
    }
  EXPECT_EQ(kept, (std::set<std::string>{"embed", "blk0.mlp.residual"}));
}

TEST(Recompute, ComesBeforeItsBlocksGradientsAndAfterTheLaterBlocks) {
  const Graph graph = training(kGpt, Recompute::Full);
  EXPECT_LT(op_named(graph, "blk1.mlp.residual.recompute").id, op_named(graph, "blk1.mlp.down.grad_x").id);
  EXPECT_LT(op_named(graph, "blk1.ln1.grad_x").id, op_named(graph, "blk0.ln1.recompute").id);
  EXPECT_EQ(names(graph, op_named(graph, "blk1.mlp.gelu.grad_x").inputs)[0], "blk1.mlp.up.bias_add.recompute");
  EXPECT_EQ(names(graph, op_named(graph, "blk1.ln2.recompute").inputs)[0], "blk1.attn.residual.recompute");
}

// --- refusals ---

// d (sum of squares of x - t + 2 of x - u) / dx = 2 (x - t) + 4 (x - u): each loss gives its share.
TEST(Backward, OfASumOfLossesIsTheSumOfTheirs) {
  Graph graph;
  graph.batch = 1;
  graph.dtype = DType::F64;
  const std::vector<Dim> dims = {{"embed", 3}};
  const TensorId x = graph.add_tensor("x", TensorKind::Parameter, DType::F64, dims),
                 t = graph.add_tensor("t", TensorKind::Input, DType::F64, dims),
                 u = graph.add_tensor("u", TensorKind::Input, DType::F64, dims);
  const TensorId first = graph.add_op(OpKind::SquaredErrorLoss, "first", {x, t})[0],
                 second = graph.add_op(OpKind::SquaredErrorLoss, "second", {x, u}, {.scale = 2.0})[0];
  const TensorId sum = graph.add_op(OpKind::Add, "sum", {first, second})[0];
  Graph twice = graph;
  append_backward(graph, sum, std::nullopt, Recompute::None);
  EXPECT_EQ(op_named(graph, "first.grad_x").attributes.scale, 1.0);
  EXPECT_EQ(op_named(graph, "second.grad_x").attributes.scale, 2.0);
  EXPECT_EQ(tensors_of(graph, TensorKind::Accumulator, "x"), (Names{"x.acc.second", "x.acc"}));
  const TensorId again = twice.add_op(OpKind::Add, "again", {sum, first})[0];
  EXPECT_NE(refusal([&] {
              append_backward(twice, again, std::nullopt, Recompute::None);
            }).find("added to the objective twice"),
            std::string::npos);
}

TEST(Backward, RefusesAnObjectiveThatIsNoLoss) {
  Graph graph;
  const TensorId w = graph.add_tensor("w", TensorKind::Parameter, DType::F32, {{"a", 2}});
  const TensorId y = graph.add_op(OpKind::Relu, "y", {w})[0];
  EXPECT_EQ(refusal([&] { append_backward(graph, y, std::nullopt, Recompute::None); }),
            "tensor 'y': is made by op 'y' (relu), which is not a loss; give its cotangent as the seed.");
  EXPECT_NE(refusal([&] { append_training_step(graph, {}, Recompute::None); }).find("has no loss to train on"),
            std::string::npos);
  const TensorId seed = graph.add_tensor("seed", TensorKind::Input, DType::F32, {{"a", 3}});
  EXPECT_NE(refusal([&] { append_backward(graph, y, seed, Recompute::None); })
                .find("the seed 'seed' is (a=3), but the "
                      "tensor is (a=2)"),
            std::string::npos);
}

TEST(Backward, RefusesOpsThatHaveNoDerivativeOfTheirOwn) {
  Graph graph;
  const TensorId w = graph.add_tensor("w", TensorKind::Parameter, DType::F32, {{"a", 2}, {"b", 3}});
  const TensorId y = graph.add_op(OpKind::RowMax, "y", {w})[0];
  const TensorId seed = graph.add_tensor("seed", TensorKind::Input, DType::F32, {{"a", 2}});
  EXPECT_NE(
      refusal([&] { append_backward(graph, y, seed, Recompute::None); }).find("op 'y' (row_max): has no derivative"),
      std::string::npos);
}

TEST(Backward, RefusesACrossEntropyOfPartsOfDifferentTensors) {
  Graph graph;
  const TensorId w = graph.add_tensor("w", TensorKind::Parameter, DType::F32, {{"a", 2}, {"b", 3}});
  const TensorId labels = graph.add_tensor("labels", TensorKind::Input, DType::I32, {{"a", 2}});
  const TensorId x = graph.add_op(OpKind::Relu, "x", {w})[0];
  const TensorId max = graph.add_op(OpKind::RowMax, "max", {x})[0];
  const TensorId sum = graph.add_op(OpKind::SumExp, "sum", {x, max})[0];
  const TensorId picked = graph.add_op(OpKind::PickLabel, "picked", {w, labels})[0];
  graph.loss = graph.add_op(OpKind::CrossEntropyLoss, "loss", {max, sum, picked})[0];
  EXPECT_NE(refusal([&] { append_training_step(graph, {}, Recompute::None); }).find("are not those of one tensor"),
            std::string::npos);
}

}  // namespace
}  // namespace meshwright::autodiff_test
