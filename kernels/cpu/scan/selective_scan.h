// SPDX-License-Identifier: Apache-2.0
// The selective scan of Mamba-2 (T. Dao, A. Gu, arXiv:2405.21060), token by token: per batch and head a state H
// (width, state) from 0 on,
//
//   s_t = softplus(dt_t + dt_bias),  a_t = exp(-s_t exp(a_log)),  H_t = a_t H_(t-1) + s_t x_t b_t^T,
//   y_t = H_t c_t + d x_t;
//
// or of Mamba (A. Gu, T. Dao, arXiv:2312.00752), where each column of H has a rate a_log of its own.
//
// States and sums are kept in double. The backward pass keeps the states at the beginnings of chunks and computes the
// others of one chunk again.
#pragma once

#include <cstdint>

namespace meshwright::kernels {

// heads: of a group.
struct ScanShape {
  std::int64_t batch, chunks, chunk, groups, heads, width, state;
  bool rate_per_number = false;  // of a state: a_log (groups, heads, state)

  [[nodiscard]] std::int64_t rates() const { return rate_per_number ? state : 1; }  // of a head
};

// T const or not.
template <class T>
struct ScanOperands {
  T* x;        // (batch, chunks, chunk, groups, heads, width)
  T* dt;       // (batch, chunks, chunk, groups, heads)
  T* a_log;    // (groups, heads) or (groups, heads, state)
  T* b;        // (batch, chunks, chunk, groups, state)
  T* c;        // like b
  T* d;        // (groups, heads)
  T* dt_bias;  // (groups, heads)
};

template <class T>
void selective_scan(const ScanOperands<const T>& in, T* y, const ScanShape& shape);

// dy: like x. Every gradient is overwritten.
template <class T>
void selective_scan_backward(const ScanOperands<const T>& in, const T* dy, const ScanOperands<T>& gradients,
                             const ScanShape& shape);

}  // namespace meshwright::kernels
