// SPDX-License-Identifier: Apache-2.0
// Layer normalisation over the last dimension on the device (J. Ba et al., arXiv:1607.06450):
//   out = (x - mean) gamma / sqrt(variance + epsilon) + beta.
// T: float, double, Bf16, F16; computed in Wide<T>, the variance from the deviations. The backward passes recompute
// mean and variance from x. x and dy are read once and a result of their size is written once, where a row has at most
// 64 KiB (kernels/cuda/blocks/row_packs.h; for the parameters' gradients kernels/cuda/norms/row_norm.h).
//
// Sums are made in an order that follows from the sizes and from whether the operands are 16-byte aligned. A result of
// (rows, width) may lie where an operand of that size lies.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime/stream.h"

namespace meshwright::kernels::cuda {

template <class T>
void layer_norm(Stream stream,
                const T* x,      // (rows, width)
                const T* gamma,  // (width)
                const T* beta,   // (width)
                T* out,          // (rows, width)
                std::int64_t rows, std::int64_t width, double epsilon);

template <class T>
void layer_norm_backward(Stream stream,
                         const T* x,      // (rows, width)
                         const T* gamma,  // (width)
                         const T* dy,     // (rows, width)
                         T* dx,           // (rows, width)
                         std::int64_t rows, std::int64_t width, double epsilon);

// Bytes, 16-byte aligned.
template <class T>
std::size_t layer_norm_parameter_backward_workspace(std::int64_t rows, std::int64_t width);

template <class T>
void layer_norm_parameter_backward(Stream stream,
                                   const T* x,   // (rows, width)
                                   const T* dy,  // (rows, width)
                                   T* dgamma,    // (width)
                                   T* dbeta,     // (width)
                                   std::int64_t rows, std::int64_t width, double epsilon, void* workspace);

}  // namespace meshwright::kernels::cuda
