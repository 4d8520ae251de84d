// SPDX-License-Identifier: Apache-2.0
// Attention and its backward as graphs of the form that cuDNN recognises and runs as one fused kernel or few: products,
// a mask made of positions, and a softmax of single steps. Internal to kernels/cuda.
#pragma once

#include <compare>
#include <cstdint>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cuda/attention/graph_cudnn.h"

namespace meshwright::kernels::cuda {

// Elements from one sample, row and head to the next.
struct HeadStrides {
  std::int64_t sample, row, head;
  friend auto operator<=>(const HeadStrides&, const HeadStrides&) = default;
};

// What a plan depends on. `shape`: of the samples and heads of one run.
struct AttentionProblem {
  cudnnDataType_t type;
  AttentionShape shape;
  HeadStrides q, k, v, out;  // dout has out's
  HeadStrides dq, dk, dv;    // of a backward
  bool causal;
  std::int64_t window, first_position;

  // Whether queries see no key after their own, and whether there are such keys.
  [[nodiscard]] bool has_last_key() const { return causal && first_position < shape.kv_seq - 1; }
  [[nodiscard]] bool has_bottom_right_diagonal() const {
    return first_position != 0 && first_position == shape.kv_seq - shape.seq;
  }
  // Whether a query's window leaves out keys before it.
  [[nodiscard]] bool has_first_key() const { return window > 0 && window < first_position + shape.seq; }
};

// The numbers of a graph's operands. Sums of exponentials are kept as their logarithms, and rows of dout out, along, as
// (batch, heads, seq) floats.
namespace attention_operand {
enum : std::int64_t {
  kQ = 1,
  kK,
  kV,
  kOut,
  kLogSums,
  kDout,
  kAlong,
  kDq,
  kDk,
  kDv,
  kScale,        // float
  kOne,          // float
  kNothing,      // float, -infinity: a score that is not seen
  kNothingToo,   // the same
  kShift,        // int: the first query's position, where the last query's is not the last key's
  kKeys,         // int: how many
  kQueries,      // int: how many
  kWindowShift,  // float: window - first_position
};
}

[[nodiscard]] OperationGraph attention_graph(const AttentionProblem& problem, bool log_sums);
// dq, dk and dv each have one writer: dq is a product's result, not a sum that several blocks add to.
[[nodiscard]] OperationGraph attention_backward_graph(const AttentionProblem& problem);

}  // namespace meshwright::kernels::cuda
