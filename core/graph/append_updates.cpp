// SPDX-License-Identifier: Apache-2.0
// The update phase: gradients summed over their uses, measured where they are clipped or scaled, and followed.
#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/errors.h"
#include "core/graph/autodiff.h"
#include "core/graph/stamp_scope.h"

namespace meshwright {

namespace {

struct ParameterUses {
  std::optional<OpId> first_reader;                     // in forward order
  std::vector<std::pair<OpId, TensorId>> accumulators;  // by the forward op that reads the parameter
};

std::map<TensorId, ParameterUses> collect_uses(const Graph& graph) {
  std::map<TensorId, ParameterUses> uses;
  for (const Op& op : graph.ops()) {
    if (op.phase == Phase::Forward)
      for (const TensorId input : op.inputs)
        if (graph.tensor(input).kind == TensorKind::Parameter && !uses[input].first_reader)
          uses[input].first_reader = op.id;
    if (op.kind != OpKind::Accumulate) continue;
    const Tensor& accumulator = graph.tensor(op.inputs[0]);
    MW_CHECK(accumulator.parameter && op.forward, "accumulation '{}' has no parameter or no forward op", op.name);
    uses[*accumulator.parameter].accumulators.emplace_back(*op.forward, accumulator.id);
  }
  // By reader, so that a sum does not depend on the order of the backward.
  for (auto& [parameter, use] : uses)
    std::stable_sort(use.accumulators.begin(), use.accumulators.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
  return uses;
}

// Sum of a parameter's accumulators, in the order of the ops that read it.
TensorId sum_uses(Graph& graph, TensorId parameter, const ParameterUses& uses) {
  const std::string name = graph.tensor(parameter).name;
  const StampScope stamp(graph, Phase::Update, uses.first_reader, graph.op(*uses.first_reader).block);
  TensorId gradient = uses.accumulators[0].second;
  for (std::size_t k = 1; k < uses.accumulators.size(); ++k) {
    const std::string suffix = k == 1 ? "acc_sum" : fmt::format("acc_sum{}", k);
    gradient =
        graph.add_op(OpKind::Add, fmt::format("{}.{}", name, suffix), {gradient, uses.accumulators[k].second})[0];
  }
  return gradient;
}

struct Update {
  TensorId parameter;
  ParameterUses uses;
};

// The sum of the squares of all gradients: a chain in the order of the first readers, so that it goes through a
// pipeline's stages once.
TensorId gradient_norm(Graph& graph, std::vector<Update> updates, const std::map<TensorId, TensorId>& gradients) {
  std::stable_sort(updates.begin(), updates.end(),
                   [](const Update& a, const Update& b) { return *a.uses.first_reader < *b.uses.first_reader; });
  std::optional<TensorId> total;
  for (std::size_t k = 0; k < updates.size(); ++k) {
    const OpId reader = *updates[k].uses.first_reader;
    const StampScope stamp(graph, Phase::Update, reader, graph.op(reader).block);
    const std::string name = graph.tensor(updates[k].parameter).name;
    const TensorId squares =
        graph.add_op(OpKind::SumSquares, name + ".sum_squares", {gradients.at(updates[k].parameter)})[0];
    const std::string sum = k + 1 == updates.size() ? "gradient_norm" : fmt::format("gradient_norm{}", k);
    total = total ? graph.add_op(OpKind::Add, sum, {*total, squares})[0] : squares;
  }
  return *total;
}

// The rest of an update's operands and attributes: what all parameters' updates read of the step.
void add_step(const Graph& graph, const Optimizer& optimizer, std::optional<TensorId> norm,
              std::vector<TensorId>& inputs, Attributes& attributes) {
  if (norm) inputs.push_back(*norm);
  attributes.max_norm = optimizer.max_norm;
  if (!graph.loss_scaling) return;
  inputs.push_back(graph.loss_scaling->state);
  attributes.loss_scale = graph.loss_scaling->first;
}

// The numbers of Adafactor's algorithm 6.
constexpr double kAdafactorEpsilon = 1e-30, kAdafactorLimit = 1.0, kAdafactorExponent = 0.8;

std::vector<std::string> names_without(const std::vector<Dim>& dims, std::size_t left_out) {
  std::vector<std::string> names;
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (d != left_out) names.push_back(dims[d].name);
  return names;
}

// The ops of Adafactor's second moments and move for one parameter (its optimizer's contract has the formulas).
class AdafactorOps {
 public:
  AdafactorOps(Graph& graph, const Optimizer& optimizer, const Tensor& weight, TensorId gradient,
               std::optional<TensorId> norm)
      : graph_(graph), optimizer_(optimizer), weight_(weight), gradient_(gradient), norm_(norm) {
    std::vector<std::size_t> longest;
    for (std::size_t d = 0; d < weight.dims.size(); ++d)
      if (weight.dims[d].size > 1) longest.push_back(d);
    std::stable_sort(longest.begin(), longest.end(),
                     [&](std::size_t a, std::size_t b) { return weight.dims[a].size > weight.dims[b].size; });
    factored_ = longest.size() >= 2;
    if (factored_) row_ = std::min(longest[0], longest[1]), column_ = std::max(longest[0], longest[1]);
  }

  // Follows the gradient. `updated`: the weight and, where it has one, its master copy.
  void update(const std::vector<TensorId>& updated) {
    std::vector<TensorId> operands = {gradient_};
    if (factored_) {
      operands.push_back(decayed_mean("adafactor_r", column_));
      operands.push_back(decayed_mean("adafactor_c", row_));
      operands.push_back(mean_of_rows(operands[1]));
    } else {
      operands.push_back(decayed_mean("adafactor_v", weight_.dims.size()));
    }
    std::vector<TensorId> inputs = operands;
    Attributes attributes{.factored = factored_};
    add_step(graph_, optimizer_, norm_, inputs, attributes);
    operands.push_back(graph_.add_op(OpKind::MoveSquares, weight_.name + ".move_squares", inputs, attributes)[0]);
    operands.insert(operands.begin(), updated.begin(), updated.end());
    attributes.learning_rate = optimizer_.learning_rate;
    attributes.weight_decay = optimizer_.weight_decay;
    attributes.move_limit = kAdafactorLimit;
    add_step(graph_, optimizer_, norm_, operands, attributes);
    graph_.add_in_place_op(OpKind::AdafactorUpdate, weight_.name + ".update", operands, updated, attributes);
  }

 private:
  // The state `suffix`, brought to this step: the mean of the squares over dimension `over` (none: of each alone).
  TensorId decayed_mean(const char* suffix, std::size_t over) {
    const std::string name = fmt::format("{}.{}", weight_.name, suffix);
    std::vector<Dim> dims = weight_.dims;
    const double terms = over < dims.size() ? static_cast<double>(dims[over].size) : 1.0;
    if (over < dims.size()) dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(over));
    const TensorId squares =
        graph_.add_op(OpKind::MeanSquares, name + ".mean_squares", {gradient_},
                      {.result_names = names_without(weight_.dims, over), .scale = 1.0 / terms})[0];
    const TensorId state = graph_.add_tensor(name, TensorKind::OptimizerState, accumulation_dtype(weight_.dtype),
                                             std::move(dims), weight_.id);
    std::vector<TensorId> inputs = {state, squares};
    Attributes attributes{.epsilon = kAdafactorEpsilon, .decay_exponent = kAdafactorExponent};
    add_step(graph_, optimizer_, norm_, inputs, attributes);
    graph_.add_in_place_op(OpKind::DecayedMean, name + ".update", inputs, {state}, attributes);
    return state;
  }
  TensorId mean_of_rows(TensorId rows) {
    // As column_ stands behind row_, R's dimensions up to row_ are the weight's.
    const std::vector<Dim> dims = graph_.tensor(rows).dims;
    return graph_.add_op(
        OpKind::ReduceSum, weight_.name + ".adafactor_mean", {rows},
        {.result_names = names_without(dims, row_), .scale = 1.0 / static_cast<double>(dims[row_].size)})[0];
  }

  Graph& graph_;
  const Optimizer& optimizer_;
  const Tensor weight_;  // a copy, as new tensors may move those of the graph
  TensorId gradient_;
  std::optional<TensorId> norm_;
  bool factored_ = false;
  std::size_t row_ = 0, column_ = 0;  // the dimensions that are factored
};

OpKind kind_of(const Optimizer& optimizer) {
  if (optimizer.kind == Optimizer::Kind::Sgd) return OpKind::SgdUpdate;
  return optimizer.kind == Optimizer::Kind::Momentum ? OpKind::MomentumUpdate : OpKind::AdamUpdate;
}

void update_parameter(Graph& graph, const Optimizer& optimizer, const Update& update, TensorId gradient,
                      std::optional<TensorId> norm) {
  const Tensor weight = graph.tensor(update.parameter);
  const OpId reader = *update.uses.first_reader;
  const StampScope stamp(graph, Phase::Update, reader, graph.op(reader).block);
  const DType wide = accumulation_dtype(weight.dtype);
  std::vector<TensorId> updated = {update.parameter};
  const auto add_state = [&](const char* suffix) {
    updated.push_back(graph.add_tensor(fmt::format("{}.{}", weight.name, suffix), TensorKind::OptimizerState, wide,
                                       weight.dims, update.parameter));
  };
  // Small steps would round away in a 16-bit weight: it has a copy in float.
  if (wide != weight.dtype) add_state("master");
  if (optimizer.kind == Optimizer::Kind::Adafactor)
    return AdafactorOps(graph, optimizer, weight, gradient, norm).update(updated);
  if (optimizer.kind == Optimizer::Kind::Momentum) add_state("momentum");
  if (optimizer.kind == Optimizer::Kind::Adam) add_state("adam_m");
  if (optimizer.kind == Optimizer::Kind::Adam) add_state("adam_v");
  std::vector<TensorId> inputs = updated;
  inputs.push_back(gradient);
  Attributes attributes{.learning_rate = optimizer.learning_rate, .weight_decay = optimizer.weight_decay};
  add_step(graph, optimizer, norm, inputs, attributes);
  if (optimizer.kind == Optimizer::Kind::Momentum) attributes.momentum = optimizer.momentum;
  graph.add_in_place_op(kind_of(optimizer), weight.name + ".update", inputs, updated, attributes);
}

void check(const Optimizer& optimizer) {
  require(optimizer.momentum >= 0.0 && optimizer.momentum < 1.0,
          "optimizer: a momentum of {}; give a number from 0 to below 1.", optimizer.momentum);
  require(std::isfinite(optimizer.weight_decay) && optimizer.weight_decay >= 0.0,
          "optimizer: a weight decay of {}; give a number from 0 upwards.", optimizer.weight_decay);
  require(std::isfinite(optimizer.max_norm) && optimizer.max_norm >= 0.0,
          "optimizer: gradients cannot be clipped to a norm of {}; give a positive number, or 0 not to clip.",
          optimizer.max_norm);
  require(std::isfinite(optimizer.loss_scale) && optimizer.loss_scale >= 0.0,
          "optimizer: the loss cannot be scaled by {}; give a positive number, or 0 not to scale it.",
          optimizer.loss_scale);
  require(optimizer.loss_scale_interval >= 1,
          "optimizer: the loss scale cannot grow after {} steps; give a number from 1 upwards.",
          optimizer.loss_scale_interval);
}

void update_scaling(Graph& graph, const Optimizer& optimizer, TensorId norm) {
  const Op loss = graph.op(*graph.tensor(*graph.loss).producer);
  const StampScope stamp(graph, Phase::Update, loss.id, loss.block);
  const TensorId state = graph.loss_scaling->state;
  graph.add_in_place_op(OpKind::ScalingUpdate, graph.tensor(state).name + ".update", {state, norm}, {state},
                        {.loss_scale = graph.loss_scaling->first, .growth_interval = optimizer.loss_scale_interval});
}

}  // namespace

void append_loss_scaling(Graph& graph, const Optimizer& optimizer) {
  check(optimizer);
  if (optimizer.loss_scale == 0.0) return;
  const TensorId state =
      // Three numbers: the state of kernels/cpu/optimizer/loss_scaling.h.
      graph.add_tensor("loss_scaling", TensorKind::StepState, accumulation_dtype(graph.dtype), {{"scaling", 3}});
  graph.loss_scaling = {state, optimizer.loss_scale};
}

void append_updates(Graph& graph, const Optimizer& optimizer) {
  check(optimizer);
  std::vector<Update> updates;
  for (auto& [parameter, uses] : collect_uses(graph))
    // A parameter that no gradient reaches is not updated.
    if (!uses.accumulators.empty()) updates.push_back({parameter, uses});
  std::map<TensorId, TensorId> gradients;
  std::optional<TensorId> norm;
  if ((optimizer.max_norm > 0.0 || graph.loss_scaling) && !updates.empty()) {
    for (const Update& update : updates)
      // Every update reads the norm, and the norm every gradient: all sums come first.
      gradients.emplace(update.parameter, sum_uses(graph, update.parameter, update.uses));
    norm = gradient_norm(graph, updates, gradients);
  }
  for (const Update& update : updates) {
    // Without a norm each sum stands right before its update.
    const TensorId gradient = norm ? gradients.at(update.parameter) : sum_uses(graph, update.parameter, update.uses);
    update_parameter(graph, optimizer, update, gradient, norm);
  }
  if (graph.loss_scaling && norm) update_scaling(graph, optimizer, *norm);
}

}  // namespace meshwright
