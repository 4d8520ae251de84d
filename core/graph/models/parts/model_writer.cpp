// SPDX-License-Identifier: Apache-2.0
#include "core/graph/models/parts/model_writer.h"

#include <memory>
#include <utility>

namespace meshwright {

ModelWriter::ModelWriter(Graph& into, const ModelConfig& model)
    : graph(into),
      batch{"batch", into.batch / into.microbatches},
      seq{"seq", model.seq},
      embed{"embed", model.hidden},
      vocab{"vocab", model.vocab} {}

TensorId ModelWriter::parameter(const std::string& name, std::vector<Dim> dims) {
  if (!shared_names || !name.starts_with(shared_names->of))
    return graph.add_tensor(name, TensorKind::Parameter, graph.dtype, std::move(dims));
  const std::string common = shared_names->as + name.substr(shared_names->of.size());
  if (const auto known = shared_.find(common); known != shared_.end()) return known->second;
  const TensorId made = graph.add_tensor(common, TensorKind::Parameter, graph.dtype, std::move(dims));
  return shared_.emplace(common, made).first->second;
}

TensorId ModelWriter::fixed(const std::string& name, std::vector<Dim> dims) {
  const TensorId made = parameter(name + ".fixed.gamma", std::move(dims));
  graph.fixed.insert(made);
  return made;
}

TensorId ModelWriter::token_input(const std::string& name) {
  return graph.add_tensor(name, TensorKind::Input, DType::I32, {batch, seq});
}

TensorId ModelWriter::constant(const std::string& name, std::vector<Dim> dims, std::vector<double> values,
                               std::optional<DType> type) {
  if (const auto known = constants_.find(name); known != constants_.end()) return known->second;
  const TensorId made = graph.add_tensor(name, TensorKind::Input, type.value_or(graph.dtype), std::move(dims));
  graph.constants.emplace(made, std::make_shared<const std::vector<double>>(std::move(values)));
  return constants_.emplace(name, made).first->second;
}

TensorId ModelWriter::plain_norm(const std::string& name, TensorId x, double epsilon) {
  const Dim last = graph.tensor(x).dims.back();
  const TensorId ones =
      constant("ones." + last.name, {last}, std::vector<double>(static_cast<std::size_t>(last.size), 1.0));
  return add(OpKind::RmsNorm, name, {x, ones}, {.epsilon = epsilon});
}

TensorId ModelWriter::add(OpKind kind, const std::string& name, std::vector<TensorId> inputs, Attributes attributes) {
  return graph.add_op(kind, name, std::move(inputs), std::move(attributes))[0];
}

TensorId ModelWriter::project(const std::string& name, TensorId x, std::vector<Dim> weight,
                              std::vector<std::string> result) {
  return add(OpKind::Contract, name, {x, parameter(name + ".weight", std::move(weight))},
             {.result_names = std::move(result)});
}

TensorId ModelWriter::add_bias(const std::string& name, TensorId x, std::vector<Dim> bias, bool select) {
  return add(OpKind::BiasAdd, name + ".bias_add", {x, parameter(name + ".bias", std::move(bias))},
             {.bias_select = select});
}

TensorId ModelWriter::layer_norm(const std::string& name, TensorId x, const Dim& last, double epsilon) {
  return add(OpKind::LayerNorm, name, {x, parameter(name + ".gamma", {last}), parameter(name + ".beta", {last})},
             {.epsilon = epsilon});
}

TensorId ModelWriter::cross_entropy(TensorId logits, TensorId labels, LossReduction reduction, const std::string& name,
                                    double factor) {
  const TensorId max = add(OpKind::RowMax, name + ".row_max", {logits});
  const TensorId sum = add(OpKind::SumExp, name + ".sum_exp", {logits, max});
  const TensorId picked = add(OpKind::PickLabel, name + ".pick_label", {logits, labels});
  std::vector<TensorId> terms = {max, sum, picked};
  if (reduction == LossReduction::TokenWeighted) {
    const DType type = accumulation_dtype(graph.dtype);
    if (!graph.loss_weights)
      graph.loss_weights = {graph.add_tensor("loss_weights", TensorKind::Input, type, graph.tensor(labels).dims),
                            graph.add_tensor("loss_weights.total", TensorKind::Input, type, {})};
    terms.insert(terms.end(), {graph.loss_weights->weights, graph.loss_weights->total});
  }
  const double count = static_cast<double>(graph.microbatches) * static_cast<double>(graph.tensor(labels).elements());
  return add(OpKind::CrossEntropyLoss, name + ".loss", std::move(terms),
             {.scale = factor * (reduction == LossReduction::Mean ? 1.0 / count : 1.0)});
}

}  // namespace meshwright
