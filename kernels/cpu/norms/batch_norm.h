// SPDX-License-Identifier: Apache-2.0
// Batch normalisation (S. Ioffe, C. Szegedy, arXiv:1502.03167) in pieces that can be computed on a part of the batch:
// the sums of a part are added to those of the others, everything else works element by element and channel by channel.
// With the sums of all parts, mean = share sum(x), variance = share sum(x^2) - mean^2 (not below 0, where rounding
// would put it) and h = (x - mean) / sqrt(variance + epsilon):
//   out = h gamma + beta,  dgamma = sum(dy h),  dbeta = sum(dy).
// Sums are made in double; kept in float, the variance loses what is below 1e-7 mean^2.
#pragma once

#include <cstdint>

namespace meshwright::kernels {

struct BatchNormShape {
  std::int64_t rows, channels;  // of this part; channels run fastest
  double share, epsilon;        // share: 1 / (rows of all parts)
};

template <class T>
void batch_sums(const T* x,  // (rows, channels)
                T* sums,     // (2, channels): of x, of x^2
                std::int64_t rows, std::int64_t channels);

// A batch with its sums. W: the sums' type.
template <class T, class W = T>
struct Batch {
  const T* x;     // (rows, channels)
  const W* sums;  // (2, channels), of all parts
};

template <class T>
void batch_norm(const Batch<T>& batch,
                const T* gamma,  // (channels)
                const T* beta,   // (channels)
                T* out,          // (rows, channels)
                const BatchNormShape& shape);

template <class T>
void batch_norm_parameter_backward(const Batch<T>& batch, const T* dy, T* dgamma, T* dbeta,
                                   const BatchNormShape& shape);

// gamma, and the gradients of all parts: (channels) each.
template <class T>
struct BatchNormParameters {
  const T *gamma, *dgamma, *dbeta;
};
// The derivative through mean and variance as well:
//   dx = gamma / sqrt(variance + epsilon) (dy - share dbeta - h share dgamma).
template <class T>
void batch_norm_backward(const Batch<T>& batch, const BatchNormParameters<T>& parameters, const T* dy, T* dx,
                         const BatchNormShape& shape);

}  // namespace meshwright::kernels
