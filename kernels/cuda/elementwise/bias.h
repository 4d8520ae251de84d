// SPDX-License-Identifier: Apache-2.0
// A bias on the columns of rows, and its gradient, on the device: as kernels/cpu/elementwise/elementwise.h has them.
//
// T: float, double, Bf16, F16. A thread moves 16 bytes at a time where the rows begin on multiples of 16 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/elementwise/elementwise.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

// out = x + bias. One pass; `out` may be x, and then the columns without a bias are not touched.
template <class T>
void bias_add(Stream stream, const T* x, const T* bias, T* out, const BiasShape& shape);

// out (bias_width) = sum over rows of dy, added up in Wide<T> in an order that the sizes alone decide. One pass over
// dy; where rows are many, partial sums of slices of at least 64 rows go through `workspace`, aligned to 16 bytes.
template <class T>
void bias_gradient(Stream stream, const T* dy, T* out, const BiasShape& shape, void* workspace);
// Bytes; 0: null will do.
template <class T>
[[nodiscard]] std::size_t bias_gradient_workspace(const BiasShape& shape);

}  // namespace meshwright::kernels::cuda
