// SPDX-License-Identifier: Apache-2.0
// The normalisations over the last dimension of kernels/cpu/norms/row_norms.h on the device, with its shapes. T: float,
// double, Bf16, F16; computed in Wide<T>, the variance from the deviations. The backward passes recompute mean and
// variance from x. x and dy are read once and a result of their size is written once, where a row has at most 64 KiB
// (kernels/cuda/blocks/row_packs.h; for the parameters' gradients row_norms.cu).
//
// The order of sums depends on the sizes and on whether the operands are 16-byte aligned, and on nothing else. A result
// of (rows, width) may overwrite an operand of that size.
#pragma once

#include <cstddef>

#include "kernels/cpu/norms/row_norms.h"
#include "kernels/cuda/runtime/stream.h"

namespace meshwright::kernels::cuda {

template <Norm norm, class T>
void row_norm(Stream stream, const T* x, const T* gamma, const T* beta, T* out, const NormShape& shape);

template <Norm norm, class T>
void row_norm_backward(Stream stream, const T* x, const T* gamma, const T* dy, T* dx, const NormShape& shape);

// `workspace`: 16-byte aligned, of row_norm_parameter_backward_workspace's bytes.
template <Norm norm, class T>
void row_norm_parameter_backward(Stream stream, const T* x, const T* dy, T* dgamma, T* dbeta, const NormShape& shape,
                                 void* workspace);
template <class T>
[[nodiscard]] std::size_t row_norm_parameter_backward_workspace(const NormShape& shape);

}  // namespace meshwright::kernels::cuda
