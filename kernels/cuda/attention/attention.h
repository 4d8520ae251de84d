// SPDX-License-Identifier: Apache-2.0
// Attention on the device, as kernels/cpu/attention/attention.h defines it: by tiles of queries and keys whose scores
// never leave the multiprocessor, with running sums of the softmax (T. Dao et al., FlashAttention, 2022). Tiles of keys
// that none of a tile's queries sees are skipped.
//
// A forward is two products of (seq, kv_seq) scores; a backward nine, because nothing of the forward is kept: two for
// the softmaxes' sums, three for dq, four for dk and dv. Every gradient has one writer: the same bits every time.
//
// T: float, double, Bf16, F16. Bf16 and F16 multiply on tensor cores where tensor_cores_fit says so, else as float.
#pragma once

#include <cstddef>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

enum class AttentionPath { Best, Plain };  // Plain: without tensor cores

template <class T>
using AttentionRule = kernels::AttentionRule<T, Wide<T>>;
template <class T>
using AttentionCall = kernels::AttentionCall<T, Wide<T>>;

template <class T>
void attention(Stream stream, const AttentionCall<T>& call,
               T* out,  // (batch, seq, kv_heads, group, value_dim)
               AttentionPath path = AttentionPath::Best);

// Those of the extra operands are null where the rule has none, or they are not asked for.
template <class T>
struct AttentionGradients {
  AttentionViews<T> operands;
  T* sink = nullptr;                 // (kv_heads, group)
  Wide<T>* distance_bias = nullptr;  // (kv_heads, group, distances)
};

// Overwrites the gradients. `workspace`: of attention_backward_workspace's bytes.
template <class T>
void attention_backward(Stream stream, const AttentionCall<T>& call,
                        const T* dout,  // (batch, seq, kv_heads, group, value_dim)
                        const AttentionGradients<T>& gradients, void* workspace,
                        AttentionPath path = AttentionPath::Best);
// Two numbers per query and head; for a bias's gradient also one per tile of queries, sample, head and key.
template <class T>
[[nodiscard]] std::size_t attention_backward_workspace(const AttentionShape& shape, bool distance_bias_gradient);

}  // namespace meshwright::kernels::cuda
