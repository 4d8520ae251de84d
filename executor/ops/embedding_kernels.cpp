// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/kernel_table.h"
#include "kernels/cpu/tokens/embedding.h"

namespace meshwright {

template <class T>
OpKernel<T> embedding_kernel(OpKind kind) {
  using K = OpKind;
  static const KernelTable<OpKernel<T>> table = {
      {K::Embedding,
       [](const Operands<T>& o) {
         kernels::embedding(o.integers(0), o.in(1), o.out(0), {o.elements(0), o.rows(1), o.width(1), o.position()});
       }},
      {K::EmbeddingBackward,
       [](const Operands<T>& o) {
         kernels::embedding_backward(o.integers(0), o.in(1), o.out(0),
                                     {o.elements(0), o.out_elements(0) / o.width(1), o.width(1), o.position()});
       }},
  };
  return table.of(kind);
}
template OpKernel<float> embedding_kernel<float>(OpKind);
template OpKernel<double> embedding_kernel<double>(OpKind);

}  // namespace meshwright
