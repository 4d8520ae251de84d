// SPDX-License-Identifier: Apache-2.0
// Three kernels, each recomputing the scores s = scale q k^T + bias and dp = dout v^T tile by tile:
//   the statistics of each query, log_sum = log(sum exp s) and along = sum p dp, with p = exp(s - log_sum);
//   dq = scale ds k, per tile of queries, with ds = p (dp - along);
//   dv = p^T dout and dk = scale ds^T q, per tile of keys, over the queries of its whole group.
#include "kernels/cuda/attention/attention_launches.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr std::size_t kAlignment = 256;

template <class T>
__global__ void __launch_bounds__(kTileThreads)
    statistics_kernel(AttentionTask<T> task, QueryStatistics<T> statistics) {
  using W = Wide<T>;
  MW_DYNAMIC_SHARED(W, operands);
  const QueryTile at = query_tile<kTile, kTile>(task);
  const int first = at.first;
  const TileRows<T> q = rows_from(task.q, at.sample, first, at.head, task.seq);
  const TileRows<T> dout = rows_from(task.dout, at.sample, first, at.head, task.seq);
  RowSoftmax<W> softmax;
  softmax.begin(task.sink, at.head);
  W along[kEach] = {};
  for (int key = at.key; key < at.end; key += kTile) {
    W s[kEach][kEach], dp[kEach][kEach];
    rows_times_rows(s, q, rows_from(task.k, at.sample, key, at.kv_head, task.kv_seq), task.key_dim, operands);
    rows_times_rows(dp, dout, rows_from(task.v, at.sample, key, at.kv_head, task.kv_seq), task.value_dim, operands);
    finish_scores(s, task, at.head, first, key);
    MW_UNROLL
    for (int i = 0; i < kEach; ++i) {
      // softmax.next turns s[i] into exp(s - largest), so `along` is a sum relative to the maximum, like the softmax's
      // own sum, and is rescaled with it.
      along[i] *= softmax.next(i, s[i]);
      MW_UNROLL
      for (int j = 0; j < kEach; ++j) along[i] += s[i][j] * dp[i][j];
    }
  }
  const std::int64_t row = task.statistics_row(at.sample, at.head);
  MW_UNROLL
  for (int i = 0; i < kEach; ++i) {
    const W sum = row_sum(softmax.sum[i]), whole = row_sum(along[i]);
    const int query = first + tile_row() + i;
    // row_sum gives all 16 threads of a row the same sum; one of them writes it.
    if (query >= task.seq || tile_lane() != 0) continue;
    statistics.log_sum[row + query] = softmax.largest[i] + logarithm(sum);
    statistics.along[row + query] = whole / sum;
  }
}

// A bias depends on the distance key - query alone, which is constant along a diagonal of the scores, so the gradient
// of a bias is the sum of ds over a diagonal. A block keeps a sum for each diagonal that its tiles of keys cross; one
// thread adds up each, and bias_gradient_kernel adds the blocks' in order.
//
// Adds the diagonals of a tile of scores' gradients to `parts`, from the diagonal of its last query and first key on.
template <class W>
MW_DEVICE void add_diagonals(W* parts, const W* tile) {
  __syncthreads();
  const int diagonal = static_cast<int>(threadIdx.x);
  if (diagonal < 2 * kTile - 1) {
    const int row = larger(0, kTile - 1 - diagonal), column = larger(0, diagonal - kTile + 1);
    W sum = 0;
    for (int i = 0; row + i < kTile && column + i < kTile; ++i) sum += tile[(row + i) * kStride + column + i];
    parts[diagonal] += sum;
  }
}

