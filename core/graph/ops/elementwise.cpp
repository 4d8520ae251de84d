// SPDX-License-Identifier: Apache-2.0
// Ops that work element by element.
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/backward.h"
#include "core/graph/op_rows.h"
#include "core/graph/ops/expect.h"

namespace meshwright::ops {

namespace {

using namespace infer;

// --- shapes ---

// Integers become numbers, never the other way round: gradients would end there unnoticed.
std::vector<ResultShape> cast(const OpCall& call) {
  expect(call, is_float(call.attributes.dtype), "its attribute dtype must be floating-point");
  return {{call.attributes.dtype, dims(call, 0)}};
}

std::vector<ResultShape> compare(const OpCall& call) {
  expect_one_float_type(call, {0, 1});
  expect_same_dims(call, 0, 1);
  return {{DType::I32, dims(call, 0)}};
}

std::vector<ResultShape> clamp(const OpCall& call) {
  expect(call, call.attributes.low <= call.attributes.high, "its attribute low must be at most its attribute high");
  return elementwise(call);
}

// The first operand decides over the others, element by element.
std::vector<ResultShape> select(const OpCall& call) {
  expect(call, dtype(call, 0) == DType::I32, "p must be i32");
  for (std::size_t i = 1; i < call.inputs.size(); ++i) {
    expect_one_float_type(call, {1, i});
    expect_same_dims(call, 0, i);
  }
  return {{dtype(call, 1), dims(call, 0)}};
}

std::vector<ResultShape> dropout(const OpCall& call) {
  expect(call, call.attributes.probability >= 0.0 && call.attributes.probability < 1.0,
         "its probability must be at least 0 and below 1");
  return elementwise(call);
}

// --- derivatives ---

// The gradient of x is a function of x and dy.
template <OpKind kind>
void derivative_at_x(Backward& backward, const Op& op, TensorId dy) {
  backward.derive_gradient(op, 0, kind, "grad_x", {backward.read(op, 0), dy});
}

// The gradient of x is an op of kind `kind` on dy alone, with the forward op's attributes.
template <OpKind kind>
void derivative_of_dy(Backward& backward, const Op& op, TensorId dy) {
  backward.derive_gradient(op, 0, kind, "grad_x", {dy}, op.attributes);
}

void add_derivative(Backward& backward, const Op& op, TensorId dy) {
  for (const std::size_t i : {0, 1})
    if (backward.wants(op, i)) backward.contribute(op, i, dy);
}

void subtract_derivative(Backward& backward, const Op& op, TensorId dy) {
  if (backward.wants(op, 0)) backward.contribute(op, 0, dy);
  backward.derive_gradient(op, 1, OpKind::Scale, "grad_y", {dy}, {.scale = -1.0});
}

void multiply_derivative(Backward& backward, const Op& op, TensorId dy) {
  const TensorId x = backward.read(op, 0), y = backward.read(op, 1);
  backward.derive_gradient(op, 0, OpKind::Multiply, "grad_x", {dy, y});
  backward.derive_gradient(op, 1, OpKind::Multiply, "grad_y", {x, dy});
}

void shift_derivative(Backward& backward, const Op& op, TensorId dy) {
  if (backward.wants(op, 0)) backward.contribute(op, 0, dy);
}

void clamp_derivative(Backward& backward, const Op& op, TensorId dy) {
  backward.derive_gradient(op, 0, OpKind::ClampBackward, "grad_x", {backward.read(op, 0), dy}, op.attributes);
}

// q = x / y: dx = dy / y, and that of y is -q dx.
void divide_derivative(Backward& backward, const Op& op, TensorId dy) {
  const TensorId of_x = backward.derive(op, OpKind::Divide, "grad_x", {dy, backward.read(op, 1)})[0];
  if (backward.wants(op, 0)) backward.contribute(op, 0, of_x);
  if (!backward.wants(op, 1)) return;
  const TensorId product = backward.derive(op, OpKind::Multiply, "grad_product", {of_x, backward.result(op)})[0];
  backward.derive_gradient(op, 1, OpKind::Scale, "grad_y", {product}, {.scale = -1.0});
}

void cast_derivative(Backward& backward, const Op& op, TensorId dy) {
  const DType type = backward.tensor(op.inputs[0]).dtype;
  if (!is_float(type)) return;
  backward.derive_gradient(op, 0, OpKind::Cast, "grad_x", {dy}, {.dtype = type});
}

void select_derivative(Backward& backward, const Op& op, TensorId dy) {
  const TensorId p = backward.read(op, 0);
  backward.derive_gradient(op, 1, OpKind::SelectBackward, "grad_x", {p, dy});
  backward.derive_gradient(op, 2, OpKind::SelectBackward, "grad_y", {p, dy}, {.bias_select = true});
}

}  // namespace

std::vector<OpRow> elementwise_rows() {
  using K = OpKind;
  return {
      {K::Add,
       "add",
       {"x", "y"},
       elementwise,
       any_axis,
       {.derivative = add_derivative, .passes_gradient = 0b11, .linear_operands = 0b11}},
      {K::Subtract,
       "subtract",
       {"x", "y"},
       elementwise,
       any_axis,
       {.derivative = subtract_derivative, .passes_gradient = 0b01, .linear_operands = 0b11}},
      {K::Multiply, "multiply", {"x", "y"}, elementwise, any_axis, {.derivative = multiply_derivative}},
      {K::Divide, "divide", {"x", "y"}, elementwise, any_axis, {.derivative = divide_derivative}},
      {K::Scale,
       "scale",
       {"x"},
       elementwise,
       any_axis,
       {.derivative = derivative_of_dy<K::Scale>, .linear_operands = 0b1}},
      {K::Shift, "shift", {"x"}, elementwise, any_axis, {.derivative = shift_derivative, .passes_gradient = 0b1}},
      {K::Clamp, "clamp", {"x"}, clamp, any_axis, {.derivative = clamp_derivative}},
      {K::ClampBackward, "clamp_backward", {"x", "dy"}, clamp, any_axis},
      {K::Relu, "relu", {"x"}, elementwise, any_axis, {.derivative = derivative_at_x<K::ReluBackward>}},
      {K::ReluBackward, "relu_backward", {"x", "dy"}, elementwise, any_axis},
      {K::Gelu, "gelu", {"x"}, elementwise, any_axis, {.derivative = derivative_at_x<K::GeluBackward>}},
      {K::GeluBackward, "gelu_backward", {"x", "dy"}, elementwise, any_axis},
      {K::GeluErf, "gelu_erf", {"x"}, elementwise, any_axis, {.derivative = derivative_at_x<K::GeluErfBackward>}},
      {K::GeluErfBackward, "gelu_erf_backward", {"x", "dy"}, elementwise, any_axis},
      {K::Silu, "silu", {"x"}, elementwise, any_axis, {.derivative = derivative_at_x<K::SiluBackward>}},
      {K::SiluBackward, "silu_backward", {"x", "dy"}, elementwise, any_axis},
      {K::Tanh, "tanh", {"x"}, elementwise, any_axis, {.derivative = derivative_at_x<K::TanhBackward>}},
      {K::TanhBackward, "tanh_backward", {"x", "dy"}, elementwise, any_axis},
      {K::Sigmoid, "sigmoid", {"x"}, elementwise, any_axis, {.derivative = derivative_at_x<K::SigmoidBackward>}},
      {K::SigmoidBackward, "sigmoid_backward", {"x", "dy"}, elementwise, any_axis},
      {K::Exp, "exp", {"x"}, elementwise, any_axis, {.derivative = derivative_at_x<K::ExpBackward>}},
      {K::ExpBackward, "exp_backward", {"x", "dy"}, elementwise, any_axis},
      {K::Log, "log", {"x"}, elementwise, any_axis, {.derivative = derivative_at_x<K::LogBackward>}},
      {K::LogBackward, "log_backward", {"x", "dy"}, elementwise, any_axis},
      {K::Sqrt, "sqrt", {"x"}, elementwise, any_axis, {.derivative = derivative_at_x<K::SqrtBackward>}},
      {K::SqrtBackward, "sqrt_backward", {"x", "dy"}, elementwise, any_axis},
      {K::Rsqrt, "rsqrt", {"x"}, elementwise, any_axis, {.derivative = derivative_at_x<K::RsqrtBackward>}},
      {K::RsqrtBackward, "rsqrt_backward", {"x", "dy"}, elementwise, any_axis},
      {K::Reciprocal,
       "reciprocal",
       {"x"},
       elementwise,
       any_axis,
       {.derivative = derivative_at_x<K::ReciprocalBackward>}},
      {K::ReciprocalBackward, "reciprocal_backward", {"x", "dy"}, elementwise, any_axis},
      {K::Abs, "abs", {"x"}, elementwise, any_axis, {.derivative = derivative_at_x<K::AbsBackward>}},
      {K::AbsBackward, "abs_backward", {"x", "dy"}, elementwise, any_axis},
      {K::Sin, "sin", {"x"}, elementwise, any_axis, {.derivative = derivative_at_x<K::SinBackward>}},
      {K::SinBackward, "sin_backward", {"x", "dy"}, elementwise, any_axis},
      {K::Cos, "cos", {"x"}, elementwise, any_axis, {.derivative = derivative_at_x<K::CosBackward>}},
      {K::CosBackward, "cos_backward", {"x", "dy"}, elementwise, any_axis},
      {K::Erf, "erf", {"x"}, elementwise, any_axis, {.derivative = derivative_at_x<K::ErfBackward>}},
      {K::ErfBackward, "erf_backward", {"x", "dy"}, elementwise, any_axis},
      {K::Cast, "cast", {"x"}, cast, any_axis, {.derivative = cast_derivative}},
      {K::Compare, "compare", {"x", "y"}, compare, any_axis},
      {K::Select, "select", {"p", "x", "y"}, select, any_axis, {.derivative = select_derivative}},
      {K::SelectBackward, "select_backward", {"p", "dy"}, select, any_axis},
      {K::Dropout,
       "dropout",
       {"x"},
       dropout,
       any_axis,
       {.derivative = derivative_of_dy<K::DropoutBackward>, .linear_operands = 0b1}},
      {K::DropoutBackward, "dropout_backward", {"dy"}, dropout, any_axis},
  };
}

}  // namespace meshwright::ops
