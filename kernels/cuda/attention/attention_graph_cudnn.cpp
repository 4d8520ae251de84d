// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/attention_graph_cudnn.h"

namespace meshwright::kernels::cuda {

namespace {

using namespace attention_operand;

// The tensors of a graph. cuDNN names the dimensions (batch, heads, rows, width).
struct Parts {
  OperationGraph graph;
  const AttentionProblem& of;
  Extents scores, statistics;

  explicit Parts(const AttentionProblem& problem) : of(problem) {
    const AttentionShape& s = problem.shape;
    scores = {s.batch, s.heads(), s.seq, s.kv_seq};
    statistics = {s.batch, s.heads(), s.seq, 1};
  }

  GraphTensor heads(std::int64_t number, std::int64_t count, std::int64_t rows, std::int64_t width, HeadStrides at) {
    return graph.array(number, of.type, {of.shape.batch, count, rows, width}, {at.sample, at.head, at.row, 1});
  }
  GraphTensor of_queries(std::int64_t number, std::int64_t width, HeadStrides at) {
    return heads(number, of.shape.heads(), of.shape.seq, width, at);
  }
  GraphTensor of_keys(std::int64_t number, std::int64_t width, HeadStrides at) {
    return heads(number, of.shape.kv_heads, of.shape.kv_seq, width, at);
  }
  GraphTensor transposed(std::int64_t number, std::int64_t width, HeadStrides at) {
    return graph.array(number, of.type, {of.shape.batch, of.shape.kv_heads, width, of.shape.kv_seq},
                       {at.sample, at.head, 1, at.row});
  }
  GraphTensor row_statistics(std::int64_t number) {
    return graph.array(number, CUDNN_DATA_FLOAT, statistics, row_major(statistics));
  }
  GraphTensor per_row() { return graph.between(CUDNN_DATA_FLOAT, statistics); }

  GraphTensor product_of_scores(const GraphTensor& a, const GraphTensor& b) {
    const GraphTensor to = graph.between(CUDNN_DATA_FLOAT, scores);
    graph.product(a, b, to);
    return to;
  }
  GraphTensor plus(const GraphTensor& a, const GraphTensor& b, cudnnDataType_t type,
                   cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD) {
    const GraphTensor to = graph.between(type, scores);
    graph.each(mode, {a, b}, to, type);
    return to;
  }
  // The scores where `mode` holds between two positions, and `nothing` elsewhere.
  GraphTensor where(cudnnPointwiseMode_t mode, const GraphTensor& a, const GraphTensor& b, const GraphTensor& s,
                    std::int64_t nothing) {
    const GraphTensor seen = graph.between(CUDNN_DATA_BOOLEAN, scores);
    graph.each(mode, {a, b}, seen, CUDNN_DATA_BOOLEAN);
    return graph.each(CUDNN_POINTWISE_BINARY_SELECT, {s, graph.value(nothing, CUDNN_DATA_FLOAT), seen});
  }
  // The order of these operations is one that cuDNN knows; others that say the same may find no fused kernel.
  GraphTensor masked(GraphTensor s) {
    if (of.has_last_key()) {
      GraphTensor row = graph.positions(s, 2);
      const GraphTensor column = graph.positions(s, 3);
      if (of.has_bottom_right_diagonal()) {
        row = plus(row, graph.value(kKeys, CUDNN_DATA_INT32), CUDNN_DATA_INT32);
        row = plus(row, graph.value(kQueries, CUDNN_DATA_INT32), CUDNN_DATA_INT32, CUDNN_POINTWISE_SUB);
      } else if (of.first_position != 0) {
        row = plus(row, graph.value(kShift, CUDNN_DATA_INT32), CUDNN_DATA_INT32);
      }
      s = where(CUDNN_POINTWISE_CMP_GE, row, column, s, kNothing);
    }
    if (of.has_first_key()) {
      const GraphTensor row = graph.positions(s, 2);
      const GraphTensor column =
          plus(graph.positions(s, 3), graph.value(kWindowShift, CUDNN_DATA_FLOAT), CUDNN_DATA_FLOAT);
      s = where(CUDNN_POINTWISE_CMP_GT, column, row, s, kNothingToo);
    }
    return s;
  }
  // Gradients of keys or values: of every query head first, then summed over each group.
  void product_of_keys(const GraphTensor& by_key, const GraphTensor& by_query, const GraphTensor& to) {
    if (of.shape.group == 1) return graph.product(by_key, by_query, to);
    const GraphTensor of_heads =
        graph.between(of.type, {of.shape.batch, of.shape.heads(), of.shape.kv_seq, to.sizes[3]});
    graph.product(by_key, by_query, of_heads);
    graph.reduce(CUDNN_REDUCE_TENSOR_ADD, of_heads, to);
  }
  // (queries, keys) of the graph's type, as (keys, queries).
  GraphTensor turned(const GraphTensor& s) {
    const AttentionShape& shape = of.shape;
    const GraphTensor to =
        graph.between(of.type, {shape.batch, shape.heads(), shape.kv_seq, shape.seq},
                      {shape.heads() * shape.seq * shape.kv_seq, shape.seq * shape.kv_seq, 1, shape.kv_seq});
    graph.view(s, to);
    return to;
  }
};

}  // namespace

OperationGraph attention_graph(const AttentionProblem& problem, bool log_sums) {
  const AttentionShape& shape = problem.shape;
  Parts p(problem);
  OperationGraph& g = p.graph;
  const GraphTensor q = p.of_queries(kQ, shape.key_dim, problem.q);
  const GraphTensor k = p.transposed(kK, shape.key_dim, problem.k);
  const GraphTensor v = p.of_keys(kV, shape.value_dim, problem.v);
  const GraphTensor out = p.of_queries(kOut, shape.value_dim, problem.out);

  GraphTensor s = p.product_of_scores(q, k);
  s = p.masked(g.each(CUDNN_POINTWISE_MUL, {s, g.value(kScale, CUDNN_DATA_FLOAT)}));
  const GraphTensor largest = p.per_row();
  g.reduce(CUDNN_REDUCE_TENSOR_MAX, s, largest);
  const GraphTensor powers = g.each(CUDNN_POINTWISE_EXP, {g.each(CUDNN_POINTWISE_SUB, {s, largest})});
  const GraphTensor sum = p.per_row();
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, powers, sum);
  // cuDNN does not know the graph without these two, whether or not the result is wanted.
  const GraphTensor logarithm = g.each(CUDNN_POINTWISE_LOG, {sum});
  g.each(CUDNN_POINTWISE_ADD, {largest, logarithm}, log_sums ? p.row_statistics(kLogSums) : p.per_row());
  const GraphTensor probabilities = g.between(problem.type, p.scores);
  g.each(CUDNN_POINTWISE_DIV, {powers, sum}, probabilities);
  g.product(probabilities, v, out);
  return std::move(g);
}

