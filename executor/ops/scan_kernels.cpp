// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/kernel_table.h"
#include "kernels/cpu/scan/gated_delta.h"
#include "kernels/cpu/scan/selective_scan.h"

namespace meshwright {

namespace {

template <class T>
kernels::ScanShape scan_shape(const Operands<T>& o) {
  return {o.in_size(0, 0), o.in_size(0, 1), o.in_size(0, 2), o.in_size(0, 3),
          o.in_size(0, 4), o.in_size(0, 5), o.in_size(3, 4), o.call.space.inputs[2].size() == 3};
}

template <class T>
kernels::ScanOperands<const T> scan_operands(const Operands<T>& o) {
  return {o.in(0), o.in(1), o.in(2), o.in(3), o.in(4), o.in(5), o.in(6)};
}

template <class T>
void run_scan(const Operands<T>& o) {
  kernels::selective_scan(scan_operands(o), o.out(0), scan_shape(o));
}

template <class T>
void run_scan_backward(const Operands<T>& o) {
  const kernels::ScanOperands<T> gradients{o.out(0), o.out(1), o.out(2), o.out(3), o.out(4), o.out(5), o.out(6)};
  kernels::selective_scan_backward(scan_operands(o), o.in(7), gradients, scan_shape(o));
}

template <class T>
kernels::DeltaShape delta_shape(const Operands<T>& o) {
  return {o.in_size(2, 0),      o.in_size(2, 1),     o.in_size(2, 2), o.in_size(2, 3),
          o.in_size(2, 4),      o.in_size(0, 4),     o.in_size(2, 5), o.call.space.inputs[4].size() == 6,
          o.attributes().value, o.attributes().scale};
}

template <class T>
kernels::DeltaOperands<const T> delta_operands(const Operands<T>& o) {
  return {o.in(0), o.in(1), o.in(2), o.in(3), o.in(4), o.in(5), o.in(6)};
}

template <class T>
void run_delta(const Operands<T>& o) {
  kernels::gated_delta(delta_operands(o), o.out(0), delta_shape(o));
}

template <class T>
void run_delta_backward(const Operands<T>& o) {
  const kernels::DeltaOperands<T> gradients{o.out(0), o.out(1), o.out(2), o.out(3), o.out(4), o.out(5), o.out(6)};
  kernels::gated_delta_backward(delta_operands(o), o.in(7), gradients, delta_shape(o));
}

}  // namespace

template <class T>
OpKernel<T> scan_kernel(OpKind kind) {
  using K = OpKind;
  static const KernelTable<OpKernel<T>> table = {
      {K::SelectiveScan, run_scan<T>},
      {K::SelectiveScanBackward, run_scan_backward<T>},
      {K::GatedDelta, run_delta<T>},
      {K::GatedDeltaBackward, run_delta_backward<T>},
  };
  return table.of(kind);
}
template OpKernel<float> scan_kernel<float>(OpKind);
template OpKernel<double> scan_kernel<double>(OpKind);

}  // namespace meshwright
