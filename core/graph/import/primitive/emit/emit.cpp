// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/emit/emit.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/primitive/emit/emitter.h"
#include "core/graph/models/parts/model_writer.h"

namespace meshwright::primitive {

Emitter::Emitter(const Module& module, const Axes& axes, Graph& graph)
    : module_(module), axes_(axes), graph_(graph), samples_(graph.batch / graph.microbatches) {
  values_.resize(module.nodes.size());
  for (std::size_t n = 0; n < module.nodes.size(); ++n) {
    const Node& node = module.nodes[n];
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      auto& reader = first_reader_[node.inputs[k]];
      if (reader.first == nullptr) reader = {&node, k};
      readers_of_[node.inputs[k]].push_back(static_cast<int>(n));
    }
  }
  for (int n = 0; n < static_cast<int>(module.nodes.size()); ++n) find_bias(n);
  for (int n = 0; n < static_cast<int>(module.nodes.size()); ++n) find_parts(n);
}

// --- dimensions ---

std::vector<Dim> Emitter::dims(const AxisList& order) const {
  std::vector<Dim> found;
  for (const int axis : order) found.push_back(dim(axis));
  return found;
}

std::vector<std::string> Emitter::names(const AxisList& order) const {
  std::vector<std::string> found;
  for (const int axis : order) found.push_back(axes_.name(axis));
  return found;
}

std::int64_t Emitter::product(const AxisList& order) const {
  return std::accumulate(order.begin(), order.end(), std::int64_t{1},
                         [&](std::int64_t all, int axis) { return all * size(axis); });
}

std::string Emitter::unique(const std::string& name) {
  const int before = used_[name]++;
  if (before == 0) return name;
  std::string other = fmt::format("{}.{}", name, before + 1);
  return used_.contains(other) ? unique(name) : (used_[other] = 1, other);
}

TensorId Emitter::add(OpKind kind, const std::string& suffix, std::vector<TensorId> inputs, Attributes attributes) {
  return graph_.add_op(kind, unique(name_ + suffix), std::move(inputs), std::move(attributes))[0];
}

Value Emitter::ordered(const Value& value, const AxisList& order) {
  if (value.order == order) return value;
  MW_CHECK(std::is_permutation(order.begin(), order.end(), value.order.begin(), value.order.end()),
           "'{}' is to be transposed to other axes", name_);
  return {add(OpKind::Transpose, ".transpose", {value.tensor}, {.result_names = names(order)}), order};
}

// The operand by the axes that the op sees.
Value Emitter::operand(int n, std::size_t k) {
  const int from = node(n).inputs[k];
  if (scalar(from)) return number(from);
  const Value value = values_[static_cast<std::size_t>(from)];
  const std::vector<AxisList> own = axes_.of(from), seen = axes_.of_operand(n, k);
  if (own == seen) return value;
  AxisList order = value.order;
  bool alike = true;
  for (std::size_t d = 0; d < own.size(); ++d) alike = alike && own[d].size() == seen[d].size();
  if (alike) {
    for (std::size_t d = 0; d < own.size(); ++d)
      for (std::size_t i = 0; i < own[d].size(); ++i) alike = alike && size(own[d][i]) == size(seen[d][i]);
    const AxisList before = joined(own), now = joined(seen);
    for (int& axis : order)
      axis = now[static_cast<std::size_t>(std::find(before.begin(), before.end(), axis) - before.begin())];
  }
  if (alike) return {add(OpKind::Reshape, ".renamed", {value.tensor}, {.result_dims = dims(order)}), order};
  const Value logical = ordered(value, joined(own));
  return {add(OpKind::Reshape, ".regrouped", {logical.tensor}, {.result_dims = dims(joined(seen))}), joined(seen)};
}

// The order of that operand's axes where the op sees it with those it has.
AxisList Emitter::operand_order(int n, std::size_t k) const {
  const int from = node(n).inputs[k];
  const std::vector<AxisList> seen = axes_.of_operand(n, k);
  const bool as_made = axes_.of(from) == seen && !scalar(from);
  return as_made ? values_[static_cast<std::size_t>(from)].order : joined(seen);
}

// Repeated to all of `order`.
Value Emitter::widened(const Value& value, const AxisList& order) {
  AxisList own;
  for (const int axis : order)
    if (std::find(value.order.begin(), value.order.end(), axis) != value.order.end()) own.push_back(axis);
  const Value sorted = ordered(value, own);
  if (own == order) return sorted;
  return {add(OpKind::Broadcast, ".broadcast", {sorted.tensor}, {.result_dims = dims(order)}), order};
}

bool Emitter::plain(const std::vector<Wanted>& wanted) const {
  return std::all_of(wanted.begin(), wanted.end(), [](const Wanted& of) { return of.axes.size() == 1; });
}

