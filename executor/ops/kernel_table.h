// SPDX-License-Identifier: Apache-2.0
// Which function computes an op of each kind: one file per family, as in core/graph/ops/.
#pragma once

#include "executor/ops/shard_call.h"
#include "executor/ops/table_by_kind.h"

namespace meshwright {

// One call with its operands and results as arrays of T.
template <class T>
struct Operands : ShardCall {
  const T* in(std::size_t i) const { return static_cast<const T*>(inputs[i]); }
  const std::int32_t* integers(std::size_t i) const { return static_cast<const std::int32_t*>(inputs[i]); }
  T* out(std::size_t i) const { return static_cast<T*>(outputs[i]); }
  std::int32_t* integers_out(std::size_t i) const { return static_cast<std::int32_t*>(outputs[i]); }
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
OpKernel<T> scan_kernel(OpKind kind);
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