OperationGraph attention_backward_graph(const AttentionProblem& problem) {
  const AttentionShape& shape = problem.shape;
  Parts p(problem);
  OperationGraph& g = p.graph;
  const GraphTensor q = p.of_queries(kQ, shape.key_dim, problem.q);
  const GraphTensor k = p.transposed(kK, shape.key_dim, problem.k);
  const GraphTensor v = p.transposed(kV, shape.value_dim, problem.v);
  const GraphTensor out = p.of_queries(kOut, shape.value_dim, problem.out);
  const GraphTensor dout = p.of_queries(kDout, shape.value_dim, problem.out);
  const GraphTensor log_sums = p.row_statistics(kLogSums);
  const GraphTensor scale = g.value(kScale, CUDNN_DATA_FLOAT);

  // along = sum of dout out
  const GraphTensor unscaled = p.per_row(), along = p.row_statistics(kAlong);
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, g.each(CUDNN_POINTWISE_MUL, {dout, out}), unscaled);
  g.each(CUDNN_POINTWISE_MUL, {unscaled, g.value(kOne, CUDNN_DATA_FLOAT)}, along);

  // p = exp(scale q k^T - log_sums), dv = p^T dout
  const GraphTensor s = g.each(CUDNN_POINTWISE_MUL, {p.product_of_scores(q, k), scale});
  const GraphTensor powers = g.each(CUDNN_POINTWISE_EXP, {p.masked(g.each(CUDNN_POINTWISE_SUB, {s, log_sums}))});
  p.product_of_keys(p.turned(powers), dout, p.of_keys(kDv, shape.value_dim, problem.dv));

  // ds = scale p (dout v^T - along), dk = ds^T q, dq = ds k
  const GraphTensor dp = g.each(CUDNN_POINTWISE_SUB, {p.product_of_scores(dout, v), along});
  const GraphTensor ds = g.each(CUDNN_POINTWISE_MUL, {g.each(CUDNN_POINTWISE_MUL, {dp, powers}), scale});
  p.product_of_keys(p.turned(ds), q, p.of_keys(kDk, shape.key_dim, problem.dk));
  const GraphTensor keys = g.between(CUDNN_DATA_FLOAT, {shape.batch, shape.kv_heads, shape.kv_seq, shape.key_dim},
                                     {problem.k.sample, problem.k.head, problem.k.row, 1});
  g.view(k, keys);
  g.product(ds, keys, p.of_queries(kDq, shape.key_dim, problem.dq));
  return std::move(g);
}

}  // namespace meshwright::kernels::cuda
