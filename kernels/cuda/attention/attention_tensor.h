// SPDX-License-Identifier: Apache-2.0
// What the attention kernels on tensor cores share. A block is four warps; a warp has 16 `tall` rows of a tile, and of
// their scores with 8 `wide` others. Operands lie in shared memory in rows of `depth` elements and 8 more, so that
// loads of 8 rows meet no conflicts; elements beyond the heads' width are zero. Internal to kernels/cuda.
#pragma once

#include "kernels/cuda/attention/attention_tiles.h"
#include "kernels/cuda/blocks/mma.h"

namespace meshwright::kernels::cuda {

constexpr int kWarps = 4, kTensorThreads = kWarps * kWarp;
constexpr float kLog2E = 1.44269504088896341f, kLn2 = 0.693147180559945309f;

MW_DEVICE int lane_id() { return static_cast<int>(threadIdx.x) % kWarp; }
MW_DEVICE int warp_id() { return static_cast<int>(threadIdx.x) / kWarp; }

template <int depth>
constexpr int kRowStride = depth + 8;

// Begins to copy `count` rows of `width` elements to `to`. A thread has one column of 16 bytes, and rows at even
// distances: few addresses are kept.
template <int depth, int count, class T>
MW_DEVICE void begin_rows(T* to, TileRows<T> from, int width) {
  constexpr int kAcross = depth <= 64 ? 8 : 16, kDown = kTensorThreads / kAcross;
  static_assert(count % kDown == 0 && depth <= 8 * kAcross);
  const int first = static_cast<int>(threadIdx.x) / kAcross, column = static_cast<int>(threadIdx.x) % kAcross * 8;
  if (column >= depth) return;
  const int rows = column < width ? from.rows : 0;
  const T* source = from.data + first * from.stride + column;
  MW_UNROLL
  for (int row = 0; row < count; row += kDown) {
    begin_copy<16>(to + (first + row) * kRowStride<depth> + column, source, first + row < rows);
    source += kDown * from.stride;
  }
}

// (16 tall, 8 wide) of the warp: fragments as mma.h's c.
template <int tall, int wide>
struct Fragments {
  float of[tall][wide][4];

