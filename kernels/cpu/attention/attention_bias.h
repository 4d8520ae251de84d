// SPDX-License-Identifier: Apache-2.0
// Biases of attention scores by the distance from a query to a key: key - query position. An array of biases has one
// per head and distance, in the order of distances, beginning with the smallest, -(first_position + seq - 1).
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/elementwise/on_device.h"

namespace meshwright::kernels {

// Attention with linear biases (O. Press et al., ALiBi, 2022): -slope |distance|. Slopes of H heads, H a power of two,
// are 2^(-8 (h + 1) / H); for other H the slopes of the largest power of two P below, then every second slope of 2P.
[[nodiscard]] MW_DEVICE double alibi_slope(std::int64_t head, std::int64_t heads) {
  std::int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  const double step = 8.0 / static_cast<double>(power);
  return head < power ? std::exp2(-step * static_cast<double>(head + 1))
                      : std::exp2(-0.5 * step * static_cast<double>(2 * (head - power) + 1));
}

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
struct RelativeBuckets {
  std::int64_t buckets;
  bool bidirectional;
};
[[nodiscard]] MW_DEVICE std::int64_t relative_bucket(std::int64_t distance, const RelativeBuckets& by) {
  constexpr double kFarthest = 128.0;
  const std::int64_t each = by.bidirectional ? by.buckets / 2 : by.buckets, exact = each / 2;
  const std::int64_t base = by.bidirectional && distance > 0 ? each : 0;
  std::int64_t away = -distance;
  if (away < 0) away = by.bidirectional ? distance : 0;
  if (away < exact) return base + away;
  const double from = static_cast<double>(exact);
  const double part = std::log(static_cast<double>(away) / from) / std::log(kFarthest / from);
  // Distances that begin a bucket exactly (32 and 64 of 16 buckets) must not fall below it by rounding.
  const auto beyond = static_cast<std::int64_t>(part * static_cast<double>(each - exact) + 1e-9);
  return base + (exact + beyond < each - 1 ? exact + beyond : each - 1);
}

template <class T>
void relative_bias(const T* table,  // (buckets, kv_heads, group)
                   const RelativeBuckets& by,
                   T* bias,  // (kv_heads, group, distances)
                   const AttentionShape& shape, std::int64_t first_position);
template <class T>
void relative_bias_gradient(const double* dbias,  // (kv_heads, group, distances)
                            const RelativeBuckets& by,
                            T* dtable,  // (buckets, kv_heads, group)
                            const AttentionShape& shape, std::int64_t first_position);

}  // namespace meshwright::kernels
