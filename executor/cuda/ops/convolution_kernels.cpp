// SPDX-License-Identifier: Apache-2.0
// A convolution whose window is one place is a product of matrices. The others go to cuDNN where the program is built
// with it and it has a deterministic algorithm for the shape, and to kernels/cuda/convolution/convolution.h where not.
#include "executor/cuda/cuda_kernel_table.h"
#include "kernels/cuda/convolution/convolution.h"
#include "kernels/cuda/convolution/convolution_cudnn.h"
#include "kernels/cuda/convolution/pooling.h"

namespace meshwright {

namespace {

namespace device = kernels::cuda;
using AxesOf = std::vector<int>;
using kernels::ConvolutionShape;
using kernels::PoolShape;

std::int64_t entry(const std::vector<std::int64_t>& given, std::size_t spatial, std::int64_t usual) {
  return given.empty() ? usual : given[spatial];
}

// Windows along spatial dimension 0 or 1, from the axes that data and result walk.
kernels::Windows windows(const CudaOperands& o, const AxesOf& x, const AxesOf& y, std::size_t spatial,
                         std::int64_t size) {
  return {o.size(x[spatial + 1]), o.size(y[spatial + 1]), size, entry(o.attributes().stride, spatial, 1),
          entry(o.attributes().pad_before, spatial, 0)};
}

// x (batch, h, w, [groups], in), w ([groups], kh, kw, in, out), y (batch, h', w', [groups], out).
ConvolutionShape convolution_shape(const CudaOperands& o, const AxesOf& x, const AxesOf& w, const AxesOf& y) {
  const std::size_t rank = w.size();
  return {o.size(x[0]),
          rank == 5 ? o.size(w[0]) : 1,
          o.size(w[rank - 2]),
          o.size(w[rank - 1]),
          windows(o, x, y, 0, o.size(w[rank - 4])),
          windows(o, x, y, 1, o.size(w[rank - 3]))};
}

// --- as one product ---

bool is_pointwise(const ConvolutionShape& s) {
  const auto stays = [](const kernels::Windows& w) { return w.size == 1 && w.stride == 1 && w.from == w.to; };
  return s.groups == 1 && stays(s.rows) && stays(s.columns);
}
std::int64_t places(const ConvolutionShape& s) { return s.batch * s.rows.to * s.columns.to; }

template <class T>
void run_pointwise(const CudaOperands& o, const ConvolutionShape& s) {
  o.products.run(o.stream, {.m = places(s), .n = s.out, .k = s.in, .lda = s.in, .ldb = s.out, .ldc = s.out}, o.in<T>(0),
                 o.in<T>(1), o.out<T>(0));
}
template <class T>
void run_pointwise_backward_input(const CudaOperands& o, const ConvolutionShape& s) {
  const device::Product dy_by_w{
      .transpose_b = true, .m = places(s), .n = s.in, .k = s.out, .lda = s.out, .ldb = s.out, .ldc = s.in};
  o.products.run(o.stream, dy_by_w, o.in<T>(1), o.in<T>(0), o.out<T>(0));
}
template <class T>
void run_pointwise_backward_weight(const CudaOperands& o, const ConvolutionShape& s) {
  const device::Product x_by_dy{
      .transpose_a = true, .m = s.in, .n = s.out, .k = places(s), .lda = s.in, .ldb = s.out, .ldc = s.out};
  o.products.run(o.stream, x_by_dy, o.in<T>(0), o.in<T>(1), o.out<T>(0));
}

// --- the three convolutions ---

// cuDNN, and room for it, where it takes this convolution.
template <class T>
bool runs_by_library(const CudaOperands& o, device::ConvolutionPass pass, const ConvolutionShape& s) {
  if (o.convolutions == nullptr || !device::CudnnConvolutions::are_built()) return false;
  if (!*o.convolutions) o.convolutions->emplace(o.tensor_float);
  device::CudnnConvolutions& library = **o.convolutions;
  if (!library.runs<T>(pass, s)) return false;
  library.run(o.stream, pass, s, o.in<T>(0), o.in<T>(1), o.out<T>(0), o.workspace.take(library.workspace<T>(pass, s)));
  return true;
}

void run_convolution(const CudaOperands& o) {
  const IterationSpace& space = o.call.space;
  const ConvolutionShape s = convolution_shape(o, space.inputs[0], space.inputs[1], space.outputs[0]);
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using T = decltype(zero);
    if (is_pointwise(s)) return run_pointwise<T>(o, s);
    if (runs_by_library<T>(o, device::ConvolutionPass::Forward, s)) return;
    device::convolution(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), s);
  });
}

