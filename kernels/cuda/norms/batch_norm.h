// SPDX-License-Identifier: Apache-2.0
// Batch normalisation on the device, in the pieces of kernels/cpu/norms/batch_norm.h, which has the formulas. T: float,
// double, Bf16, F16. The sums are kept in Wide<T>; elements are computed in Wide<T>, what is of a channel in double.
//
// Every operand is read once. Sums over rows are of runs of four rows in Wide<T>, then in double: in an order that
// follows from the sizes and from whether the operands are 16-byte aligned. A result of (rows, channels) may lie where
// an operand of that size lies.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

struct BatchNormShape {
  std::int64_t rows, channels;  // of this part; channels run fastest
  double share, epsilon;        // share: 1 / (rows of all parts)
};

// Bytes of the workspace of batch_sums and of batch_norm_parameter_backward.
template <class T>
std::size_t batch_sums_workspace(std::int64_t rows, std::int64_t channels);

template <class T>
void batch_sums(Stream stream,
                const T* x,     // (rows, channels)
                Wide<T>* sums,  // (2, channels): of x, of x^2
                std::int64_t rows, std::int64_t channels, void* workspace);

template <class T>
void batch_norm(Stream stream,
                const T* x,                             // (rows, channels)
                const Wide<T>* sums,                    // (2, channels), of all parts
                const T* gamma, const T* beta, T* out,  // (channels), (channels), (rows, channels)
                const BatchNormShape& shape);

template <class T>
void batch_norm_parameter_backward(Stream stream, const T* x, const Wide<T>* sums, const T* dy, T* dgamma, T* dbeta,
                                   const BatchNormShape& shape, void* workspace);

template <class T>
void batch_norm_backward(Stream stream, const T* x, const Wide<T>* sums, const T* gamma, const T* dgamma,
                         const T* dbeta, const T* dy, T* dx, const BatchNormShape& shape);

}  // namespace meshwright::kernels::cuda
