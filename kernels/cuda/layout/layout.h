// SPDX-License-Identifier: Apache-2.0
// Elements moved, repeated and reduced over dimensions: the twins of kernels/cpu/layout/layout.h on the device. Copies
// take float, double, Bf16, F16 and std::int32_t, and read and write each element once; reductions take the
// floating-point types. Results never overlap operands. All sizes are at least 1; shapes may have any number of
// dimensions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cpu/layout/layout.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

template <class T>
void copy_rows(Stream stream, const T* from, T* to, const RowCopy& copy);

template <class T>
void pad_rows(Stream stream, const T* x, T* out, const RowPadding& padding, T value);

// out of shape `sizes`, row-major: element (i0, i1, ...) is x[i0 strides[0] + i1 strides[1] + ...]. A permutation of
// x's strides transposes it, through squares in shared memory where the innermost dimension changes; a stride of 0
// repeats it.
template <class T>
void copy_strided(Stream stream, const T* x, std::span<const std::int64_t> strides, T* out,
                  std::span<const std::int64_t> sizes);

// x of shape `sizes`, row-major, reduced over the dimensions that are not `kept`: out has the
// kept ones, row-major. Summed in Wide<T>, in an order that follows from the sizes and T alone, scaled and rounded
// once. One read of x; few results of many elements are made of partial ones in `workspace`, of reduce_workspace bytes.
template <class T>
void reduce_sum(Stream stream, const T* x, T* out, const KeptDims& dims, double scale, void* workspace);
template <class T>
void reduce_max(Stream stream, const T* x, T* out, const KeptDims& dims, void* workspace);
// As reduce_sum of x's squares; its result is as wide as the sums.
template <class T>
void mean_squares(Stream stream, const T* x, Wide<T>* out, const KeptDims& dims, double scale, void* workspace);
// May be 0.
template <class T>
[[nodiscard]] std::size_t reduce_workspace(const KeptDims& dims);

// dx (sizes) = dy where x equals its maximum y, else 0; y and dy have the kept dimensions. Every one of equal maxima
// gets dy.
template <class T>
void reduce_max_backward(Stream stream, const T* x, const T* y, const T* dy, T* dx, const KeptDims& dims);

}  // namespace meshwright::kernels::cuda
