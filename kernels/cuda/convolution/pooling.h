// SPDX-License-Identifier: Apache-2.0
// Pooling over two spatial dimensions on the device: what kernels/cpu/convolution/pooling.h computes. T: float, double,
// Bf16, F16; sums are kept in Wide<T> and rounded once. What is pooled is read once where windows do not overlap, and
// again from the caches where they do.
#pragma once

#include <cstddef>

#include "kernels/cpu/convolution/pooling.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

template <class T>
void max_pool(Stream stream, const T* x, T* y, const PoolShape& shape);
// dy goes to the first maximum of its window, row by row. One pass notes where that is, in `workspace`, of
// max_pool_backward_workspace's bytes (one per element of y, four where a window has more than 255); another gathers.
template <class T>
void max_pool_backward(Stream stream, const T* x, const T* dy, T* dx, const PoolShape& shape, void* workspace);
[[nodiscard]] std::size_t max_pool_backward_workspace(const PoolShape& shape);

// Averages are over the elements of a window that lie in x.
template <class T>
void average_pool(Stream stream, const T* x, T* y, const PoolShape& shape);
template <class T>
void average_pool_backward(Stream stream, const T* dy, T* dx, const PoolShape& shape);

}  // namespace meshwright::kernels::cuda