template <class T, int chunks>
__global__ void __launch_bounds__(kTileThreads, kBlocks<Wide<T>, chunks>)
    query_gradient_kernel(AttentionTask<T> task, GradientTask<T> gradients) {
  using W = Wide<T>;
  MW_DYNAMIC_SHARED(W, operands);
  W* const scores = operands + kOperands;
  const QueryTile at = query_tile<kTile, kTile>(task);
  const int first = at.first, column = static_cast<int>(blockIdx.y) * chunks * kTile;
  const TileRows<T> q = rows_from(task.q, at.sample, first, at.head, task.seq);
  const TileRows<T> dout = rows_from(task.dout, at.sample, first, at.head, task.seq);
  // Blocks with another y recompute the same ds for other columns of dq: only the first of them sums the bias.
  const bool sums_bias = gradients.bias_parts != nullptr && blockIdx.y == 0;
  const int span = bias_span(task.kv_seq);
  W* const parts = sums_bias ? gradients.bias_parts + static_cast<std::int64_t>(blockIdx.x) * span : nullptr;
  for (int i = static_cast<int>(threadIdx.x); sums_bias && i < span; i += kTileThreads) parts[i] = 0;
  const std::int64_t row = task.statistics_row(at.sample, at.head) + first + tile_row();
  W log_sum[kEach], along[kEach];
  MW_UNROLL
  for (int i = 0; i < kEach; ++i) {
    // Rows beyond the last query have scores of -inf and dout of 0, so that their ds is 0 with any finite statistics.
    const bool inside = first + tile_row() + i < task.seq;
    log_sum[i] = inside ? gradients.statistics.log_sum[row + i] : W(0);
    along[i] = inside ? gradients.statistics.along[row + i] : W(0);
  }
  Results<W, chunks> results;
  results.clear();
  for (int key = at.key; key < at.end; key += kTile) {
    W s[kEach][kEach], ds[kEach][kEach];
    const TileRows<T> k = rows_from(task.k, at.sample, key, at.kv_head, task.kv_seq);
    rows_times_rows(s, q, k, task.key_dim, operands);
    rows_times_rows(ds, dout, rows_from(task.v, at.sample, key, at.kv_head, task.kv_seq), task.value_dim, operands);
    finish_scores(s, task, at.head, first, key);
    // exp(s - log_sum) is the normalised p: with the statistics, one pass over the keys is enough.
    MW_UNROLL
    for (int i = 0; i < kEach; ++i) MW_UNROLL
    for (int j = 0; j < kEach; ++j) ds[i][j] = exponential(s[i][j] - log_sum[i]) * (ds[i][j] - along[i]);
    put_scores(scores, ds);
    if (sums_bias) add_diagonals(parts + key, scores);
    add_product(results, scores, k, column, task.key_dim, operands);
  }
  MW_UNROLL
  for (int i = 0; i < kEach; ++i) {
    const int query = first + tile_row() + i;
    if (query < task.seq)
      write_row(results, i, task.scale, gradients.dq.at(at.sample, query, at.head), column, task.key_dim);
  }
}

