// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/kernel_table.h"
#include "kernels/cpu/attention/softmax.h"
#include "kernels/cpu/norms/batch_norm.h"
#include "kernels/cpu/norms/row_norms.h"
#include "kernels/cpu/norms/sinkhorn.h"

namespace meshwright {

namespace {

template <class T>
kernels::BatchNormShape batch_norm_shape(const Operands<T>& o) {
  return {o.rows(0), o.width(0), o.attributes().scale, o.attributes().epsilon};
}

template <class T>
kernels::NormShape norm_shape(const Operands<T>& o) {
  return {o.rows(0), o.width(0), o.attributes().epsilon};
}
// The shape of an RMS norm whose gamma has `elements`.
template <class T>
kernels::NormShape with_groups(kernels::NormShape shape, std::int64_t elements) {
  if (shape.width > 0) shape.groups = elements / shape.width;
  return shape;
}

template <kernels::Norm norm, class T>
void run_norm(const Operands<T>& o) {
  kernels::row_norm<norm>(o.in(0), o.in(1), norm == kernels::Norm::Layer ? o.in(2) : nullptr, o.out(0),
                          with_groups<T>(norm_shape(o), o.elements(1)));
}

template <kernels::Norm norm, class T>
void run_norm_backward(const Operands<T>& o) {
  kernels::row_norm_backward<norm>(o.in(0), o.in(1), o.in(2), o.out(0), with_groups<T>(norm_shape(o), o.elements(1)));
}

template <kernels::Norm norm, class T>
void run_norm_parameter_backward(const Operands<T>& o) {
  T* dbeta = norm == kernels::Norm::Layer ? o.out(1) : nullptr;
  kernels::row_norm_parameter_backward<norm>(o.in(0), o.in(1), o.out(0), dbeta,
                                             with_groups<T>(norm_shape(o), o.out_elements(0)));
}

template <class T>
kernels::SinkhornShape sinkhorn_shape(const Operands<T>& o) {
  const std::int64_t columns = o.width(0), rows = o.in_size(0, o.call.space.inputs[0].size() - 2);
  return {o.elements(0) / (rows * columns), rows, columns, static_cast<std::int64_t>(o.attributes().value),
          o.attributes().epsilon};
}

}  // namespace

template <class T>
OpKernel<T> normalization_kernel(OpKind kind) {
  using K = OpKind;
  static const KernelTable<OpKernel<T>> table = {
      {K::LayerNorm, run_norm<kernels::Norm::Layer, T>},
      {K::LayerNormBackward, run_norm_backward<kernels::Norm::Layer, T>},
      {K::LayerNormParamBackward, run_norm_parameter_backward<kernels::Norm::Layer, T>},
      {K::RmsNorm, run_norm<kernels::Norm::Rms, T>},
      {K::RmsNormBackward, run_norm_backward<kernels::Norm::Rms, T>},
      {K::RmsNormParamBackward, run_norm_parameter_backward<kernels::Norm::Rms, T>},
      {K::Softmax, [](const Operands<T>& o) { kernels::softmax(o.in(0), o.out(0), o.rows(0), o.width(0)); }},
      {K::SoftmaxBackward,
       [](const Operands<T>& o) { kernels::softmax_backward(o.in(0), o.in(1), o.out(0), o.rows(0), o.width(0)); }},
      {K::Sinkhorn, [](const Operands<T>& o) { kernels::sinkhorn(o.in(0), o.out(0), sinkhorn_shape(o)); }},
      {K::SinkhornBackward,
       [](const Operands<T>& o) { kernels::sinkhorn_backward(o.in(0), o.in(1), o.out(0), sinkhorn_shape(o)); }},
      {K::BatchSums, [](const Operands<T>& o) { kernels::batch_sums(o.in(0), o.out(0), o.rows(0), o.width(0)); }},
      {K::BatchNorm,
       [](const Operands<T>& o) {
         kernels::batch_norm({o.in(0), o.in(1)}, o.in(2), o.in(3), o.out(0), batch_norm_shape(o));
       }},
      {K::BatchNormParamBackward,
       [](const Operands<T>& o) {
         kernels::batch_norm_parameter_backward({o.in(0), o.in(1)}, o.in(2), o.out(0), o.out(1), batch_norm_shape(o));
       }},
      {K::BatchNormBackward,
       [](const Operands<T>& o) {
         kernels::batch_norm_backward({o.in(0), o.in(1)}, {o.in(2), o.in(3), o.in(4)}, o.in(5), o.out(0),
                                      batch_norm_shape(o));
       }},
  };
  return table.of(kind);
}
template OpKernel<float> normalization_kernel<float>(OpKind);
template OpKernel<double> normalization_kernel<double>(OpKind);

}  // namespace meshwright
