// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/kernel_table.h"
#include "kernels/cpu/attention/softmax.h"
#include "kernels/cpu/norms/batch_norm.h"
#include "kernels/cpu/norms/layer_norm.h"
#include "kernels/cpu/norms/rms_norm.h"

namespace meshwright {

namespace {

template <class T>
kernels::BatchNormShape batch_norm_shape(const Operands<T>& o) {
  return {o.rows(0), o.width(0), o.attributes().scale, o.attributes().epsilon};
}

template <class T>
OpKernel<T> row_kernel(OpKind kind) {
  switch (kind) {
    case OpKind::LayerNorm:
      return [](const Operands<T>& o) {
        kernels::layer_norm(o.in(0), o.in(1), o.in(2), o.out(0), o.rows(0), o.width(0), o.attributes().epsilon);
      };
    case OpKind::LayerNormBackward:
      return [](const Operands<T>& o) {
        kernels::layer_norm_backward(o.in(0), o.in(1), o.in(2), o.out(0), o.rows(0), o.width(0),
                                     o.attributes().epsilon);
      };
    case OpKind::LayerNormParamBackward:
      return [](const Operands<T>& o) {
        kernels::layer_norm_parameter_backward(o.in(0), o.in(1), o.out(0), o.out(1), o.rows(0), o.width(0),
                                               o.attributes().epsilon);
      };
    case OpKind::RmsNorm:
      return [](const Operands<T>& o) {
        kernels::rms_norm(o.in(0), o.in(1), o.out(0), o.rows(0), o.width(0), o.attributes().epsilon);
      };
    case OpKind::RmsNormBackward:
      return [](const Operands<T>& o) {
        kernels::rms_norm_backward(o.in(0), o.in(1), o.in(2), o.out(0), o.rows(0), o.width(0), o.attributes().epsilon);
      };
    case OpKind::RmsNormParamBackward:
      return [](const Operands<T>& o) {
        kernels::rms_norm_parameter_backward(o.in(0), o.in(1), o.out(0), o.rows(0), o.width(0), o.attributes().epsilon);
      };
    case OpKind::Softmax:
      return [](const Operands<T>& o) { kernels::softmax(o.in(0), o.out(0), o.rows(0), o.width(0)); };
    case OpKind::SoftmaxBackward:
      return [](const Operands<T>& o) { kernels::softmax_backward(o.in(0), o.in(1), o.out(0), o.rows(0), o.width(0)); };
    default:
      return nullptr;
  }
}

}  // namespace

template <class T>
OpKernel<T> normalization_kernel(OpKind kind) {
  switch (kind) {
    case OpKind::BatchSums:
      return [](const Operands<T>& o) { kernels::batch_sums(o.in(0), o.out(0), o.rows(0), o.width(0)); };
    case OpKind::BatchNorm:
      return [](const Operands<T>& o) {
        kernels::batch_norm(o.in(0), o.in(1), o.in(2), o.in(3), o.out(0), batch_norm_shape(o));
      };
    case OpKind::BatchNormParamBackward:
      return [](const Operands<T>& o) {
        kernels::batch_norm_parameter_backward(o.in(0), o.in(1), o.in(2), o.out(0), o.out(1), batch_norm_shape(o));
      };
    case OpKind::BatchNormBackward:
      return [](const Operands<T>& o) {
        kernels::batch_norm_backward(o.in(0), o.in(1), o.in(2), o.in(3), o.in(4), o.in(5), o.out(0),
                                     batch_norm_shape(o));
      };
    default:
      return row_kernel<T>(kind);
  }
}
template OpKernel<float> normalization_kernel<float>(OpKind);
template OpKernel<double> normalization_kernel<double>(OpKind);

}  // namespace meshwright
