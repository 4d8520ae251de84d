// SPDX-License-Identifier: Apache-2.0
// Sparse attention by an indexer (DeepSeek-AI, DeepSeek-V3.2-Exp, 2025): scores of few small heads choose, for each
// query, the keys that attention then reads. Plain loops; sums are kept in double.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention/attention.h"

namespace meshwright::kernels {

struct IndexShape {
  std::int64_t batch, seq, kv_seq, heads, dim;
};
// out (batch, seq, kv_seq) = sum over heads of weights (batch, seq, heads) max(0, q k^T); q (batch, seq, heads, dim),
// k (batch, kv_seq, dim).
template <class T>
void index_scores(const T* q, const T* k, const T* weights, T* out, const IndexShape& shape);

// Query s has the position first_position + s and sees no key after its own.
struct TopKShape {
  std::int64_t batch, seq, kv_seq, top_k, first_position;
};
// keys (batch, seq, top_k): those of the highest scores (batch, seq, kv_seq), of equal ones the first, in ascending
// order; -1 behind them where a query sees fewer.
template <class T>
void top_k_keys(const T* scores, std::int32_t* keys, const TopKShape& shape);

// Dense operands as of AttentionViews; keys (batch, seq, selected) as top_k_keys makes them.
template <class T>
struct SelectedCall {
  AttentionShape shape;
  std::int64_t selected;
  double scale;
  const T *q, *k, *v;
  const std::int32_t* keys;
};
template <class T>
void selected_attention(const SelectedCall<T>& call,
                        T* out);  // (batch, seq, kv_heads, group, value_dim)
// Overwrites the gradients. Recomputes the probabilities.
template <class T>
void selected_attention_backward(const SelectedCall<T>& call, const T* dout, T* dq, T* dk, T* dv);

}  // namespace meshwright::kernels
