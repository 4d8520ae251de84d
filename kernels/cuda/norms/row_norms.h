// SPDX-License-Identifier: Apache-2.0
// Normalisations over the last dimension on the device:
//   layer_norm (J. Ba et al., arXiv:1607.06450):              out = (x - mean) gamma / sqrt(variance + epsilon) + beta;
//   rms_norm (B. Zhang, R. Sennrich, arXiv:1910.07467):       out = x gamma / sqrt(mean(x^2) + epsilon).
// T: float, double, Bf16, F16; computed in Wide<T>, the variance from the deviations. The backward passes recompute
// mean and variance from x. x and dy are read once and a result of their size is written once, where a row has at most
// 64 KiB (kernels/cuda/blocks/row_packs.h; for the parameters' gradients kernels/cuda/norms/row_norm.h).
//
// The order of sums depends on the sizes and on whether the operands are 16-byte aligned, and on nothing else. A result
// of (rows, width) may overwrite an operand of that size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime/stream.h"

namespace meshwright::kernels::cuda {

struct NormShape {
  std::int64_t rows, width;
  double epsilon;
};

template <class T>
void layer_norm(Stream stream,
                const T* x,      // (rows, width)
                const T* gamma,  // (width)
                const T* beta,   // (width)
                T* out,          // (rows, width)
                const NormShape& shape);
template <class T>
void rms_norm(Stream stream,
              const T* x,      // (rows, width)
              const T* gamma,  // (width)
              T* out,          // (rows, width)
              const NormShape& shape);

template <class T>
void layer_norm_backward(Stream stream,
                         const T* x,      // (rows, width)
                         const T* gamma,  // (width)
                         const T* dy,     // (rows, width)
                         T* dx,           // (rows, width)
                         const NormShape& shape);
template <class T>
void rms_norm_backward(Stream stream, const T* x, const T* gamma, const T* dy, T* dx, const NormShape& shape);

// `workspace`: 16-byte aligned, of the bytes that ..._workspace gives.
template <class T>
void layer_norm_parameter_backward(Stream stream,
                                   const T* x,   // (rows, width)
                                   const T* dy,  // (rows, width)
                                   T* dgamma,    // (width)
                                   T* dbeta,     // (width)
                                   const NormShape& shape, void* workspace);
template <class T>
void rms_norm_parameter_backward(Stream stream, const T* x, const T* dy, T* dgamma, const NormShape& shape,
                                 void* workspace);
template <class T>
std::size_t layer_norm_parameter_backward_workspace(const NormShape& shape);
template <class T>
std::size_t rms_norm_parameter_backward_workspace(const NormShape& shape);

}  // namespace meshwright::kernels::cuda
