// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "executor/cuda/cuda_kernel_table.h"
#include "executor/ops/call_shapes.h"
#include "kernels/cuda/layout/layout.h"

namespace meshwright {

namespace {

namespace cuda = kernels::cuda;

// Calls move(zero) with a zero of the type of the operands' elements: floating-point numbers or int32.
template <class Move>
void with_elements(const CudaOperands& o, Move move) {
  if (o.input_types[0] == DType::I32)
    move(std::int32_t{});
  else
    with_cuda_type(o.input_types[0], move);
}

void run_reshape(const CudaOperands& o) {
  with_elements(o, [&](auto zero) {
    cuda::copy(o.outputs[0], o.inputs[0], static_cast<std::size_t>(o.elements(0)) * sizeof(zero), o.stream);
  });
}

void run_strided(const CudaOperands& o) {
  const StridedShape shape = strided_shape(o);
  with_elements(o,
                [&]<class T>(T) { cuda::copy_strided(o.stream, o.in<T>(0), shape.strides, o.out<T>(0), shape.sizes); });
}

void run_slice(const CudaOperands& o) {
  const ChangedDim changed = changed_dim(o);
  const std::int64_t width = o.in_size(0, changed.dim) * changed.inner;
  const std::int64_t length = o.out_size(0, changed.dim) * changed.inner;
  with_elements(o, [&]<class T>(T) {
    const T* begin = o.in<T>(0) + o.attributes().start * changed.inner;
    cuda::copy_rows(o.stream, begin, o.out<T>(0), {changed.rows, length, width, length});
  });
}

void run_concat(const CudaOperands& o) {
  const ChangedDim changed = changed_dim(o);
  const std::int64_t width = o.out_size(0, changed.dim) * changed.inner;
  with_elements(o, [&]<class T>(T) {
    T* out = o.out<T>(0);
    for (std::size_t i = 0; i < o.inputs.size(); ++i) {
      const std::int64_t length = o.in_size(i, changed.dim) * changed.inner;
      cuda::copy_rows(o.stream, o.in<T>(i), out, {changed.rows, length, length, width});
      out += length;
    }
  });
}

void run_pad(const CudaOperands& o) {
  const ChangedDim changed = changed_dim(o);
  const std::int64_t length = o.in_size(0, changed.dim) * changed.inner;
  const std::int64_t width = o.out_size(0, changed.dim) * changed.inner;
  with_elements(o, [&]<class T>(T) {
    cuda::pad_rows(o.stream, o.in<T>(0), o.out<T>(0),
                   {changed.rows, length, width, o.attributes().start * changed.inner},
                   static_cast<T>(o.attributes().value));
  });
}

void run_reduce_sum(const CudaOperands& o) {
  const ReducedShape shape = reduced_shape(o, o.call.space.outputs[0]);
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    void* workspace = o.workspace.take(cuda::reduce_workspace<T>({shape.sizes, shape.kept}));
    cuda::reduce_sum(o.stream, o.in<T>(0), o.out<T>(0), {shape.sizes, shape.kept}, o.attributes().scale, workspace);
  });
}

void run_reduce_max(const CudaOperands& o) {
  const ReducedShape shape = reduced_shape(o, o.call.space.outputs[0]);
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    void* workspace = o.workspace.take(cuda::reduce_workspace<T>({shape.sizes, shape.kept}));
    cuda::reduce_max(o.stream, o.in<T>(0), o.out<T>(0), {shape.sizes, shape.kept}, workspace);
  });
}

void run_reduce_max_backward(const CudaOperands& o) {
  const ReducedShape shape = reduced_shape(o, o.call.space.inputs[1]);
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    cuda::reduce_max_backward(o.stream, o.in<T>(0), o.in<T>(1), o.in<T>(2), o.out<T>(0), {shape.sizes, shape.kept});
  });
}

}  // namespace

CudaKernel cuda_layout_kernel(OpKind kind) {
  using K = OpKind;
  static const KernelTable<CudaKernel> table = {
      {K::Reshape, run_reshape},      {K::Transpose, run_strided},    {K::Broadcast, run_strided},
      {K::Slice, run_slice},          {K::Concat, run_concat},        {K::Pad, run_pad},
      {K::ReduceSum, run_reduce_sum}, {K::ReduceMax, run_reduce_max}, {K::ReduceMaxBackward, run_reduce_max_backward},
  };
  return table.of(kind);
}

}  // namespace meshwright
