// SPDX-License-Identifier: Apache-2.0
// What the attention kernels on tensor cores share. Internal to kernels/cuda.
//
// A block is four warps. It keeps `rows` = 64 tall rows of one operand pair, 16 tall for each warp, and streams the
// others past them in stages of `others` = 8 wide rows. In shared memory, in 16-bit elements:
//
//   own operands     2 x (rows, depth + 8)        queries: q (and dout); keys: k and v
//   two stages of    2 x (others, depth + 8)      k and v past queries; q and dout past keys
//
// The next stage is copied while this one is multiplied; elements beyond the heads' width are zero. Rows have 8
// elements (16 bytes) more than `depth`, against bank conflicts. Shared memory has 32 banks of 4 bytes, and a matrix
// load reads 16 bytes, 4 banks, of each of 8 rows at once. Rows of 64 or 128 elements would all begin in bank 0, and
// the load would take 8 turns. With the padding row r begins at bank
//
//   depth 64, 128   4 r mod 32     0  4  8  12  16  20  24  28
//   depth 96       20 r mod 32     0 20  8  28  16   4  24  12
//
// so that the 8 rows cover each bank once. The products are
//
//   s, dp   (rows, others) += (rows, depth) (others, depth)^T       rows_times_rows
//   results (rows, depth)  += (rows, others) (others, depth)        add_product
#pragma once

#include "kernels/cuda/attention/attention_tiles.h"
#include "kernels/cuda/blocks/mma.h"

