// SPDX-License-Identifier: Apache-2.0
// Which function computes an op of each kind: one file per family, as in core/graph/ops/.
#pragma once

#include "executor/op_kernels.h"

namespace meshwright {

// One call: the shard's operands and results, and where and when it is.
template <class T>
struct Operands {
  const OpCallPlan& call;
  std::span<void*const> inputs, outputs;
  const OpMoment& moment;

  const T* in(std::size_t i) const { return static_cast<const T*>(inputs[i]); }
  const std::int32_t* integers(std::size_t i) const { return static_cast<const std::int32_t*>(inputs[i]); }
  T* out(std::size_t i) const { return static_cast<T*>(outputs[i]); }
  std::int32_t* integers_out(std::size_t i) const { return static_cast<std::int32_t*>(outputs[i]); }
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

template <class T>
using OpKernel = void (*)(const Operands<T>& o);

// Each family's kernel of a kind; null: the kind is not of this family. Instantiated for float and double.
template <class T>
OpKernel<T> contraction_kernel(OpKind kind);
template <class T>
OpKernel<T> elementwise_kernel(OpKind kind);
template <class T>
OpKernel<T> normalization_kernel(OpKind kind);
template <class T>
OpKernel<T> attention_kernel(OpKind kind);
template <class T>
OpKernel<T> embedding_kernel(OpKind kind);
template <class T>
OpKernel<T> loss_kernel(OpKind kind);
template <class T>
OpKernel<T> convolution_kernel(OpKind kind);
template <class T>
OpKernel<T> layout_kernel(OpKind kind);
template <class T>
OpKernel<T> mixture_kernel(OpKind kind);
template <class T>
OpKernel<T> optimizer_kernel(OpKind kind);

}  // namespace meshwright
