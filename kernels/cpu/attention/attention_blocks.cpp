// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/attention_blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/attention/attention_rows.h"
#include "kernels/cpu/elementwise/vector_math.h"
#include "kernels/cpu/products/gemm.h"

namespace meshwright::kernels {

namespace {

// A block's share of what some queries see: their rows, and the keys lo..lo+columns-1 of the range. No columns: none of
// them sees any.
Block block_within(const Block& of, KeyRange keys) {
  const std::int64_t lo = std::max(of.lo, keys.first), hi = std::min(of.lo + of.columns, keys.first + keys.count);
  return {of.first, of.queries, of.rows, lo, std::max<std::int64_t>(0, hi - lo)};
}

// The columns of a block that one query sees.
struct Seen {
  std::int64_t from, to;
};
template <class T>
Seen seen_by(const AttentionCall<T>& call, const Block& block, std::int64_t query) {
  const std::int64_t position = call.rule.first_position + query;
  const auto column = [&](std::int64_t key) { return std::clamp<std::int64_t>(key - block.lo, 0, block.columns); };
  const Seen seen{column(first_seen(call.rule, position)), column(end_seen(call.shape, call.rule, position))};
  return {std::min(seen.from, seen.to), seen.to};
}

template <class T>
struct RangeBuffers {
  std::vector<T> queries, scores, gradients, results, product, slopes;
};
template <class T>
struct RangeSpace {
  T* queries;  // (rows, key_dim)
  T* scores;   // (rows, columns)
  T* dp;       // (rows, columns)
  T* results;  // (rows, max(key_dim, value_dim))
  T* product;  // (columns, max(key_dim, value_dim))
  T* slopes;   // (rows, columns): derivatives of capped scores; null where none are capped
};
template <class T>
RangeSpace<T> range_space(const AttentionCall<T>& call, const Block& block) {
  const AttentionShape& shape = call.shape;
  thread_local RangeBuffers<T> buffers;
  const std::int64_t width = std::max(shape.key_dim, shape.value_dim);
  return {sized(buffers.queries, block.rows * shape.key_dim),
          sized(buffers.scores, block.rows * block.columns),
          sized(buffers.gradients, block.rows * block.columns),
          sized(buffers.results, block.rows * width),
          sized(buffers.product, block.columns * width),
          call.rule.cap > 0.0 ? sized(buffers.slopes, block.rows * block.columns) : nullptr};
}

// The queries of one head against the keys of one range, with the numbers of their rows of scores.
template <class T>
struct HeadRange {
  const AttentionCall<T>& call;
  KeyRange keys;
  Head head;
  Block block;
  RangeSpace<T> space;

  [[nodiscard]] std::int64_t query(std::int64_t row) const { return block.first + row / call.shape.group; }
  [[nodiscard]] std::int64_t query_head(std::int64_t row) const {
    return head.head * call.shape.group + row % call.shape.group;
  }
  // Where the row is in arrays (batch, seq, kv_heads, group).
  [[nodiscard]] std::int64_t number(std::int64_t row) const {
    return (head.sample * call.shape.seq + query(row)) * call.shape.heads() + query_head(row);
  }
  template <class U>
  [[nodiscard]] U* of_keys(const HeadView<U>& view) const {
    return head.keys(view, block.lo - keys.first);
  }
  [[nodiscard]] T* scores(std::int64_t row) const { return space.scores + row * block.columns; }
  [[nodiscard]] T* slopes(std::int64_t row) const { return space.slopes + row * block.columns; }

