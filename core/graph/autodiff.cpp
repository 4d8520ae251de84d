// SPDX-License-Identifier: Apache-2.0
#include "core/graph/autodiff.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/errors.h"
#include "core/graph/backward.h"
#include "core/graph/op_table.h"
#include "core/graph/selective_recomputation.h"
#include "core/graph/stamp_scope.h"

namespace meshwright {

namespace {

// In the order of the enums.
constexpr std::array<const char*, 3> kRecompute = {"none", "full", "selective"};
constexpr std::array<const char*, 4> kOptimizers = {"sgd", "momentum", "adam", "adafactor"};

template <class Enum, std::size_t n>
Enum from_name(const std::array<const char*, n>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  require(found != names.end(), "unknown name '{}'; expected {} or {}.", name,
          fmt::join(names.begin(), names.end() - 1, ", "), names.back());
  return static_cast<Enum>(found - names.begin());
}

}  // namespace

const char* name_of(Recompute recompute) { return kRecompute[static_cast<std::size_t>(recompute)]; }
Recompute recompute_from_name(const std::string& name) { return from_name<Recompute>(kRecompute, name); }
const char* name_of(Optimizer::Kind kind) { return kOptimizers[static_cast<std::size_t>(kind)]; }
Optimizer::Kind optimizer_from_name(const std::string& name) { return from_name<Optimizer::Kind>(kOptimizers, name); }

std::vector<std::string> names_of(const Tensor& tensor) {
  std::vector<std::string> names;
  for (const Dim& dim : tensor.dims) names.push_back(dim.name);
  return names;
}

// --- the walk ---

Backward::Backward(Graph& graph, Recompute recompute, const std::vector<RecomputeRange>& ranges,
                   RecomputeModules modules)
    : graph_(graph), forward_(forward_ops(graph)), range_of_(graph.ops().size(), 0) {
  set_ranges(recompute, ranges);
  set_modules(modules);
  for (const OpId id : forward_) pieces_[piece_of(graph_.op(id))].push_back(id);
  find_dependencies();
}

void Backward::set_ranges(Recompute recompute, const std::vector<RecomputeRange>& ranges) {
  const auto cover = [&](int first, int last, Recompute how) {
    for (int at = first; at <= last; ++at)
      range_of_[forward_[static_cast<std::size_t>(at)].index()] = static_cast<int>(recompute_of_.size());
    recompute_of_.push_back(how);
  };
  const int count = static_cast<int>(forward_.size());
  int next = 0;  // the first op not yet in a range
  for (const RecomputeRange& range : ranges) {
    require(range.first >= next && range.first <= range.last && range.last < count,
            "recompute ranges: {} to {} is not a range of forward ops from {} to {}; give ranges in order that do not "
            "overlap.",
            range.first, range.last, next, count - 1);
    if (range.first > next) cover(next, range.first - 1, recompute);
    cover(range.first, range.last, range.recompute);
    next = range.last + 1;
  }
  if (next < count || ranges.empty()) cover(next, count - 1, recompute);
}

void Backward::set_modules(RecomputeModules modules) {
  std::map<RecomputedModule, int> ranges;
  for (const auto& [op, module] : recomputed_modules(graph_, modules)) {
    const auto [range, is_new] = ranges.emplace(module, static_cast<int>(recompute_of_.size()));
    if (is_new) recompute_of_.push_back(Recompute::Full);
    if (module.drops_results()) dropped_.insert(range->second);
    range_of_[op.index()] = range->second;
  }
}

void Backward::find_dependencies() {
  for (const Tensor& one : graph_.tensors())
    depends_.push_back(one.kind == TensorKind::Parameter && !graph_.fixed.contains(one.id));
  for (const OpId id : forward_) {
    const Op& op = graph_.op(id);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      // The first use names the accumulator; further uses of a shared parameter get accumulators of their own.
      if (tensor(op.inputs[i]).kind == TensorKind::Parameter) first_use_.emplace(op.inputs[i], Use{id, i});
      if (!wants(op, i)) continue;
      // Integers, as labels or slots, have no gradient.
      for (const TensorId result : op.outputs) depends_[result.index()] = tensor(result).dtype != DType::I32;
    }
  }
}

TensorId Backward::read(const Op& op, std::size_t i) const {
  const auto found = repeated_.find(op.inputs[i]);
  if (found == repeated_.end()) return op.inputs[i];
  // A tensor that another block or range made enters this piece: it is kept from the forward, not recomputed.
  const Op& producer = graph_.op(*tensor(op.inputs[i]).producer);
  const bool dropped = drops_result(producer) && producer.block == op.block;
  return dropped || piece_of(producer) == piece_of(op) ? found->second : op.inputs[i];
}

