// SPDX-License-Identifier: Apache-2.0
// Attention on the device: what kernels/cpu/attention/attention.h and kernels/cpu/attention/grouped_attention.h
// compute, by tiles of queries and keys whose scores never leave the multiprocessor, with the softmax kept up along the
// way (T. Dao et al., FlashAttention, 2022). Tiles that no query of theirs sees are skipped.
//
// A forward is two products of (seq, kv_seq) scores; a backward nine, because nothing of the forward is kept: two for
// the softmaxes' sums, three for dq, four for dk and dv. Every gradient has one writer: the same bits every time.
//
// T: float, double, Bf16, F16. Bf16 and F16 multiply on tensor cores where tensor_cores_fit says so, else as float.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

enum class AttentionPath { Best, Plain };  // Plain: without tensor cores

struct AttentionShape {
  std::int64_t batch, seq, heads, head_dim;
};

// Causal self-attention.
template <class T>
void attention(Stream stream,
               const T* qkv,  // (batch, seq, 3, heads, head_dim)
               T* out,        // (batch, seq, heads, head_dim)
               AttentionShape shape, AttentionPath path = AttentionPath::Best);

// `workspace`: of attention_backward_workspace's bytes.
template <class T>
void attention_backward(Stream stream,
                        const T* qkv,   // (batch, seq, 3, heads, head_dim)
                        const T* dout,  // (batch, seq, heads, head_dim)
                        T* dqkv,        // (batch, seq, 3, heads, head_dim)
                        AttentionShape shape, void* workspace, AttentionPath path = AttentionPath::Best);
template <class T>
[[nodiscard]] std::size_t attention_backward_workspace(AttentionShape shape);

// As in kernels/cpu/attention/grouped_attention.h.
struct GroupedShape {
  std::int64_t batch, seq, kv_seq, kv_heads, group;
  std::int64_t key_dim, value_dim;

  [[nodiscard]] std::int64_t heads() const { return kv_heads * group; }
  [[nodiscard]] std::int64_t distances() const { return kv_seq + seq - 1; }
};

template <class T>
struct AttentionRule {
  double scale;
  bool causal;
  std::int64_t window;  // 0: none; else causal
  std::int64_t first_position;
  const T* sink = nullptr;                 // (kv_heads, group)
  const Wide<T>* distance_bias = nullptr;  // (kv_heads, group, distances), least distance first
};

template <class T>
void grouped_attention(Stream stream,
                       const T* q,  // (batch, seq, kv_heads, group, key_dim)
                       const T* k,  // (batch, kv_seq, kv_heads, key_dim)
                       const T* v,  // (batch, kv_seq, kv_heads, value_dim)
                       T* out,      // (batch, seq, kv_heads, group, value_dim)
                       GroupedShape shape, const AttentionRule<T>& rule, AttentionPath path = AttentionPath::Best);

// Each null where the rule has none, or it is not asked for.
template <class T>
struct ExtraGradients {
  T* sink = nullptr;                 // (kv_heads, group)
  Wide<T>* distance_bias = nullptr;  // (kv_heads, group, distances)
};

template <class T>
void grouped_attention_backward(Stream stream, const T* q, const T* k, const T* v,
                                const T* dout,             // (batch, seq, kv_heads, group, value_dim)
                                T* dq, T* dk, T* dv,       // as q, k, v
                                ExtraGradients<T> extras,  // overwritten
                                GroupedShape shape, const AttentionRule<T>& rule, void* workspace,
                                AttentionPath path = AttentionPath::Best);
// Two numbers per query and head; for a bias's gradient also one per tile of queries, sample, head and key.
template <class T>
[[nodiscard]] std::size_t grouped_attention_backward_workspace(GroupedShape shape, bool distance_bias_gradient);

}  // namespace meshwright::kernels::cuda
