// SPDX-License-Identifier: Apache-2.0
// Normalisations over the last dimension:
//   Layer (J. Ba et al., arXiv:1607.06450):               out = (x - mean) gamma / sqrt(variance + epsilon) + beta;
//   Rms (B. Zhang, R. Sennrich, arXiv:1910.07467):        out = x gamma / sqrt(mean(x^2) + epsilon), without a beta.
// The backward passes recompute mean and variance from x: two passes over a row in cache are cheaper than keeping and
// moving them.
#pragma once

#include <cstdint>

namespace meshwright::kernels {

enum class Norm { Layer, Rms };

struct NormShape {
  std::int64_t rows, width;
  double epsilon;
  std::int64_t groups = 1;  // Rms: gamma is (groups, width), and row r takes that of r mod groups
};

template <Norm norm, class T>
void row_norm(const T* x,      // (rows, width)
              const T* gamma,  // (groups, width)
              const T* beta,   // (width); null for Rms
              T* out,          // (rows, width)
              const NormShape& shape);

template <Norm norm, class T>
void row_norm_backward(const T* x,      // (rows, width)
                       const T* gamma,  // (width)
                       const T* dy,     // (rows, width)
                       T* dx,           // (rows, width)
                       const NormShape& shape);

template <Norm norm, class T>
void row_norm_parameter_backward(const T* x,   // (rows, width)
                                 const T* dy,  // (rows, width)
                                 T* dgamma,    // (width)
                                 T* dbeta,     // (width); null for Rms
                                 const NormShape& shape);

}  // namespace meshwright::kernels