// Tiles are transposed here: rows are keys, columns queries.
template <class T, int chunks>
__global__ void __launch_bounds__(kTileThreads, kBlocks<Wide<T>, 2 * chunks>)
    key_gradient_kernel(AttentionTask<T> task, GradientTask<T> gradients) {
  using W = Wide<T>;
  MW_DYNAMIC_SHARED(W, operands);
  W* const scores = operands + kOperands;
  const TilePlace at = place_from_first(tiles_of(task.kv_seq, kTile), task.heads / task.group);
  const int first = at.tile * kTile, last = (first + kTile < task.kv_seq ? first + kTile : task.kv_seq) - 1;
  const int column = static_cast<int>(blockIdx.y) * chunks * kTile;
  const TileRows<T> k = rows_from(task.k, at.sample, first, at.head, task.kv_seq);
  const TileRows<T> v = rows_from(task.v, at.sample, first, at.head, task.kv_seq);
  Results<W, chunks> dk, dv;
  dk.clear();
  dv.clear();
  const int end = task.end_query(last);
  // One block sums over all query heads of the group, in their order: dk and dv have one writer.
  for (int head = at.head * task.group; head < (at.head + 1) * task.group; ++head) {
    const std::int64_t row = task.statistics_row(at.sample, head);
    // Tiles begin at multiples of kTile; sees() removes the queries before the first.
    for (int query = task.first_query(first) / kTile * kTile; query < end; query += kTile) {
      const TileRows<T> q = rows_from(task.q, at.sample, query, head, task.seq);
      const TileRows<T> dout = rows_from(task.dout, at.sample, query, head, task.seq);
      W p[kEach][kEach], ds[kEach][kEach];
      rows_times_rows(p, k, q, task.key_dim, operands);
      rows_times_rows(ds, v, dout, task.value_dim, operands);
      MW_UNROLL
      for (int j = 0; j < kEach; ++j) {
        const int of_query = query + tile_lane() + kSide * j;
        const bool inside = of_query < task.seq;
        const W log_sum = inside ? gradients.statistics.log_sum[row + of_query] : W(0);
        const W along = inside ? gradients.statistics.along[row + of_query] : W(0);
        MW_UNROLL
        for (int i = 0; i < kEach; ++i) {
          const int of_key = first + tile_row() + i;
          // As finish_scores, with queries and keys changed: here rows are keys.
          W s = task.scale * p[i][j];
          if (task.bias != nullptr && inside && of_key < task.kv_seq) s += task.bias_of(head, of_query)[of_key];
          p[i][j] = task.sees(of_query, of_key) ? exponential(s - log_sum) : W(0);
          ds[i][j] = p[i][j] * (ds[i][j] - along);
        }
      }
      put_scores(scores, p);
      add_product(dv, scores, dout, column, task.value_dim, operands);
      // All threads must have read p before ds takes its place.
      __syncthreads();
      put_scores(scores, ds);
      add_product(dk, scores, q, column, task.key_dim, operands);
    }
  }
  MW_UNROLL
  for (int i = 0; i < kEach; ++i) {
    const int key = first + tile_row() + i;
    if (key >= task.kv_seq) continue;
    write_row(dk, i, task.scale, gradients.dk.at(at.sample, key, at.head), column, task.key_dim);
    write_row(dv, i, W(1), gradients.dv.at(at.sample, key, at.head), column, task.value_dim);
  }
}

// --- gradients of the extra operands ---

// Block: a head. The sink takes part in every query's softmax, with no value.
template <class T>
__global__ void sink_gradient_kernel(AttentionTask<T> task, QueryStatistics<T> statistics, T* dsink) {
  MW_SHARED double scratch[kWarp];
  const int head = static_cast<int>(blockIdx.x);
  const auto sink = static_cast<Wide<T>>(task.sink[head]);
  double sum = 0;
  for (int sample = 0; sample < task.batch; ++sample) {
    const std::int64_t row = task.statistics_row(sample, head);
    for (int query = static_cast<int>(threadIdx.x); query < task.seq; query += kTileThreads)
      // The sink has p = exp(sink - log_sum) and, without a value, dp = 0: its ds is -p along.
      sum -= static_cast<double>(exponential(sink - statistics.log_sum[row + query]) * statistics.along[row + query]);
  }
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) dsink[head] = T(sum);
}

// Block x: distances; block y: a head.
template <class T>
__global__ void bias_gradient_kernel(AttentionTask<T> task, const Wide<T>* parts, Wide<T>* dbias) {
  const int index = static_cast<int>(blockIdx.x) * kTileThreads + static_cast<int>(threadIdx.x);
  const int head = static_cast<int>(blockIdx.y), distances = task.kv_seq + task.seq - 1;
  if (index >= distances) return;
  const int tiles = tiles_of(task.seq, kTile), span = bias_span(task.kv_seq);
  double sum = 0;
  for (int sample = 0; sample < task.batch; ++sample)
    for (int tile = 0; tile < tiles; ++tile) {
      const int element = index + (tile + 1) * kTile - task.seq;
      // As place_from_last counts them.
      const std::int64_t block = (static_cast<std::int64_t>(sample) * task.heads + head) * tiles + tiles - 1 - tile;
      // A tile of queries meets only some of the distances; its parts have no element for the others.
      if (element >= 0 && element < span) sum += static_cast<double>(parts[block * span + element]);
    }
  dbias[static_cast<std::int64_t>(head) * distances + index] = static_cast<Wide<T>>(sum);
}

// --- the launches ---

template <class T>
Size3 query_grid(const AttentionTask<T>& task, int parts) {
  return {std::int64_t{tiles_of(task.seq, kTile)} * task.heads * task.batch, parts, 1};
}

