// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/call_shapes.h"
#include "executor/ops/kernel_table.h"
#include "kernels/cpu/convolution/convolution.h"
#include "kernels/cpu/convolution/pooling.h"

namespace meshwright {

template <class T>
OpKernel<T> convolution_kernel(OpKind kind) {
  using K = OpKind;
  static const KernelTable<OpKernel<T>> table = {
      {K::Convolution,
       [](const Operands<T>& o) { kernels::convolution(o.in(0), o.in(1), o.out(0), convolution_shape(o)); }},
      {K::ConvolutionBackwardInput,
       [](const Operands<T>& o) {
         kernels::convolution_backward_input(o.in(0), o.in(1), o.out(0), convolution_shape(o));
       }},
      {K::ConvolutionBackwardWeight,
       [](const Operands<T>& o) {
         kernels::convolution_backward_weight(o.in(0), o.in(1), o.out(0), convolution_shape(o));
       }},
      {K::MaxPool, [](const Operands<T>& o) { kernels::max_pool(o.in(0), o.out(0), pool_shape(o)); }},
      {K::MaxPoolBackward,
       [](const Operands<T>& o) { kernels::max_pool_backward(o.in(0), o.in(1), o.out(0), pool_backward_shape(o)); }},
      {K::AveragePool, [](const Operands<T>& o) { kernels::average_pool(o.in(0), o.out(0), pool_shape(o)); }},
      {K::AveragePoolBackward,
       [](const Operands<T>& o) { kernels::average_pool_backward(o.in(0), o.out(0), pool_backward_shape(o)); }},
  };
  return table.of(kind);
}
template OpKernel<float> convolution_kernel<float>(OpKind);
template OpKernel<double> convolution_kernel<double>(OpKind);

}  // namespace meshwright
