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

#include "kernels/cpu/norms/batch_norm.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

// Bytes of the workspace of batch_sums and of batch_norm_parameter_backward.
template <class T>
std::size_t batch_sums_workspace(std::int64_t rows, std::int64_t channels);

template <class T>
void batch_sums(Stream stream,
                const T* x,     // (rows, channels)
                Wide<T>* sums,  // (2, channels): of x, of x^2
                std::int64_t rows, std::int64_t channels, void* workspace);

// gamma, beta (channels); out (rows, channels). batch.sums: those of all parts, which the caller has added up.
template <class T>
void batch_norm(Stream stream, const Batch<T, Wide<T>>& batch, const T* gamma, const T* beta, T* out,
                const BatchNormShape& shape);

// dy (rows, channels); dgamma, dbeta (channels): sums over this part's rows, kept in double and rounded once.
template <class T>
void batch_norm_parameter_backward(Stream stream, const Batch<T, Wide<T>>& batch, const T* dy, T* dgamma, T* dbeta,
                                   const BatchNormShape& shape, void* workspace);

// dy, dx (rows, channels). parameters.dgamma and dbeta are those of all parts.
template <class T>
void batch_norm_backward(Stream stream, const Batch<T, Wide<T>>& batch, const BatchNormParameters<T>& parameters,
                         const T* dy, T* dx, const BatchNormShape& shape);

}  // namespace meshwright::kernels::cuda
