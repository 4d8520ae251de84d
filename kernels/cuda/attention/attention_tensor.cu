// SPDX-License-Identifier: Apache-2.0
// The forward and the queries' statistics on tensor cores. Rows of a tile are queries; keys and values stream past them
// in stages (attention_tensor.h).
//
// A turn of the loop over keys (for_each_key_stage): scores s = q k^T, their powers p relative to the largest so far,
// results = factor results + p v. Scores never leave registers: a lane's scores, rounded and packed in pairs, are its
// part of the left operand of the product with v (mma.h).
//
// A warp has 32 queries (tall = 2). Of a lane's 255 registers, heads of 128 elements take 2 * 16 * 4 = 128 for results,
// and 64 keys 2 * 8 * 4 = 64 for scores. The statistics have two matrices of scores, s and dp, and take 32 keys at once
// where heads are wide.
#include "kernels/cuda/attention/attention_launches.h"
#include "kernels/cuda/attention/attention_tensor.h"

namespace meshwright::kernels::cuda {

namespace {

// The maximum that a kernel of attention takes: two tiles of 128 rows, and four of 32.
constexpr std::size_t kWidestBytes = 2 * (2 * 128 + 4 * 32) * kRowStride<128>;

template <class S, class T>
__global__ void __launch_bounds__(kTensorThreads) forward_kernel(AttentionTask<T> task, HeadView<T> out) {
  MW_DYNAMIC_SHARED(T, q);
  T* const stages = q + S::row_elements;
  const QueryTile at = query_tile<S::rows, S::others>(task);
  begin_rows<S::depth, S::rows>(q, rows_from(task.q, at.sample, at.first, at.head, task.seq), task.key_dim);
  begin_key_stage<S>(task, stages, at.sample, at.key, at.kv_head);
  const float scale = power_scale(task);
  TensorSoftmax<S::tall> softmax;
  softmax.begin(task, at.head);
  Fragments<S::tall, S::depth / 8> results;
  results.clear();
  for_each_key_stage<S>(task, at, stages, [&](const T* k, int key) {
    Fragments<S::tall, S::wide> s;
    rows_times_rows<S::depth>(s, q, k);
    finish_scores(s, task, at.head, at.first, key);
    float factor[S::tall][2];
    softmax.next(s, scale, factor);
    each_row<S::tall>([&](int m, int h) {
      MW_UNROLL
      for (int n = 0; n < S::depth / 8; ++n) MW_UNROLL
      for (int u = 0; u < 2; ++u) results.of[m][n][2 * h + u] *= factor[m][h];
    });
    add_product<S::depth>(results, rounded<T>(s), k + S::other_elements);
  });
  // A warp reads only its own rows of q, so it stages its results there without waiting for the others.
  float inverse[S::tall][2];
  each_row<S::tall>([&](int m, int h) { inverse[m][h] = 1.0f / quad_sum(softmax.sum[m][h]); });
  write_rows<S::depth>(results, inverse, q, out.at(at.sample, at.first, at.head), out.row, task.seq - at.first,
                       task.value_dim);
}

template <class S, class T>
__global__ void __launch_bounds__(kTensorThreads)
    statistics_kernel(AttentionTask<T> task, QueryStatistics<T> statistics) {
  MW_DYNAMIC_SHARED(T, q);
  T* const dout = q + S::row_elements;
  T* const stages = dout + S::row_elements;
  const QueryTile at = query_tile<S::rows, S::others>(task);
  begin_query_rows<S>(task, at, q, dout);
  begin_key_stage<S>(task, stages, at.sample, at.key, at.kv_head);
  const float scale = power_scale(task);
  TensorSoftmax<S::tall> softmax;
  softmax.begin(task, at.head);
  float along[S::tall][2] = {};
  for_each_key_stage<S>(task, at, stages, [&](const T* k, int key) {
    Fragments<S::tall, S::wide> s, dp;
    rows_times_rows<S::depth>(s, q, k);
    finish_scores(s, task, at.head, at.first, key);
    rows_times_rows<S::depth>(dp, dout, k + S::other_elements);
    float factor[S::tall][2];
    softmax.next(s, scale, factor);
    each_row<S::tall>([&](int m, int h) {
      float added = 0;
      MW_UNROLL
      for (int n = 0; n < S::wide; ++n) MW_UNROLL
      for (int i = 2 * h; i < 2 * h + 2; ++i) added += s.of[m][n][i] * dp.of[m][n][i];
      along[m][h] = along[m][h] * factor[m][h] + added;
    });
  });
  const std::int64_t row = task.statistics_row(at.sample, at.head);
  each_row<S::tall>([&](int m, int h) {
    const float sum = quad_sum(softmax.sum[m][h]), whole = quad_sum(along[m][h]);  // of the row's four lanes
    const int query = at.first + row_of<S::tall>(m, 2 * h);
    if (query >= task.seq || lane_id() % 4 != 0) return;
    statistics.log_sum[row + query] = softmax.largest[m][h] * task.scale + logarithm(sum);
    statistics.along[row + query] = whole / sum;
  });
}

// A block for each tile of queries, head and sample.
template <class S, class T>
Size3 grid_of(const AttentionTask<T>& task) {
  return {std::int64_t{tiles_of(task.seq, S::rows)} * task.heads * task.batch, 1, 1};
}

// Whether all rows begin at multiples of 16 bytes, which copies of 16 bytes want. T has 2.
template <class T>
bool aligned(HeadView<T> view) {
  return reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 && view.sample % 8 == 0 && view.row % 8 == 0 &&
         view.head % 8 == 0;
}

// What a block may ask for on this device.
std::size_t max_shared_bytes() {
#ifdef __CUDACC__
  int device = 0, bytes = 0;
  (void)cudaGetDevice(&device);
  (void)cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return static_cast<std::size_t>(bytes);
#else
  return std::size_t{227} * 1024;
#endif
}

}  // namespace

template <class T>
bool tensor_cores_fit(const AttentionTask<T>& task, HeadView<T> result) {
  const int widest = larger(task.key_dim, task.value_dim);
  // Compute capabilities 8.6 and 8.9 have too little for the widest tiles.
  if (widest > 96 && max_shared_bytes() < kWidestBytes) return false;
  return widest <= 128 && task.key_dim % 8 == 0 && task.value_dim % 8 == 0 && aligned(task.q) && aligned(task.k) &&
         aligned(task.v) && aligned(task.dout) && aligned(result);
}

template <class T>
void forward_tensor(Stream stream, const AttentionTask<T>& task, HeadView<T> out) {
  with_depth(task, [&](auto depth) {
    using S = TensorSizes<decltype(depth)::value, 2, 8>;
    launch("attention", forward_kernel<S, T>, grid_of<S>(task), {kTensorThreads, 1, 1},
           sizeof(T) * (S::row_elements + 4 * S::other_elements), stream, task, out);
  });
}

template <class T>
void statistics_tensor(Stream stream, const AttentionTask<T>& task, QueryStatistics<T> statistics) {
  with_depth(task, [&](auto depth) {
    using S = TensorSizes<decltype(depth)::value, 2, decltype(depth)::value <= 64 ? 8 : 4>;
    launch("attention_statistics", statistics_kernel<S, T>, grid_of<S>(task), {kTensorThreads, 1, 1},
           sizeof(T) * (2 * S::row_elements + 4 * S::other_elements), stream, task, statistics);
  });
}

#define MW_INSTANTIATE(T)                                                        \
  template bool tensor_cores_fit<T>(const AttentionTask<T>&, HeadView<T>);       \
  template void forward_tensor<T>(Stream, const AttentionTask<T>&, HeadView<T>); \
  template void statistics_tensor<T>(Stream, const AttentionTask<T>&, QueryStatistics<T>);
MW_INSTANTIATE(Bf16)
MW_INSTANTIATE(F16)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
