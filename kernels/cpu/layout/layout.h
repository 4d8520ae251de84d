// SPDX-License-Identifier: Apache-2.0
// Elements moved, repeated and reduced over dimensions. Copies take float, double and std::int32_t; reductions float
// and double. Results never overlap operands. All sizes are at least 1.
#pragma once

#include <cstdint>
#include <span>

namespace meshwright::kernels {

// Rows of `length` elements, which begin `from_stride` elements apart in `from` and `to_stride` apart in `to`.
struct RowCopy {
  std::int64_t rows, length, from_stride, to_stride;
};
template <class T>
void copy_rows(const T* from, T* to, const RowCopy& copy);

// out (rows, width) = x (rows, length) at columns start..start+length-1, `value` elsewhere.
struct RowPadding {
  std::int64_t rows, length, width, start;
};
template <class T>
void pad_rows(const T* x, T* out, const RowPadding& padding, T value);

// out of shape `sizes`, row-major: element (i0, i1, ...) is x[i0 strides[0] + i1 strides[1] + ...]. A permutation of
// x's strides transposes it; a stride of 0 repeats it.
template <class T>
void copy_strided(const T* x, std::span<const std::int64_t> strides, T* out, std::span<const std::int64_t> sizes);

// Sizes of an array, and one flag per dimension: whether it is kept by a reduction.
struct KeptDims {
  std::span<const std::int64_t> sizes;
  std::span<const char> kept;
};
// x of shape `sizes`, row-major, reduced over the dimensions that are not `kept`: out has the
// kept ones, row-major. Summed in double, in an order that follows from the sizes alone.
template <class T>
void reduce_sum(const T* x, T* out, const KeptDims& dims, double scale);
template <class T>
void reduce_max(const T* x, T* out, const KeptDims& dims);

// dx (sizes) = dy where x equals its maximum y, else 0; y and dy have the kept dimensions. Every one of equal maxima
// gets dy.
template <class T>
void reduce_max_backward(const T* x, const T* y, const T* dy, T* dx, const KeptDims& dims);

}  // namespace meshwright::kernels
