// SPDX-License-Identifier: Apache-2.0
#include "executor/exact/exact_ops.h"

#include "core/base/errors.h"
#include "core/graph/op_table.h"
#include "executor/exact/treatments.h"

namespace meshwright::exact {

namespace {

bool is_attention(OpKind kind) { return kind == OpKind::GroupedAttention || kind == OpKind::GroupedAttentionBackward; }

// Cells add up. An op that takes a maximum of parts, works on partial sums or makes integers has none.
bool has_cells(OpKind kind) {
  const OpRow& row = row_of(kind);
  return row.reduce == IterationSpace::Reduce::Sum && row.linear_operands == 0;
}

bool is_treated(OpKind kind) {
  return moves_or_adds(kind) || linear_op(kind) != nullptr || is_attention(kind) || has_cells(kind);
}

}  // namespace

void run_op(const OpCallPlan& call, std::span<void* const> inputs, std::span<void* const> outputs,
            const OpMoment& moment) {
  const Call o{{call, inputs, outputs, moment}};
  if (moves_or_adds(call.kind)) return move_or_add(o);
  if (const auto linear = linear_op(call.kind)) return linear(o);
  if (call.kind == OpKind::GroupedAttention) return attend(o);
  if (call.kind == OpKind::GroupedAttentionBackward) return attend_backward(o);
  run_cells(o);
}

void run_attention_block(const OpCallPlan& call, const AttentionBlock& block, std::span<void* const> inputs,
                         std::span<void* const> outputs, const OpMoment& moment) {
  attend_block({{call, inputs, outputs, moment}}, block);
}

void expect_treated(const Graph& graph) {
  for (const Op& op : graph.ops()) {
    const bool makes_integers = !op.outputs.empty() && graph.tensor(op.outputs[0]).dtype == DType::I32;
    require(is_treated(op.kind) && (!makes_integers || moves_or_adds(op.kind)),
            "op '{}' ({}) has no counterpart over integers modulo a prime; run the plan with --check instead.", op.name,
            name_of(op.kind));
  }
}

}  // namespace meshwright::exact
