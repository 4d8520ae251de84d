// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/attention/attention_rows.h"
#include "kernels/cpu/elementwise/vector_math.h"
#include "kernels/cpu/products/gemm.h"

namespace meshwright::kernels {

namespace {

template <class T>
struct Workspace {
  std::vector<T> rows, results, scores, gradients, product, sinks, slopes;
};
template <class T>
Workspace<T>& workspace() {
  thread_local Workspace<T> space;
  return space;
}

// Workspaces of a block; row r holds query block.first + r / group and head r % group of the key head's group.
template <class T>
struct BlockSpace {
  T* queries;  // (rows, key_dim)
  T* p;        // (rows, columns)
  T* dp;       // (rows, columns)
  T* sink;     // (rows): the probability of the sink
  T* results;  // (rows, max(key_dim, value_dim))
  T* product;  // (columns, max(key_dim, value_dim))
  T* slopes;   // (rows, columns): derivatives of capped scores; null where none are capped
};

// Scores q k^T in space.p -> probabilities. The scale is applied to differences from the largest score, unless biases,
// a mask or a sink need scaled scores.
template <class T>
void softmax_rows(const AttentionCall<T>& call, const Head& head, const Block& block, const BlockSpace<T>& space) {
  const AttentionShape& shape = call.shape;
  const AttentionRule<T>& rule = call.rule;
  const auto scale = static_cast<T>(rule.scale);
  const bool scaled_first =
      rule.distance_bias != nullptr || rule.sink != nullptr || rule.mask != nullptr || rule.cap > 0.0;
  const T factor = scaled_first ? T(1) : scale;
  for (std::int64_t r = 0; r < block.rows; ++r) {
    const std::int64_t query = block.first + r / shape.group, h = head.head * shape.group + r % shape.group;
    const std::int64_t position = rule.first_position + query;
    const std::int64_t from = first_seen(rule, position) - block.lo, to = end_seen(shape, rule, position) - block.lo;
    T* all = space.p + r * block.columns;
    T* row = all + from;
    const std::int64_t seen = to - from;
    if (scaled_first) {
#pragma GCC ivdep
      for (std::int64_t j = 0; j < seen; ++j) row[j] *= scale;
    }
    if (rule.cap > 0.0) cap_scores(row, space.slopes + r * block.columns + from, seen, static_cast<T>(rule.cap));
    if (rule.distance_bias != nullptr) {
      const T* bias = bias_of_row(rule.distance_bias, shape, h, block, query) + from;
#pragma GCC ivdep
      for (std::int64_t j = 0; j < seen; ++j) row[j] += bias[j];
    }
    if (rule.mask != nullptr) {
      const T* mask = rule.mask + head.sample * rule.mask_sample + query * rule.mask_query + block.lo + from;
#pragma GCC ivdep
      for (std::int64_t j = 0; j < seen; ++j) row[j] += mask[j];
    }
    T largest = lane_max(row, seen);
    if (rule.sink != nullptr) largest = std::max(largest, rule.sink[h]);
#pragma GCC ivdep
    for (std::int64_t j = 0; j < seen; ++j) row[j] = exp_of(factor * (row[j] - largest));
    T sum = lane_sum<T>(seen, [=](std::int64_t j) { return row[j]; });
    if (rule.sink != nullptr) {
      space.sink[r] = exp_of(rule.sink[h] - largest);
      sum += space.sink[r];
      space.sink[r] /= sum;
    }
    const T inverse = T(1) / sum;
#pragma GCC ivdep
    for (std::int64_t j = 0; j < seen; ++j) row[j] *= inverse;
    std::fill(all, row, T(0));
    std::fill(all + to, all + block.columns, T(0));
  }
}

// The softmax's backward, in place of dp: ds = scale p (dp - sum_j p dp). Biases get the sums of ds / scale, and the
// sink what follows from its share of the denominator.
template <class T>
void softmax_rows_backward(const AttentionCall<T>& call, const AttentionGradients<T>& gradients, const Head& head,
                           const Block& block, const BlockSpace<T>& space) {
  const AttentionShape& shape = call.shape;
  const auto scale = static_cast<T>(call.rule.scale);
  for (std::int64_t r = 0; r < block.rows; ++r) {
    const std::int64_t query = block.first + r / shape.group, h = head.head * shape.group + r % shape.group;
    const T* row = space.p + r * block.columns;
    T* gradient = space.dp + r * block.columns;
    const T along = lane_sum<T>(block.columns, [=](std::int64_t j) { return row[j] * gradient[j]; });
    if (gradients.sink != nullptr) gradients.sink[h] -= static_cast<double>(space.sink[r]) * static_cast<double>(along);
    if (gradients.distance_bias != nullptr) {
      double* bias = bias_of_row(gradients.distance_bias, shape, h, block, query);
#pragma GCC ivdep
      for (std::int64_t j = 0; j < block.columns; ++j) bias[j] += static_cast<double>(row[j] * (gradient[j] - along));
    }
#pragma GCC ivdep
    for (std::int64_t j = 0; j < block.columns; ++j) gradient[j] = scale * row[j] * (gradient[j] - along);
    if (call.rule.cap == 0.0) continue;
    const T* slopes = space.slopes + r * block.columns;  // of what the row sees; the other gradients are 0
    const std::int64_t position = call.rule.first_position + query;
    const std::int64_t from = first_seen(call.rule, position) - block.lo;
    const std::int64_t to = end_seen(shape, call.rule, position) - block.lo;
    for (std::int64_t j = from; j < to; ++j) gradient[j] *= slopes[j];
  }
}

// The block's queries as rows of space.queries; their probabilities in space.p.
template <class T>
void probabilities(const AttentionCall<T>& call, const Head& head, const Block& block, const BlockSpace<T>& space) {
  const AttentionShape& shape = call.shape;
  const std::int64_t d = shape.key_dim, run = shape.group * d;
  const HeadView<const T>&q = call.operands.q, &k = call.operands.k;
  copy_runs(head.queries(q, shape, block.first), q.row, space.queries, run, block.queries, run);
  gemm<T>({false, true, block.rows, block.columns, d, d, k.row, block.columns}, space.queries, head.keys(k, block.lo),
          space.p);
  softmax_rows(call, head, block, space);
}

template <class T>
BlockSpace<T> space_of(const AttentionCall<T>& call, const Block& block) {
  const AttentionShape& shape = call.shape;
  const std::int64_t rows = block.rows, columns = block.columns, width = std::max(shape.key_dim, shape.value_dim);
  Workspace<T>& space = workspace<T>();
  return {sized(space.rows, rows * shape.key_dim),
          sized(space.scores, rows * columns),
          sized(space.gradients, rows * columns),
          sized(space.sinks, rows),
          sized(space.results, rows * width),
          sized(space.product, columns * width),
          call.rule.cap > 0.0 ? sized(space.slopes, rows * columns) : nullptr};
}

// Gradients of keys and values are summed over the blocks, in the order of queries.
template <class T>
void block_backward(const AttentionCall<T>& call, const HeadView<const T>& dout, const AttentionGradients<T>& gradients,
                    const Head& head, const Block& block) {
  const AttentionShape& shape = call.shape;
  const std::int64_t d = shape.key_dim, e = shape.value_dim, rows = block.rows, columns = block.columns;
  const auto& [q, k, v] = call.operands;
  const auto& [dq, dk, dv] = gradients.operands;
  const BlockSpace<T> space = space_of<T>(call, block);
  probabilities(call, head, block, space);
  copy_runs(head.queries(dout, shape, block.first), dout.row, space.results, shape.group * e, block.queries,
            shape.group * e);
  // dv += p^T dout
  gemm<T>({true, false, columns, e, rows, columns, e, e}, space.p, space.results, space.product);
  add_rows(space.product, head.keys(dv, block.lo), columns, e, dv.row);
  // dp = dout v^T
  gemm<T>({false, true, rows, columns, e, e, v.row, columns}, space.results, head.keys(v, block.lo), space.dp);
  softmax_rows_backward(call, gradients, head, block, space);
  // dk += ds^T q
  gemm<T>({true, false, columns, d, rows, columns, d, d}, space.dp, space.queries, space.product);
  add_rows(space.product, head.keys(dk, block.lo), columns, d, dk.row);
  // dq = ds k
  gemm<T>({false, false, rows, d, columns, columns, k.row, d}, space.dp, head.keys(k, block.lo), space.results);
  copy_runs(space.results, shape.group * d, head.queries(dq, shape, block.first), dq.row, block.queries,
            shape.group * d);
}

template <class T>
void clear_rows(const HeadView<T>& view, std::int64_t batch, std::int64_t rows, std::int64_t heads,
                std::int64_t width) {
  for (std::int64_t sample = 0; sample < batch; ++sample)
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t head = 0; head < heads; ++head) std::fill_n(view.at(sample, row, head), width, T(0));
}

}  // namespace