AxisList Emitter::order_of(const std::vector<Wanted>& wanted) {
  AxisList order;
  for (const Wanted& of : wanted) order.insert(order.end(), of.axes.begin(), of.axes.end());
  return order;
}

std::vector<Dim> Emitter::dims_of(const std::vector<Wanted>& wanted) const {
  std::vector<Dim> to;
  for (const Wanted& of : wanted) to.push_back(of.axes.size() == 1 ? dim(of.axes[0]) : Dim{of.name, product(of.axes)});
  return to;
}

TensorId Emitter::shaped(const Value& value, const std::vector<Wanted>& wanted) {
  const Value sorted = ordered(value, order_of(wanted));
  return plain(wanted) ? sorted.tensor
                       : add(OpKind::Reshape, ".grouped", {sorted.tensor}, {.result_dims = dims_of(wanted)});
}

Value Emitter::unshaped(TensorId tensor, const std::vector<Wanted>& has) {
  const AxisList order = order_of(has);
  if (!plain(has)) tensor = add(OpKind::Reshape, ".ungrouped", {tensor}, {.result_dims = dims(order)});
  return {tensor, order};
}

// `wanted`: all of the value, dimension `dim` of node n's operand 0 last and one.
Value Emitter::with_last(int n, const Value& value, std::size_t dim, std::vector<Wanted>& wanted) {
  const AxisList last = axes_.of_operand(n, 0)[dim];
  for (const int axis : value.order)
    if (std::find(last.begin(), last.end(), axis) == last.end()) wanted.push_back({{axis}, ""});
  wanted.push_back({last, "row"});
  return value;
}

// --- leaves ---

Value Emitter::leaf(int n) {
  const Node& of = node(n);
  AxisList order = joined(axes_.of(n));
  const std::vector<AxisList> by_dim = axes_.of(n);
  const auto reader = first_reader_.find(n);
  const bool of_image = reader != first_reader_.end() && reader->second.first->kind == Kind::Convolution &&
                        reader->second.second == 0 && of.kind == Kind::Input;
  if (of_image) order = joined({by_dim[0], by_dim[2], by_dim[3], by_dim[1]});
  const TensorKind kind = of.kind == Kind::Parameter ? TensorKind::Parameter : TensorKind::Input;
  const std::string name = of.name.empty() ? "constant" : of.name;
  const TensorId made = graph_.add_tensor(unique(name), kind, of.integer ? DType::I32 : graph_.dtype, dims(order));
  if (of.values) graph_.constants.emplace(made, std::make_shared<const std::vector<double>>(*of.values));
  return {made, order};
}

// A number that an op reads as a tensor; most are the factor of a Scale.
Value Emitter::number(int n) {
  const auto known = numbers_.find(n);
  if (known != numbers_.end()) return {known->second};
  const std::string name = node(n).name.empty() ? "number" : node(n).name + ".number";
  const DType type = node(n).integer ? DType::I32 : graph_.dtype;
  const TensorId made = graph_.add_tensor(unique(name), TensorKind::Input, type, {});
  graph_.constants.emplace(made, std::make_shared<const std::vector<double>>(1, *scalar(n)));
  return {numbers_.emplace(n, made).first->second};
}

std::optional<double> Emitter::scalar(int n) const {
  const Node* of = &node(n);
  while (of->kind == Kind::Broadcast || of->kind == Kind::Reshape) of = &node(of->inputs[0]);
  if (of->values && of->values->size() == 1) return of->values->front();
  return std::nullopt;
}

// --- all ---

void Emitter::emit(int n) {
  const Node& of = node(n);
  name_ = of.name.empty() ? name_of(of.kind) : of.name;
  if (of.inputs.empty()) {
    const auto reader = first_reader_.find(n);
    const bool of_convolution = of.kind == Kind::Parameter && readers_of_[n].size() == 1 &&
                                reader->second.first->kind == Kind::Convolution && reader->second.second == 1;
    if (!scalar(n) && !of_convolution && !parts_of_.contains(n)) values_[static_cast<std::size_t>(n)] = leaf(n);
    return;
  }
  const auto made = [&]() -> Value {
    if (parts_of_.contains(n)) return part_by_part(n);
    switch (of.kind) {
      case Kind::Add:
      case Kind::Subtract:
      case Kind::Multiply:
      case Kind::Divide:
      case Kind::Power:
      case Kind::Maximum:
      case Kind::Minimum:
      case Kind::Compare:
        return binary(n);
      case Kind::Select:
        return select(n);
      case Kind::Reshape:
        return reshape(n);
      case Kind::Transpose:
        return values_[static_cast<std::size_t>(of.inputs[0])];
      case Kind::Broadcast:
        return below_bias_.contains(n) ? operand(n, 0) : widened(operand(n, 0), joined(axes_.of(n)));
      case Kind::Slice:
        return slice(n);
      case Kind::Concat:
        return concat(n);
      case Kind::ReduceSum:
      case Kind::ReduceMean:
      case Kind::ReduceMax:
        return reduce(n);
      case Kind::MatMul:
        return matmul(n);
      case Kind::Convolution:
        return convolution(n);
      case Kind::MaxPool:
      case Kind::AveragePool:
        return pool(n);
      case Kind::Gather:
        return gather(n);
      case Kind::Softmax:
        return softmax(n);
      case Kind::LayerNorm:
      case Kind::RmsNorm:
        return norm(n);
      case Kind::BatchNorm:
        return batch_norm(n);
      case Kind::Attention:
        return attention(n);
      case Kind::PackedAttention:
        return packed_attention(n);
      case Kind::Rotary:
        return rotary(n);
      case Kind::Slots:
        return slots(n);
      case Kind::SlotMask:
        return slot_mask(n);
      case Kind::GateWeights:
        return gate_weights(n);
      case Kind::WeightedMask:
        return weighted_mask(n);
      case Kind::Dispatch:
        return dispatch(n);
      case Kind::Combine:
        return combine(n);
      default:
        return unary(n);
    }
  };
  if (!scalar(n)) values_[static_cast<std::size_t>(n)] = made();
}

