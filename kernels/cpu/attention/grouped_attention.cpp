// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/grouped_attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "kernels/cpu/elementwise/vector_math.h"
#include "kernels/cpu/products/gemm.h"

namespace meshwright::kernels {

namespace {

constexpr std::int64_t kRowBlock = 128;

// Consecutive queries, each with its whole group: `rows` rows of scores, over the keys lo..lo+columns-1 that any of
// them sees.
struct Block {
  std::int64_t first, queries, rows;
  std::int64_t lo, columns;
};

template <class T>
std::int64_t first_seen(const AttentionRule<T>& rule, std::int64_t position) {
  return rule.window > 0 ? std::max<std::int64_t>(0, position - rule.window + 1) : 0;
}
template <class T>
std::int64_t end_seen(const GroupedShape& shape, const AttentionRule<T>& rule, std::int64_t position) {
  return rule.causal ? std::min(shape.kv_seq, position + 1) : shape.kv_seq;
}

template <class T>
Block block_from(const GroupedShape& shape, const AttentionRule<T>& rule, std::int64_t first) {
  const std::int64_t queries = std::min(std::max<std::int64_t>(1, kRowBlock / shape.group), shape.seq - first);
  const std::int64_t position = rule.first_position + first;
  const std::int64_t lo = first_seen(rule, position), hi = end_seen(shape, rule, position + queries - 1);
  return {first, queries, queries * shape.group, lo, hi - lo};
}

// Buffers live as long as their thread: a logical device runs the same shapes again and again.
template <class T>
struct Workspace {
  std::vector<T> rows, results, scores, gradients, product, sinks;
};
template <class T>
T* sized(std::vector<T>& buffer, std::int64_t elements) {
  if (buffer.size() < static_cast<std::size_t>(elements)) buffer.resize(static_cast<std::size_t>(elements));
  return buffer.data();
}
template <class T>
Workspace<T>& workspace() {
  thread_local Workspace<T> space;
  return space;
}

// One sample and key head. Rows of q and out come in runs of `group`, rows of k and v one by one.
struct Head {
  std::int64_t sample, head;