std::size_t aligned(std::size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

// The statistics, then the parts of the bias's gradient.
template <class T>
std::size_t statistics_bytes(std::int64_t queries) {
  return aligned(static_cast<std::size_t>(queries) * sizeof(Wide<T>));
}

template <class T>
GradientTask<T> gradients_in(void* workspace, const AttentionTask<T>& task, const AttentionViews<T>& gradients) {
  const std::size_t each = statistics_bytes<T>(std::int64_t{task.batch} * task.heads * task.seq);
  auto* const bytes = static_cast<unsigned char*>(workspace);
  return {gradients.q,
          gradients.k,
          gradients.v,
          {reinterpret_cast<Wide<T>*>(bytes), reinterpret_cast<Wide<T>*>(bytes + each)},
          nullptr};
}

}  // namespace

template <class T>
void statistics_plain(Stream stream, const AttentionTask<T>& task, QueryStatistics<T> statistics) {
  launch("attention_statistics", statistics_kernel<T>, query_grid(task, 1), {kTileThreads, 1, 1}, kTileBytes<Wide<T>>,
         stream, task, statistics);
}

template <class T>
void query_gradients_plain(Stream stream, const AttentionTask<T>& task, const GradientTask<T>& gradients) {
  with_chunks(task.key_dim, [&](auto chunks, int parts) {
    launch("attention_dq", query_gradient_kernel<T, decltype(chunks)::value>, query_grid(task, parts),
           {kTileThreads, 1, 1}, kTileBytes<Wide<T>>, stream, task, gradients);
  });
}

template <class T>
void key_gradients_plain(Stream stream, const AttentionTask<T>& task, const GradientTask<T>& gradients) {
  const std::int64_t blocks = std::int64_t{tiles_of(task.kv_seq, kTile)} * (task.heads / task.group) * task.batch;
  // Both gradients are summed in one pass: the wider one decides how many chunks a block has.
  with_chunks(task.key_dim > task.value_dim ? task.key_dim : task.value_dim, [&](auto chunks, int parts) {
    launch("attention_dkdv", key_gradient_kernel<T, decltype(chunks)::value>, {blocks, parts, 1}, {kTileThreads, 1, 1},
           kTileBytes<Wide<T>>, stream, task, gradients);
  });
}

template <class T>
std::size_t attention_backward_workspace(const AttentionShape& shape, bool distance_bias_gradient) {
  const std::size_t statistics = 2 * statistics_bytes<T>(shape.batch * shape.heads() * shape.seq);
  if (!distance_bias_gradient) return statistics;
  const std::int64_t blocks = shape.batch * shape.heads() * tiles_of(static_cast<int>(shape.seq), kTile);
  return statistics + static_cast<std::size_t>(blocks * bias_span(static_cast<int>(shape.kv_seq))) * sizeof(Wide<T>);
}

template <class T>
void attention_backward(Stream stream, const AttentionCall<T>& call, const T* dout,
                        const AttentionGradients<T>& gradients, void* workspace, AttentionPath path) {
  const AttentionShape& shape = call.shape;
  const AttentionTask<T> task = attention_task(call, dout);
  GradientTask<T> results = gradients_in(workspace, task, gradients.operands);
  if (gradients.distance_bias != nullptr)
    results.bias_parts = reinterpret_cast<Wide<T>*>(static_cast<unsigned char*>(workspace) +
                                                    attention_backward_workspace<T>(shape, false));
  backward(stream, task, results, path);
  if (gradients.sink != nullptr)
    launch("attention_dsink", sink_gradient_kernel<T>, {task.heads, 1, 1}, {kTileThreads, 1, 1}, 0, stream, task,
           results.statistics, gradients.sink);
  if (gradients.distance_bias != nullptr)
    launch("attention_dbias", bias_gradient_kernel<T>, {ceil_div(shape.distances(), kTileThreads), task.heads, 1},
           {kTileThreads, 1, 1}, 0, stream, task, results.bias_parts, gradients.distance_bias);
}

#define MW_INSTANTIATE(T)                                                                                             \
  template std::size_t attention_backward_workspace<T>(const AttentionShape&, bool);                                  \
  template void attention_backward<T>(Stream, const AttentionCall<T>&, const T*, const AttentionGradients<T>&, void*, \
                                      AttentionPath);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
