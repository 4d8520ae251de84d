// SPDX-License-Identifier: Apache-2.0
// A residual sum and the normalisation of it in one pass over memory, and its derivative, to which the gradient of the
// residual is added: the same bits as the kernels one after the other (kernels/cuda/elementwise/elementwise.h,
// kernels/cuda/norms/row_norms.h), as both round what stands between.
//
//   x + y, then its norm:           4 arrays of (rows, width) read or written, in the place of 5
//   the norm's dx, then added to r: 4 in the place of 6
//
// Results of (rows, width) may overwrite operands of that size.
#pragma once

#include "kernels/cpu/norms/row_norms.h"
#include "kernels/cuda/runtime/stream.h"

namespace meshwright::kernels::cuda {

// T: float, double, Bf16, F16. False, and nothing is done: rows are no packs of 16 bytes, or too wide to be kept in
// registers (64 KiB).

// sum = x + y, out = norm(sum).
template <Norm norm, class T>
[[nodiscard]] bool row_norm_of_sum(Stream stream, const T* x, const T* y, T* sum, const T* gamma, const T* beta, T* out,
                                   const NormShape& shape);

// out = row_norm_backward(x, gamma, dy) + residual.
template <Norm norm, class T>
[[nodiscard]] bool row_norm_backward_and_sum(Stream stream, const T* x, const T* gamma, const T* dy, const T* residual,
                                             T* out, const NormShape& shape);

}  // namespace meshwright::kernels::cuda
