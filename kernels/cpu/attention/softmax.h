// SPDX-License-Identifier: Apache-2.0
// Softmax over the last dimension. Sums are made in double.
#pragma once

#include <cstdint>

namespace meshwright::kernels {

// y = exp(x - largest) / sum of them. REQUIRES: width >= 1.
template <class T>
void softmax(const T* x,  // (rows, width)
             T* y,        // (rows, width)
             std::int64_t rows, std::int64_t width);

// dx = y (dy - sum(y dy)).
template <class T>
void softmax_backward(const T* y,   // (rows, width): softmax's result
                      const T* dy,  // (rows, width)
                      T* dx,        // (rows, width)
                      std::int64_t rows, std::int64_t width);

}  // namespace meshwright::kernels
