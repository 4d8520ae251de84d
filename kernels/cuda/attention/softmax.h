// SPDX-License-Identifier: Apache-2.0
// Softmax over the last dimension on the device. T: float, double, Bf16, F16; computed in Wide<T>. Each operand is read
// once and the result written once, where a row has at most 64 KiB (kernels/cuda/blocks/row_packs.h).
//
// Sums are made in an order that follows from the width and from whether the operands are 16-byte aligned. A result may
// lie where an operand of its size lies.
#pragma once

#include <cstdint>

#include "kernels/cuda/runtime/stream.h"

namespace meshwright::kernels::cuda {

// y = exp(x - largest) / sum of them. REQUIRES: width >= 1.
template <class T>
void softmax(Stream stream,
             const T* x,  // (rows, width)
             T* y,        // (rows, width)
             std::int64_t rows, std::int64_t width);

// dx = y (dy - sum(y dy)).
template <class T>
void softmax_backward(Stream stream,
                      const T* y,   // (rows, width): softmax's result
                      const T* dy,  // (rows, width)
                      T* dx,        // (rows, width)
                      std::int64_t rows, std::int64_t width);

}  // namespace meshwright::kernels::cuda
