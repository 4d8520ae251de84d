// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/kernel_table.h"
#include "kernels/cpu/attention.h"

namespace meshwright {

namespace {

template <class T>
kernels::AttentionShape attention_shape(const Operands<T>& o) {
  return {o.in_size(0, 0), o.in_size(0, 1), o.in_size(0, 3), o.in_size(0, 4)};
}

}  // namespace

template <class T>
OpKernel<T> attention_kernel(OpKind kind) {
  switch (kind) {
    case OpKind::Attention:
      return [](const Operands<T>& o) { kernels::attention(o.in(0), o.out(0), attention_shape(o)); };
    case OpKind::AttentionBackward:
      return [](const Operands<T>& o) { kernels::attention_backward(o.in(0), o.in(1), o.out(0), attention_shape(o)); };
    default:
      return nullptr;
  }
}
template OpKernel<float> attention_kernel<float>(OpKind);
template OpKernel<double> attention_kernel<double>(OpKind);

}  // namespace meshwright
