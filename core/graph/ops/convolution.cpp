// SPDX-License-Identifier: Apache-2.0
// Convolutions and pooling over two spatial dimensions, those after the first. Attributes: `window` (pooling; of a
// convolution it is the weight's), `stride` (empty: 1), `pad_before` and `pad_after` (empty: 0), two entries each.
// `result_dims`: forward the two spatial dimensions of the result, which keep x's name where they keep its size, so
// that the next op may be added to the first; in the backward ops that cannot read it, the whole x or the whole weight.
//
// A window slides over the spatial dimensions, so they are never split: neighbours would have to exchange borders.
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/backward.h"
#include "core/graph/op_rows.h"
#include "core/graph/ops/expect.h"

namespace meshwright::ops {

namespace {

using namespace infer;
using Sizes = std::vector<std::int64_t>;

constexpr std::size_t kSpatial = 2;

// Two entries, `usual` where the list is empty.
Sizes entries(const OpCall& call, const Sizes& given, const char* what, std::int64_t usual, std::int64_t minimum) {
  if (given.empty()) return Sizes(kSpatial, usual);
  const bool fits = given.size() == kSpatial && *std::min_element(given.begin(), given.end()) >= minimum;
  if (!fits) fail(call, fmt::format("its {} must be two numbers of at least {}", what, minimum));
  return given;
}

// Dimensions 1 and 2 of y are what the windows leave of those of x, and are named so that no axis is confused.
void expect_windows(const OpCall& call, const Dims& x, const Sizes& window, const Dims& y) {
  const Attributes& attributes = call.attributes;
  const Sizes stride = entries(call, attributes.stride, "stride", 1, 1);
  const Sizes before = entries(call, attributes.pad_before, "padding before", 0, 0);
  const Sizes after = entries(call, attributes.pad_after, "padding after", 0, 0);
  for (std::size_t s = 0; s < kSpatial; ++s) {
    const Dim &from = x[s + 1], &to = y[s + 1];
    if (before[s] >= window[s] || after[s] >= window[s])
      fail(call, fmt::format("the padding {} and {} of '{}' must be smaller than its window {}", before[s], after[s],
                             from.name, window[s]));
    const std::int64_t room = from.size + before[s] + after[s] - window[s];
    if (room < 0) fail(call, fmt::format("the window {} of '{}' must fit into it", window[s], from.name));
    if (to.size != room / stride[s] + 1)
      fail(call, fmt::format(
                     "'{}' of its result {} must have size {}: windows of {} at stride {} over '{}' padded by {} "
                     "and {}",
                     to.name, to_text(y), room / stride[s] + 1, window[s], stride[s], from.name, before[s], after[s]));
    if (find(x, to.name) != nullptr && to != from)
      fail(call, fmt::format("'{}' of its result {} must keep both name and size of '{}' of x, or have a name that x "
                             "lacks",
                             to.name, to_text(y), from.name));
  }
}

// --- convolution ---

// x (batch, h, w, [groups], in), w ([groups], kh, kw, in, out), y (batch, h', w', [groups], out).
void expect_convolution(const OpCall& call, const Dims& x, const Dims& w, const Dims& y) {
  const std::size_t rank = x.size();
  expect(
      call, (rank == 4 || rank == 5) && w.size() == rank && y.size() == rank,
      "x must be (batch, h, w, [groups], in), w ([groups], kh, kw, in, out) and the result (batch, h', w', [groups], "
      "out)");
  expect(call, x[0] == y[0], "x and the result must have one batch");
  expect(call, rank == 4 || (x[3] == w[0] && w[0] == y[3]), "x, w and the result must have one dimension of groups");
  expect(call, x.back() == w[rank - 2], "the last dimension of x must be the last but one of w");
  expect(call, y.back() == w.back(), "the last dimension of the result must be the last of w");
  expect(call, find(x, w.back().name) == nullptr, "the channels that go in and those that come out need two names");
  for (const std::size_t k : {rank - 4, rank - 3})
    expect(call, find(x, w[k].name) == nullptr && find(y, w[k].name) == nullptr,
           "the names of the window must not be in x or the result");
  expect_windows(call, x, {w[rank - 4].size, w[rank - 3].size}, y);
}

const Dims& two_spatial(const OpCall& call) {
  expect(call, call.attributes.result_dims.size() == kSpatial,
         "its attributes must give the two spatial dimensions of the result");
  return call.attributes.result_dims;
}

std::vector<ResultShape> convolution(const OpCall& call) {
  expect_one_float_type(call, {0, 1});
  const Dims &x = dims(call, 0), &w = dims(call, 1), &spatial = two_spatial(call);
  expect(call, x.size() >= 4 && !w.empty(), "x must be (batch, h, w, [groups], in) and w ([groups], kh, kw, in, out)");
  Dims y = x;
  std::copy(spatial.begin(), spatial.end(), y.begin() + 1);
  y.back() = w.back();
  expect_convolution(call, x, w, y);
  return {{dtype(call, 0), y}};
}

std::vector<ResultShape> convolution_backward_input(const OpCall& call) {
  expect_one_float_type(call, {0, 1});
  expect_convolution(call, call.attributes.result_dims, dims(call, 0), dims(call, 1));
  return {{dtype(call, 0), call.attributes.result_dims}};
}

std::vector<ResultShape> convolution_backward_weight(const OpCall& call) {
  expect_one_float_type(call, {0, 1});
  expect_convolution(call, dims(call, 0), call.attributes.result_dims, dims(call, 1));
  return {{dtype(call, 0), call.attributes.result_dims}};
}

// The axes that the dimensions of data, weight and result walk, whichever of the three the op makes.
struct Walks {
  const std::vector<int>&x, &w, &y;
};
Walks of_forward(const IterationSpace& space) { return {space.inputs[0], space.inputs[1], space.outputs[0]}; }
Walks of_backward_input(const IterationSpace& space) { return {space.outputs[0], space.inputs[0], space.inputs[1]}; }
Walks of_backward_weight(const IterationSpace& space) { return {space.inputs[0], space.outputs[0], space.inputs[1]}; }

bool neither_spatial_nor_window(Walks walks, int axis) {
  const std::vector<int>& w = walks.w;
  const int fixed[] = {walks.x[1], walks.x[2], walks.y[1], walks.y[2], w[w.size() - 4], w[w.size() - 3]};
  return std::find(std::begin(fixed), std::end(fixed), axis) == std::end(fixed);
}

// 2 batch h' w' groups out kh kw in: each element of y meets, in its group, each element of a filter.
double flops_of(Walks walks, const Sizes& sizes) {
  std::vector<int> met = walks.y;
  met.insert(met.end(), walks.w.end() - 4, walks.w.end() - 1);
  double total = 2.0;
  for (const int axis : met) total *= static_cast<double>(sizes[static_cast<std::size_t>(axis)]);
  return total;
}

template <Walks (*of)(const IterationSpace&)>
bool convolution_split(const Op&, const IterationSpace& space, int axis) {
  return neither_spatial_nor_window(of(space), axis);
}
template <Walks (*of)(const IterationSpace&)>
double convolution_flops(const IterationSpace& space, const Sizes& sizes) {
  return flops_of(of(space), sizes);
}

Attributes with_result(Attributes attributes, Dims result) {
  attributes.result_dims = std::move(result);
  return attributes;
}

void convolution_derivative(Backward& backward, const Op& op, TensorId dy) {
  const TensorId x = backward.read(op, 0), w = backward.read(op, 1);
  backward.derive_gradient(op, 0, OpKind::ConvolutionBackwardInput, "grad_x", {w, dy},
                           with_result(op.attributes, backward.tensor(x).dims));
  backward.derive_gradient(op, 1, OpKind::ConvolutionBackwardWeight, "grad_w", {x, dy},
                           with_result(op.attributes, backward.tensor(w).dims));
}

// --- pooling ---

// x (batch, h, w, ...), y (batch, h', w', ...).
void expect_pooling(const OpCall& call, const Dims& x, const Dims& y) {
  expect(call, x.size() >= 3 && y.size() == x.size(),
         "x must be (batch, h, w, ...) and the result (batch, h', w', ...)");
  expect(call, x[0] == y[0] && std::equal(x.begin() + 3, x.end(), y.begin() + 3),
         "x and the result must differ in the two spatial dimensions only");
  const Sizes& window = call.attributes.window;
  expect(call, window.size() == kSpatial && *std::min_element(window.begin(), window.end()) >= 1,
         "its window must be two numbers of at least 1");
  expect_windows(call, x, window, y);
}

std::vector<ResultShape> pool(const OpCall& call) {
  expect_one_float_type(call, {0});
  const Dims& spatial = two_spatial(call);
  expect(call, dims(call, 0).size() >= 3, "x must be (batch, h, w, ...)");
  Dims y = dims(call, 0);
  std::copy(spatial.begin(), spatial.end(), y.begin() + 1);
  expect_pooling(call, dims(call, 0), y);
  return {{dtype(call, 0), y}};
}

std::vector<ResultShape> max_pool_backward(const OpCall& call) {
  expect_one_float_type(call, {0, 1});
  expect_pooling(call, dims(call, 0), dims(call, 1));
  return {{dtype(call, 0), dims(call, 0)}};
}

std::vector<ResultShape> average_pool_backward(const OpCall& call) {
  expect_one_float_type(call, {0});
  expect_pooling(call, call.attributes.result_dims, dims(call, 0));
  return {{dtype(call, 0), call.attributes.result_dims}};
}

bool all_but_spatial(const Op&, const IterationSpace& space, int axis) {
  const auto spatial = [&](const std::vector<int>& dims) { return axis == dims[1] || axis == dims[2]; };
  return !spatial(space.inputs[0]) && !spatial(space.inputs.back()) && !spatial(space.outputs[0]);
}

void max_pool_derivative(Backward& backward, const Op& op, TensorId dy) {
  backward.derive_gradient(op, 0, OpKind::MaxPoolBackward, "grad_x", {backward.read(op, 0), dy},
                           with_result(op.attributes, {}));
}

void average_pool_derivative(Backward& backward, const Op& op, TensorId dy) {
  const Dims& x = backward.tensor(op.inputs[0]).dims;
  backward.derive_gradient(op, 0, OpKind::AveragePoolBackward, "grad_x", {dy}, with_result(op.attributes, x));
}

}  // namespace

std::vector<OpRow> convolution_rows() {
  using K = OpKind;
  return {
      {K::Convolution,
       "convolution",
       {"x", "w"},
       convolution,
       convolution_split<of_forward>,
       {.flops = convolution_flops<of_forward>, .derivative = convolution_derivative}},
      {K::ConvolutionBackwardInput,
       "convolution_backward_input",
       {"w", "dy"},
       convolution_backward_input,
       convolution_split<of_backward_input>,
       {.flops = convolution_flops<of_backward_input>}},
      {K::ConvolutionBackwardWeight,
       "convolution_backward_weight",
       {"x", "dy"},
       convolution_backward_weight,
       convolution_split<of_backward_weight>,
       {.flops = convolution_flops<of_backward_weight>}},
      {K::MaxPool, "max_pool", {"x"}, pool, all_but_spatial, {.derivative = max_pool_derivative}},
      {K::MaxPoolBackward, "max_pool_backward", {"x", "dy"}, max_pool_backward, all_but_spatial},
      {K::AveragePool, "average_pool", {"x"}, pool, all_but_spatial, {.derivative = average_pool_derivative}},
      {K::AveragePoolBackward, "average_pool_backward", {"dy"}, average_pool_backward, all_but_spatial},
  };
}

}  // namespace meshwright::ops
