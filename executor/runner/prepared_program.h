// SPDX-License-Identifier: Apache-2.0
// What is decided about a Program before it runs, once for all devices of a stage: which slots share storage, when
// storage is allocated and released, and which kernels compute each op.
#pragma once

#include <optional>
#include <vector>

#include "core/base/indexed_vector.h"
#include "core/graph/graph.h"
#include "core/plan/program/program.h"
#include "executor/ops/op_kernels.h"

namespace meshwright {

struct PreparedOp {
  std::optional<OpCallPlan> call;  // Compute
  std::vector<int> allocate;       // slots whose storage is allocated before the op
  std::vector<int> release;        // temporaries whose storage is released after it
  bool first_touch = false;        // Accumulate: nothing before it in the executable touches the accumulator
};

struct PreparedExecutable {
  IndexedVector<int, int> root;          // [slot] the slot whose storage it shares, or itself
  std::vector<int> bound;                // slots whose buffer is defined before the Run
  std::vector<int> inputs;               // slots of graph inputs: allocated and filled when the Run starts
  std::vector<int> defines;              // slots whose buffer exists after the Run and not before
  IndexedVector<int, bool> accumulated;  // [slot] the first op that touches the (bound) slot accumulates onto it
  IndexedVector<int, PreparedOp> ops;
  std::optional<int> loss_op;  // the op after which slot `loss_slot` holds the microbatch's loss
  int loss_slot = 0;
};

[[nodiscard]] PreparedExecutable prepare(const Graph& graph, const StageExecutable& executable);

}  // namespace meshwright
