// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/ops_in_a_row.h"

#include <algorithm>
#include <map>

#include "executor/cuda/cuda_device.h"

namespace meshwright {

namespace {

std::ptrdiff_t readers_of(const Graph& graph, TensorId tensor) {
  return std::ranges::count_if(graph.ops(), [&](const Op& op) { return std::ranges::count(op.inputs, tensor) > 0; });
}

std::optional<std::size_t> input_made_by(const Graph& graph, const Op& op, OpId maker) {
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    if (graph.tensor(op.inputs[i]).producer == maker) return i;
  return std::nullopt;
}

// The input that the op right before makes; nullopt: it makes none.
std::optional<std::size_t> input_made_before(const Graph& graph, const Op& op) {
  return op.id.value == 0 ? std::nullopt : input_made_by(graph, op, OpId(op.id.value - 1));
}

// Ends with `op`; begins with the product that it may be done with, if there is one. Each is the one before the next in
// the graph, which reads its result.
std::vector<const Op*> with_its_product(const Graph& graph, const Op& op) {
  std::vector<const Op*> ops = {&op};
  // What the kernel of a product may compute at its end.
  constexpr OpKind kEnds[] = {OpKind::BiasAdd, OpKind::Gelu, OpKind::Relu, OpKind::Add, OpKind::Accumulate};
  if (std::find(std::begin(kEnds), std::end(kEnds), op.kind) == std::end(kEnds)) return ops;
  while (ops.front()->kind != OpKind::Contract) {
    const Op& first = *ops.front();
    // A product is joined only with ops that follow it without a gap in the graph's list.
    const std::optional<std::size_t> made = input_made_before(graph, first);
    if (!made) return {&op};
    ops.insert(ops.begin(), &graph.op(*graph.tensor(first.inputs[*made]).producer));
    const OpKind kind = ops.front()->kind;
    // Another reader of the product needs its own result in memory, so that nothing is joined.
    if (kind != OpKind::BiasAdd && (kind != OpKind::Contract || readers_of(graph, first.inputs[*made]) > 1))
      return {&op};
  }
  return ops;
}

// A norm right after the sum that it reads, where that is not the end of a product.
std::vector<const Op*> with_its_sum(const Graph& graph, const Op& op) {
  if (op.kind != OpKind::LayerNorm && op.kind != OpKind::RmsNorm) return {&op};
  if (input_made_before(graph, op) != 0) return {&op};
  const Op& sum = graph.op(OpId(op.id.value - 1));
  const bool sums = sum.kind == OpKind::Add && sum.inputs[0] != sum.inputs[1];
  if (!sums || with_its_product(graph, sum).size() > 1) return {&op};
  return {&sum, &op};
}

// A sum with what a norm's derivative leaves for it, behind the gradients of the norm's parameters.
std::vector<const Op*> with_its_derivative(const Graph& graph, const Op& op) {
  if (op.kind != OpKind::Add || op.inputs[0] == op.inputs[1]) return {&op};
  for (const TensorId input : op.inputs) {
    const std::optional<OpId> producer = graph.tensor(input).producer;
    if (!producer || readers_of(graph, input) != 1) continue;
    const Op& norm = graph.op(*producer);
    if (norm.kind != OpKind::LayerNormBackward && norm.kind != OpKind::RmsNormBackward) continue;
    bool passes = true;
    for (int between = norm.id.value + 1; between < op.id.value; ++between) {
      const OpKind kind = graph.op(OpId(between)).kind;
      passes = passes && (kind == OpKind::LayerNormParamBackward || kind == OpKind::RmsNormParamBackward ||
                          kind == OpKind::Accumulate);
    }
    if (passes) return {&norm, &op};
  }
  return {&op};
}

// What a loss wants of the logits, right behind their maxima: the sums, and then the labels' logits.
std::vector<const Op*> with_its_maxima(const Graph& graph, const Op& op) {
  if (op.id.value == 0) return {&op};
  const Op& before = graph.op(OpId(op.id.value - 1));
  if (before.inputs.empty() || before.inputs[0] != op.inputs[0]) return {&op};
  if (op.kind == OpKind::SumExp && before.kind == OpKind::RowMax && input_made_before(graph, op) == 1)
    return {&before, &op};
  if (op.kind != OpKind::PickLabel || before.kind != OpKind::SumExp) return {&op};
  std::vector<const Op*> ops = with_its_maxima(graph, before);
  if (ops.size() == 1) return {&op};
  ops.push_back(&op);
  return ops;
}

std::vector<const Op*> with_its_row(const Graph& graph, const Op& op) {
  for (const auto find : {with_its_product, with_its_sum, with_its_derivative, with_its_maxima})
    if (std::vector<const Op*> found = find(graph, op); found.size() > 1) return found;
  return {&op};
}

bool are_alike(const Graph& graph, const Op& a, const Op& b) {
  if (a.kind != b.kind || a.inputs.size() != b.inputs.size()) return false;
  for (std::size_t i = 0; i < a.inputs.size(); ++i) {
    const Tensor &x = graph.tensor(a.inputs[i]), &y = graph.tensor(b.inputs[i]);
    if (x.dtype != y.dtype || !std::ranges::equal(x.dims, y.dims, {}, &Dim::size, &Dim::size)) return false;
  }
  return true;
}

std::vector<std::int64_t> sizes_before(const Graph& graph, const Op& op, const OpCallPlan& next) {
  std::vector<std::int64_t> sizes;
  // Axes that both ops have keep the shard's size; those that only the earlier op has are whole.
  for (const IterationAxis& axis : iteration_space(graph, op).axes) {
    const std::optional<int> shared = next.space.find(axis.name);
    sizes.push_back(shared ? next.sizes[static_cast<std::size_t>(*shared)] : axis.size);
  }
  return sizes;
}

}  // namespace

WithRows with_their_rows(const Graph& graph, const Op& op, const std::vector<std::int64_t>& sizes) {
  // Sums over a part of the classes wait for the maxima of the others.
  if (op.kind == OpKind::SumExp || op.kind == OpKind::PickLabel) {
    const IterationSpace space = iteration_space(graph, op);
    const auto classes = static_cast<std::size_t>(space.inputs[0].back());
    if (sizes[classes] < space.axes[classes].size) return {0.0, {&op}};
  }
  WithRows found{0.0, with_its_row(graph, op)};
  int all = 0, joined = 0;
  for (const Op& other : graph.ops()) {
    if (!are_alike(graph, op, other)) continue;
    ++all;
    const std::vector<const Op*> ops = with_its_row(graph, other);
    if (ops.size() == 1) continue;
    ++joined;
    if (found.ops.size() == 1) found.ops = ops;
  }
  found.share = static_cast<double>(joined) / all;
  return found;
}

OpsInARow::OpsInARow(const Graph& graph, const std::vector<const Op*>& ops, const std::vector<std::int64_t>& sizes,
                     CudaDevice& device)
    : device_(device), memory_(device) {
  calls_.push_back(plan_op(graph, *ops.back(), sizes));
  for (std::size_t i = ops.size() - 1; i > 0; --i)
    calls_.insert(calls_.begin(), plan_op(graph, *ops[i - 1], sizes_before(graph, *ops[i - 1], calls_.front())));
  std::map<TensorId, void*> made;  // what the ops so far read and write
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Op& op = *ops[i];
    calls_[i].one_reader = i + 1 < ops.size() && readers_of(graph, op.outputs[0]) == 1;
    calls_[i].only_next_reads = calls_[i].one_reader;
    std::vector<GivenInput> given;
    for (std::size_t input = 0; input < op.inputs.size(); ++input)
      if (const auto found = made.find(op.inputs[input]); found != made.end()) given.push_back({found->second, input});
    operands_.push_back(make_operands(graph, op, calls_[i], 0, memory_, given));
    const MeasuredOperands& operands = operands_.back();
    for (std::size_t input = 0; input < op.inputs.size(); ++input) made[op.inputs[input]] = operands.inputs[input];
    for (std::size_t output = 0; output < op.outputs.size(); ++output)
      made[op.outputs[output]] = operands.outputs[output];
  }
}

std::function<void()> OpsInARow::running(std::size_t count) {
  return [this, count] {
    // An update repeated with a fresh step number each time would drift; one number is as much work.
    for (std::size_t i = 0; i < count; ++i)
      device_.run_op(calls_[i], operands_[i].inputs, operands_[i].outputs, OpMoment{});
  };
}

bool OpsInARow::done_together() {
  running(calls_.size())();
  const bool together = device_.held() == calls_.size();
  (void)device_.stream();
  return together;
}

}  // namespace meshwright
