// SPDX-License-Identifier: Apache-2.0
// One op on one shard: from the op's iteration space and the shard's sizes to the kernel that computes it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/graph/graph.h"
#include "executor/ops/contraction.h"

namespace meshwright {

struct OpCallPlan {
  OpKind kind;
  // The op that runs next on the same device reads the one result, and nothing else does: it need not be written where
  // both are done at once.
  bool only_next_reads = false;
  Attributes attributes;
  IterationSpace space;
  std::vector<std::int64_t> sizes;                 // of the shard, in the order of space.axes
  std::vector<DType> input_dtypes, output_dtypes;  // as in the graph: I32 or a floating-point type
  // [tensor][dim] of the shard. Not always the axis's size: where a Reshape merges dimensions, one axis is walked by
  // dimensions of several sizes.
  std::vector<std::vector<std::int64_t>> input_shapes, output_shapes;
  Contraction contraction;  // Contract only
  // The first result is read by one later op of the same Run, and by nothing else.
  bool one_reader = false;

  [[nodiscard]] std::int64_t input_elements(std::size_t input) const;
  [[nodiscard]] std::int64_t output_elements(std::size_t output) const;
};

[[nodiscard]] OpCallPlan plan_op(const Graph& graph, const Op& op, std::vector<std::int64_t> sizes);

struct OpMoment {
  std::span<const std::int64_t> begin = {};  // [axis]: where the shard begins along it; empty: the op is whole
  std::int64_t step = 1;                     // number of this optimizer step, 1 for the first
  std::int64_t microbatch = 0;
  double rate = 1.0;   // factor of the learning rate
  bool first = false;  // of an Accumulate: its sum counts as zero, whatever lies there
};

// T: float or double. Floating-point operands are arrays of T, integer operands of int32. In-place ops: each output
// pointer is that of the input it overwrites.
template <class T>
void run_op(const OpCallPlan& call, std::span<void* const> inputs, std::span<void* const> outputs,
            const OpMoment& moment);

}  // namespace meshwright
