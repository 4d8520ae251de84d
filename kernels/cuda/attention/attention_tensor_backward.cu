// SPDX-License-Identifier: Apache-2.0
// The gradients of attention on tensor cores (attention_backward.cu has the formulas). p and ds are rounded to T as
// operands of the second products.
//
// dq has queries as rows, which stream keys past them; dk and dv have keys as rows, which stream queries past them. So
// each gradient is summed by one warp in its registers, in the order of the loop, without atomics: two runs give the
// same bits. In return each kernel computes s and dp.
#include "kernels/cuda/attention/attention_launches.h"
#include "kernels/cuda/attention/attention_tensor.h"

namespace meshwright::kernels::cuda {

namespace {

// Narrower where registers would not do: two fragments of scores, and one result of `depth` columns for queries, two
// for keys.
template <int depth>
using QuerySizes = TensorSizes<depth, 2, depth <= 64 ? 8 : 4>;
template <int depth>
using KeySizes = TensorSizes<depth, depth <= 64 ? 2 : 1, 4>;

template <class S, class T>
__global__ void __launch_bounds__(kTensorThreads)
    query_gradient_kernel(AttentionTask<T> task, GradientTask<T> gradients) {
  MW_DYNAMIC_SHARED(T, q);
  T* const dout = q + S::row_elements;
  T* const stages = dout + S::row_elements;
  const QueryTile at = query_tile<S::rows, S::others>(task);
  begin_query_rows<S>(task, at, q, dout);
  begin_key_stage<S>(task, stages, at.sample, at.key, at.kv_head);
  const std::int64_t row = task.statistics_row(at.sample, at.head);
  float log_sum[S::tall][2], along[S::tall][2], factor[S::tall][2];
  each_row<S::tall>([&](int m, int h) {
    const int query = at.first + row_of<S::tall>(m, 2 * h);
    const bool inside = query < task.seq;
    log_sum[m][h] = inside ? gradients.statistics.log_sum[row + query] * kLog2E : 0.0f;
    along[m][h] = inside ? gradients.statistics.along[row + query] : 0.0f;
    factor[m][h] = task.scale;
  });
  const float scale = power_scale(task);
  Fragments<S::tall, S::depth / 8> dq;
  dq.clear();
  for_each_key_stage<S>(task, at, stages, [&](const T* k, int key) {
    Fragments<S::tall, S::wide> s, dp;
    rows_times_rows<S::depth>(s, q, k);
    finish_scores(s, task, at.head, at.first, key);
    rows_times_rows<S::depth>(dp, dout, k + S::other_elements);
    MW_UNROLL
    for (int m = 0; m < S::tall; ++m) MW_UNROLL
    for (int n = 0; n < S::wide; ++n) MW_UNROLL
    for (int i = 0; i < 4; ++i)
      s.of[m][n][i] = power_of_two(s.of[m][n][i] * scale - log_sum[m][i / 2]) * (dp.of[m][n][i] - along[m][i / 2]);
    add_product<S::depth>(dq, rounded<T>(s), k);
  });
  write_rows<S::depth>(dq, factor, q, gradients.dq.at(at.sample, at.first, at.head), gradients.dq.row,
                       task.seq - at.first, task.key_dim);
}

// A thread of the transposed tile has the statistics of two columns per fragment, and reads them from shared memory.
//
// Finished scores, rows being keys and columns queries, to p, and dp to ds.
template <class S>
MW_DEVICE void to_gradients(Fragments<S::tall, S::wide>& s, Fragments<S::tall, S::wide>& dp, float scale,
                            const float* log_sums, const float* alongs) {
  MW_UNROLL
  for (int n = 0; n < S::wide; ++n) MW_UNROLL
  for (int u = 0; u < 2; ++u) {
    const float log_sum = log_sums[column_of(n, u)] * kLog2E, along = alongs[column_of(n, u)];
    each_row<S::tall>([&](int m, int h) {
      float& p = s.of[m][n][2 * h + u];
      p = power_of_two(p * scale - log_sum);
      dp.of[m][n][2 * h + u] = p * (dp.of[m][n][2 * h + u] - along);
    });
  }
}

// A stage's queries q and dout, and their statistics in `numbers`: log_sum (others), then along (others), a number for
// each thread of the first two runs of `others`. `at.tile`: the first query.
template <class S, class T>
MW_DEVICE void begin_query_stage(const AttentionTask<T>& task, const QueryStatistics<T>& statistics, T* stage,
                                 float* numbers, const TilePlace& at) {
  begin_rows<S::depth, S::others>(stage, rows_from(task.q, at.sample, at.tile, at.head, task.seq), task.key_dim);
  begin_rows<S::depth, S::others>(stage + S::other_elements,
                                  rows_from(task.dout, at.sample, at.tile, at.head, task.seq), task.value_dim);
  const std::int64_t row = task.statistics_row(at.sample, at.head);
  const int thread = static_cast<int>(threadIdx.x), i = thread % S::others, query = at.tile + i;
  const bool inside = query < task.seq;
  // By cp.async as the rows are: what finish_copies waits for is then the whole stage. A query beyond the last gets 0.
  if (thread < S::others)
    begin_copy<4>(numbers + i, statistics.log_sum + row + (inside ? query : 0), inside);
  else if (thread < 2 * S::others)
    begin_copy<4>(numbers + S::others + i, statistics.along + row + (inside ? query : 0), inside);
}

// Rows are keys. A key and value head gets the gradients of all its queries: the loop runs over the heads of its group,
// and over the queries of each.
template <class S, class T>
__global__ void __launch_bounds__(kTensorThreads)
    key_gradient_kernel(AttentionTask<T> task, GradientTask<T> gradients) {
  MW_DYNAMIC_SHARED(T, k);
  T* const v = k + S::row_elements;
  T* const stages = v + S::row_elements;
  // Each stage has log_sum, then along.
  auto* const statistics = reinterpret_cast<float*>(stages + 4 * S::other_elements);
  const TilePlace at = place_from_first(tiles_of(task.kv_seq, S::rows), task.heads / task.group);
  const int first = at.tile * S::rows, last = (first + S::rows < task.kv_seq ? first + S::rows : task.kv_seq) - 1;
  const int begin = task.first_query(first) / S::others * S::others, end = task.end_query(last);
  const int end_head = begin < end ? (at.head + 1) * task.group : 0;
  int head = at.head * task.group, query = begin;
  const auto begin_stage = [&](int turn, int of_head, int from) {
    begin_query_stage<S>(task, gradients.statistics, stages + turn * 2 * S::other_elements,
                         statistics + turn * 2 * S::others, {from, of_head, at.sample});
  };
  begin_rows<S::depth, S::rows>(k, rows_from(task.k, at.sample, first, at.head, task.kv_seq), task.key_dim);
  begin_rows<S::depth, S::rows>(v, rows_from(task.v, at.sample, first, at.head, task.kv_seq), task.value_dim);
  if (head < end_head) begin_stage(0, head, query);
  const float scale = power_scale(task);
  Fragments<S::tall, S::depth / 8> dk, dv;
  dk.clear();
  dv.clear();
  for (int turn = 0; head < end_head; turn ^= 1) {
    const T* const q = stages + turn * 2 * S::other_elements;
    const T* const dout = q + S::other_elements;
    const float* const numbers = statistics + turn * 2 * S::others;
    const bool more = query + S::others < end;
    const int next_head = more ? head : head + 1, next_query = more ? query + S::others : begin;
    finish_copies();
    __syncthreads();
    if (next_head < end_head) begin_stage(turn ^ 1, next_head, next_query);
    Fragments<S::tall, S::wide> p, ds;
    rows_times_rows<S::depth>(p, k, q);
    finish_transposed_scores(p, task, head, query, first);
    rows_times_rows<S::depth>(ds, v, dout);
    to_gradients<S>(p, ds, scale, numbers, numbers + S::others);
    add_product<S::depth>(dv, rounded<T>(p), dout);
    add_product<S::depth>(dk, rounded<T>(ds), q);
    head = next_head;
    query = next_query;
  }
  // Also where no query sees these keys, whose copies are then still under way.
  finish_copies();
  __syncthreads();
  float one[S::tall][2], factor[S::tall][2];
  each_row<S::tall>([&](int m, int h) {
    one[m][h] = 1.0f;
    factor[m][h] = task.scale;
  });
  write_rows<S::depth>(dk, factor, k, gradients.dk.at(at.sample, first, at.head), gradients.dk.row, task.kv_seq - first,
                       task.key_dim);
  write_rows<S::depth>(dv, one, v, gradients.dv.at(at.sample, first, at.head), gradients.dv.row, task.kv_seq - first,
                       task.value_dim);
}

}  // namespace

template <class T>
void query_gradients_tensor(Stream stream, const AttentionTask<T>& task, const GradientTask<T>& gradients) {
  with_depth(task, [&](auto depth) {
    using S = QuerySizes<decltype(depth)::value>;
    launch("attention_dq", query_gradient_kernel<S, T>,
           {std::int64_t{tiles_of(task.seq, S::rows)} * task.heads * task.batch, 1, 1}, {kTensorThreads, 1, 1},
           sizeof(T) * (2 * S::row_elements + 4 * S::other_elements), stream, task, gradients);
  });
}

template <class T>
void key_gradients_tensor(Stream stream, const AttentionTask<T>& task, const GradientTask<T>& gradients) {
  with_depth(task, [&](auto depth) {
    using S = KeySizes<decltype(depth)::value>;
    launch("attention_dkdv", key_gradient_kernel<S, T>,
           {std::int64_t{tiles_of(task.kv_seq, S::rows)} * (task.heads / task.group) * task.batch, 1, 1},
           {kTensorThreads, 1, 1},
           sizeof(T) * (2 * S::row_elements + 4 * S::other_elements) + sizeof(float) * 4 * S::others, stream, task,
           gradients);
  });
}

#define MW_INSTANTIATE(T)                                                                           \
  template void query_gradients_tensor<T>(Stream, const AttentionTask<T>&, const GradientTask<T>&); \
  template void key_gradients_tensor<T>(Stream, const AttentionTask<T>&, const GradientTask<T>&);
MW_INSTANTIATE(Bf16)
MW_INSTANTIATE(F16)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