  template <class T>
  [[nodiscard]] T* queries(T* of, const GroupedShape& shape, std::int64_t query, std::int64_t width) const {
    return of + ((sample * shape.seq + query) * shape.kv_heads + head) * shape.group * width;
  }
  template <class T>
  [[nodiscard]] T* keys(T* of, const GroupedShape& shape, std::int64_t key, std::int64_t width) const {
    return of + ((sample * shape.kv_seq + key) * shape.kv_heads + head) * width;
  }
};

// Runs of `width` elements, `from_stride` apart in `from`, to runs `to_stride` apart in `to`, times `factor`.
template <class T>
void copy_runs(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride, std::int64_t runs,
               std::int64_t width, T factor) {
  for (std::int64_t i = 0; i < runs; ++i) {
#pragma GCC ivdep
    for (std::int64_t j = 0; j < width; ++j) to[i * to_stride + j] = factor * from[i * from_stride + j];
  }
}

// What a bias by distance holds for a row's columns.
template <class B>
B* bias_of_row(B* bias, const GroupedShape& shape, std::int64_t head, const Block& block, std::int64_t query) {
  return bias + head * shape.distances() + block.lo + shape.seq - 1 - query;
}

// scores (rows, columns) -> probabilities; `sink` receives each row's probability of the sink.
template <class T>
void softmax_rows(T* scores, T* sink, const Block& block, std::int64_t kv_head, const GroupedShape& shape,
                  const AttentionRule<T>& rule) {
  for (std::int64_t r = 0; r < block.rows; ++r) {
    const std::int64_t query = block.first + r / shape.group, head = kv_head * shape.group + r % shape.group;
    const std::int64_t position = rule.first_position + query;
    const std::int64_t from = first_seen(rule, position) - block.lo, to = end_seen(shape, rule, position) - block.lo;
    T* all = scores + r * block.columns;
    T* row = all + from;
    const std::int64_t seen = to - from;
    if (rule.distance_bias != nullptr) {
      const T* bias = bias_of_row(rule.distance_bias, shape, head, block, query) + from;
#pragma GCC ivdep
      for (std::int64_t j = 0; j < seen; ++j) row[j] += bias[j];
    }
    T largest = lane_max(row, seen);
    if (rule.sink != nullptr) largest = std::max(largest, rule.sink[head]);
#pragma GCC ivdep
    for (std::int64_t j = 0; j < seen; ++j) row[j] = exp_of(row[j] - largest);
    T sum = lane_sum<T>(seen, [=](std::int64_t j) { return row[j]; });
    if (rule.sink != nullptr) {
      sink[r] = exp_of(rule.sink[head] - largest);
      sum += sink[r];
      sink[r] /= sum;
    }
    const T inverse = T(1) / sum;
#pragma GCC ivdep
    for (std::int64_t j = 0; j < seen; ++j) row[j] *= inverse;
    std::fill(all, row, T(0));
    std::fill(all + to, all + block.columns, T(0));
  }
}

// ds = p (dp - sum_j p dp), the softmax's backward, in place of dp; the sink and the biases get their share.
template <class T>
void softmax_rows_backward(const T* p, const T* sink, T* dp, const ExtraGradients& extras, const Block& block,
                           std::int64_t kv_head, const GroupedShape& shape) {
  for (std::int64_t r = 0; r < block.rows; ++r) {
    const std::int64_t query = block.first + r / shape.group, head = kv_head * shape.group + r % shape.group;
    const T* row = p + r * block.columns;
    T* gradient = dp + r * block.columns;
    const T along = lane_sum<T>(block.columns, [=](std::int64_t j) { return row[j] * gradient[j]; });
#pragma GCC ivdep
    for (std::int64_t j = 0; j < block.columns; ++j) gradient[j] = row[j] * (gradient[j] - along);
    if (extras.sink != nullptr) extras.sink[head] -= static_cast<double>(sink[r]) * static_cast<double>(along);
    if (extras.distance_bias == nullptr) continue;
    double* bias = bias_of_row(extras.distance_bias, shape, head, block, query);
#pragma GCC ivdep
    for (std::int64_t j = 0; j < block.columns; ++j) bias[j] += static_cast<double>(gradient[j]);
  }
}

// The block's queries, scaled, as rows of `queries`; their probabilities in `p`.
template <class T>
void probabilities(const T* q, const T* k, T* queries, T* p, T* sink, const Head& head, const Block& block,
                   const GroupedShape& shape, const AttentionRule<T>& rule) {
  const std::int64_t d = shape.key_dim, run = shape.group * d;
  copy_runs(head.queries(q, shape, block.first, d), shape.kv_heads * run, queries, run, block.queries, run,
            static_cast<T>(rule.scale));
  gemm<T>(false, true, block.rows, block.columns, d, queries, d, head.keys(k, shape, block.lo, d), shape.kv_heads * d,
          p, block.columns);
  softmax_rows(p, sink, block, head.head, shape, rule);
}

template <class T>
void head_backward(const T* q, const T* k, const T* v, const T* dout, T* dq, T* dk, T* dv, const ExtraGradients& extras,
                   const Head& head, const GroupedShape& shape, const AttentionRule<T>& rule) {
  const std::int64_t d = shape.key_dim, e = shape.value_dim, heads = shape.kv_heads;
  Workspace<T>& space = workspace<T>();
  for (std::int64_t key = 0; key < shape.kv_seq; ++key) {
    std::fill_n(head.keys(dk, shape, key, d), d, T(0));
    std::fill_n(head.keys(dv, shape, key, e), e, T(0));
  }
  for (std::int64_t first = 0; first < shape.seq;) {
    const Block block = block_from(shape, rule, first);
    const std::int64_t rows = block.rows, columns = block.columns;
    T* queries = sized(space.rows, rows * d);
    T* p = sized(space.scores, rows * columns);
    T* dp = sized(space.gradients, rows * columns);
    T* sink = sized(space.sinks, rows);
    T* results = sized(space.results, rows * std::max(d, e));
    T* product = sized(space.product, columns * std::max(d, e));
    probabilities(q, k, queries, p, sink, head, block, shape, rule);
    copy_runs(head.queries(dout, shape, first, e), heads * shape.group * e, results, shape.group * e, block.queries,
              shape.group * e, T(1));
    gemm<T>(true, false, columns, e, rows, p, columns, results, e, product, e);  // dv += p^T dout
    add_rows(product, head.keys(dv, shape, block.lo, e), columns, e, heads * e);
    gemm<T>(false, true, rows, columns, e, results, e, head.keys(v, shape, block.lo, e), heads * e, dp,
            columns);  // dp = dout v^T
    softmax_rows_backward(p, sink, dp, extras, block, head.head, shape);
    gemm<T>(true, false, columns, d, rows, dp, columns, queries, d, product, d);  // dk += ds^T (scale q)
    add_rows(product, head.keys(dk, shape, block.lo, d), columns, d, heads * d);
    gemm<T>(false, false, rows, d, columns, dp, columns, head.keys(k, shape, block.lo, d), heads * d, results,
            d);  // dq = scale ds k
    copy_runs(results, shape.group * d, head.queries(dq, shape, first, d), heads * shape.group * d, block.queries,
              shape.group * d, static_cast<T>(rule.scale));
    first += block.queries;
  }
}

}  // namespace

template <class T>
void grouped_attention(const T* q, const T* k, const T* v, T* out, GroupedShape shape, const AttentionRule<T>& rule) {
  const std::int64_t d = shape.key_dim, e = shape.value_dim, run = shape.group * e;
  Workspace<T>& space = workspace<T>();
  for (std::int64_t sample = 0; sample < shape.batch; ++sample)
    for (std::int64_t h = 0; h < shape.kv_heads; ++h)
      for (std::int64_t first = 0; first < shape.seq;) {
        const Head head{sample, h};
        const Block block = block_from(shape, rule, first);
        T* p = sized(space.scores, block.rows * block.columns);
        T* results = sized(space.results, block.rows * e);
        probabilities(q, k, sized(space.rows, block.rows * d), p, sized(space.sinks, block.rows), head, block, shape,
                      rule);
        gemm<T>(false, false, block.rows, e, block.columns, p, block.columns, head.keys(v, shape, block.lo, e),
                shape.kv_heads * e, results, e);
        copy_runs(results, run, head.queries(out, shape, first, e), shape.kv_heads * run, block.queries, run, T(1));
        first += block.queries;
      }
}

template <class T>
void grouped_attention_backward(const T* q, const T* k, const T* v, const T* dout, T* dq, T* dk, T* dv,
                                ExtraGradients extras, GroupedShape shape, const AttentionRule<T>& rule) {
  if (extras.sink != nullptr) std::fill_n(extras.sink, shape.heads(), 0.0);
  if (extras.distance_bias != nullptr) std::fill_n(extras.distance_bias, shape.heads() * shape.distances(), 0.0);
  for (std::int64_t sample = 0; sample < shape.batch; ++sample)
    for (std::int64_t h = 0; h < shape.kv_heads; ++h)
      head_backward(q, k, v, dout, dq, dk, dv, extras, Head{sample, h}, shape, rule);
}

// --- biases by distance ---

double alibi_slope(std::int64_t head, std::int64_t heads) {
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  const double step = 8.0 / static_cast<double>(power);
  return head < power ? std::exp2(-step * static_cast<double>(head + 1))
                      : std::exp2(-0.5 * step * static_cast<double>(2 * (head - power) + 1));
}

template <class T>
void alibi_bias(T* bias, GroupedShape shape, std::int64_t first_position, HeadPart part) {
  const std::int64_t least = -(first_position + shape.seq - 1), heads = part.whole_kv_heads * part.whole_group;
  for (std::int64_t h = 0; h < shape.kv_heads; ++h)
    for (std::int64_t g = 0; g < shape.group; ++g) {
      const double slope = alibi_slope((part.first_kv_head + h) * part.whole_group + part.first_group + g, heads);
      T* row = bias + (h * shape.group + g) * shape.distances();
      for (std::int64_t i = 0; i < shape.distances(); ++i)
        row[i] = static_cast<T>(-slope * static_cast<double>(std::abs(least + i)));
    }
}

std::int64_t relative_bucket(std::int64_t distance, std::int64_t buckets, bool bidirectional) {
  constexpr double kFarthest = 128.0;
  const std::int64_t each = bidirectional ? buckets / 2 : buckets, exact = each / 2;
  const std::int64_t base = bidirectional && distance > 0 ? each : 0;
  const std::int64_t away = bidirectional ? std::abs(distance) : std::max<std::int64_t>(0, -distance);
  if (away < exact) return base + away;
  const double from = static_cast<double>(exact);
  const double part = std::log(static_cast<double>(away) / from) / std::log(kFarthest / from);
  // Distances that begin a bucket exactly (32 and 64 of 16 buckets) must not fall below it by rounding.
  const auto beyond = static_cast<std::int64_t>(part * static_cast<double>(each - exact) + 1e-9);
  return base + std::min(exact + beyond, each - 1);
}

template <class T>
void relative_bias(const T* table, std::int64_t buckets, bool bidirectional, T* bias, GroupedShape shape,
                   std::int64_t first_position) {
  const std::int64_t least = -(first_position + shape.seq - 1), heads = shape.heads();
  for (std::int64_t i = 0; i < shape.distances(); ++i) {
    const T* row = table + relative_bucket(least + i, buckets, bidirectional) * heads;
    for (std::int64_t h = 0; h < heads; ++h) bias[h * shape.distances() + i] = row[h];
  }
}

template <class T>
void relative_bias_gradient(const double* dbias, std::int64_t buckets, bool bidirectional, T* dtable,
                            GroupedShape shape, std::int64_t first_position) {
  const std::int64_t least = -(first_position + shape.seq - 1), heads = shape.heads();
  std::vector<double> sums(static_cast<std::size_t>(buckets * heads), 0.0);
  for (std::int64_t i = 0; i < shape.distances(); ++i) {
    double* row = sums.data() + relative_bucket(least + i, buckets, bidirectional) * heads;
    for (std::int64_t h = 0; h < heads; ++h) row[h] += dbias[h * shape.distances() + i];
  }
  std::transform(sums.begin(), sums.end(), dtable, [](double sum) { return static_cast<T>(sum); });
}

#define MW_INSTANTIATE(T)                                                                                         \
  template void grouped_attention<T>(const T*, const T*, const T*, T*, GroupedShape, const AttentionRule<T>&);    \
  template void grouped_attention_backward<T>(const T*, const T*, const T*, const T*, T*, T*, T*, ExtraGradients, \
                                              GroupedShape, const AttentionRule<T>&);                             \
  template void alibi_bias<T>(T*, GroupedShape, std::int64_t, HeadPart);                                          \
  template void relative_bias<T>(const T*, std::int64_t, bool, T*, GroupedShape, std::int64_t);                   \
  template void relative_bias_gradient<T>(const double*, std::int64_t, bool, T*, GroupedShape, std::int64_t);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
