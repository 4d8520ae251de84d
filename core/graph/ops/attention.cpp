// SPDX-License-Identifier: Apache-2.0
// Fused attention.
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/backward.h"
#include "core/graph/ops/expect.h"
#include "core/graph/ops/rows.h"

namespace meshwright::ops {

namespace {

using namespace infer;

void expect_qkv(const OpCall& call) {
  expect(call, dims(call, 0).size() == 5 && dims(call, 0)[2].size == 3,
         "qkv must have five dimensions (batch, seq, qkv=3, heads, head_dim)");
}

Dims without_qkv(const Dims& qkv) { return {qkv[0], qkv[1], qkv[3], qkv[4]}; }

std::vector<ResultShape> attention(const OpCall& call) {
  expect_one_float_type(call, {0});
  expect_qkv(call);
  return {{dtype(call, 0), without_qkv(dims(call, 0))}};
}

std::vector<ResultShape> attention_backward(const OpCall& call) {
  expect_one_float_type(call, {0, 1});
  expect_qkv(call);
  expect(call, dims(call, 1) == without_qkv(dims(call, 0)), "dy must have the dimensions of qkv without the third");
  return {{dtype(call, 0), dims(call, 0)}};
}

// A query attends to the whole sequence, and its score needs the whole head.
bool batch_or_heads(const Op&, const IterationSpace& space, int axis) {
  return axis == space.inputs[0][0] || axis == space.inputs[0][3];
}

// Axes (batch, seq, qkv, heads, head_dim): scores and weighted values, 2 b s^2 h d each; the causal half is not taken
// off.
double attention_flops(const IterationSpace&, const std::vector<std::int64_t>& sizes) {
  return 4.0 * product({sizes[0], sizes[1], sizes[1], sizes[3], sizes[4]});
}
double attention_backward_flops(const IterationSpace& space, const std::vector<std::int64_t>& sizes) {
  return 2.0 * attention_flops(space, sizes);
}

void attention_derivative(Backward& backward, const Op& op, TensorId dy) {
  backward.contribute(op, 0, backward.derive(op, OpKind::AttentionBackward, "grad_qkv", {backward.read(op, 0), dy})[0]);
}

}  // namespace

std::vector<OpRow> attention_rows() {
  using K = OpKind;
  return {
      {.kind = K::Attention,
       .name = "attention",
       .operands = {"qkv"},
       .infer = attention,
       .splittable = batch_or_heads,
       .flops = attention_flops,
       .derivative = attention_derivative},
      {.kind = K::AttentionBackward,
       .name = "attention_backward",
       .operands = {"qkv", "dy"},
       .infer = attention_backward,
       .splittable = batch_or_heads,
       .flops = attention_backward_flops},
  };
}

}  // namespace meshwright::ops
