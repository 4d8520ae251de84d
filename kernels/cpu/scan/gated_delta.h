// SPDX-License-Identifier: Apache-2.0
// The gated delta rule (S. Yang et al., arXiv:2412.06464), token by token: per batch and head of v a state S
// (key_width, value_width) from 0 on, with q and k divided by the root of their squares' sum plus 1e-6,
//
//   s_t = softplus(a_t + dt_bias),  S = exp(-s_t exp(a_log)) S_(t-1),  u_t = sigmoid(b_t) (v_t - S^T k_t),
//   S_t = S + k_t u_t^T,  y_t = S_t^T q_t / sqrt(key_width).
//
// With `channel_rates` each row of S decays by an a and a dt_bias of its own. With a `least_log` below 0 a decay is
// exp(least_log sigmoid(exp(a_log) (a_t + dt_bias))). Updates u_t are `strength` times that: above 1, a step may turn
// what the state holds of a key about.
//
// States and sums are kept in double. The backward pass keeps the states at the beginnings of chunks and computes the
// others of one chunk again.
#pragma once

#include <cstdint>

namespace meshwright::kernels {

// heads: of q and k; each has a group of v's.
struct DeltaShape {
  std::int64_t batch, chunks, chunk, heads, group, key_width, value_width;
  bool channel_rates = false;
  double least_log = 0.0, strength = 1.0;

  [[nodiscard]] std::int64_t rates() const { return channel_rates ? key_width : 1; }  // of a head
};

// T const or not.
template <class T>
struct DeltaOperands {
  T* q;        // (batch, chunks, chunk, heads, key_width)
  T* k;        // like q
  T* v;        // (batch, chunks, chunk, heads, group, value_width)
  T* b;        // (batch, chunks, chunk, heads, group)
  T* a;        // like b, with a number for each rate
  T* a_log;    // (heads, group)
  T* dt_bias;  // (heads, group, rates)
};

template <class T>
void gated_delta(const DeltaOperands<const T>& in, T* y, const DeltaShape& shape);

// dy: like v. Every gradient is overwritten.
template <class T>
void gated_delta_backward(const DeltaOperands<const T>& in, const T* dy, const DeltaOperands<T>& gradients,
                          const DeltaShape& shape);

}  // namespace meshwright::kernels
