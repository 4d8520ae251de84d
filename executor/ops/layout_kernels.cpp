// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <type_traits>

#include "executor/ops/call_shapes.h"
#include "executor/ops/kernel_table.h"
#include "kernels/cpu/layout/layout.h"

namespace meshwright {

namespace {

// Calls move(source i as E*, result as E*) with E the type of the operands' elements: T or int32.
template <class T, class Move>
void with_elements(const Operands<T>& o, Move move) {
  if (o.call.input_dtypes[0] == DType::I32)
    move([&o](std::size_t i) { return o.integers(i); }, o.integers_out(0));
  else
    move([&o](std::size_t i) { return o.in(i); }, o.out(0));
}

template <class T>
void run_reshape(const Operands<T>& o) {
  with_elements(o, [&](auto in, auto* out) { std::copy_n(in(0), o.elements(0), out); });
}

template <class T>
void run_strided(const Operands<T>& o) {
  const auto [sizes, strides] = strided_shape(o);
  with_elements(o, [&, &sizes = sizes, &strides = strides](auto in, auto* out) {
    kernels::copy_strided(in(0), strides, out, sizes);
  });
}

template <class T>
void run_slice(const Operands<T>& o) {
  const auto [dim, rows, inner] = changed_dim(o);
  const std::int64_t width = o.in_size(0, dim) * inner, length = o.out_size(0, dim) * inner;
  const std::int64_t start = o.attributes().start * inner;
  with_elements(o, [&, rows = rows](auto in, auto* out) {
    kernels::copy_rows(in(0) + start, out, {rows, length, width, length});
  });
}

template <class T>
void run_concat(const Operands<T>& o) {
  const ChangedDim changed = changed_dim(o);
  const std::int64_t width = o.out_size(0, changed.dim) * changed.inner;
  with_elements(o, [&](auto in, auto* out) {
    for (std::size_t i = 0; i < o.inputs.size(); ++i) {
      const std::int64_t length = o.in_size(i, changed.dim) * changed.inner;
      kernels::copy_rows(in(i), out, {changed.rows, length, length, width});
      out += length;
    }
  });
}

template <class T>
void run_pad(const Operands<T>& o) {
  const ChangedDim changed = changed_dim(o);
  const std::int64_t length = o.in_size(0, changed.dim) * changed.inner;
  const std::int64_t width = o.out_size(0, changed.dim) * changed.inner;
  with_elements(o, [&](auto in, auto* out) {
    using Element = std::remove_pointer_t<decltype(out)>;
    kernels::pad_rows(in(0), out, {changed.rows, length, width, o.attributes().start * changed.inner},
                      static_cast<Element>(o.attributes().value));
  });
}

template <class T>
void run_reduce_sum(const Operands<T>& o) {
  const auto [sizes, kept] = reduced_shape(o, o.call.space.outputs[0]);
  kernels::reduce_sum(o.in(0), o.out(0), {sizes, kept}, o.attributes().scale);
}

template <class T>
void run_reduce_max(const Operands<T>& o) {
  const auto [sizes, kept] = reduced_shape(o, o.call.space.outputs[0]);
  kernels::reduce_max(o.in(0), o.out(0), {sizes, kept});
}

template <class T>
void run_reduce_max_backward(const Operands<T>& o) {
  const auto [sizes, kept] = reduced_shape(o, o.call.space.inputs[1]);
  kernels::reduce_max_backward(o.in(0), o.in(1), o.in(2), o.out(0), {sizes, kept});
}

}  // namespace

template <class T>
OpKernel<T> layout_kernel(OpKind kind) {
  using K = OpKind;
  static const KernelTable<OpKernel<T>> table = {
      {K::Reshape, run_reshape<T>},
      {K::Transpose, run_strided<T>},
      {K::Broadcast, run_strided<T>},
      {K::Slice, run_slice<T>},
      {K::Concat, run_concat<T>},
      {K::Pad, run_pad<T>},
      {K::ReduceSum, run_reduce_sum<T>},
      {K::ReduceMax, run_reduce_max<T>},
      {K::ReduceMaxBackward, run_reduce_max_backward<T>},
  };
  return table.of(kind);
}
template OpKernel<float> layout_kernel<float>(OpKind);
template OpKernel<double> layout_kernel<double>(OpKind);

}  // namespace meshwright
