// SPDX-License-Identifier: Apache-2.0
#include "core/graph/models/parts/model_writer.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace meshwright {

namespace {

constexpr double kLoraScale = 2.0;  // alpha / rank

std::int64_t size_or_none(const ModelConfig& model, const char* key) {
  const auto found = model.more.find(key);
  return found == model.more.end() ? 0 : found->second;
}

}  // namespace

ModelWriter::ModelWriter(Graph& into, const ModelConfig& model)
    : graph(into),
      batch{"batch", into.batch / into.microbatches},
      seq{"seq", model.seq},
      embed{"embed", model.hidden},
      vocab{"vocab", model.vocab},
      lora_rank_(size_or_none(model, "lora_rank")),
      lora_targets_(size_or_none(model, "lora_targets")) {}

TensorId ModelWriter::parameter(const std::string& name, std::vector<Dim> dims) {
  if (!shared_names || !name.starts_with(shared_names->of)) {
    const TensorId made = graph.add_tensor(name, TensorKind::Parameter, graph.dtype, std::move(dims));
    if (lora_rank_ > 0) graph.fixed.insert(made);
    return made;
  }
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
  const bool adapted = is_adapted(name);
  const TensorId y = add(OpKind::Contract, name, {x, parameter(name + ".weight", weight)}, {.result_names = result});
  return adapted ? add(OpKind::Add, name + ".adapted", {y, of_adapter(name, x, weight, result)}) : y;
}

bool ModelWriter::is_adapted(const std::string& product) const {
  const bool attention = product.find(".attn.") != std::string::npos;
  if (lora_rank_ == 0 || (!attention && product.find(".mlp.") == std::string::npos)) return false;
  const bool pair = product.ends_with(".attn.q") || product.ends_with(".attn.v");
  const bool wanted[] = {true, attention, pair || product.ends_with(".attn.k"), pair};  // [lora_targets]
  return wanted[lora_targets_];
}

TensorId ModelWriter::of_adapter(const std::string& name, TensorId x, const std::vector<Dim>& weight,
                                 const std::vector<std::string>& result) {
  const Dim rank{"lora", lora_rank_};
  std::vector<Dim> in, out = {rank};
  std::vector<std::string> narrow;  // the names of x that stay
  for (const Dim& own : graph.tensor(x).dims) {
    const bool summed = std::any_of(weight.begin(), weight.end(), [&](const Dim& dim) { return dim.name == own.name; });
    if (!summed) narrow.push_back(own.name);
  }
  for (const Dim& dim : weight) {
    const auto& dims = graph.tensor(x).dims;
    const bool summed = std::any_of(dims.begin(), dims.end(), [&](const Dim& own) { return own.name == dim.name; });
    (summed ? in : out).push_back(dim);
  }
  in.push_back(rank);
  narrow.push_back(rank.name);
  const auto trained = [&](const std::string& of, std::vector<Dim> dims) {
    return graph.add_tensor(of, TensorKind::Parameter, graph.dtype, std::move(dims));
  };
  TensorId y = add(OpKind::Contract, name + ".lora_a", {x, trained(name + ".lora_a.weight", std::move(in))},
                   {.result_names = std::move(narrow)});
  y = add(OpKind::Contract, name + ".lora_b", {y, trained(name + ".lora_b.weight", std::move(out))},
          {.result_names = result});
  return add(OpKind::Scale, name + ".lora", {y}, {.scale = kLoraScale});
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
