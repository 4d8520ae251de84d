// SPDX-License-Identifier: Apache-2.0
// Biases of attention scores by the distance key - query: what kernels/cpu/attention/attention_bias.h says, on the
// device. T: float, double, Bf16, F16.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention/attention_bias.h"
#include "kernels/cuda/attention/attention.h"

namespace meshwright::kernels::cuda {

// W: float or double.
template <class W>
void alibi_bias(Stream stream,
                W* bias,  // (kv_heads, group, distances)
                const AttentionShape& shape, std::int64_t first_position, HeadPart part);

// The entry of each distance's bucket (C. Raffel et al., T5, 2020). Distances are key - query; index i of `bias` is the
// distance i - (first_position + seq - 1).
template <class T>
void relative_bias(Stream stream,
                   const T* table,  // (buckets, kv_heads, group)
                   const RelativeBuckets& by,
                   Wide<T>* bias,  // (kv_heads, group, distances)
                   const AttentionShape& shape, std::int64_t first_position);
// Overwrites dtable: an entry is the sum over the distances of its bucket, in double, rounded once; 0 for a bucket
// without distances.
template <class T>
void relative_bias_gradient(Stream stream,
                            const Wide<T>* dbias,  // (kv_heads, group, distances)
                            const RelativeBuckets& by,
                            T* dtable,  // (buckets, kv_heads, group)
                            const AttentionShape& shape, std::int64_t first_position);

}  // namespace meshwright::kernels::cuda
