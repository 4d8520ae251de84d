// SPDX-License-Identifier: Apache-2.0
// What the attention kernels share: where a head's rows lie, which keys a query sees, and the two products that they
// are made of, by a block of 16 x 16 threads for a tile of 64 x 64. Internal to kernels/cuda.
#pragma once

#include <limits>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/blocks/launch.h"

namespace meshwright::kernels::cuda {

// The argument of every kernel: the operands, and the rule with its sizes.
template <class T>
struct AttentionTask {
  HeadView<const T> q, k, v, dout;
  int batch, seq, kv_seq, heads, group, key_dim, value_dim;
  int window, first_position;
  bool causal;
  Wide<T> scale;
  const T* sink;
  const Wide<T>* bias;

  // A query sees the keys first_key .. end_key - 1. Query i has the position first_position + i, key j the position j.
  // A window counts the query's own position; without `causal` it reaches as far ahead.
  MW_DEVICE int first_key(int query) const {
    const int first = first_position + query - window + 1;
    return window > 0 && first > 0 ? first : 0;
  }
  MW_DEVICE int end_key(int query) const {
    const int ahead = causal ? 1 : window;
    const int end = first_position + query + ahead;
    return ahead > 0 && end < kv_seq ? end : kv_seq;
  }
  // The range of queries that see any of the keys first..last.
  MW_DEVICE int first_query(int first) const {
    const int ahead = causal ? 1 : window;
    const int begin = first - first_position - ahead + 1;
    return ahead > 0 && begin > 0 ? begin : 0;
  }
  MW_DEVICE int end_query(int last) const {
    const int end = last + window - first_position;
    return window > 0 && end < seq ? end : seq;
  }
  MW_DEVICE bool sees(int query, int key) const {
    return query < seq && key >= first_key(query) && key < end_key(query);
  }
  // Whether each of the queries first..last sees each of the keys, none beyond the ends.
  MW_DEVICE bool all_seen(int query, int last_query, int key, int last_key) const {
    return last_query < seq && key >= first_key(last_query) && last_key < end_key(query);
  }
  // Where the statistics of a head's queries begin.
  MW_DEVICE std::int64_t statistics_row(int sample, int head) const {
    return (static_cast<std::int64_t>(sample) * heads + head) * seq;
  }
  // The biases of a query, by key.
  MW_DEVICE const Wide<T>* bias_of(int head, int query) const {
    return bias + (static_cast<std::int64_t>(head) * (kv_seq + seq - 1) + seq - 1 - query);
  }
};

// Per query: the logarithm of its softmax's sum, and what the softmax's backward takes off its gradients.
template <class T>
struct QueryStatistics {
  Wide<T>*log_sum, *along;  // (batch, heads, seq)
};

// The score of a key that is not seen.
template <class W>
inline constexpr W kNothing = -std::numeric_limits<W>::infinity();

MW_DEVICE float exponential(float x) { return expf(x); }
MW_DEVICE double exponential(double x) { return exp(x); }
MW_DEVICE float logarithm(float x) { return logf(x); }
MW_DEVICE double logarithm(double x) { return log(x); }
template <class W>
MW_BOTH constexpr W larger(W a, W b) {
  return b > a ? b : a;
}

// --- tiles ---

constexpr int kTile = 64, kSide = 16, kTileThreads = kSide * kSide, kEach = kTile / kSide;
constexpr int kDepth = 32;                                     // of a chunk of a product of rows with rows
constexpr int kDepthStride = kDepth + 4, kStride = kTile + 4;  // in shared memory: 16-byte accesses without conflicts
constexpr int kOperands = 2 * kTile * kDepthStride;            // elements: two chunks, or a tile of kStride
constexpr int kTileElements = kOperands + kTile * kStride;     // and a tile of scores

template <class W>
constexpr std::size_t kTileBytes = kTileElements * sizeof(W);

// Blocks that a multiprocessor should have registers for, of a kernel with `results` chunks of results: two hide each
// other's waits.
template <class W, int results>
constexpr int kBlocks = sizeof(W) == 4 && results <= 2 ? 2 : 1;

// Rows of a tile; those from `rows` on are zero.
template <class T>
struct TileRows {
  const T* data;
  std::int64_t stride;
  int rows;
};
template <class T>
MW_DEVICE TileRows<T> rows_from(HeadView<const T> view, int sample, int first, int head, int end) {
  return {view.at(sample, first, head), view.row, end - first};
}

// One load of 16 bytes for float, two for double.
template <class W>
struct alignas(16) Four {
  W of[4];
};
template <class W>
MW_DEVICE Four<W> four_at(const W* address) {
  return *at_once<Four<W>>(address);
}

// A thread's part of a tile: rows row()..row()+3; columns column(j) = j 16 apart in scores.
MW_DEVICE int tile_row() { return static_cast<int>(threadIdx.x) / kSide * kEach; }
MW_DEVICE int tile_lane() { return static_cast<int>(threadIdx.x) % kSide; }

// Columns `first`.. of `from`, that has `width`. A thread has one of them, in rows at even distances.
template <int columns, class T>
MW_DEVICE void load_columns(Wide<T>* to, TileRows<T> from, int first, int width) {
  constexpr int kDown = kTileThreads / columns;
  const int row = static_cast<int>(threadIdx.x) / columns, column = static_cast<int>(threadIdx.x) % columns;
  const int rows = first + column < width ? from.rows : 0;
  const T* source = from.data + row * from.stride + first + column;
  to += row * (columns + 4) + column;
  MW_UNROLL
  for (int down = 0; down < kTile; down += kDown) {
    to[down * (columns + 4)] = row + down < rows ? static_cast<Wide<T>>(*source) : Wide<T>(0);
    source += kDown * from.stride;
  }
}

// A chunk of both operands at a time is widened into shared memory. The first barrier of a chunk waits until all
// threads are done with the chunk before (or with what the caller read of `operands`), the second until the chunk is
// there.
//
// s = a b^T over `depth`. `operands`: shared, of kOperands.
template <class T>
MW_DEVICE void rows_times_rows(Wide<T> (&s)[kEach][kEach], TileRows<T> a, TileRows<T> b, int depth, Wide<T>* operands) {
  using W = Wide<T>;
  W* const right = operands + kTile * kDepthStride;
  MW_UNROLL
  for (int i = 0; i < kEach; ++i) MW_UNROLL
  for (int j = 0; j < kEach; ++j) s[i][j] = 0;
  for (int from = 0; from < depth; from += kDepth) {
    __syncthreads();
    load_columns<kDepth>(operands, a, from, depth);
    load_columns<kDepth>(right, b, from, depth);
    __syncthreads();
    // Four steps of the depth at once: 8 loads of fours for 64 multiply-adds.
    MW_UNROLL
    for (int k = 0; k < kDepth; k += 4) {
      Four<W> x[kEach], y[kEach];
      MW_UNROLL
      for (int i = 0; i < kEach; ++i) x[i] = four_at(operands + (tile_row() + i) * kDepthStride + k);
      MW_UNROLL
      for (int j = 0; j < kEach; ++j) y[j] = four_at(right + (tile_lane() + kSide * j) * kDepthStride + k);
      MW_UNROLL
      for (int i = 0; i < kEach; ++i) MW_UNROLL
      for (int j = 0; j < kEach; ++j) MW_UNROLL
      for (int u = 0; u < 4; ++u) s[i][j] += x[i].of[u] * y[j].of[u];
    }
  }
}

// In results (64, 64 chunks): the thread's 4 x 4 of each chunk, columns 4 tile_lane() + j.
template <class W, int chunks>
struct Results {
  W of[chunks][kEach][kEach];

