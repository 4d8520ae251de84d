// SPDX-License-Identifier: Apache-2.0
// Attention of `group` queries to each key and value head: softmax(scale q k^T + bias) v per sample and head, over the
// keys a query sees, in blocks of queries: the workspace is a block of scores, never (seq, kv_seq).
//
// The queries are seq consecutive positions from `first_position` on, the keys are positions 0..kv_seq-1. A causal
// query sees no key after its own position; a window w leaves it the w nearest of those, its own included. Every query
// must see a key.
#pragma once

#include <cstdint>

namespace meshwright::kernels {

struct GroupedShape {
  std::int64_t batch, seq, kv_seq, kv_heads, group;
  std::int64_t key_dim, value_dim;

  [[nodiscard]] std::int64_t heads() const { return kv_heads * group; }
  // Differences key - query position lie in -(first_position + seq - 1) .. kv_seq - 1 - first_position.
  [[nodiscard]] std::int64_t distances() const { return kv_seq + seq - 1; }
};

template <class T>
struct AttentionRule {
  double scale;
  bool causal;
  std::int64_t window;  // 0: none; else causal
  std::int64_t first_position;
  const T* sink = nullptr;           // (kv_heads, group): one more logit in the softmax's denominator
  const T* distance_bias = nullptr;  // (kv_heads, group, distances): added to the scaled scores, least distance first
};

template <class T>
void grouped_attention(const T* q,  // (batch, seq, kv_heads, group, key_dim)
                       const T* k,  // (batch, kv_seq, kv_heads, key_dim)
                       const T* v,  // (batch, kv_seq, kv_heads, value_dim)
                       T* out,      // (batch, seq, kv_heads, group, value_dim)
                       GroupedShape shape, const AttentionRule<T>& rule);

// Gradients of the extra operands, each null where the rule has none; summed in double.
struct ExtraGradients {
  double* sink;           // (kv_heads, group)
  double* distance_bias;  // (kv_heads, group, distances)
};

// Recomputes the probabilities.
template <class T>
void grouped_attention_backward(const T* q, const T* k, const T* v,
                                const T* dout,          // (batch, seq, kv_heads, group, value_dim)
                                T* dq, T* dk, T* dv,    // as q, k, v
                                ExtraGradients extras,  // overwritten
                                GroupedShape shape, const AttentionRule<T>& rule);

// --- biases by distance ---

// Attention with linear biases (O. Press et al., ALiBi, 2022): -slope |distance|. Slopes of H heads, H a power of two,
// are 2^(-8 (h + 1) / H); for other H the slopes of the largest power of two P below, then every second slope of 2P.
[[nodiscard]] double alibi_slope(std::int64_t head, std::int64_t heads);

// Which of the whole op's heads the part has: its first index of kv_heads and of group, and their whole sizes.
struct HeadPart {
  std::int64_t first_kv_head, first_group, whole_kv_heads, whole_group;
};
template <class T>
void alibi_bias(T* bias,  // (kv_heads, group, distances)
                GroupedShape shape, std::int64_t first_position, HeadPart part);

// T5's bucket of a distance key - query (C. Raffel et al., 2020): half of the buckets one distance each, the others
// growing logarithmically up to 128, the last for all beyond. Bidirectional: the upper half of the buckets is for keys
// after the query; else those fall into bucket 0. REQUIRES: from 2 to 255 buckets per direction.
[[nodiscard]] std::int64_t relative_bucket(std::int64_t distance, std::int64_t buckets, bool bidirectional);

template <class T>
void relative_bias(const T* table,  // (buckets, kv_heads, group)
                   std::int64_t buckets, bool bidirectional,
                   T* bias,  // (kv_heads, group, distances)
                   GroupedShape shape, std::int64_t first_position);
template <class T>
void relative_bias_gradient(const double* dbias,  // (kv_heads, group, distances)
                            std::int64_t buckets, bool bidirectional,
                            T* dtable,  // (buckets, kv_heads, group)
                            GroupedShape shape, std::int64_t first_position);

}  // namespace meshwright::kernels
