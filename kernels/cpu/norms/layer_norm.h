// SPDX-License-Identifier: Apache-2.0
// Layer normalisation over the last dimension (J. Ba et al., arXiv:1607.06450):
//   out = (x - mean) gamma / sqrt(variance + epsilon) + beta.
// The backward passes recompute mean and variance from x: two passes over a row in cache are cheaper than keeping and
// moving them.
#pragma once

#include <cstdint>

namespace meshwright::kernels {

template <class T>
void layer_norm(const T* x,      // (rows, width)
                const T* gamma,  // (width)
                const T* beta,   // (width)
                T* out,          // (rows, width)
                std::int64_t rows, std::int64_t width, double epsilon);

template <class T>
void layer_norm_backward(const T* x,      // (rows, width)
                         const T* gamma,  // (width)
                         const T* dy,     // (rows, width)
                         T* dx,           // (rows, width)
                         std::int64_t rows, std::int64_t width, double epsilon);

template <class T>
void layer_norm_parameter_backward(const T* x,   // (rows, width)
                                   const T* dy,  // (rows, width)
                                   T* dgamma,    // (width)
                                   T* dbeta,     // (width)
                                   std::int64_t rows, std::int64_t width, double epsilon);

}  // namespace meshwright::kernels
