// SPDX-License-Identifier: Apache-2.0
// From an attention op on a shard to a call of the kernels, which compute packed and separate operands alike. Internal
// to the executor.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "executor/ops/shard_call.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/attention_bias.h"

namespace meshwright {

// Whether q, k and v are one operand (batch, seq, qkv=3, heads, head_dim), of causal self-attention.
inline bool is_packed_attention(const ShardCall& o) {
  return o.call.kind == OpKind::Attention || o.call.kind == OpKind::AttentionBackward;
}

inline kernels::AttentionShape attention_shape(const ShardCall& o) {
  if (is_packed_attention(o))
    return kernels::AttentionShape::packed(o.in_size(0, 0), o.in_size(0, 1), o.in_size(0, 3), o.in_size(0, 4));
  return {o.in_size(0, 0), o.in_size(0, 1), o.in_size(1, 1), o.in_size(0, 2),
          o.in_size(0, 3), o.in_size(0, 4), o.in_size(2, 3)};
}

// The rule without the arrays of a sink and of biases.
template <class T, class Bias = T>
kernels::AttentionRule<T, Bias> attention_rule(const ShardCall& o, const kernels::AttentionShape& shape) {
  const Attributes& a = o.attributes();
  const double scale = a.scale != 1.0 ? a.scale : 1.0 / std::sqrt(static_cast<double>(shape.key_dim));
  if (is_packed_attention(o)) return {scale, true, 0, 0};
  const std::vector<int>&q = o.call.space.inputs[0], &k = o.call.space.inputs[1];
  // The queries are the last positions of the keys.
  const std::int64_t first_position = o.begin(q[1]) + o.whole(k[1]) - o.whole(q[1]);
  kernels::AttentionRule<T, Bias> rule{scale, a.causal, a.attention_window, first_position};
  rule.cap = a.score_cap;
  return rule;
}

// How far apart the rows of a mask are: of the samples and of the queries; 0 where it does not tell them apart.
struct MaskStrides {
  std::int64_t sample = 0, query = 0;
};
inline MaskStrides mask_strides(const ShardCall& o, const kernels::AttentionShape& shape) {
  const std::vector<int>&q = o.call.space.inputs[0], &mask = o.call.space.inputs[3];
  const auto has = [&](int axis) { return std::find(mask.begin(), mask.end(), axis) != mask.end(); };
  const std::int64_t query = has(q[1]) ? shape.kv_seq : 0;
  return {!has(q[0]) ? 0 : query != 0 ? shape.seq * shape.kv_seq : shape.kv_seq, query};
}

inline kernels::HeadPart attention_heads(const ShardCall& o) {
  const std::vector<int>& q = o.call.space.inputs[0];
  return {o.begin(q[2]), o.begin(q[3]), o.whole(q[2]), o.whole(q[3])};
}

// The views of three arrays, or of the one that holds all.
template <class T, class At>
kernels::AttentionViews<T> attention_views(const ShardCall& o, const kernels::AttentionShape& shape, At at) {
  return is_packed_attention(o) ? kernels::packed_views<T>(at(0), shape)
                                : kernels::separate_views<T>(at(0), at(1), at(2), shape);
}

}  // namespace meshwright
