// SPDX-License-Identifier: Apache-2.0
// Tells ops that repeat a forward op in the backward (Recompute::Full) from ops that differentiate one.
#pragma once

#include "core/graph/graph.h"

namespace meshwright {

// `op` repeats its forward op: autodiff names it "<forward op>.recompute".
[[nodiscard]] inline bool is_recomputation(const Graph& graph, const Op& op) {
  return op.phase == Phase::Backward && op.forward && op.name == graph.op(*op.forward).name + ".recompute";
}

}  // namespace meshwright