  // space.scores = cap(scale q k^T) + bias, for what each row sees.
  void find_scores() const {
    const AttentionShape& shape = call.shape;
    const std::int64_t d = shape.key_dim, run = shape.group * d;
    const HeadView<const T>&q = call.operands.q, &k = call.operands.k;
    copy_runs(head.queries(q, shape, block.first), q.row, space.queries, run, block.queries, run);
    gemm<T>({false, true, block.rows, block.columns, d, d, k.row, block.columns}, space.queries, of_keys(k),
            space.scores);
    const auto scale = static_cast<T>(call.rule.scale);
    for (std::int64_t r = 0; r < block.rows; ++r) {
      T* row = scores(r);
      for (std::int64_t j = 0; j < block.columns; ++j) row[j] *= scale;
      if (call.rule.cap > 0.0) cap_scores(row, slopes(r), block.columns, static_cast<T>(call.rule.cap));
      if (call.rule.distance_bias == nullptr) continue;
      const T* bias = bias_of_row(call.rule.distance_bias, shape, query_head(r), block, query(r));
      const Seen seen = seen_by(call, block, query(r));
      for (std::int64_t j = seen.from; j < seen.to; ++j) row[j] += bias[j];
    }
  }
  // space.scores = exp(score - from[row]), 0 for what a row does not see.
  void exponentiate(const T* from) const {
    for (std::int64_t r = 0; r < block.rows; ++r) {
      T* row = scores(r);
      const Seen seen = seen_by(call, block, query(r));
      const T base = from[number(r)];
      for (std::int64_t j = seen.from; j < seen.to; ++j) row[j] = exp_of(row[j] - base);
      std::fill(row, row + seen.from, T(0));
      std::fill(row + seen.to, row + block.columns, T(0));
    }
  }
  // Raises each row's largest score to what it sees here, and calls rescale(row, factor) for what it had before.
  template <class Rescale>
  void raise_largest(const RowSums<T>& rows, Rescale&& rescale) const {
    for (std::int64_t r = 0; r < block.rows; ++r) {
      const Seen seen = seen_by(call, block, query(r));
      if (seen.from == seen.to) continue;
      T& largest = rows.largest[number(r)];
      const T now = std::max(largest, lane_max(scores(r) + seen.from, seen.to - seen.from));
      const T factor = largest == -std::numeric_limits<T>::infinity() ? T(0) : exp_of(largest - now);
      largest = now;
      rows.sum[number(r)] *= factor;
      rescale(r, factor);
    }
  }
  void take_results(const T* of) const {  // space.results = dout, of (batch, seq, kv_heads, group, value_dim)
    const AttentionShape& shape = call.shape;
    const std::int64_t run = shape.group * shape.value_dim;
    const HeadView<const T> view = dense_heads(of, shape.seq, shape.heads(), shape.value_dim);
    copy_runs(head.queries(view, shape, block.first), view.row, space.results, run, block.queries, run);
  }
  // space.dp = dout v^T
  void find_value_products() const {
    const std::int64_t e = call.shape.value_dim;
    const HeadView<const T>& v = call.operands.v;
    gemm<T>({false, true, block.rows, block.columns, e, e, v.row, block.columns}, space.results, of_keys(v), space.dp);
  }
  [[nodiscard]] T sum_of_row(std::int64_t r) const {
    const T* row = scores(r);
    return lane_sum<T>(block.columns, [=](std::int64_t j) { return row[j]; });
  }
};

template <class T, class Action>
void for_each_range(const AttentionCall<T>& call, KeyRange keys, Action&& action) {
  for_each_block(call, [&](const Head& head, const Block& of) {
    const Block block = block_within(of, keys);
    if (block.columns > 0) action(HeadRange<T>{call, keys, head, block, range_space<T>(call, block)});
  });
}

template <class T>
std::int64_t rows_of(const AttentionCall<T>& call) {
  return call.shape.batch * call.shape.seq * call.shape.heads();
}

}  // namespace

// A sink is a score of its own in every row, without a value.
template <class T>
void begin_rows(const AttentionCall<T>& call, const RowSums<T>& rows) {
  const bool sinks = call.rule.sink != nullptr;
  for (std::int64_t row = 0; row < rows_of(call); ++row) {
    rows.largest[row] = sinks ? call.rule.sink[row % call.shape.heads()] : -std::numeric_limits<T>::infinity();
    rows.sum[row] = sinks ? T(1) : T(0);
    rows.along[row] = T(0);
  }
}

template <class T>
void attend(const AttentionCall<T>& call, KeyRange keys, const RowSums<T>& rows, T* out) {
  const std::int64_t e = call.shape.value_dim;
  for_each_range(call, keys, [&](const HeadRange<T>& range) {
    const auto result = [&](std::int64_t r) { return out + range.number(r) * e; };
    range.find_scores();
    range.raise_largest(rows, [&](std::int64_t r, T factor) {
      for (std::int64_t j = 0; j < e; ++j) result(r)[j] *= factor;
    });
    range.exponentiate(rows.largest);
    const Block& block = range.block;
    const HeadView<const T>& v = call.operands.v;
    gemm<T>({false, false, block.rows, e, block.columns, block.columns, v.row, e}, range.space.scores, range.of_keys(v),
            range.space.results);
    for (std::int64_t r = 0; r < block.rows; ++r) {
      rows.sum[range.number(r)] += range.sum_of_row(r);
      add_rows(range.space.results + r * e, result(r), 1, e, e);
    }
  });
}

template <class T>
void end_rows(const AttentionCall<T>& call, const RowSums<T>& rows, T* out) {
  const std::int64_t e = call.shape.value_dim;
  for (std::int64_t row = 0; row < rows_of(call); ++row)
    for (std::int64_t j = 0; j < e; ++j) out[row * e + j] /= rows.sum[row];
}

template <class T>
void measure(const AttentionCall<T>& call, KeyRange keys, const RowSums<T>& rows, const T* dout) {
  for_each_range(call, keys, [&](const HeadRange<T>& range) {
    range.find_scores();
    range.raise_largest(rows, [&](std::int64_t r, T factor) { rows.along[range.number(r)] *= factor; });
    range.exponentiate(rows.largest);
    range.take_results(dout);
    range.find_value_products();
    for (std::int64_t r = 0; r < range.block.rows; ++r) {
      const T *row = range.scores(r), *dp = range.space.dp + r * range.block.columns;
      rows.sum[range.number(r)] += range.sum_of_row(r);
      rows.along[range.number(r)] += lane_sum<T>(range.block.columns, [=](std::int64_t j) { return row[j] * dp[j]; });
    }
  });
}

template <class T>
void end_measure(const AttentionCall<T>& call, const RowSums<T>& rows, double* sink) {
  const std::int64_t heads = call.shape.heads();
  if (sink != nullptr) std::fill_n(sink, heads, 0.0);
  for (std::int64_t row = 0; row < rows_of(call); ++row) {
    rows.along[row] /= rows.sum[row];
    rows.largest[row] += std::log(rows.sum[row]);
    if (sink == nullptr) continue;
    const T probability = exp_of(call.rule.sink[row % heads] - rows.largest[row]);
    sink[row % heads] -= static_cast<double>(probability) * static_cast<double>(rows.along[row]);
  }
}

template <class T>
void attend_backward(const AttentionCall<T>& call, KeyRange keys, const RowSums<T>& rows, const T* dout,
                     const AttentionGradients<T>& gradients) {
  const AttentionShape& shape = call.shape;
  const std::int64_t d = shape.key_dim, e = shape.value_dim;
  const auto scale = static_cast<T>(call.rule.scale);
  const AttentionViews<T>& to = gradients.operands;
  for_each_range(call, keys, [&](const HeadRange<T>& range) {
    const auto& [first, queries, count, lo, columns] = range.block;
    const RangeSpace<T>& space = range.space;
    range.find_scores();
    range.exponentiate(rows.largest);
    range.take_results(dout);
    // dv += p^T dout
    gemm<T>({true, false, columns, e, count, columns, e, e}, space.scores, space.results, space.product);
    add_rows(space.product, range.of_keys(to.v), columns, e, to.v.row);
    range.find_value_products();
    for (std::int64_t r = 0; r < count; ++r) {
      const T* p = range.scores(r);
      T* ds = space.dp + r * columns;
      const T along = rows.along[range.number(r)];
      for (std::int64_t j = 0; j < columns; ++j) ds[j] = p[j] * (ds[j] - along);
      if (gradients.distance_bias != nullptr) {
        double* bias = bias_of_row(gradients.distance_bias, shape, range.query_head(r), range.block, range.query(r));
        const Seen seen = seen_by(call, range.block, range.query(r));
        for (std::int64_t j = seen.from; j < seen.to; ++j) bias[j] += static_cast<double>(ds[j]);
      }
      for (std::int64_t j = 0; j < columns; ++j) ds[j] *= scale;
      if (call.rule.cap == 0.0) continue;
      const T* slopes = range.slopes(r);
      for (std::int64_t j = 0; j < columns; ++j) ds[j] *= slopes[j];
    }
    // dk += ds^T q
    gemm<T>({true, false, columns, d, count, columns, d, d}, space.dp, space.queries, space.product);
    add_rows(space.product, range.of_keys(to.k), columns, d, to.k.row);
    // dq += ds k
    const HeadView<const T>& k = call.operands.k;
    gemm<T>({false, false, count, d, columns, columns, k.row, d}, space.dp, range.of_keys(k), space.results);
    for (std::int64_t i = 0; i < queries; ++i)
      add_rows(space.results + i * shape.group * d, range.head.queries(to.q, shape, first + i), 1, shape.group * d, d);
  });
}

#define MW_INSTANTIATE(T)                                                                          \
  template void begin_rows<T>(const AttentionCall<T>&, const RowSums<T>&);                         \
  template void attend<T>(const AttentionCall<T>&, KeyRange, const RowSums<T>&, T*);               \
  template void end_rows<T>(const AttentionCall<T>&, const RowSums<T>&, T*);                       \
  template void measure<T>(const AttentionCall<T>&, KeyRange, const RowSums<T>&, const T*);        \
  template void end_measure<T>(const AttentionCall<T>&, const RowSums<T>&, double*);               \
  template void attend_backward<T>(const AttentionCall<T>&, KeyRange, const RowSums<T>&, const T*, \
                                   const AttentionGradients<T>&);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
