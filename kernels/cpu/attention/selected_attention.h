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

// Query s has the position p = first_position + s and sees the keys up to (p + 1) / stride.
struct TopKShape {
  std::int64_t batch, seq, kv_seq, top_k, first_position;
  std::int64_t stride = 1;  // positions that a key stands for
  std::int64_t window = 0;  // positions that are chosen besides, the query's own the last of them
};
// keys (batch, seq, top_k + window): those of the highest scores (batch, seq, kv_seq), of equal ones the first, in
// ascending order; -1 behind them where a query sees fewer. Then position p is kv_seq + p, or -1 before the first.
template <class T>
void top_k_keys(const T* scores, std::int32_t* keys, const TopKShape& shape);

struct BlockShape {
  std::int64_t batch, seq, heads, kv_seq, top_k, block, local, first_position;
};
// keys (batch, seq, heads, top_k * block): for each head the keys of the blocks whose best score (batch, seq, heads,
// kv_seq) of a key that the query sees is highest, and of the last `local` blocks up to the query's own; of equal ones
// the first. -1 stands for keys after the query and behind the last, and for blocks that it does not see.
template <class T>
void top_k_blocks(const T* scores, std::int32_t* keys, const BlockShape& shape);

// Dense operands as of AttentionViews; keys (batch, seq, selected), or of each of kv_heads: -1 is none. `sink`
// (kv_heads, group), or null: one more logit of each head in the denominator.
template <class T>
struct SelectedCall {
  AttentionShape shape;
  std::int64_t selected;
  double scale;
  const T *q, *k, *v;
  const std::int32_t* keys;
  const T* sink = nullptr;
  bool keys_by_head = false;  // (batch, seq, kv_heads, selected)
};
template <class T>
void selected_attention(const SelectedCall<T>& call,
                        T* out);  // (batch, seq, kv_heads, group, value_dim)
// Overwrites the gradients; dsink is null without a sink. Recomputes the probabilities.
template <class T>
void selected_attention_backward(const SelectedCall<T>& call, const T* dout, T* dq, T* dk, T* dv, T* dsink);

}  // namespace meshwright::kernels
