// SPDX-License-Identifier: Apache-2.0
// Root-mean-square normalisation over the last dimension on the device (B. Zhang, R. Sennrich, arXiv:1910.07467):
//   out = x gamma / sqrt(mean(x^2) + epsilon).
// T: float, double, Bf16, F16; computed in Wide<T>. Passes over memory, order of sums and where results may lie: as
// kernels/cuda/norms/layer_norm.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime/stream.h"

namespace meshwright::kernels::cuda {

template <class T>
void rms_norm(Stream stream,
              const T* x,      // (rows, width)
              const T* gamma,  // (width)
              T* out,          // (rows, width)
              std::int64_t rows, std::int64_t width, double epsilon);

template <class T>
void rms_norm_backward(Stream stream,
                       const T* x,      // (rows, width)
                       const T* gamma,  // (width)
                       const T* dy,     // (rows, width)
                       T* dx,           // (rows, width)
                       std::int64_t rows, std::int64_t width, double epsilon);

// Bytes, 16-byte aligned.
template <class T>
std::size_t rms_norm_parameter_backward_workspace(std::int64_t rows, std::int64_t width);

template <class T>
void rms_norm_parameter_backward(Stream stream,
                                 const T* x,   // (rows, width)
                                 const T* dy,  // (rows, width)
                                 T* dgamma,    // (width)
                                 std::int64_t rows, std::int64_t width, double epsilon, void* workspace);

}  // namespace meshwright::kernels::cuda
