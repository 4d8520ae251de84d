// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/call_shapes.h"
#include "executor/ops/kernel_table.h"
#include "kernels/cpu/elementwise/elementwise.h"

namespace meshwright {

namespace {

template <class T>
void run_bias_add(const Operands<T>& o) {
  const auto [rows, width, bias_width] = bias_shape(o, o.call.space.inputs[1]);
  kernels::bias_add(o.in(0), o.in(1), o.out(0), {rows, width, bias_width});
}

template <class T>
void run_bias_gradient(const Operands<T>& o) {
  const auto [rows, width, bias_width] = bias_shape(o, o.call.space.outputs[0]);
  kernels::bias_gradient(o.in(0), o.out(0), {rows, width, bias_width});
}

}  // namespace

template <class T>
OpKernel<T> contraction_kernel(OpKind kind) {
  using K = OpKind;
  static const KernelTable<OpKernel<T>> table = {
      {K::Contract, [](const Operands<T>& o) { run_contraction(o.call.contraction, o.in(0), o.in(1), o.out(0)); }},
      {K::BiasAdd, run_bias_add<T>},
      {K::BiasGradient, run_bias_gradient<T>},
  };
  return table.of(kind);
}
template OpKernel<float> contraction_kernel<float>(OpKind);
template OpKernel<double> contraction_kernel<double>(OpKind);

}  // namespace meshwright