  MW_DEVICE void clear() {
    MW_UNROLL
    for (int m = 0; m < tall; ++m) MW_UNROLL
    for (int n = 0; n < wide; ++n) MW_UNROLL
    for (int i = 0; i < 4; ++i) of[m][n][i] = 0;
  }
};
// Element i of fragments (m, n) is at row row_of(m, i) of the block's tile and column column_of(n, i).
template <int tall>
MW_DEVICE int row_of(int m, int i) {
  return 16 * (warp_id() * tall + m) + lane_id() / 4 + i / 2 * 8;
}
MW_DEVICE int column_of(int n, int i) { return 8 * n + lane_id() % 4 * 2 + i % 2; }

// s = a b^T: the warp's rows of a, and b's rows.
template <int depth, class T, int tall, int wide>
MW_DEVICE void rows_times_rows(Fragments<tall, wide>& s, const T* a, const T* b) {
  constexpr int kStep = kRowStride<depth>;
  const int lane = lane_id();
  const T* const a_row = a + (16 * tall * warp_id() + lane % 16) * kStep + lane / 16 * 8;
  const T* const b_row = b + (lane % 8 + lane / 16 * 8) * kStep + lane / 8 % 2 * 8;
  s.clear();
  MW_UNROLL
  for (int k = 0; k < depth; k += 16) {
    std::uint32_t left[tall][4];
    MW_UNROLL
    for (int m = 0; m < tall; ++m) load_matrices<false>(left[m], a_row + 16 * m * kStep + k);
    MW_UNROLL
    for (int n = 0; n < wide; n += 2) {
      std::uint32_t right[4];
      load_matrices<false>(right, b_row + 8 * n * kStep + k);
      MW_UNROLL
      for (int m = 0; m < tall; ++m) {
        multiply_add<T>(s.of[m][n], left[m], right[0], right[1]);
        multiply_add<T>(s.of[m][n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

// Scores, rounded to T, as left operands of a product.
template <int tall, int wide>
struct Rounded {
  std::uint32_t of[tall][wide / 2][4];
};
template <class T, int tall, int wide>
MW_DEVICE Rounded<tall, wide> rounded(const Fragments<tall, wide>& s) {
  Rounded<tall, wide> p;
  MW_UNROLL
  for (int m = 0; m < tall; ++m) MW_UNROLL
  for (int n = 0; n < wide; ++n) {
    p.of[m][n / 2][n % 2 * 2] = pack<T>(s.of[m][n][0], s.of[m][n][1]);
    p.of[m][n / 2][n % 2 * 2 + 1] = pack<T>(s.of[m][n][2], s.of[m][n][3]);
  }
  return p;
}

// results += p b, with b's 8 wide rows.
template <int depth, class T, int tall, int wide>
MW_DEVICE void add_product(Fragments<tall, depth / 8>& results, const Rounded<tall, wide>& p, const T* b) {
  constexpr int kStep = kRowStride<depth>;
  const T* const b_row = b + lane_id() % 16 * kStep + lane_id() / 16 * 8;
  MW_UNROLL
  for (int k = 0; k < wide / 2; ++k) MW_UNROLL
  for (int n = 0; n < depth / 8; n += 2) {
    std::uint32_t right[4];
    load_matrices<true>(right, b_row + 16 * k * kStep + 8 * n);
    MW_UNROLL
    for (int m = 0; m < tall; ++m) {
      multiply_add<T>(results.of[m][n], p.of[m][k], right[0], right[1]);
      multiply_add<T>(results.of[m][n + 1], p.of[m][k], right[2], right[3]);
    }
  }
}

// Rows of results, each times its factor, by way of `staging`: shared, rows as of an operand, of which a warp touches
// its own only.
template <int depth, class T, int tall>
MW_DEVICE void write_rows(const Fragments<tall, depth / 8>& results, const float (&factor)[tall][2], T* staging, T* to,
                          std::int64_t stride, int rows, int width) {
  constexpr int kStep = kRowStride<depth>, kPieces = depth / 8, kOwn = 16 * tall;
  __syncwarp();
  MW_UNROLL
  for (int m = 0; m < tall; ++m) MW_UNROLL
  for (int n = 0; n < depth / 8; ++n) MW_UNROLL
  for (int h = 0; h < 2; ++h)
    *at_once<std::uint32_t>(staging + row_of<tall>(m, 2 * h) * kStep + column_of(n, 0)) =
        pack<T>(results.of[m][n][2 * h] * factor[m][h], results.of[m][n][2 * h + 1] * factor[m][h]);
  __syncwarp();
  for (int i = lane_id(); i < kOwn * kPieces; i += kWarp) {
    const int row = warp_id() * kOwn + i / kPieces, column = i % kPieces * 8;
    if (row < rows && column < width)
      *at_once<SixteenBytes>(to + row * stride + column) = *at_once<SixteenBytes>(staging + row * kStep + column);
  }
}

// --- scores, kept as q k^T + bias / scale: times `power_scale` they are powers of two ---

template <class T>
MW_DEVICE float power_scale(const AttentionTask<T>& task) {
  return task.scale * kLog2E;
}

// The keys, counted from `from`, that a query sees: first..end-1, none if it is beyond the last query.
struct Seen {
  int first, end;
  MW_DEVICE bool has(int key) const { return key >= first && key < end; }
};
template <class T>
MW_DEVICE Seen seen_by(const AttentionTask<T>& task, int query, int from) {
  if (query >= task.seq) return {0, 0};
  return {task.first_key(query) - from, task.end_key(query) - from};
}

// Adds the bias, and leaves nothing where a query does not see a key: rows are queries `query`.., columns keys `key`...
template <class T, int tall, int wide>
MW_DEVICE void finish_scores(Fragments<tall, wide>& s, const AttentionTask<T>& task, int head, int query, int key) {
  const int from = key + column_of(0, 0);
  if (task.bias != nullptr) {
    const float inverse = 1.0f / task.scale;
    MW_UNROLL
    for (int m = 0; m < tall; ++m) MW_UNROLL
    for (int h = 0; h < 2; ++h) {
      const int of_query = query + row_of<tall>(m, 2 * h);
      const Seen seen = seen_by(task, of_query, from);
      const float* const bias = task.bias_of(head, of_query) + from;
      MW_UNROLL
      for (int n = 0; n < wide; ++n) MW_UNROLL
      for (int u = 0; u < 2; ++u)
        if (seen.has(8 * n + u)) s.of[m][n][2 * h + u] += bias[8 * n + u] * inverse;
    }
  }
  if (task.all_seen(query, query + 16 * kWarps * tall - 1, key, key + 8 * wide - 1)) return;
  MW_UNROLL
  for (int m = 0; m < tall; ++m) MW_UNROLL
  for (int h = 0; h < 2; ++h) {
    const Seen seen = seen_by(task, query + row_of<tall>(m, 2 * h), from);
    MW_UNROLL
    for (int n = 0; n < wide; ++n) MW_UNROLL
    for (int u = 0; u < 2; ++u)
      if (!seen.has(8 * n + u)) s.of[m][n][2 * h + u] = kNothing<float>;
  }
}

// The same where rows are keys and columns queries.
template <class T, int tall, int wide>
MW_DEVICE void finish_transposed_scores(Fragments<tall, wide>& s, const AttentionTask<T>& task, int head, int query,
                                        int key) {
  const int from = key + row_of<tall>(0, 0);
  if (task.bias != nullptr) {
    const float inverse = 1.0f / task.scale;
    MW_UNROLL
    for (int n = 0; n < wide; ++n) MW_UNROLL
    for (int u = 0; u < 2; ++u) {
      const int of_query = query + column_of(n, u);
      const Seen seen = seen_by(task, of_query, from);
      const float* const bias = task.bias_of(head, of_query) + from;
      MW_UNROLL
      for (int m = 0; m < tall; ++m) MW_UNROLL
      for (int h = 0; h < 2; ++h)
        if (seen.has(16 * m + 8 * h)) s.of[m][n][2 * h + u] += bias[16 * m + 8 * h] * inverse;
    }
  }
  if (task.all_seen(query, query + 8 * wide - 1, key, key + 16 * kWarps * tall - 1)) return;
  MW_UNROLL
  for (int n = 0; n < wide; ++n) MW_UNROLL
  for (int u = 0; u < 2; ++u) {
    const Seen seen = seen_by(task, query + column_of(n, u), from);
    MW_UNROLL
    for (int m = 0; m < tall; ++m) MW_UNROLL
    for (int h = 0; h < 2; ++h)
      if (!seen.has(16 * m + 8 * h)) s.of[m][n][2 * h + u] = kNothing<float>;
  }
}

// Over the four lanes of a row.
MW_DEVICE float quad_sum(float value) {
  value += __shfl_xor_sync(kAllLanes, value, 1);
  return value + __shfl_xor_sync(kAllLanes, value, 2);
}
MW_DEVICE float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, 1));
  return fmaxf(value, __shfl_xor_sync(kAllLanes, value, 2));
}

// The online softmax of the lane's rows; sums are the lane's share.
template <int tall>
struct TensorSoftmax {
  float largest[tall][2], sum[tall][2];

  template <class T>
  MW_DEVICE void begin(const AttentionTask<T>& task, int head) {
    const bool has = task.sink != nullptr;
    MW_UNROLL
    for (int m = 0; m < tall; ++m) MW_UNROLL
    for (int h = 0; h < 2; ++h) {
      largest[m][h] = has ? static_cast<float>(task.sink[head]) / task.scale : kNothing<float>;
      sum[m][h] = has && lane_id() % 4 == 0 ? 1.0f : 0.0f;
    }
  }
  // Finished scores to their powers; `factor`: what sums over earlier keys are to be multiplied by.
  template <int wide>
  MW_DEVICE void next(Fragments<tall, wide>& s, float scale, float (&factor)[tall][2]) {
    MW_UNROLL
    for (int m = 0; m < tall; ++m) MW_UNROLL
    for (int h = 0; h < 2; ++h) {
      float most = kNothing<float>;
      MW_UNROLL
      for (int n = 0; n < wide; ++n) most = fmaxf(most, fmaxf(s.of[m][n][2 * h], s.of[m][n][2 * h + 1]));
      most = fmaxf(largest[m][h], quad_max(most));
      const float base = most == kNothing<float> ? 0.0f : rounded_product(most, scale);
      // Exactly 1 where nothing is larger than before, or many keys would add up to an error.
      factor[m][h] = power_of_two(rounded_product(largest[m][h], scale) - base);
      largest[m][h] = most;
      float added = 0;
      MW_UNROLL
      for (int n = 0; n < wide; ++n) MW_UNROLL
      for (int i = 2 * h; i < 2 * h + 2; ++i) {
        s.of[m][n][i] = power_of_two(s.of[m][n][i] * scale - base);
        added += s.of[m][n][i];
      }
      sum[m][h] = sum[m][h] * factor[m][h] + added;
    }
  }
};

}  // namespace meshwright::kernels::cuda