// The labels of a cross entropy whose logits have these rows.
TensorId Emitter::labels_of(int loss, const std::vector<Wanted>& wanted, const std::vector<Dim>& rows) {
  const int labels = node(loss).inputs[1];
  const Node& given = node(labels);
  if (only_labels(labels))
    return graph_.add_tensor(unique(given.name.empty() ? "labels" : given.name), TensorKind::Input, DType::I32, rows);
  AxisList order;
  for (std::size_t k = 0; k + 1 < wanted.size(); ++k) order.push_back(wanted[k].axes[0]);
  return ordered(operand(loss, 1), order).tensor;
}

void Emitter::add_loss(LossReduction reduction) {
  const ModelConfig none;
  ModelWriter writer(graph_, none);
  require(losses_.size() < 2 || reduction != LossReduction::TokenWeighted,
          "model '{}': its {} losses have tokens of their own, which no one weight is for; choose the mean or the sum.",
          graph_.name, losses_.size());
  for (std::size_t k = 0; k < losses_.size(); ++k) {
    const int loss = losses_[k];
    std::vector<Wanted> wanted;
    const Value logits = with_last(loss, operand(loss, 0), node(node(loss).inputs[0]).shape.size() - 1, wanted);
    const TensorId x = shaped(logits, wanted);
    std::vector<Dim> rows = graph_.tensor(x).dims;
    rows.pop_back();
    const TensorId made = writer.cross_entropy(x, labels_of(loss, wanted, rows), reduction, head_name(k));
    graph_.loss = k == 0 ? made : graph_.add_op(OpKind::Add, head_name(k) + ".total", {*graph_.loss, made})[0];
  }
  if (!losses_.empty()) return;
  require(reduction != LossReduction::TokenWeighted,
          "model '{}': its loss has no tokens that could be weighted; choose the mean or the sum.", graph_.name);
  const Value& made = values_[static_cast<std::size_t>(module_.result)];
  const TensorId target = graph_.add_tensor(unique("target"), TensorKind::Input, graph_.dtype, dims(made.order));
  const double terms = static_cast<double>(graph_.tensor(target).elements()) * static_cast<double>(graph_.microbatches);
  graph_.loss = graph_.add_op(OpKind::SquaredErrorLoss, unique("loss"), {made.tensor, target},
                              {.scale = reduction == LossReduction::Mean ? 1.0 / terms : 1.0})[0];
}

void Emitter::run(const std::vector<int>& blocks, LossReduction reduction) {
  losses_ = cross_entropies_of(module_, module_.result);
  used_["loss_weights"] = 1;
  for (std::size_t k = 0; k < std::max<std::size_t>(losses_.size(), 1); ++k)
    for (const char* taken : {".row_max", ".sum_exp", ".pick_label", ".loss", ".total"})
      used_[head_name(k) + taken] = 1;
  std::set<int> left_out;  // what is made with the losses: these, their sums, and labels, which have their rows
  for (int n = 0; n < static_cast<int>(module_.nodes.size()); ++n)
    if (!cross_entropies_of(module_, n).empty()) left_out.insert(n);
  for (const int loss : losses_)
    if (only_labels(node(loss).inputs[1])) left_out.insert(node(loss).inputs[1]);
  for (int n = 0; n < static_cast<int>(module_.nodes.size()); ++n) {
    if (left_out.contains(n)) continue;
    graph_.current_block = blocks[static_cast<std::size_t>(n)];
    emit(n);
  }
  graph_.current_block = -1;
  name_ = "head";
  add_loss(reduction);
}

void emit(const Module& module, const Axes& axes, const std::vector<int>& blocks, Graph& graph,
          LossReduction reduction) {
  Emitter(module, axes, graph).run(blocks, reduction);
}

}  // namespace meshwright::primitive
