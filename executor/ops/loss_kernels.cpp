// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/kernel_table.h"
#include "kernels/cpu/loss.h"

namespace meshwright {

namespace {

// The last two operands, from number `first` on, where the loss is weighted: each row's weight, and what the weights of
// the whole batch add up to.
template <class T>
const T* row_weights(const Operands<T>& o, std::size_t first) {
  return o.inputs.size() > first ? o.in(first) : nullptr;
}
template <class T>
double loss_scale(const Operands<T>& o, std::size_t first) {
  const double scale = o.attributes().scale;
  return o.inputs.size() > first ? scale / static_cast<double>(*o.in(first + 1)) : scale;
}

}  // namespace

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
        *o.out(0) =
            kernels::cross_entropy(o.in(0), o.in(1), o.in(2), o.elements(0), loss_scale(o, 3), row_weights(o, 3));
      };
    case OpKind::CrossEntropyBackward:
      return [](const Operands<T>& o) {
        kernels::cross_entropy_backward(o.in(0), o.in(1), o.in(2), o.integers(3), o.out(0), o.rows(0), o.width(0),
                                        o.position(), loss_scale(o, 4), row_weights(o, 4));
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
