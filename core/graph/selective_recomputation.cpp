// SPDX-License-Identifier: Apache-2.0
#include "core/graph/selective_recomputation.h"

#include <algorithm>
#include <functional>

#include "core/graph/op_table.h"

namespace meshwright {

namespace {

// Whether backward ops read a forward tensor: those of the block that made it, and others.
struct BackwardReaders {
  bool own_block = false, elsewhere = false;
};

using IsTogether = std::function<bool(const Op& maker, const Op& reader)>;

std::vector<BackwardReaders> backward_readers(const Graph& graph, const IsTogether& is_together) {
  std::vector<BackwardReaders> readers(graph.tensors().size());
  for (const Op& op : graph.ops()) {
    if (op.phase != Phase::Backward) continue;
    for (const TensorId input : op.inputs) {
      const Tensor& tensor = graph.tensor(input);
      if (!tensor.producer) continue;
      BackwardReaders& of_input = readers[input.index()];
      (is_together(graph.op(*tensor.producer), op) ? of_input.own_block : of_input.elsewhere) = true;
    }
  }
  return readers;
}

bool is_cheap(const Graph& graph, const Op& op) {
  // Neither a product nor a reduction: such an op is one pass over its operands.
  if (row_of(op.kind).flops != nullptr || op.kind == OpKind::TopKSlots) return false;
  const IterationSpace space = iteration_space(graph, op);
  return std::none_of(space.axes.begin(), space.axes.end(), [](const IterationAxis& axis) { return axis.reduction; });
}

}  // namespace

std::set<OpId> selective_recomputation(const Graph& graph, const std::vector<int>& range_of) {
  const auto is_together = [&](const Op& maker, const Op& reader) {
    const auto range = [&](const Op& op) { return range_of[op.forward.value_or(op.id).index()]; };
    return maker.block == reader.block && (range_of.empty() || range(maker) == range(reader));
  };
  const std::vector<BackwardReaders> readers = backward_readers(graph, is_together);
  const std::vector<OpId> forward = forward_ops(graph);
  std::set<OpId> possible;
  const auto is_there = [&](const Op& op, TensorId operand) {
    const std::optional<OpId> maker = graph.tensor(operand).producer;
    if (!maker || readers[operand.index()].own_block || readers[operand.index()].elsewhere) return true;
    return is_together(graph.op(*maker), op) && possible.count(*maker) > 0;
  };
  // In forward order: whether an op can be repeated depends on the ops of its operands.
  for (const OpId id : forward) {
    const Op& op = graph.op(id);
    const bool kept_anyway = readers[op.outputs[0].index()].elsewhere;
    if (op.block >= 0 && !kept_anyway && is_cheap(graph, op) &&
        std::all_of(op.inputs.begin(), op.inputs.end(), [&](TensorId operand) { return is_there(op, operand); }))
      possible.insert(id);
  }
  std::set<OpId> repeated;
  std::set<TensorId> read_again;  // by repeated ops
  // In reverse order: an op is repeated where the backward, or an op that is repeated, reads its result.
  for (auto id = forward.rbegin(); id != forward.rend(); ++id) {
    const Op& op = graph.op(*id);
    const TensorId result = op.outputs[0];
    if (possible.count(*id) == 0 || (!readers[result.index()].own_block && read_again.count(result) == 0)) continue;
    repeated.insert(*id);
    read_again.insert(op.inputs.begin(), op.inputs.end());
  }
  return repeated;
}

}  // namespace meshwright