TensorId Backward::result(const Op& op) const {
  const auto found = repeated_.find(op.outputs[0]);
  return found == repeated_.end() ? op.outputs[0] : found->second;
}

Op Backward::maker(const Op& op, std::size_t i, OpKind kind) const {
  const Tensor& operand = tensor(op.inputs[i]);
  require(operand.producer && graph_.op(*operand.producer).kind == kind,
          "op '{}' ({}): cannot be differentiated, because its operand '{}' is not made by a {} op; make it by one.",
          op.name, name_of(op.kind), operand.name, name_of(kind));
  return graph_.op(*operand.producer);
}

std::vector<TensorId> Backward::derive(const Op& op, OpKind kind, const char* suffix, std::vector<TensorId> inputs,
                                       Attributes attributes) {
  const StampScope stamp(graph_, Phase::Backward, op.id, op.block);
  return graph_.add_op(kind, fmt::format("{}.{}", op.name, suffix), std::move(inputs), std::move(attributes));
}

void Backward::derive_gradient(const Op& op, std::size_t i, OpKind kind, const char* suffix,
                               std::vector<TensorId> inputs, Attributes attributes) {
  if (wants(op, i)) contribute(op, i, derive(op, kind, suffix, std::move(inputs), std::move(attributes))[0]);
}

std::string Backward::accumulator_name(const Op& op, std::size_t i) const {
  const Use& first = first_use_.at(op.inputs[i]);
  const std::string base = tensor(op.inputs[i]).name + ".acc";
  if (first.op == op.id && first.operand == i) return base;
  // An op that reads one parameter twice has an accumulator for each operand, with names of their own.
  const bool read_before =
      std::find(op.inputs.begin(), op.inputs.end(), op.inputs[i]) - op.inputs.begin() < static_cast<std::ptrdiff_t>(i);
  return fmt::format("{}.{}{}", base, op.name,
                     read_before ? fmt::format(".{}", operand_names(op.kind, op.inputs.size(), op.attributes)[i]) : "");
}

void Backward::contribute(const Op& op, std::size_t i, TensorId gradient) {
  const TensorId target = op.inputs[i];
  if (tensor(target).kind != TensorKind::Parameter) {
    cotangents_[target].push_back(gradient);
    if (!tensor(gradient).gradient_of) graph_.set_gradient_of(gradient, target);
    return;
  }
  // A parameter's gradient is made by the backward of its reader, also where that passes it through.
  const std::string operand = operand_names(op.kind, op.inputs.size(), op.attributes)[i];
  if (const auto maker_of = tensor(gradient).producer; !maker_of || graph_.op(*maker_of).forward != op.id)
    gradient = derive(op, OpKind::Scale, ("grad_" + operand).c_str(), {gradient}, {.scale = 1.0})[0];
  const StampScope stamp(graph_, Phase::Backward, op.id, op.block);
  const TensorId accumulator = graph_.add_tensor(accumulator_name(op, i), TensorKind::Accumulator,
                                                 gradient_dtype(tensor(target).dtype), tensor(target).dims, target);
  graph_.add_in_place_op(OpKind::Accumulate, fmt::format("{}.accumulate_{}", op.name, operand), {accumulator, gradient},
                         {accumulator});
}

// Full recomputation repeats every op of the block, also the last ones, whose results no gradient reads: the published
// count of 96 B S H^2 L FLOPs (Narayanan et al., Efficient large-scale language model training on GPU clusters using
// Megatron-LM, SC 2021) includes them.
void Backward::repeat(const Piece& piece) {
  for (const OpId id : std::exchange(pieces_[piece], {})) {
    if (recompute_of(piece) == Recompute::Selective && selected_.count(id) == 0) continue;
    // A copy, because new ops may move those of the graph.
    const Op op = graph_.op(id);
    repeat_what_was_dropped(op);
    std::vector<TensorId> inputs;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) inputs.push_back(read(op, i));
    const std::vector<TensorId> results = derive(op, op.kind, "recompute", inputs, op.attributes);
    for (std::size_t r = 0; r < results.size(); ++r) repeated_.emplace(op.outputs[r], results[r]);
  }
}

void Backward::repeat_what_was_dropped(const Op& op) {
  if (dropped_.empty()) return;
  for (const TensorId input : op.inputs) {
    const auto& maker = tensor(input).producer;
    if (!maker) continue;
    const Op& producer = graph_.op(*maker);
    if (producer.phase != Phase::Forward || producer.block != op.block || !drops_result(producer)) continue;
    const Piece piece = piece_of(producer);
    if (piece != piece_of(op)) repeat(piece);
  }
}

