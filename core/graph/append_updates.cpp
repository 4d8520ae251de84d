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
  if (optimizer.kind == Optimizer::Kind::Momentum) add_state("momentum");
  if (optimizer.kind == Optimizer::Kind::Adam) add_state("adam_m");
  if (optimizer.kind == Optimizer::Kind::Adam) add_state("adam_v");
  std::vector<TensorId> inputs = updated;
  inputs.push_back(gradient);
  if (norm) inputs.push_back(*norm);
  Attributes attributes{
      .learning_rate = optimizer.learning_rate, .weight_decay = optimizer.weight_decay, .max_norm = optimizer.max_norm};
  if (graph.loss_scaling) {
    inputs.push_back(graph.loss_scaling->state);
    attributes.loss_scale = graph.loss_scaling->first;
  }
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
