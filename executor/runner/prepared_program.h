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
  std::optional<int> ring;         // attention, or its backward: keys and values travel around the ring of this axis
  bool last_of_ring = false;       // nothing after it reads them
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

// Throws InputError for an executable in which another op than attention reads or makes keys that travel around a ring:
// what a device has of them is two blocks, and not what that op expects.
void expect_rings_of_attention(const Graph& graph, const LogicalMesh& mesh, const StageExecutable& executable);

}  // namespace meshwright
