// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/emit/emitter.h"

namespace meshwright::primitive {

// (batch, seq, expert): scores, slots or weights, operand k of node n.
std::vector<Wanted> Emitter::by_expert(int n, std::size_t k) const {
  const std::vector<AxisList> of = axes_.of_operand(n, k);
  return {{of[0], "batch"}, {of[1], "seq"}, {of[2], "expert"}};
}

Value Emitter::slots(int n) {
  const Details& details = node(n).details;
  const std::vector<Wanted> wanted = by_expert(n, 0);
  const TensorId scores = shaped(operand(n, 0), wanted);
  return unshaped(add(OpKind::TopKSlots, ".slots", {scores}, {.top_k = details.groups, .capacity = details.window[0]}),
                  wanted);
}

// Ops call their third dimension "capacity", whatever it is called here.
TensorId Emitter::with_capacity(TensorId tensor, const AxisList& capacity) {
  std::vector<Dim> dims = graph_.tensor(tensor).dims;
  if (dims[2] == dim(capacity.at(0))) return tensor;
  dims[2] = dim(capacity[0]);
  return add(OpKind::Reshape, ".renamed", {tensor}, {.result_dims = dims});
}

// The op has its capacity in front of the expert.
Value Emitter::slot_mask(int n) {
  std::vector<Wanted> has = by_expert(n, 0);
  const AxisList capacity = axes_.of(n)[3];
  const TensorId slots = shaped(operand(n, 0), has);
  has.insert(has.begin() + 2, {capacity, "capacity"});
  const TensorId mask =
      add(OpKind::OneHotSlots, ".mask", {slots}, {.dtype = graph_.dtype, .capacity = size(capacity.at(0))});
  return unshaped(with_capacity(mask, capacity), has);
}

Value Emitter::gate_weights(int n) {
  const std::vector<Wanted> wanted = by_expert(n, 0);
  const TensorId scores = shaped(operand(n, 0), wanted), slots = shaped(operand(n, 1), by_expert(n, 1));
  return unshaped(add(OpKind::GateWeights, ".weights", {scores, slots}, {.normalize = node(n).details.number != 0.0}),
                  wanted);
}

Value Emitter::weighted_mask(int n) {
  const Value mask = operand(n, 0), weights = operand(n, 1);
  return {add(OpKind::Contract, ".weighted", {weights.tensor, mask.tensor}, {.result_names = names(mask.order)}),
          mask.order};
}

Value Emitter::dispatch(int n) {
  const std::vector<AxisList> x = axes_.of_operand(n, 0), made = axes_.of(n);
  const TensorId tokens = shaped(operand(n, 0), {{x[0], "batch"}, {x[1], "seq"}, {x[2], "embed"}});
  const TensorId slots = shaped(operand(n, 1), by_expert(n, 1));
  const TensorId buffer = add(OpKind::Dispatch, "", {tokens, slots}, {.capacity = size(made[2].at(0))});
  return unshaped(with_capacity(buffer, made[2]),
                  {{made[0], "expert"}, {made[1], "batch"}, {made[2], "capacity"}, {made[3], "embed"}});
}

Value Emitter::combine(int n) {
  const std::vector<AxisList> of = axes_.of_operand(n, 0), made = axes_.of(n);
  const TensorId buffer =
      shaped(operand(n, 0), {{of[0], "expert"}, {of[1], "batch"}, {of[2], "capacity"}, {of[3], "embed"}});
  const TensorId slots = shaped(operand(n, 1), by_expert(n, 1)), weights = shaped(operand(n, 2), by_expert(n, 2));
  return unshaped(add(OpKind::Combine, "", {buffer, slots, weights}),
                  {{made[0], "batch"}, {made[1], "seq"}, {made[2], "embed"}});
}

}  // namespace meshwright::primitive
