// SPDX-License-Identifier: Apache-2.0
// Causal self-attention: softmax(q k^T / sqrt(head_dim)) v per sample and head; position i attends to positions 0..i.
//
// Rows are taken in blocks, so that the upper half of the scores is neither computed nor kept: the workspace is a block
// of scores, not (seq, seq).
#pragma once

#include <cstdint>

namespace meshwright::kernels {

struct AttentionShape {
  std::int64_t batch, seq, heads, head_dim;
};

template <class T>
void attention(const T* qkv,  // (batch, seq, 3, heads, head_dim)
               T* out,        // (batch, seq, heads, head_dim)
               AttentionShape shape);

// Recomputes the probabilities.
template <class T>
void attention_backward(const T* qkv,   // (batch, seq, 3, heads, head_dim)
                        const T* dout,  // (batch, seq, heads, head_dim)
                        T* dqkv,        // (batch, seq, 3, heads, head_dim)
                        AttentionShape shape);

}  // namespace meshwright::kernels
