// SPDX-License-Identifier: Apache-2.0
// Normalisations over a row (the last dimension) and, per channel (the last dimension), over the batch.
#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/graph/backward.h"
#include "core/graph/op_rows.h"
#include "core/graph/ops/expect.h"

namespace meshwright::ops {

namespace {

using namespace infer;

// --- over a row ---

void expect_row_parameter(const OpCall& call, std::size_t operand) {
  if (dims(call, 0).empty() || dims(call, operand) != Dims{dims(call, 0).back()})
    fail(call, fmt::format("{} must have the last dimension of x", row_of(call.kind).operands[operand]));
}

// Of an RMS norm, gamma may have several of the last dimensions: rows of several gammas, one per group.
void expect_last_of_x(const OpCall& call, std::size_t operand) {
  const Dims &x = dims(call, 0), &gamma = dims(call, operand);
  if (gamma.empty() || gamma.size() > x.size() || !std::equal(gamma.rbegin(), gamma.rend(), x.rbegin()))
    fail(call, fmt::format("{} must have the last dimensions of x", row_of(call.kind).operands[operand]));
}

std::vector<ResultShape> layer_norm(const OpCall& call) {
  expect_one_float_type(call, {0, 1, 2});
  expect_row_parameter(call, 1);
  expect_same_dims(call, 1, 2);
  return {{dtype(call, 0), dims(call, 0)}};
}

std::vector<ResultShape> rms_norm(const OpCall& call) {
  expect_one_float_type(call, {0, 1});
  expect_last_of_x(call, 1);
  return {{dtype(call, 0), dims(call, 0)}};
}

// (x, gamma, dy) -> dx
std::vector<ResultShape> row_norm_backward(const OpCall& call) {
  expect_one_float_type(call, {0, 1, 2});
  if (call.kind == OpKind::RmsNormBackward)
    expect_last_of_x(call, 1);
  else
    expect_row_parameter(call, 1);
  expect_same_dims(call, 0, 2);
  return {{dtype(call, 0), dims(call, 0)}};
}

// (x, dy) -> the gradient of each parameter; `result_names`: of a gamma that has several dimensions
std::vector<ResultShape> row_norm_param_backward(const OpCall& call) {
  expect_one_float_type(call, {0, 1});
  expect(call, !dims(call, 0).empty(), "x must have a dimension");
  expect_same_dims(call, 0, 1);
  const Dims& x = dims(call, 0);
  const std::vector<std::string>& names = call.attributes.result_names;
  const std::size_t rank = std::max<std::size_t>(1, names.size());
  expect(call, rank <= x.size(), "its attributes must name the last dimensions of x");
  const ResultShape one{dtype(call, 0), Dims(x.end() - static_cast<std::ptrdiff_t>(rank), x.end())};
  for (std::size_t i = 0; i < names.size(); ++i)
    expect(call, names[i] == one.dims[i].name, "its attributes must name the last dimensions of x");
  if (call.kind == OpKind::RmsNormParamBackward) return {one};
  expect(call, names.empty(), "its parameters have the last dimension of x");
  return {one, one};
}

std::vector<ResultShape> softmax(const OpCall& call) {
  expect(call, !dims(call, 0).empty(), "it needs a dimension to normalise");
  return elementwise(call);
}

// (x, [dy]) -> x's dimensions.
std::vector<ResultShape> sinkhorn(const OpCall& call) {
  expect(call, dims(call, 0).size() >= 2, "x must have two dimensions or more, (..., rows, columns)");
  const double turns = call.attributes.value;
  expect(call, turns >= 1.0 && turns <= 1e6 && std::trunc(turns) == turns && call.attributes.epsilon >= 0.0,
         "its value, the number of turns, must be a whole number of at least 1, and its epsilon at least 0");
  return elementwise(call);
}

// Sums of rows and of columns take turns.
bool all_but_matrices(const Op&, const IterationSpace& space, int axis) {
  const std::vector<int>& x = space.inputs[0];
  return axis != x.back() && axis != x[x.size() - 2];
}

void layer_norm_derivative(Backward& backward, const Op& op, TensorId dy) {
  const TensorId x = backward.read(op, 0), gamma = backward.read(op, 1);
  const Attributes same{.epsilon = op.attributes.epsilon};
  backward.derive_gradient(op, 0, OpKind::LayerNormBackward, "grad_x", {x, gamma, dy}, same);
  if (!backward.wants(op, 1) && !backward.wants(op, 2)) return;
  const std::vector<TensorId> gradients =
      backward.derive(op, OpKind::LayerNormParamBackward, "grad_params", {x, dy}, same);
  for (const std::size_t i : {1, 2})
    if (backward.wants(op, i)) backward.contribute(op, i, gradients[i - 1]);
}

void rms_norm_derivative(Backward& backward, const Op& op, TensorId dy) {
  const TensorId x = backward.read(op, 0), gamma = backward.read(op, 1);
  const Attributes same{.epsilon = op.attributes.epsilon};
  backward.derive_gradient(op, 0, OpKind::RmsNormBackward, "grad_x", {x, gamma, dy}, same);
  Attributes of_gamma = same;
  if (backward.tensor(gamma).dims.size() > 1) of_gamma.result_names = names_of(backward.tensor(gamma));
  backward.derive_gradient(op, 1, OpKind::RmsNormParamBackward, "grad_gamma", {x, dy}, of_gamma);
}

void softmax_derivative(Backward& backward, const Op& op, TensorId dy) {
  backward.derive_gradient(op, 0, OpKind::SoftmaxBackward, "grad_x", {backward.result(op), dy});
}

void sinkhorn_derivative(Backward& backward, const Op& op, TensorId dy) {
  backward.derive_gradient(op, 0, OpKind::SinkhornBackward, "grad_x", {backward.read(op, 0), dy}, op.attributes);
}

// --- over the batch ---

const char* const kMoment = "moment";

std::vector<ResultShape> batch_sums(const OpCall& call) {
  expect_one_float_type(call, {0});
  expect(call, dims(call, 0).size() >= 2, "x must have a dimension for the batch and one for the channels");
  expect(call, find(dims(call, 0), kMoment) == nullptr, "x must not have a dimension 'moment', the result has one");
  return {{accumulation_dtype(dtype(call, 0)), {{kMoment, 2}, dims(call, 0).back()}}};
}

// x, its sums, and `scale`, which makes averages of them.
void expect_sums(const OpCall& call) {
  const Dims& x = dims(call, 0);
  expect(call, is_float(dtype(call, 0)) && dtype(call, 1) == accumulation_dtype(dtype(call, 0)),
         "sums must have the type that x is summed in");
  expect(call, x.size() >= 2 && dims(call, 1) == Dims{{kMoment, 2}, x.back()},
         "sums must be (moment=2, the last dimension of x)");
  double count = 1.0;
  for (const Dim& dim : without_last(x)) count *= static_cast<double>(dim.size);
  if (std::abs(call.attributes.scale * count - 1.0) > 1e-9)
    fail(call, fmt::format("its scale must be 1/{}, one part in the elements of a channel, and is {}", count,
                           call.attributes.scale));
}

std::vector<ResultShape> batch_norm(const OpCall& call) {
  expect_one_float_type(call, {0, 2, 3});
  expect_sums(call);
  for (const std::size_t parameter : {2, 3}) expect_row_parameter(call, parameter);
  return {{dtype(call, 0), dims(call, 0)}};
}

std::vector<ResultShape> batch_norm_param_backward(const OpCall& call) {
  expect_one_float_type(call, {0, 2});
  expect_sums(call);
  expect_same_dims(call, 0, 2);
  const ResultShape one{dtype(call, 0), {dims(call, 0).back()}};
  return {one, one};
}

std::vector<ResultShape> batch_norm_backward(const OpCall& call) {
  expect_one_float_type(call, {0, 2, 3, 4, 5});
  expect_sums(call);
  for (const std::size_t parameter : {2, 3, 4}) expect_row_parameter(call, parameter);
  expect_same_dims(call, 0, 5);
  return {{dtype(call, 0), dims(call, 0)}};
}

// Samples and channels. What lies between them, space, is split by no op around.
bool batch_or_channel(const Op&, const IterationSpace& space, int axis) {
  return axis == space.inputs[0].front() || axis == space.inputs[0].back();
}

// dgamma and dbeta are also what the derivative through the sums is made of, so nothing is left to contribute to them.
void batch_norm_derivative(Backward& backward, const Op& op, TensorId dy) {
  require(
      backward.maker(op, 1, OpKind::BatchSums).inputs[0] == op.inputs[0],
      "op '{}' (batch_norm): cannot be differentiated, because its sums are not those of its x; make them from '{}'.",
      op.name, backward.tensor(op.inputs[0]).name);
  const TensorId x = backward.read(op, 0), sums = backward.read(op, 1), gamma = backward.read(op, 2);
  const Attributes same{.scale = op.attributes.scale, .epsilon = op.attributes.epsilon};
  const std::vector<TensorId> gradients =
      backward.derive(op, OpKind::BatchNormParamBackward, "grad_params", {x, sums, dy}, same);
  for (const std::size_t i : {2, 3})
    if (backward.wants(op, i)) backward.contribute(op, i, gradients[i - 2]);
  backward.derive_gradient(op, 0, OpKind::BatchNormBackward, "grad_x", {x, sums, gamma, gradients[0], gradients[1], dy},
                           same);
}

}  // namespace

std::vector<OpRow> normalization_rows() {
  using K = OpKind;
  return {
      {K::LayerNorm,
       "layer_norm",
       {"x", "gamma", "beta"},
       layer_norm,
       all_but_last_of_x,
       {.derivative = layer_norm_derivative}},
      {K::LayerNormBackward, "layer_norm_backward", {"x", "gamma", "dy"}, row_norm_backward, all_but_last_of_x},
      {K::LayerNormParamBackward,
       "layer_norm_param_backward",
       {"x", "dy"},
       row_norm_param_backward,
       all_but_last_of_x,
       {.results = {"gamma", "beta"}}},
      {K::RmsNorm, "rms_norm", {"x", "gamma"}, rms_norm, all_but_last_of_x, {.derivative = rms_norm_derivative}},
      {K::RmsNormBackward, "rms_norm_backward", {"x", "gamma", "dy"}, row_norm_backward, all_but_last_of_x},
      {K::RmsNormParamBackward, "rms_norm_param_backward", {"x", "dy"}, row_norm_param_backward, all_but_last_of_x},
      {K::Softmax, "softmax", {"x"}, softmax, all_but_last_of_x, {.derivative = softmax_derivative}},
      {K::SoftmaxBackward, "softmax_backward", {"y", "dy"}, softmax, all_but_last_of_x},
      {K::Sinkhorn, "sinkhorn", {"x"}, sinkhorn, all_but_matrices, {.derivative = sinkhorn_derivative}},
      {K::SinkhornBackward, "sinkhorn_backward", {"x", "dy"}, sinkhorn, all_but_matrices},
      {K::BatchSums, "batch_sums", {"x"}, batch_sums, batch_or_channel},
      {K::BatchNorm,
       "batch_norm",
       {"x", "sums", "gamma", "beta"},
       batch_norm,
       batch_or_channel,
       {.derivative = batch_norm_derivative}},
      {K::BatchNormParamBackward,
       "batch_norm_param_backward",
       {"x", "sums", "dy"},
       batch_norm_param_backward,
       batch_or_channel,
       {.results = {"gamma", "beta"}}},
      {K::BatchNormBackward,
       "batch_norm_backward",
       {"x", "sums", "gamma", "dgamma", "dbeta", "dy"},
       batch_norm_backward,
       batch_or_channel},
  };
}

}  // namespace meshwright::ops
