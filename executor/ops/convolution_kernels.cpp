// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/kernel_table.h"
#include "kernels/cpu/convolution/convolution.h"
#include "kernels/cpu/convolution/pooling.h"

namespace meshwright {

namespace {

using AxesOf = std::vector<int>;

std::int64_t entry(const std::vector<std::int64_t>& given, std::size_t spatial, std::int64_t usual) {
  return given.empty() ? usual : given[spatial];
}

// Windows along spatial dimension 0 or 1, from the axes that data and result walk.
template <class T>
kernels::Windows windows(const Operands<T>& o, const AxesOf& x, const AxesOf& y, std::size_t spatial,
                         std::int64_t size) {
  return {o.size(x[spatial + 1]), o.size(y[spatial + 1]), size, entry(o.attributes().stride, spatial, 1),
          entry(o.attributes().pad_before, spatial, 0)};
}

// x (batch, h, w, [groups], in), w ([groups], kh, kw, in, out), y (batch, h', w', [groups], out).
template <class T>
kernels::ConvolutionShape convolution_shape(const Operands<T>& o, const AxesOf& x, const AxesOf& w, const AxesOf& y) {
  const std::size_t rank = w.size();
  return {o.size(x[0]),
          rank == 5 ? o.size(w[0]) : 1,
          o.size(w[rank - 2]),
          o.size(w[rank - 1]),
          windows(o, x, y, 0, o.size(w[rank - 4])),
          windows(o, x, y, 1, o.size(w[rank - 3]))};
}

template <class T>
void run_convolution(const Operands<T>& o) {
  const IterationSpace& space = o.call.space;
  kernels::convolution(o.in(0), o.in(1), o.out(0),
                       convolution_shape(o, space.inputs[0], space.inputs[1], space.outputs[0]));
}

template <class T>
void run_backward_input(const Operands<T>& o) {
  const IterationSpace& space = o.call.space;
  kernels::convolution_backward_input(o.in(0), o.in(1), o.out(0),
                                      convolution_shape(o, space.outputs[0], space.inputs[0], space.inputs[1]));
}

template <class T>
void run_backward_weight(const Operands<T>& o) {
  const IterationSpace& space = o.call.space;
  kernels::convolution_backward_weight(o.in(0), o.in(1), o.out(0),
                                       convolution_shape(o, space.inputs[0], space.outputs[0], space.inputs[1]));
}

template <class T>
kernels::PoolShape pool_shape(const Operands<T>& o, const AxesOf& x, const AxesOf& y) {
  std::int64_t channels = 1;
  for (std::size_t d = 3; d < x.size(); ++d) channels *= o.size(x[d]);
  const std::vector<std::int64_t>& size = o.attributes().window;
  return {o.size(x[0]), channels, windows(o, x, y, 0, size[0]), windows(o, x, y, 1, size[1])};
}
// Of an op that reads x and makes y, and of one that reads dy and makes dx.
template <class T>
kernels::PoolShape forward_shape(const Operands<T>& o) {
  return pool_shape(o, o.call.space.inputs[0], o.call.space.outputs[0]);
}
template <class T>
kernels::PoolShape backward_shape(const Operands<T>& o) {
  return pool_shape(o, o.call.space.outputs[0], o.call.space.inputs.back());
}

}  // namespace

template <class T>
OpKernel<T> convolution_kernel(OpKind kind) {
  switch (kind) {
    case OpKind::Convolution:
      return run_convolution<T>;
    case OpKind::ConvolutionBackwardInput:
      return run_backward_input<T>;
    case OpKind::ConvolutionBackwardWeight:
      return run_backward_weight<T>;
    case OpKind::MaxPool:
      return [](const Operands<T>& o) { kernels::max_pool(o.in(0), o.out(0), forward_shape(o)); };
    case OpKind::MaxPoolBackward:
      return [](const Operands<T>& o) { kernels::max_pool_backward(o.in(0), o.in(1), o.out(0), backward_shape(o)); };
    case OpKind::AveragePool:
      return [](const Operands<T>& o) { kernels::average_pool(o.in(0), o.out(0), forward_shape(o)); };
    case OpKind::AveragePoolBackward:
      return [](const Operands<T>& o) { kernels::average_pool_backward(o.in(0), o.out(0), backward_shape(o)); };
    default:
      return nullptr;
  }
}
template OpKernel<float> convolution_kernel<float>(OpKind);
template OpKernel<double> convolution_kernel<double>(OpKind);

}  // namespace meshwright
