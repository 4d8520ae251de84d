// SPDX-License-Identifier: Apache-2.0
// Pooling over two spatial dimensions, channels last: x (batch, rows.from, columns.from, channels), y (batch, rows.to,
// columns.to, channels). Padding takes part in no maximum and no average.
#pragma once

#include <cstdint>

#include "kernels/cpu/convolution/window.h"

namespace meshwright::kernels {

struct PoolShape {
  std::int64_t batch, channels;
  Windows rows, columns;
};

template <class T>
void max_pool(const T* x, T* y, const PoolShape& shape);
// dy goes to the first maximum of its window, row by row.
template <class T>
void max_pool_backward(const T* x, const T* dy, T* dx, const PoolShape& shape);

// Averages are over the elements of a window that lie in x.
template <class T>
void average_pool(const T* x, T* y, const PoolShape& shape);
template <class T>
void average_pool_backward(const T* dy, T* dx, const PoolShape& shape);

}  // namespace meshwright::kernels
