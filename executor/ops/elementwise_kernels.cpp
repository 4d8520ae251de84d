// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/kernel_table.h"
#include "kernels/cpu/elementwise.h"

namespace meshwright {

template <class T>
OpKernel<T> elementwise_kernel(OpKind kind) {
  switch (kind) {
    case OpKind::Add:
      return [](const Operands<T>& o) { kernels::add(o.in(0), o.in(1), o.out(0), o.elements(0)); };
    case OpKind::Relu:
      return [](const Operands<T>& o) { kernels::relu(o.in(0), o.out(0), o.elements(0)); };
    case OpKind::ReluBackward:
      return [](const Operands<T>& o) { kernels::relu_backward(o.in(0), o.in(1), o.out(0), o.elements(0)); };
    case OpKind::Gelu:
      return [](const Operands<T>& o) { kernels::gelu(o.in(0), o.out(0), o.elements(0)); };
    case OpKind::GeluBackward:
      return [](const Operands<T>& o) { kernels::gelu_backward(o.in(0), o.in(1), o.out(0), o.elements(0)); };
    default:
      return nullptr;
  }
}
template OpKernel<float> elementwise_kernel<float>(OpKind);
template OpKernel<double> elementwise_kernel<double>(OpKind);

}  // namespace meshwright