namespace meshwright::kernels::cuda {

constexpr int kWarps = 4, kTensorThreads = kWarps * kWarp;
constexpr float kLog2E = 1.44269504088896341f;

MW_DEVICE int lane_id() { return static_cast<int>(threadIdx.x) % kWarp; }
MW_DEVICE int warp_id() { return static_cast<int>(threadIdx.x) / kWarp; }

// Elements from row to row in shared memory.
template <int depth>
constexpr int kRowStride = depth + 8;

// Sizes of a kernel for heads of up to `depth_` elements.
template <int depth_, int tall_, int wide_>
struct TensorSizes {
  static constexpr int depth = depth_, tall = tall_, wide = wide_;
  static constexpr int rows = 16 * kWarps * tall, others = 8 * wide;
  static constexpr int row_elements = rows * kRowStride<depth>, other_elements = others * kRowStride<depth>;
};

// Begins to copy `count` rows of `width` elements to `to`. A thread copies one column of 16 bytes, in rows at equal
// distances, so that it keeps few addresses; neighbouring threads copy neighbouring columns, so that a row is read from
// memory in whole lines. A copy from outside the tensor or the width writes zeros and reads nothing.
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

// A stage's keys, then its values.
template <class S, class T>
MW_DEVICE void begin_key_stage(const AttentionTask<T>& task, T* stage, int sample, int key, int kv_head) {
  begin_rows<S::depth, S::others>(stage, rows_from(task.k, sample, key, kv_head, task.kv_seq), task.key_dim);
  begin_rows<S::depth, S::others>(stage + S::other_elements, rows_from(task.v, sample, key, kv_head, task.kv_seq),
                                  task.value_dim);
}

// The block's own queries and their dout.
template <class S, class T>
MW_DEVICE void begin_query_rows(const AttentionTask<T>& task, const QueryTile& at, T* q, T* dout) {
  begin_rows<S::depth, S::rows>(q, rows_from(task.q, at.sample, at.first, at.head, task.seq), task.key_dim);
  begin_rows<S::depth, S::rows>(dout, rows_from(task.dout, at.sample, at.first, at.head, task.seq), task.value_dim);
}

// Streams the keys and values that the block's queries see past them: body(k, key) with a stage's keys, `k`, its values
// behind them, and the number of its first key. REQUIRES: begin_key_stage(..., tile.key, ...) into the first stage.
//
// Two stages take turns. In turn i
//
//   wait        finish_copies: this thread's pieces of stage i (and, in turn 0, of the block's own operands) are there;
//   barrier     all threads' pieces are there, and all warps have left turn i - 1, whose stage the next line
//   overwrites; begin       copies of stage i + 1 into the other stage; multiply    stage i, while those copies are
//   under way.
//
// So one barrier a turn is enough: it separates both the writers of stage i from its readers and the readers of stage
// i - 1 from the writers of stage i + 1.
template <class S, class T, class Body>
MW_DEVICE void for_each_key_stage(const AttentionTask<T>& task, const QueryTile& tile, T* stages, Body body) {
  for (int key = tile.key, turn = 0; key < tile.end; key += S::others, turn ^= 1) {
    finish_copies();
    __syncthreads();
    if (key + S::others < tile.end)
      begin_key_stage<S>(task, stages + (turn ^ 1) * 2 * S::other_elements, tile.sample, key + S::others, tile.kv_head);
    body(stages + turn * 2 * S::other_elements, key);
  }
}

// A warp's (16 tall, 8 wide) matrix of floats, as mma.h's c.
template <int tall, int wide>
struct Fragments {
  float of[tall][wide][4];  // [16 rows][8 columns][register]

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
// action(m, h) for the rows of a lane: row_of(m, 2 h). Registers 2 h and 2 h + 1 of a fragment are its elements there.
template <int tall, class Action>
MW_DEVICE void each_row(Action action) {
  MW_UNROLL
  for (int m = 0; m < tall; ++m) MW_UNROLL
  for (int h = 0; h < 2; ++h) action(m, h);
}
MW_DEVICE int column_of(int n, int i) { return 8 * n + lane_id() % 4 * 2 + i % 2; }

// s = a b^T                        s (16 tall, 8 wide), a (16 tall, depth), b (8 wide, depth)
//
// Addresses of the matrix loads, each of four (8, 8) parts:
//   lanes     of a: rows, columns       of b: rows, columns
//   0..7      0..7,  k..k+7    a[0]     n..n+7,    k..k+7    b[0] of fragment n
//   8..15     8..15, k..k+7    a[1]     n..n+7,    k+8..     b[1] of fragment n
//   16..23    0..7,  k+8..     a[2]     n+8..n+15, k..k+7    b[0] of the next
//   24..31    8..15, k+8..     a[3]     n+8..n+15, k+8..     b[1] of the next
// Rows of b are columns of b^T, so they are loaded as they lie.
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

// Scores, rounded to T, as left operands of a product: two neighbouring c of (16, 8) are one a of (16, 16).
template <int tall, int wide>
struct RoundedScores {
  std::uint32_t of[tall][wide / 2][4];  // [16 rows][16 columns][register]
};
template <class T, int tall, int wide>
MW_DEVICE RoundedScores<tall, wide> rounded(const Fragments<tall, wide>& s) {
  RoundedScores<tall, wide> p;
  MW_UNROLL
  for (int m = 0; m < tall; ++m) MW_UNROLL
  for (int n = 0; n < wide; ++n) {
    p.of[m][n / 2][n % 2 * 2] = pack<T>(s.of[m][n][0], s.of[m][n][1]);
    p.of[m][n / 2][n % 2 * 2 + 1] = pack<T>(s.of[m][n][2], s.of[m][n][3]);
  }
  return p;
}

// results += p b                   results (16 tall, depth), p (16 tall, 8 wide), b (8 wide, depth)
//
// b's rows run along the sum, so its parts are transposed as they are loaded: lanes 0..15 name rows k..k+15 of columns
// n..n+7 (b[0], b[1] of fragment n), lanes 16..31 the same rows of columns n+8..n+15 (those of the next).
template <int depth, class T, int tall, int wide>
MW_DEVICE void add_product(Fragments<tall, depth / 8>& results, const RoundedScores<tall, wide>& p, const T* b) {
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

// Writes rows of results, each times its factor. Fragments scatter a row over four lanes in pieces of 4 bytes; by way
// of `staging`, in shared memory, lanes write pieces of 16 bytes. A warp touches only its own rows of `staging`, which
// may be the block's own operand once all products with it are done.
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

// --- scores ---
//
// Scores are kept as q k^T + bias / scale. Times power_scale = scale log2(e) they are exponents of 2, which saves the
// multiplication in front of each exponential: exp(scale s - scale m) = 2^(power_scale s - power_scale m) is one fused
// multiplication and addition and the hardware's power of two.

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
// Most tiles lie whole within what is seen, and are not masked.
template <class T, int tall, int wide>
MW_DEVICE void finish_scores(Fragments<tall, wide>& s, const AttentionTask<T>& task, int head, int query, int key) {
  const int from = key + column_of(0, 0);
  if (task.bias != nullptr) {
    const float inverse = 1.0f / task.scale;
    each_row<tall>([&](int m, int h) {
      const int of_query = query + row_of<tall>(m, 2 * h);
      const Seen seen = seen_by(task, of_query, from);
      const float* const bias = task.bias_of(head, of_query) + from;
      MW_UNROLL
      for (int n = 0; n < wide; ++n) MW_UNROLL
      for (int u = 0; u < 2; ++u)
        if (seen.has(8 * n + u)) s.of[m][n][2 * h + u] += bias[8 * n + u] * inverse;
    });
  }
  if (task.all_seen(query, query + 16 * kWarps * tall - 1, key, key + 8 * wide - 1)) return;
  each_row<tall>([&](int m, int h) {
    const Seen seen = seen_by(task, query + row_of<tall>(m, 2 * h), from);
    MW_UNROLL
    for (int n = 0; n < wide; ++n) MW_UNROLL
    for (int u = 0; u < 2; ++u)
      if (!seen.has(8 * n + u)) s.of[m][n][2 * h + u] = kNothing<float>;
  });
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
      each_row<tall>([&](int m, int h) {
        if (seen.has(16 * m + 8 * h)) s.of[m][n][2 * h + u] += bias[16 * m + 8 * h] * inverse;
      });
    }
  }
  if (task.all_seen(query, query + 8 * wide - 1, key, key + 16 * kWarps * tall - 1)) return;
  MW_UNROLL
  for (int n = 0; n < wide; ++n) MW_UNROLL
  for (int u = 0; u < 2; ++u) {
    const Seen seen = seen_by(task, query + column_of(n, u), from);
    each_row<tall>([&](int m, int h) {
      if (!seen.has(16 * m + 8 * h)) s.of[m][n][2 * h + u] = kNothing<float>;
    });
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

// The online softmax of the lane's rows m, h (row_of(m, 2 h)): the largest score so far, the same in the row's four
// lanes, and the lane's share of the sum. A sink counts as a first score, in one lane.
//
// With m the largest of the scores before and m' the largest with a stage's, sums over powers relative to m become ones
// relative to m' when they are multiplied by the factor exp(m - m'):
//
//   sum'     = factor sum     + sum over the stage of exp(s - m')
//   results' = factor results + sum over the stage of exp(s - m') v
//
// After the last stage results / sum is the softmax's. No power exceeds 1, whatever the scores are. Maxima are shared
// by the four lanes at every stage, as they all need them; the sums only once, at the end.
template <int tall>
struct TensorSoftmax {
  float largest[tall][2], sum[tall][2];

  template <class T>
  MW_DEVICE void begin(const AttentionTask<T>& task, int head) {
    const bool has = task.sink != nullptr;
    each_row<tall>([&](int m, int h) {
      largest[m][h] = has ? static_cast<float>(task.sink[head]) / task.scale : kNothing<float>;
      sum[m][h] = has && lane_id() % 4 == 0 ? 1.0f : 0.0f;
    });
  }
  // Turns finished scores into powers. Sums over earlier keys must be multiplied by `factor`, as their powers were
  // taken relative to a smaller maximum.
  template <int wide>
  MW_DEVICE void next(Fragments<tall, wide>& s, float scale, float (&factor)[tall][2]) {
    each_row<tall>([&](int m, int h) {
      float maximum = kNothing<float>;
      MW_UNROLL
      for (int n = 0; n < wide; ++n) maximum = fmaxf(maximum, fmaxf(s.of[m][n][2 * h], s.of[m][n][2 * h + 1]));
      maximum = fmaxf(largest[m][h], quad_max(maximum));
      // Where no key has been seen, the maximum is -infinity, and a difference from it would be no number; with base 0
      // all powers and the factor are 0.
      const float base = maximum == kNothing<float> ? 0.0f : rounded_product(maximum, scale);
      // Exactly 1 where nothing is larger than before, or many keys would add up to an error.
      factor[m][h] = power_of_two(rounded_product(largest[m][h], scale) - base);
      largest[m][h] = maximum;
      float added = 0;
      MW_UNROLL
      for (int n = 0; n < wide; ++n) MW_UNROLL
      for (int i = 2 * h; i < 2 * h + 2; ++i) {
        s.of[m][n][i] = power_of_two(s.of[m][n][i] * scale - base);
        added += s.of[m][n][i];
      }
      sum[m][h] = sum[m][h] * factor[m][h] + added;
    });
  }
};

}  // namespace meshwright::kernels::cuda
