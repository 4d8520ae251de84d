// SPDX-License-Identifier: Apache-2.0
// A convolution whose window is one place is a product of matrices. The others go to cuDNN where the program is built
// with it and it has a deterministic algorithm for the shape, and to kernels/cuda/convolution/convolution.h where not.
#include "executor/cuda/cuda_kernel_table.h"
#include "executor/ops/call_shapes.h"
#include "kernels/cuda/convolution/convolution.h"
#include "kernels/cuda/convolution/convolution_cudnn.h"
#include "kernels/cuda/convolution/pooling.h"

namespace meshwright {

namespace {

namespace device = kernels::cuda;
using kernels::ConvolutionShape;
using kernels::PoolShape;

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
  const ConvolutionShape s = convolution_shape(o);
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    if (is_pointwise(s)) return run_pointwise<T>(o, s);
    if (runs_by_library<T>(o, device::ConvolutionPass::Forward, s)) return;
    device::convolution(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), s);
  });
}

void run_backward_input(const CudaOperands& o) {
  const ConvolutionShape s = convolution_shape(o);
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    if (is_pointwise(s)) return run_pointwise_backward_input<T>(o, s);
    if (runs_by_library<T>(o, device::ConvolutionPass::BackwardInput, s)) return;
    device::convolution_backward_input(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), s);
  });
}

void run_backward_weight(const CudaOperands& o) {
  const ConvolutionShape s = convolution_shape(o);
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    if (is_pointwise(s)) return run_pointwise_backward_weight<T>(o, s);
    if (runs_by_library<T>(o, device::ConvolutionPass::BackwardWeight, s)) return;
    void* workspace = o.workspace.take(device::convolution_backward_weight_workspace<T>(s));
    device::convolution_backward_weight(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), s, workspace);
  });
}

// --- pooling ---

void run_max_pool(const CudaOperands& o) {
  with_cuda_type(o.input_types[0],
                 [&]<class T>(T) { device::max_pool(o.stream, o.in<T>(0), o.out<T>(0), pool_shape(o)); });
}
void run_max_pool_backward(const CudaOperands& o) {
  const PoolShape s = pool_backward_shape(o);
  void* workspace = o.workspace.take(device::max_pool_backward_workspace(s));
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    device::max_pool_backward(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), s, workspace);
  });
}
void run_average_pool(const CudaOperands& o) {
  with_cuda_type(o.input_types[0],
                 [&]<class T>(T) { device::average_pool(o.stream, o.in<T>(0), o.out<T>(0), pool_shape(o)); });
}
void run_average_pool_backward(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    device::average_pool_backward(o.stream, o.in<T>(0), o.out<T>(0), pool_backward_shape(o));
  });
}

}  // namespace

CudaKernel cuda_convolution_kernel(OpKind kind) {
  using K = OpKind;
  static const KernelTable<CudaKernel> table = {
      {K::Convolution, run_convolution},
      {K::ConvolutionBackwardInput, run_backward_input},
      {K::ConvolutionBackwardWeight, run_backward_weight},
      {K::MaxPool, run_max_pool},
      {K::MaxPoolBackward, run_max_pool_backward},
      {K::AveragePool, run_average_pool},
      {K::AveragePoolBackward, run_average_pool_backward},
  };
  return table.of(kind);
}

}  // namespace meshwright
