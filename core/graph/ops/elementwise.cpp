// SPDX-License-Identifier: Apache-2.0
// Ops that work element by element.
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/backward.h"
#include "core/graph/ops/expect.h"
#include "core/graph/ops/rows.h"

namespace meshwright::ops {

namespace {

using namespace infer;

void add_derivative(Backward& backward, const Op& op, TensorId dy) {
  for (const std::size_t i : {0, 1})
    if (backward.wants(op, i)) backward.contribute(op, i, dy);
}

void relu_derivative(Backward& backward, const Op& op, TensorId dy) {
  backward.contribute(op, 0, backward.derive(op, OpKind::ReluBackward, "grad_x", {backward.read(op, 0), dy})[0]);
}

void gelu_derivative(Backward& backward, const Op& op, TensorId dy) {
  backward.contribute(op, 0, backward.derive(op, OpKind::GeluBackward, "grad_x", {backward.read(op, 0), dy})[0]);
}

}  // namespace

std::vector<OpRow> elementwise_rows() {
  using K = OpKind;
  return {
      {.kind = K::Add,
       .name = "add",
       .operands = {"x", "y"},
       .infer = elementwise,
       .splittable = any_axis,
       .derivative = add_derivative,
       .passes_gradient = 0b11},
      {.kind = K::Relu,
       .name = "relu",
       .operands = {"x"},
       .infer = elementwise,
       .splittable = any_axis,
       .derivative = relu_derivative},
      {.kind = K::ReluBackward,
       .name = "relu_backward",
       .operands = {"x", "dy"},
       .infer = elementwise,
       .splittable = any_axis},
      {.kind = K::Gelu,
       .name = "gelu",
       .operands = {"x"},
       .infer = elementwise,
       .splittable = any_axis,
       .derivative = gelu_derivative},
      {.kind = K::GeluBackward,
       .name = "gelu_backward",
       .operands = {"x", "dy"},
       .infer = elementwise,
       .splittable = any_axis},
  };
}

}  // namespace meshwright::ops
