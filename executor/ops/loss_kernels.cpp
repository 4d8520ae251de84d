// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/kernel_table.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/loss.h"

namespace meshwright {

template <class T>
OpKernel<T> loss_kernel(OpKind kind) {
  switch (kind) {
    case OpKind::RowMax:
      return [](const Operands<T>& o) { kernels::row_max(o.in(0), o.out(0), o.rows(0), o.width(0)); };
    case OpKind::SumExp:
      return [](const Operands<T>& o) { kernels::sum_exp(o.in(0), o.in(1), o.out(0), o.rows(0), o.width(0)); };
    case OpKind::PickLabel:
      return [](const Operands<T>& o) {
        kernels::pick_label(o.in(0), o.integers(1), o.out(0), o.rows(0), o.width(0), o.position());
      };
    case OpKind::CrossEntropyLoss:
      return [](const Operands<T>& o) {
        *o.out(0) = kernels::cross_entropy(o.in(0), o.in(1), o.in(2), o.elements(0), o.attributes().scale);
      };
    case OpKind::CrossEntropyBackward:
      return [](const Operands<T>& o) {
        kernels::cross_entropy_backward(o.in(0), o.in(1), o.in(2), o.integers(3), o.out(0), o.rows(0), o.width(0),
                                        o.position(), o.attributes().scale);
      };
    case OpKind::SquaredErrorLoss:
      return [](const Operands<T>& o) {
        *o.out(0) = kernels::squared_error(o.in(0), o.in(1), o.elements(0), o.attributes().scale);
      };
    case OpKind::SquaredErrorBackward:
      return [](const Operands<T>& o) {
        kernels::squared_error_backward(o.in(0), o.in(1), o.out(0), o.elements(0), o.attributes().scale);
      };
    default:
      return nullptr;
  }
}
template OpKernel<float> loss_kernel<float>(OpKind);
template OpKernel<double> loss_kernel<double>(OpKind);

}  // namespace meshwright
