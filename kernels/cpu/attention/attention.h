// SPDX-License-Identifier: Apache-2.0
// Attention of `group` queries to each key and value head: softmax(cap(scale q k^T) + bias + mask) v per sample and
// head, over the keys a query sees. Scores are computed in blocks of queries: the workspace is a block of scores, never
// (seq, kv_seq).
//
// The queries are seq consecutive positions from `first_position` on, the keys are positions 0..kv_seq-1. A causal
// query sees no key after its own position; a window w leaves it the w nearest of those, its own included. Without
// `causal` the window reaches as far ahead as back. Every query must see a key.
//
// Operands are separate arrays, or packed into one as a product makes them: then there are as many queries as keys, one
// query per key head, and one width.
#pragma once

#include <cstdint>

namespace meshwright::kernels {

struct AttentionShape {
  std::int64_t batch, seq, kv_seq, kv_heads, group;
  std::int64_t key_dim, value_dim;

  // The packed operands (batch, seq, 3, heads, head_dim).
  [[nodiscard]] static AttentionShape packed(std::int64_t batch, std::int64_t seq, std::int64_t heads,
                                             std::int64_t head_dim) {
    return {batch, seq, seq, heads, 1, head_dim, head_dim};
  }
  [[nodiscard]] std::int64_t heads() const { return kv_heads * group; }
  // Differences key - query position lie in -(first_position + seq - 1) .. kv_seq - 1 - first_position.
  [[nodiscard]] std::int64_t distances() const { return kv_seq + seq - 1; }
};

// An array (batch, rows, heads, width) whose last dimension is dense; strides are in elements.
template <class T>
struct HeadView {
  T* data;
  std::int64_t sample, row, head;

  [[nodiscard]] constexpr T* at(std::int64_t of_sample, std::int64_t of_row, std::int64_t of_head) const {
    return data + of_sample * sample + of_row * row + of_head * head;
  }
};
template <class T>
[[nodiscard]] HeadView<T> dense_heads(T* data, std::int64_t rows, std::int64_t heads, std::int64_t width) {
  return {data, rows * heads * width, heads * width, width};
}

// q, k and v, or their gradients.
template <class T>
struct AttentionViews {
  HeadView<T> q;  // (batch, seq, heads, key_dim)
  HeadView<T> k;  // (batch, kv_seq, kv_heads, key_dim)
  HeadView<T> v;  // (batch, kv_seq, kv_heads, value_dim)
};
template <class T>
[[nodiscard]] AttentionViews<T> separate_views(T* q, T* k, T* v, const AttentionShape& s) {
  return {dense_heads(q, s.seq, s.heads(), s.key_dim), dense_heads(k, s.kv_seq, s.kv_heads, s.key_dim),
          dense_heads(v, s.kv_seq, s.kv_heads, s.value_dim)};
}
// qkv (batch, seq, 3, heads, head_dim). REQUIRES: a shape made by AttentionShape::packed.
template <class T>
[[nodiscard]] AttentionViews<T> packed_views(T* qkv, const AttentionShape& s) {
  const std::int64_t part = s.kv_heads * s.key_dim, row = 3 * part;
  const auto view = [&](int which) { return HeadView<T>{qkv + which * part, s.seq * row, row, s.key_dim}; };
  return {view(0), view(1), view(2)};
}

// Bias: the type of the biases.
template <class T, class Bias = T>
struct AttentionRule {
  double scale;
  bool causal;
  std::int64_t window;  // 0: none
  std::int64_t first_position;
  const T* sink = nullptr;  // (kv_heads, group): one more logit in the softmax's denominator
  const Bias* distance_bias =
      nullptr;  // (kv_heads, group, distances): added to the scaled scores, least distance first
  // Rows of kv_seq numbers, added to the scaled scores: that of a query is at sample * mask_sample + query *
  // mask_query.
  const T* mask = nullptr;
  std::int64_t mask_sample = 0, mask_query = 0;
  double cap = 0.0;  // scaled scores x become cap tanh(x / cap), before biases and masks; 0: they stay
};

template <class T, class Bias = T>
struct AttentionCall {
  AttentionShape shape;
  AttentionViews<const T> operands;
  AttentionRule<T, Bias> rule;
};

template <class T>
void attention(const AttentionCall<T>& call,
               T* out);  // (batch, seq, kv_heads, group, value_dim)

// Gradients of the operands; those of the extra operands, each null where the rule has none, are summed in double.
template <class T>
struct AttentionGradients {
  AttentionViews<T> operands;
  double* sink = nullptr;           // (kv_heads, group)
  double* distance_bias = nullptr;  // (kv_heads, group, distances)
};

// Overwrites the gradients. Recomputes the probabilities.
template <class T>
void attention_backward(const AttentionCall<T>& call,
                        const T* dout,  // (batch, seq, kv_heads, group, value_dim)
                        const AttentionGradients<T>& gradients);

}  // namespace meshwright::kernels
