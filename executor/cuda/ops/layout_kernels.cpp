// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "executor/cuda/cuda_kernel_table.h"
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

// Result dimensions walk x's row-major strides; those that x lacks repeat it.
void run_strided(const CudaOperands& o) {
  const std::vector<int>&from = o.call.space.inputs[0], &to = o.call.space.outputs[0];
  std::vector<std::int64_t> sizes, strides(to.size(), 0);
  for (const int axis : to) sizes.push_back(o.size(axis));
  std::int64_t stride = 1;
  for (std::size_t d = from.size(); d > 0; stride *= o.in_size(0, --d)) {
    const auto at = std::find(to.begin(), to.end(), from[d - 1]) - to.begin();
    strides[static_cast<std::size_t>(at)] = stride;
  }
  with_elements(o, [&](auto zero) {
    using T = decltype(zero);
    cuda::copy_strided(o.stream, o.in<T>(0), strides, o.out<T>(0), sizes);
  });
}

// Slice, Concat and Pad as rows: all before the changed dimension makes `rows`; all behind it is one element of
// `inner`.
struct ChangedDim {
  std::size_t dim;
  std::int64_t rows, inner;
};
ChangedDim changed_dim(const CudaOperands& o) {
  const std::vector<int>&from = o.call.space.inputs[0], &to = o.call.space.outputs[0];
  const auto dim = static_cast<std::size_t>(std::mismatch(from.begin(), from.end(), to.begin()).first - from.begin());
  ChangedDim found{dim, 1, 1};
  for (std::size_t d = 0; d < dim; ++d) found.rows *= o.in_size(0, d);
  for (std::size_t d = dim + 1; d < from.size(); ++d) found.inner *= o.in_size(0, d);
  return found;
}

void run_slice(const CudaOperands& o) {
  const ChangedDim changed = changed_dim(o);
  const std::int64_t width = o.in_size(0, changed.dim) * changed.inner;
  const std::int64_t length = o.out_size(0, changed.dim) * changed.inner;
  with_elements(o, [&](auto zero) {
    using T = decltype(zero);
    const T* begin = o.in<T>(0) + o.attributes().start * changed.inner;
    cuda::copy_rows(o.stream, begin, o.out<T>(0), {changed.rows, length, width, length});
  });
}

void run_concat(const CudaOperands& o) {
  const ChangedDim changed = changed_dim(o);
  const std::int64_t width = o.out_size(0, changed.dim) * changed.inner;
  with_elements(o, [&](auto zero) {
    using T = decltype(zero);
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
  with_elements(o, [&](auto zero) {
    using T = decltype(zero);
    cuda::pad_rows(o.stream, o.in<T>(0), o.out<T>(0),
                   {changed.rows, length, width, o.attributes().start * changed.inner},
                   static_cast<T>(o.attributes().value));
  });
}

// x's sizes, and which of its dimensions `kept` has too.
struct ReducedShape {
  std::vector<std::int64_t> sizes;
  std::vector<char> kept;
};
ReducedShape reduced_shape(const CudaOperands& o, const std::vector<int>& kept) {
  ReducedShape shape;
  for (const int axis : o.call.space.inputs[0]) {
    shape.sizes.push_back(o.size(axis));
    shape.kept.push_back(std::find(kept.begin(), kept.end(), axis) == kept.end() ? 0 : 1);
  }
  return shape;
}

void run_reduce_sum(const CudaOperands& o) {
  const ReducedShape shape = reduced_shape(o, o.call.space.outputs[0]);
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using T = decltype(zero);
    void* workspace = o.workspace.take(cuda::reduce_workspace<T>({shape.sizes, shape.kept}));
    cuda::reduce_sum(o.stream, o.in<T>(0), o.out<T>(0), {shape.sizes, shape.kept}, o.attributes().scale, workspace);
  });
}

void run_reduce_max(const CudaOperands& o) {
  const ReducedShape shape = reduced_shape(o, o.call.space.outputs[0]);
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using T = decltype(zero);
    void* workspace = o.workspace.take(cuda::reduce_workspace<T>({shape.sizes, shape.kept}));
    cuda::reduce_max(o.stream, o.in<T>(0), o.out<T>(0), {shape.sizes, shape.kept}, workspace);
  });
}

void run_reduce_max_backward(const CudaOperands& o) {
  const ReducedShape shape = reduced_shape(o, o.call.space.inputs[1]);
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using T = decltype(zero);
    cuda::reduce_max_backward(o.stream, o.in<T>(0), o.in<T>(1), o.in<T>(2), o.out<T>(0), {shape.sizes, shape.kept});
  });
}

}  // namespace

CudaKernel cuda_layout_kernel(OpKind kind) {
  switch (kind) {
    case OpKind::Reshape:
      return run_reshape;
    case OpKind::Transpose:
    case OpKind::Broadcast:
      return run_strided;
    case OpKind::Slice:
      return run_slice;
    case OpKind::Concat:
      return run_concat;
    case OpKind::Pad:
      return run_pad;
    case OpKind::ReduceSum:
      return run_reduce_sum;
    case OpKind::ReduceMax:
      return run_reduce_max;
    case OpKind::ReduceMaxBackward:
      return run_reduce_max_backward;
    default:
      return nullptr;
  }
}

}  // namespace meshwright