  MW_DEVICE void clear() {
    MW_UNROLL
    for (int c = 0; c < chunks; ++c) MW_UNROLL
    for (int i = 0; i < kEach; ++i) MW_UNROLL
    for (int j = 0; j < kEach; ++j) of[c][i][j] = 0;
  }
  MW_DEVICE void scale_row(int i, W factor) {
    MW_UNROLL
    for (int c = 0; c < chunks; ++c) MW_UNROLL
    for (int j = 0; j < kEach; ++j) of[c][i][j] *= factor;
  }
};

// results += scores b, over b's columns from `first` on. `scores`: shared, a tile; `operands` as above.
template <int chunks, class T>
MW_DEVICE void add_product(Results<Wide<T>, chunks>& results, const Wide<T>* scores, TileRows<T> b, int first,
                           int width, Wide<T>* operands) {
  using W = Wide<T>;
  MW_UNROLL
  for (int c = 0; c < chunks; ++c) {
    // The same for all threads of the block, so that they meet at the same barriers.
    if (first + c * kTile >= width) break;
    __syncthreads();
    load_columns<kTile>(operands, b, first + c * kTile, width);
    __syncthreads();
    MW_UNROLL
    for (int k = 0; k < kTile; k += 4) {
      Four<W> x[kEach];
      MW_UNROLL
      for (int i = 0; i < kEach; ++i) x[i] = four_at(scores + (tile_row() + i) * kStride + k);
      MW_UNROLL
      for (int u = 0; u < 4; ++u) {
        const Four<W> y = four_at(operands + (k + u) * kStride + kEach * tile_lane());
        MW_UNROLL
        for (int i = 0; i < kEach; ++i) MW_UNROLL
        for (int j = 0; j < kEach; ++j) results.of[c][i][j] += x[i].of[u] * y.of[j];
      }
    }
  }
}

// Row i of the thread's results, times `factor`, to a row of `width` elements of which columns `first`.. are meant.
template <class T, int chunks>
MW_DEVICE void write_row(const Results<Wide<T>, chunks>& results, int i, Wide<T> factor, T* row, int first, int width) {
  MW_UNROLL
  for (int c = 0; c < chunks; ++c) MW_UNROLL
  for (int j = 0; j < kEach; ++j) {
    const int column = first + c * kTile + kEach * tile_lane() + j;
    if (column < width) row[column] = T(results.of[c][i][j] * factor);
  }
}

// In the columns of a thread of rows_times_rows. The caller places the barriers around it.
template <class W>
MW_DEVICE void put_scores(W* tile, const W (&s)[kEach][kEach]) {
  MW_UNROLL
  for (int i = 0; i < kEach; ++i) MW_UNROLL
  for (int j = 0; j < kEach; ++j) tile[(tile_row() + i) * kStride + tile_lane() + kSide * j] = s[i][j];
}

// Over the 16 threads of a row.
template <class W>
MW_DEVICE W row_sum(W value) {
  for (int distance = kSide / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}
template <class W>
MW_DEVICE W row_max(W value) {
  for (int distance = kSide / 2; distance > 0; distance /= 2)
    value = larger(value, __shfl_xor_sync(kAllLanes, value, distance));
  return value;
}

// Scaled and biased scores of queries `query`.. and keys `key`.., nothing where a query does not see a key.
template <class T>
MW_DEVICE void finish_scores(Wide<T> (&s)[kEach][kEach], const AttentionTask<T>& task, int head, int query, int key) {
  MW_UNROLL
  for (int i = 0; i < kEach; ++i) MW_UNROLL
  for (int j = 0; j < kEach; ++j) {
    const int of_query = query + tile_row() + i, of_key = key + tile_lane() + kSide * j;
    if (!task.sees(of_query, of_key)) {
      s[i][j] = kNothing<Wide<T>>;
      continue;
    }
    s[i][j] *= task.scale;
    if (task.bias != nullptr) s[i][j] += task.bias_of(head, of_query)[of_key];
  }
}

// The online softmax of the thread's rows (attention_tensor.h has the formulas): the largest score so far, and the
// thread's share of the sum.
template <class W>
struct RowSoftmax {
  W largest[kEach], sum[kEach];

  template <class T>
  MW_DEVICE void begin(const T* sink, int head) {
    // The sink is a score without a value: the maximum starts there, and one thread of the row counts its power, exp(0)
    // = 1.
    MW_UNROLL
    for (int i = 0; i < kEach; ++i) {
      largest[i] = sink != nullptr ? static_cast<W>(sink[head]) : kNothing<W>;
      sum[i] = sink != nullptr && tile_lane() == 0 ? W(1) : W(0);
    }
  }
  // Scores of row i to their exponentials; returns what sums over earlier keys are to be multiplied by.
  MW_DEVICE W next(int i, W (&s)[kEach]) {
    W maximum = s[0];
    MW_UNROLL
    for (int j = 1; j < kEach; ++j) maximum = larger(maximum, s[j]);
    maximum = larger(largest[i], row_max(maximum));
    // Before the first key that is seen the maximum is -inf, and -inf - -inf is not a number: the powers are taken to 0
    // then.
    const W base = maximum == kNothing<W> ? W(0) : maximum, factor = exponential(largest[i] - base);
    largest[i] = maximum;
    sum[i] *= factor;
    MW_UNROLL
    for (int j = 0; j < kEach; ++j) {
      s[j] = exponential(s[j] - base);
      sum[i] += s[j];
    }
    return factor;
  }
};

// --- which tile a block has ---

struct TilePlace {
  int tile, head, sample;
};
// The last first: under a causal rule those have most to do.
MW_DEVICE TilePlace place_from_last(int tiles, int heads) {
  const int block = static_cast<int>(blockIdx.x), rest = block / tiles;
  return {tiles - 1 - block % tiles, rest % heads, rest / heads};
}
MW_DEVICE TilePlace place_from_first(int tiles, int heads) {
  const int block = static_cast<int>(blockIdx.x), rest = block / tiles;
  return {block % tiles, rest % heads, rest / heads};
}
MW_BOTH constexpr int tiles_of(int count, int tile) { return (count + tile - 1) / tile; }

// A block's tile of queries, and the keys that any of them sees: in steps from `key`, a multiple of the step, to `end`.
struct QueryTile {
  int sample, head, kv_head;
  int first, key, end;
};
template <int rows, int step, class T>
MW_DEVICE QueryTile query_tile(const AttentionTask<T>& task) {
  const TilePlace at = place_from_last(tiles_of(task.seq, rows), task.heads);
  const int first = at.tile * rows, last = (first + rows < task.seq ? first + rows : task.seq) - 1;
  return {at.sample, at.head, at.head / task.group, first, task.first_key(first) / step * step, task.end_key(last)};
}

}  // namespace meshwright::kernels::cuda