TensorId Backward::total_cotangent(const Op& op) {
  const std::vector<TensorId> parts = cotangents_.at(op.outputs[0]);
  TensorId total = parts[0];
  // In the order of the walk, so that the sum is always the same.
  for (std::size_t k = 1; k < parts.size(); ++k) {
    const std::string suffix = k == 1 ? "grad_sum" : fmt::format("grad_sum{}", k);
    total = derive(op, OpKind::Add, suffix.c_str(), {total, parts[k]})[0];
    graph_.set_gradient_of(total, op.outputs[0]);
  }
  return total;
}

void Backward::differentiate(const Op& op, std::optional<TensorId> dy) {
  const Piece piece = piece_of(op);
  if (recompute_of(piece) != Recompute::None && op.block >= 0) repeat(piece);
  repeat_what_was_dropped(op);
  if (!dy) {
    row_of(op.kind).loss_derivative(*this, op);
    return;
  }
  const Derivative derivative = row_of(op.kind).derivative;
  require(derivative != nullptr,
          "op '{}' ({}): has no derivative of its own; use its result only in a loss that is the graph's objective.",
          op.name, name_of(op.kind));
  derivative(*this, op, *dy);
}

void Backward::find_objectives(TensorId output) {
  const Tensor& sum = tensor(output);
  const Op* op = sum.producer ? &graph_.op(*sum.producer) : nullptr;
  if (op != nullptr && op->kind == OpKind::Add && sum.dims.empty()) {
    for (const TensorId part : op->inputs) find_objectives(part);
    return;
  }
  require(op != nullptr && row_of(op->kind).loss_derivative != nullptr,
          "tensor '{}': is made by op '{}' ({}), which is not a loss; give its cotangent as the seed.", sum.name,
          op == nullptr ? "none" : op->name, op == nullptr ? "none" : name_of(op->kind));
  require(objectives_.insert(op->id).second,
          "tensor '{}': is added to the objective twice; scale the loss where it is made.", sum.name);
}

void Backward::run(TensorId output, std::optional<TensorId> seed) {
  const std::optional<OpId> last = tensor(output).producer;
  require(last.has_value(),
          "tensor '{}': is not made by an op, so there is nothing to differentiate; give an op's result.",
          tensor(output).name);
  if (seed) {
    require(tensor(*seed).dims == tensor(output).dims,
            "tensor '{}': the seed '{}' is {}, but the tensor is {}; give a seed of "
            "the same dimensions.",
            tensor(output).name, tensor(*seed).name, to_text(tensor(*seed).dims), to_text(tensor(output).dims));
    cotangents_[output].push_back(*seed);
  } else {
    find_objectives(output);
  }
  if (std::find(recompute_of_.begin(), recompute_of_.end(), Recompute::Selective) != recompute_of_.end()) {
    Graph kept = graph_;  // its backward, without recomputation, shows which tensors would be kept
    Backward(kept, Recompute::None, {}, RecomputeModules::None).run(output, seed);
    selected_ = selective_recomputation(kept, range_of_);
  }
  // In reverse topological order: all contributions to a cotangent have been made when its op is reached.
  for (auto id = forward_.rbegin(); id != forward_.rend(); ++id) {
    const Op op = graph_.op(*id);
    const bool objective = objectives_.contains(op.id);
    // No parameter is upstream, or nothing downstream reaches the output: there is no gradient to compute.
    if (!depends_[op.outputs[0].index()]) continue;
    if (!objective && cotangents_.count(op.outputs[0]) == 0) continue;
    std::optional<TensorId> dy;
    if (!objective) dy = total_cotangent(op);
    differentiate(op, dy);
  }
}

void append_backward(Graph& graph, TensorId output, std::optional<TensorId> seed, Recompute recompute,
                     const std::vector<RecomputeRange>& ranges, RecomputeModules modules) {
  Backward(graph, recompute, ranges, modules).run(output, seed);
}

void append_training_step(Graph& graph, const Optimizer& optimizer, Recompute recompute,
                          const std::vector<RecomputeRange>& ranges, RecomputeModules modules) {
  require(graph.loss.has_value(), "graph '{}': has no loss to train on; set one before making the training step.",
          graph.name);
  append_loss_scaling(graph, optimizer);
  append_backward(graph, *graph.loss, std::nullopt, recompute, ranges, modules);
  append_updates(graph, optimizer);
}

}  // namespace meshwright
