// SPDX-License-Identifier: Apache-2.0
// Biases of attention scores by the distance from a query to a key: key - query position. An array of biases has one
// per head and distance, in the order of distances, beginning with the smallest, -(first_position + seq - 1).
#pragma once

#include <cstdint>

#include "kernels/cpu/attention/attention.h"

namespace meshwright::kernels {

// Attention with linear biases (O. Press et al., ALiBi, 2022): -slope |distance|. Slopes of H heads, H a power of two,
// are 2^(-8 (h + 1) / H); for other H the slopes of the largest power of two P below, then every second slope of 2P.
[[nodiscard]] double alibi_slope(std::int64_t head, std::int64_t heads);

// The heads of a part of an op: its first index of kv_heads and of group, and the sizes of both in the whole op.
struct HeadPart {
  std::int64_t first_kv_head, first_group, whole_kv_heads, whole_group;
};
template <class T>
void alibi_bias(T* bias,  // (kv_heads, group, distances)
                const AttentionShape& shape, std::int64_t first_position, HeadPart part);

// T5's bucket of a distance key - query (C. Raffel et al., 2020): half of the buckets one distance each, the others
// growing logarithmically up to 128, the last for all beyond. Bidirectional: the upper half of the buckets is for keys
// after the query; else those fall into bucket 0. REQUIRES: from 2 to 255 buckets per direction.
[[nodiscard]] std::int64_t relative_bucket(std::int64_t distance, std::int64_t buckets, bool bidirectional);

template <class T>
void relative_bias(const T* table,  // (buckets, kv_heads, group)
                   std::int64_t buckets, bool bidirectional,
                   T* bias,  // (kv_heads, group, distances)
                   const AttentionShape& shape, std::int64_t first_position);
template <class T>
void relative_bias_gradient(const double* dbias,  // (kv_heads, group, distances)
                            std::int64_t buckets, bool bidirectional,
                            T* dtable,  // (buckets, kv_heads, group)
                            const AttentionShape& shape, std::int64_t first_position);

}  // namespace meshwright::kernels
