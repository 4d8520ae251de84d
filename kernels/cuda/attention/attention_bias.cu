// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/attention_bias.h"

#include <cmath>

#include "kernels/cuda/blocks/launch.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr int kThreads = 256;

MW_DEVICE double alibi_slope(std::int64_t head, std::int64_t heads) {
  std::int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  const double step = 8.0 / static_cast<double>(power);
  return head < power ? exp2(-step * static_cast<double>(head + 1))
                      : exp2(-0.5 * step * static_cast<double>(2 * (head - power) + 1));
}

// T5's bucket of a distance, as in kernels/cpu/attention/attention_bias.h.
MW_DEVICE std::int64_t relative_bucket(std::int64_t distance, std::int64_t buckets, bool bidirectional) {
  constexpr double kFarthest = 128.0;
  const std::int64_t each = bidirectional ? buckets / 2 : buckets, exact = each / 2;
  const std::int64_t base = bidirectional && distance > 0 ? each : 0;
  std::int64_t away = -distance;
  if (away < 0) away = bidirectional ? distance : 0;
  if (away < exact) return base + away;
  const double from = static_cast<double>(exact);
  const double part = log(static_cast<double>(away) / from) / log(kFarthest / from);
  // Distances that begin a bucket exactly (32 and 64 of 16 buckets) must not fall below it by rounding.
  const auto beyond = static_cast<std::int64_t>(part * static_cast<double>(each - exact) + 1e-9);
  return base + (exact + beyond < each - 1 ? exact + beyond : each - 1);
}

// Block x: distances; block y: a head.
template <class W>
__global__ void alibi_kernel(W* bias, std::int64_t distances, std::int64_t minimum, std::int64_t group, HeadPart part) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x, head = blockIdx.y;
  if (i >= distances) return;
  const double slope =
      alibi_slope((part.first_kv_head + head / group) * part.whole_group + part.first_group + head % group,
                  part.whole_kv_heads * part.whole_group);
  const std::int64_t distance = minimum + i;
  bias[head * distances + i] = W(-slope * static_cast<double>(distance < 0 ? -distance : distance));
}

template <class T>
__global__ void relative_kernel(const T* table, std::int64_t buckets, bool bidirectional, Wide<T>* bias,
                                std::int64_t distances, std::int64_t minimum) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x, head = blockIdx.y;
  if (i >= distances) return;
  const std::int64_t bucket = relative_bucket(minimum + i, buckets, bidirectional);
  bias[head * distances + i] = static_cast<Wide<T>>(table[bucket * gridDim.y + head]);
}

// Block x: a bucket; block y: a head. A block is a warp.
template <class T>
__global__ void relative_gradient_kernel(const Wide<T>* dbias, std::int64_t buckets, bool bidirectional, T* dtable,
                                         std::int64_t distances, std::int64_t minimum) {
  const std::int64_t bucket = blockIdx.x, head = blockIdx.y;
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < distances; i += kWarp)
    if (relative_bucket(minimum + i, buckets, bidirectional) == bucket)
      sum += static_cast<double>(dbias[head * distances + i]);
  sum = warp_sum(sum);
  if (threadIdx.x == 0) dtable[bucket * gridDim.y + head] = T(sum);
}

std::int64_t min_distance(const AttentionShape& shape, std::int64_t first_position) {
  return -(first_position + shape.seq - 1);
}
Size3 grid_of_distances(const AttentionShape& shape) {
  return {ceil_div(shape.distances(), kThreads), shape.heads(), 1};
}

}  // namespace

template <class W>
void alibi_bias(Stream stream, W* bias, const AttentionShape& shape, std::int64_t first_position, HeadPart part) {
  launch("alibi_bias", alibi_kernel<W>, grid_of_distances(shape), {kThreads, 1, 1}, 0, stream, bias, shape.distances(),
         min_distance(shape, first_position), shape.group, part);
}

template <class T>
void relative_bias(Stream stream, const T* table, std::int64_t buckets, bool bidirectional, Wide<T>* bias,
                   const AttentionShape& shape, std::int64_t first_position) {
  launch("relative_bias", relative_kernel<T>, grid_of_distances(shape), {kThreads, 1, 1}, 0, stream, table, buckets,
         bidirectional, bias, shape.distances(), min_distance(shape, first_position));
}

template <class T>
void relative_bias_gradient(Stream stream, const Wide<T>* dbias, std::int64_t buckets, bool bidirectional, T* dtable,
                            const AttentionShape& shape, std::int64_t first_position) {
  launch("relative_bias_gradient", relative_gradient_kernel<T>, {buckets, shape.heads(), 1}, {kWarp, 1, 1}, 0, stream,
         dbias, buckets, bidirectional, dtable, shape.distances(), min_distance(shape, first_position));
}

template void alibi_bias<float>(Stream, float*, const AttentionShape&, std::int64_t, HeadPart);
template void alibi_bias<double>(Stream, double*, const AttentionShape&, std::int64_t, HeadPart);
#define MW_INSTANTIATE(T)                                                                                              \
  template void relative_bias<T>(Stream, const T*, std::int64_t, bool, Wide<T>*, const AttentionShape&, std::int64_t); \
  template void relative_bias_gradient<T>(Stream, const Wide<T>*, std::int64_t, bool, T*, const AttentionShape&,       \
                                          std::int64_t);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
