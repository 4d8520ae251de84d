// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/attention_bias.h"

#include "kernels/cuda/blocks/launch.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr int kThreads = 256;

// Block x: distances; block y: a head.
template <class W>
__global__ void alibi_kernel(W* bias, std::int64_t distances, std::int64_t minimum, std::int64_t group, HeadPart part) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x, head = blockIdx.y;
  if (i >= distances) return;
  // The slope follows from the head's number among all heads of the model; `part` says which of them are here.
  const double slope =
      alibi_slope((part.first_kv_head + head / group) * part.whole_group + part.first_group + head % group,
                  part.whole_kv_heads * part.whole_group);
  const std::int64_t distance = minimum + i;
  bias[head * distances + i] = W(-slope * static_cast<double>(distance < 0 ? -distance : distance));
}

template <class T>
__global__ void relative_kernel(const T* table, RelativeBuckets by, Wide<T>* bias, std::int64_t distances,
                                std::int64_t minimum) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x, head = blockIdx.y;
  if (i >= distances) return;
  const std::int64_t bucket = relative_bucket(minimum + i, by);
  // gridDim.y: the number of heads, the table's innermost dimension.
  bias[head * distances + i] = static_cast<Wide<T>>(table[bucket * gridDim.y + head]);
}

// Block x: a bucket; block y: a head. A block is a warp.
template <class T>
__global__ void relative_gradient_kernel(const Wide<T>* dbias, RelativeBuckets by, T* dtable, std::int64_t distances,
                                         std::int64_t minimum) {
  const std::int64_t bucket = blockIdx.x, head = blockIdx.y;
  // The warp of a bucket walks over all distances and adds those of its bucket: few steps beside the scores' own, and
  // no atomics, so that each entry has one writer.
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < distances; i += kWarp)
    if (relative_bucket(minimum + i, by) == bucket) sum += static_cast<double>(dbias[head * distances + i]);
  sum = warp_sum(sum);
  if (threadIdx.x == 0) dtable[bucket * gridDim.y + head] = T(sum);
}

std::int64_t min_distance(const AttentionShape& shape, std::int64_t first_position) {
  // Key 0 seen from the last query.
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
void relative_bias(Stream stream, const T* table, const RelativeBuckets& by, Wide<T>* bias, const AttentionShape& shape,
                   std::int64_t first_position) {
  launch("relative_bias", relative_kernel<T>, grid_of_distances(shape), {kThreads, 1, 1}, 0, stream, table, by, bias,
         shape.distances(), min_distance(shape, first_position));
}

template <class T>
void relative_bias_gradient(Stream stream, const Wide<T>* dbias, const RelativeBuckets& by, T* dtable,
                            const AttentionShape& shape, std::int64_t first_position) {
  launch("relative_bias_gradient", relative_gradient_kernel<T>, {by.buckets, shape.heads(), 1}, {kWarp, 1, 1}, 0,
         stream, dbias, by, dtable, shape.distances(), min_distance(shape, first_position));
}

template void alibi_bias<float>(Stream, float*, const AttentionShape&, std::int64_t, HeadPart);
template void alibi_bias<double>(Stream, double*, const AttentionShape&, std::int64_t, HeadPart);
#define MW_INSTANTIATE(T)                                                                                            \
  template void relative_bias<T>(Stream, const T*, const RelativeBuckets&, Wide<T>*, const AttentionShape&,          \
                                 std::int64_t);                                                                      \
  template void relative_bias_gradient<T>(Stream, const Wide<T>*, const RelativeBuckets&, T*, const AttentionShape&, \
                                          std::int64_t);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
