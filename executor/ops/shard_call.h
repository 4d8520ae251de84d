// SPDX-License-Identifier: Apache-2.0
// One call of an op on a shard, whatever computes it: the operands and results, and where and when it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "executor/ops/op_kernels.h"

namespace meshwright {

struct ShardCall {
  const OpCallPlan& call;
  std::span<void*const> inputs, outputs;
  OpMoment moment;

  const Attributes& attributes() const { return call.attributes; }

  // Local size, whole size and first index of an iteration axis.
  std::int64_t size(int axis) const { return call.sizes[static_cast<std::size_t>(axis)]; }
  std::int64_t whole(int axis) const { return call.space.axes[static_cast<std::size_t>(axis)].size; }
  std::int64_t begin(int axis) const { return moment.begin.empty() ? 0 : moment.begin[static_cast<std::size_t>(axis)]; }
  // First index along the axis whose positions an operand's integers mean.
  std::int64_t position() const { return call.space.position_axis ? begin(*call.space.position_axis) : 0; }

  // Local size of a dimension of an operand or a result.
  std::int64_t in_size(std::size_t input, std::size_t dim) const { return size(call.space.inputs[input][dim]); }
  std::int64_t out_size(std::size_t output, std::size_t dim) const { return size(call.space.outputs[output][dim]); }
  std::int64_t elements(std::size_t input) const { return call.input_elements(input); }
  std::int64_t out_elements(std::size_t output) const { return call.output_elements(output); }
  // Input `input` as rows over its last dimension.
  std::int64_t width(std::size_t input) const {
    const std::vector<int>& dims = call.space.inputs[input];
    return dims.empty() ? 1 : size(dims.back());
  }
  std::int64_t rows(std::size_t input) const { return elements(input) / width(input); }
};

}  // namespace meshwright
