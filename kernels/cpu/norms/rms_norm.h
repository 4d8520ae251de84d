// SPDX-License-Identifier: Apache-2.0
// Root-mean-square normalisation over the last dimension (B. Zhang, R. Sennrich, arXiv:1910.07467):
//   out = x gamma / sqrt(mean(x^2) + epsilon).
// The backward passes recompute the mean from x, as layer_norm's do. Sums are made in double.
#pragma once

#include <cstdint>

namespace meshwright::kernels {

template <class T>
void rms_norm(const T* x,      // (rows, width)
              const T* gamma,  // (width)
              T* out,          // (rows, width)
              std::int64_t rows, std::int64_t width, double epsilon);

template <class T>
void rms_norm_backward(const T* x,      // (rows, width)
                       const T* gamma,  // (width)
                       const T* dy,     // (rows, width)
                       T* dx,           // (rows, width)
                       std::int64_t rows, std::int64_t width, double epsilon);

template <class T>
void rms_norm_parameter_backward(const T* x,   // (rows, width)
                                 const T* dy,  // (rows, width)
                                 T* dgamma,    // (width)
                                 std::int64_t rows, std::int64_t width, double epsilon);

}  // namespace meshwright::kernels
