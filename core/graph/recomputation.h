// SPDX-License-Identifier: Apache-2.0
// Tells the backward ops apart: those that repeat a forward op, those that sum contributions to a gradient, and those
// that differentiate.
#pragma once

#include "core/graph/graph.h"

namespace meshwright {

// `op` repeats its forward op: autodiff names it "<forward op>.recompute".
[[nodiscard]] inline bool is_recomputation(const Graph& graph, const Op& op) {
  return op.phase == Phase::Backward && op.forward && op.name == graph.op(*op.forward).name + ".recompute";
}

// `op` adds contributions to the gradient of its forward op's result (it may run on the stage of a reader).
[[nodiscard]] inline bool is_gradient_sum(const Graph& graph, const Op& op) {
  return op.phase == Phase::Backward && op.kind == OpKind::Add && op.forward &&
         graph.tensor(op.outputs[0]).gradient_of == graph.op(*op.forward).outputs[0];
}

}  // namespace meshwright
