// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/kernel_table.h"
#include "kernels/cpu/layer_norm.h"

namespace meshwright {

template <class T>
OpKernel<T> normalization_kernel(OpKind kind) {
  switch (kind) {
    case OpKind::LayerNorm:
      return
          [](const Operands<T>& o) { kernels::layer_norm(o.in(0), o.in(1), o.in(2), o.out(0), o.rows(0), o.width(0)); };
    case OpKind::LayerNormBackward:
      return [](const Operands<T>& o) {
        kernels::layer_norm_backward(o.in(0), o.in(1), o.in(2), o.out(0), o.rows(0), o.width(0));
      };
    case OpKind::LayerNormParamBackward:
      return [](const Operands<T>& o) {
        kernels::layer_norm_parameter_backward(o.in(0), o.in(1), o.out(0), o.out(1), o.rows(0), o.width(0));
      };
    default:
      return nullptr;
  }
}
template OpKernel<float> normalization_kernel<float>(OpKind);
template OpKernel<double> normalization_kernel<double>(OpKind);

}  // namespace meshwright