template <class T>
void attention(const AttentionCall<T>& call, T* out) {
  const AttentionShape& shape = call.shape;
  const std::int64_t e = shape.value_dim, run = shape.group * e;
  const HeadView<T> results = dense_heads(out, shape.seq, shape.heads(), e);
  const HeadView<const T>& v = call.operands.v;
  for_each_block(call, [&](const Head& head, const Block& block) {
    const BlockSpace<T> space = space_of<T>(call, block);
    probabilities(call, head, block, space);
    gemm<T>({false, false, block.rows, e, block.columns, block.columns, v.row, e}, space.p, head.keys(v, block.lo),
            space.results);
    copy_runs(space.results, run, head.queries(results, shape, block.first), results.row, block.queries, run);
  });
}

template <class T>
void attention_backward(const AttentionCall<T>& call, const T* dout, const AttentionGradients<T>& gradients) {
  const AttentionShape& shape = call.shape;
  if (gradients.sink != nullptr) std::fill_n(gradients.sink, shape.heads(), 0.0);
  if (gradients.distance_bias != nullptr) std::fill_n(gradients.distance_bias, shape.heads() * shape.distances(), 0.0);
  clear_rows(gradients.operands.k, shape.batch, shape.kv_seq, shape.kv_heads, shape.key_dim);
  clear_rows(gradients.operands.v, shape.batch, shape.kv_seq, shape.kv_heads, shape.value_dim);
  const HeadView<const T> results = dense_heads(dout, shape.seq, shape.heads(), shape.value_dim);
  for_each_block(call,
                 [&](const Head& head, const Block& block) { block_backward(call, results, gradients, head, block); });
}

template void attention<float>(const AttentionCall<float>&, float*);
template void attention<double>(const AttentionCall<double>&, double*);
template void attention_backward<float>(const AttentionCall<float>&, const float*, const AttentionGradients<float>&);
template void attention_backward<double>(const AttentionCall<double>&, const double*,
                                         const AttentionGradients<double>&);

}  // namespace meshwright::kernels
