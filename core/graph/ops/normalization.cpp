// SPDX-License-Identifier: Apache-2.0
// Normalisations.
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/backward.h"
#include "core/graph/ops/expect.h"
#include "core/graph/ops/rows.h"

namespace meshwright::ops {

namespace {

using namespace infer;

std::vector<ResultShape> layer_norm(const OpCall& call) {
  expect_one_float_type(call, {0, 1, 2});
  expect(call, !dims(call, 0).empty() && dims(call, 1) == Dims{dims(call, 0).back()},
         "gamma must have the last dimension of x");
  expect_same_dims(call, 1, 2);
  return {{dtype(call, 0), dims(call, 0)}};
}

std::vector<ResultShape> layer_norm_backward(const OpCall& call) {
  expect_one_float_type(call, {0, 1, 2});
  expect(call, !dims(call, 0).empty() && dims(call, 1) == Dims{dims(call, 0).back()},
         "gamma must have the last dimension of x");
  expect_same_dims(call, 0, 2);
  return {{dtype(call, 0), dims(call, 0)}};
}

std::vector<ResultShape> layer_norm_param_backward(const OpCall& call) {
  expect_one_float_type(call, {0, 1});
  expect(call, !dims(call, 0).empty(), "x must have a dimension");
  expect_same_dims(call, 0, 1);
  const ResultShape one{dtype(call, 0), {dims(call, 0).back()}};
  return {one, one};
}

void layer_norm_derivative(Backward& backward, const Op& op, TensorId dy) {
  const TensorId x = backward.read(op, 0), gamma = backward.read(op, 1);
  if (backward.wants(op, 0))
    backward.contribute(op, 0, backward.derive(op, OpKind::LayerNormBackward, "grad_x", {x, gamma, dy})[0]);
  if (!backward.wants(op, 1) && !backward.wants(op, 2)) return;
  const std::vector<TensorId> gradients = backward.derive(op, OpKind::LayerNormParamBackward, "grad_params", {x, dy});
  for (const std::size_t i : {1, 2})
    if (backward.wants(op, i)) backward.contribute(op, i, gradients[i - 1]);
}

}  // namespace

std::vector<OpRow> normalization_rows() {
  using K = OpKind;
  return {
      {.kind = K::LayerNorm,
       .name = "layer_norm",
       .operands = {"x", "gamma", "beta"},
       .infer = layer_norm,
       .splittable = all_but_last_of_x,
       .derivative = layer_norm_derivative},
      {.kind = K::LayerNormBackward,
       .name = "layer_norm_backward",
       .operands = {"x", "gamma", "dy"},
       .infer = layer_norm_backward,
       .splittable = all_but_last_of_x},
      {.kind = K::LayerNormParamBackward,
       .name = "layer_norm_param_backward",
       .operands = {"x", "dy"},
       .infer = layer_norm_param_backward,
       .splittable = all_but_last_of_x,
       .results = {"gamma", "beta"}},
  };
}

}  // namespace meshwright::ops