void run_backward_input(const CudaOperands& o) {
  const IterationSpace& space = o.call.space;
  const ConvolutionShape s = convolution_shape(o, space.outputs[0], space.inputs[0], space.inputs[1]);
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using T = decltype(zero);
    if (is_pointwise(s)) return run_pointwise_backward_input<T>(o, s);
    if (runs_by_library<T>(o, device::ConvolutionPass::BackwardInput, s)) return;
    device::convolution_backward_input(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), s);
  });
}

void run_backward_weight(const CudaOperands& o) {
  const IterationSpace& space = o.call.space;
  const ConvolutionShape s = convolution_shape(o, space.inputs[0], space.outputs[0], space.inputs[1]);
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using T = decltype(zero);
    if (is_pointwise(s)) return run_pointwise_backward_weight<T>(o, s);
    if (runs_by_library<T>(o, device::ConvolutionPass::BackwardWeight, s)) return;
    void* workspace = o.workspace.take(device::convolution_backward_weight_workspace<T>(s));
    device::convolution_backward_weight(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), s, workspace);
  });
}

// --- pooling ---

PoolShape pool_shape(const CudaOperands& o, const AxesOf& x, const AxesOf& y) {
  std::int64_t channels = 1;
  for (std::size_t d = 3; d < x.size(); ++d) channels *= o.size(x[d]);
  const std::vector<std::int64_t>& size = o.attributes().window;
  return {o.size(x[0]), channels, windows(o, x, y, 0, size[0]), windows(o, x, y, 1, size[1])};
}
// Of an op that reads x and makes y, and of one that reads dy and makes dx.
PoolShape forward_shape(const CudaOperands& o) {
  return pool_shape(o, o.call.space.inputs[0], o.call.space.outputs[0]);
}
PoolShape backward_shape(const CudaOperands& o) {
  return pool_shape(o, o.call.space.outputs[0], o.call.space.inputs.back());
}

void run_max_pool(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using T = decltype(zero);
    device::max_pool(o.stream, o.in<T>(0), o.out<T>(0), forward_shape(o));
  });
}
void run_max_pool_backward(const CudaOperands& o) {
  const PoolShape s = backward_shape(o);
  void* workspace = o.workspace.take(device::max_pool_backward_workspace(s));
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using T = decltype(zero);
    device::max_pool_backward(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), s, workspace);
  });
}
void run_average_pool(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using T = decltype(zero);
    device::average_pool(o.stream, o.in<T>(0), o.out<T>(0), forward_shape(o));
  });
}
void run_average_pool_backward(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using T = decltype(zero);
    device::average_pool_backward(o.stream, o.in<T>(0), o.out<T>(0), backward_shape(o));
  });
}

}  // namespace

CudaKernel cuda_convolution_kernel(OpKind kind) {
  switch (kind) {
    case OpKind::Convolution:
      return run_convolution;
    case OpKind::ConvolutionBackwardInput:
      return run_backward_input;
    case OpKind::ConvolutionBackwardWeight:
      return run_backward_weight;
    case OpKind::MaxPool:
      return run_max_pool;
    case OpKind::MaxPoolBackward:
      return run_max_pool_backward;
    case OpKind::AveragePool:
      return run_average_pool;
    case OpKind::AveragePoolBackward:
      return run_average_pool_backward;
    default:
      return nullptr;
  }
}

}  // namespace meshwright
