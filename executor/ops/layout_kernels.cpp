// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <type_traits>

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

// Result dimensions walk x's row-major strides; those that x lacks repeat it.
template <class T>
void run_strided(const Operands<T>& o) {
  const std::vector<int>&from = o.call.space.inputs[0], &to = o.call.space.outputs[0];
  std::vector<std::int64_t> sizes, strides(to.size(), 0);
  for (const int axis : to) sizes.push_back(o.size(axis));
  std::int64_t stride = 1;
  for (std::size_t d = from.size(); d > 0; stride *= o.in_size(0, --d)) {
    const auto at = std::find(to.begin(), to.end(), from[d - 1]) - to.begin();
    strides[static_cast<std::size_t>(at)] = stride;
  }
  with_elements(o, [&](auto in, auto* out) { kernels::copy_strided(in(0), strides, out, sizes); });
}

// Slice, Concat and Pad as rows: all before the changed dimension makes `rows`; all behind it is one element of
// `inner`.
struct ChangedDim {
  std::size_t dim;
  std::int64_t rows, inner;
};
template <class T>
ChangedDim changed_dim(const Operands<T>& o) {
  const std::vector<int>&from = o.call.space.inputs[0], &to = o.call.space.outputs[0];
  const auto dim = static_cast<std::size_t>(std::mismatch(from.begin(), from.end(), to.begin()).first - from.begin());
  ChangedDim found{dim, 1, 1};
  for (std::size_t d = 0; d < dim; ++d) found.rows *= o.in_size(0, d);
  for (std::size_t d = dim + 1; d < from.size(); ++d) found.inner *= o.in_size(0, d);
  return found;
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

// x's sizes, and which of its dimensions `kept` has too.
struct ReducedShape {
  std::vector<std::int64_t> sizes;
  std::vector<char> kept;
};
template <class T>
ReducedShape reduced_shape(const Operands<T>& o, const std::vector<int>& kept) {
  ReducedShape shape;
  for (const int axis : o.call.space.inputs[0]) {
    shape.sizes.push_back(o.size(axis));
    shape.kept.push_back(std::find(kept.begin(), kept.end(), axis) == kept.end() ? 0 : 1);
  }
  return shape;
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
  switch (kind) {
    case OpKind::Reshape:
      return run_reshape<T>;
    case OpKind::Transpose:
    case OpKind::Broadcast:
      return run_strided<T>;
    case OpKind::Slice:
      return run_slice<T>;
    case OpKind::Concat:
      return run_concat<T>;
    case OpKind::Pad:
      return run_pad<T>;
    case OpKind::ReduceSum:
      return run_reduce_sum<T>;
    case OpKind::ReduceMax:
      return run_reduce_max<T>;
    case OpKind::ReduceMaxBackward:
      return run_reduce_max_backward<T>;
    default:
      return nullptr;
  }
}
template OpKernel<float> layout_kernel<float>(OpKind);
template OpKernel<double> layout_kernel<double>(OpKind);

}  // namespace meshwright
