// SPDX-License-Identifier: Apache-2.0
// Ops that move, repeat or sum elements without computing on them.
//
// Reshape, Slice, Concat, Pad and Broadcast are given all dimensions of their result in Attributes::result_dims;
// Transpose, ReduceSum and ReduceMax its names in Attributes::result_names.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/errors.h"
#include "core/graph/backward.h"
#include "core/graph/op_rows.h"
#include "core/graph/ops/expect.h"

namespace meshwright::ops {

namespace {

using namespace infer;

// --- Reshape ---

std::int64_t elements_of(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1},
                         [](std::int64_t product, const Dim& dim) { return product * dim.size; });
}

std::vector<ResultShape> reshape(const OpCall& call) {
  const Dims& result = call.attributes.result_dims;
  if (elements_of(dims(call, 0)) != elements_of(result))
    fail(call, fmt::format("x must have as many elements as its result {}", to_text(result)));
  return {{dtype(call, 0), result}};
}

// Dimensions of the input and of the result that hold the same elements: equal products, row by row.
struct Regrouping {
  std::vector<std::size_t> from, to;
};

// The finest regroupings, outermost first. Dimensions of size 1 are in none: they hold nothing apart.
std::vector<Regrouping> finest_regroupings(const Dims& from, const Dims& to) {
  std::vector<Regrouping> found;
  std::size_t i = 0, j = 0;
  const auto take = [](const Dims& dims, std::size_t& next, std::vector<std::size_t>& into) {
    while (dims[next].size == 1) ++next;
    into.push_back(next);
    return dims[next++].size;
  };
  const auto ended = [](const Dims& dims, std::size_t next) {
    return std::all_of(dims.begin() + static_cast<std::ptrdiff_t>(next), dims.end(),
                       [](const Dim& dim) { return dim.size == 1; });
  };
  while (!ended(from, i)) {
    Regrouping group;
    std::int64_t in = take(from, i, group.from), out = take(to, j, group.to);
    while (in != out)
      if (in < out)
        in *= take(from, i, group.from);
      else
        out *= take(to, j, group.to);
    found.push_back(std::move(group));
  }
  return found;
}

// Adds an axis named `name`, with a ' for every axis before it of the same name.
int add_axis(IterationSpace& space, std::string name, std::int64_t size) {
  while (space.find(name)) name += "'";
  space.axes.push_back({std::move(name), size, false, false});
  return static_cast<int>(space.axes.size()) - 1;
}

// The outermost dimensions of a regrouping share one axis: k equal pieces of its rows are k equal pieces of both
// dimensions exactly when k divides both. The shared axes come first and are named alike in both directions.
IterationSpace reshape_space(const Graph& graph, const Op& op) {
  const Dims& from = graph.tensor(op.inputs[0]).dims;
  const Dims& to = graph.tensor(op.outputs[0]).dims;
  std::vector<int> in(from.size(), -1), out(to.size(), -1);
  IterationSpace space;
  for (const Regrouping& group : finest_regroupings(from, to)) {
    const Dim &a = from[group.from.front()], &b = to[group.to.front()];
    const std::string name = a.name == b.name ? a.name : std::min(a.name, b.name) + "|" + std::max(a.name, b.name);
    in[group.from.front()] = out[group.to.front()] = add_axis(space, name, std::gcd(a.size, b.size));
  }
  for (std::size_t d = 0; d < from.size(); ++d)
    if (in[d] < 0) in[d] = add_axis(space, from[d].name, from[d].size);
  for (std::size_t d = 0; d < to.size(); ++d)
    if (out[d] < 0) out[d] = add_axis(space, to[d].name, to[d].size);
  space.inputs = {in};
  space.outputs = {out};
  return space;
}

void reshape_derivative(Backward& backward, const Op& op, TensorId dy) {
  const Attributes back{.result_dims = backward.tensor(op.inputs[0]).dims};
  backward.derive_gradient(op, 0, OpKind::Reshape, "grad_x", {dy}, back);
}

// --- Transpose ---

std::vector<ResultShape> transpose(const OpCall& call) {
  const std::vector<std::string>& names = call.attributes.result_names;
  Dims result;
  for (const std::string& name : names)
    if (const Dim* dim = find(dims(call, 0), name)) result.push_back(*dim);
  if (result.size() != names.size() ||
      !std::is_permutation(result.begin(), result.end(), dims(call, 0).begin(), dims(call, 0).end()))
    fail(call, fmt::format("its result's names ({}) must be those of x in some order", fmt::join(names, ", ")));
  return {{dtype(call, 0), result}};
}

void transpose_derivative(Backward& backward, const Op& op, TensorId dy) {
  const Attributes back{.result_names = names_of(backward.tensor(op.inputs[0]))};
  backward.derive_gradient(op, 0, OpKind::Transpose, "grad_x", {dy}, back);
}

// --- Slice, Pad, Concat: one dimension becomes another ---

// The one position at which `operand` and the result have dimensions of different names; all others are equal.
std::size_t changed_dim(const OpCall& call, std::size_t operand) {
  const Dims &from = dims(call, operand), &to = call.attributes.result_dims;
  std::vector<std::size_t> changed;
  bool others_equal = from.size() == to.size();
  for (std::size_t d = 0; others_equal && d < to.size(); ++d)
    if (from[d].name != to[d].name)
      changed.push_back(d);
    else
      others_equal = from[d] == to[d];
  if (!others_equal || changed.size() != 1)
    fail(call, fmt::format("the result {} must have the dimensions of '{}' but for one, which has another name",
                           to_text(to), call.inputs[operand]->name));
  return changed[0];
}

// `part` lies within `whole` from Attributes::start on.
void expect_within(const OpCall& call, const Dim& part, const Dim& whole) {
  const std::int64_t start = call.attributes.start;
  if (start < 0 || part.size > whole.size || start > whole.size - part.size)
    fail(call, fmt::format("the {} elements of '{}' from index {} on must be within the {} of '{}' (result: {})",
                           part.size, part.name, start, whole.size, whole.name, to_text(call.attributes.result_dims)));
}

std::vector<ResultShape> slice(const OpCall& call) {
  const Dims& result = call.attributes.result_dims;
  const std::size_t d = changed_dim(call, 0);
  expect_within(call, result[d], dims(call, 0)[d]);
  return {{dtype(call, 0), result}};
}

std::vector<ResultShape> pad(const OpCall& call) {
  const Dims& result = call.attributes.result_dims;
  const std::size_t d = changed_dim(call, 0);
  expect_within(call, dims(call, 0)[d], result[d]);
  const double value = call.attributes.value;
  if (!is_float(dtype(call, 0)) && !(std::abs(value) <= 1e9 && std::trunc(value) == value))
    fail(call, fmt::format("value = {} between its i32 elements must be a whole number of at most 1e9 (result: {})",
                           value, to_text(result)));
  return {{dtype(call, 0), result}};
}

std::vector<ResultShape> concat(const OpCall& call) {
  const Dims& result = call.attributes.result_dims;
  const std::size_t d = changed_dim(call, 0);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    expect(call, dtype(call, i) == dtype(call, 0), "its operands must have one type");
    if (changed_dim(call, i) != d)
      fail(call, fmt::format("its operands must all change the dimension '{}' of the result {}", result[d].name,
                             to_text(result)));
    for (std::size_t before = 0; before < i; ++before)
      if (dims(call, before)[d].name == dims(call, i)[d].name && dims(call, before)[d] != dims(call, i)[d])
        fail(call, fmt::format("pieces named '{}' must have one size", dims(call, i)[d].name));
    total += dims(call, i)[d].size;
  }
  if (total != result[d].size)
    fail(call, fmt::format("its pieces of {} elements in all must fill '{}' of the result {}", total, result[d].name,
                           to_text(result)));
  return {{dtype(call, 0), result}};
}

// What one dimension loses or gains is at indices of the whole, and regrouped rows are apart: only an axis of every
// operand and the result is cut alike in all of them.
bool in_every_tensor(const Op&, const IterationSpace& space, int axis) {
  const auto walks = [axis](const std::vector<int>& dims) {
    return std::find(dims.begin(), dims.end(), axis) != dims.end();
  };
  return std::all_of(space.inputs.begin(), space.inputs.end(), walks) && walks(space.outputs[0]);
}

void slice_derivative(Backward& backward, const Op& op, TensorId dy) {
  const Attributes zeros_around{.result_dims = backward.tensor(op.inputs[0]).dims, .start = op.attributes.start};
  backward.derive_gradient(op, 0, OpKind::Pad, "grad_x", {dy}, zeros_around);
}

void pad_derivative(Backward& backward, const Op& op, TensorId dy) {
  const Attributes inner{.result_dims = backward.tensor(op.inputs[0]).dims, .start = op.attributes.start};
  backward.derive_gradient(op, 0, OpKind::Slice, "grad_x", {dy}, inner);
}

void concat_derivative(Backward& backward, const Op& op, TensorId dy) {
  const Dims whole = backward.tensor(op.outputs[0]).dims;
  const std::vector<std::string> names = operand_names(op.kind, op.inputs.size(), op.attributes);
  std::int64_t start = 0;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const Dims piece = backward.tensor(op.inputs[i]).dims;
    if (backward.wants(op, i)) {
      const Attributes of_piece{.result_dims = piece, .start = start};
      const std::string suffix = "grad_" + names[i];
      backward.contribute(op, i, backward.derive(op, OpKind::Slice, suffix.c_str(), {dy}, of_piece)[0]);
    }
    for (std::size_t d = 0; d < piece.size(); ++d)
      if (piece[d].name != whole[d].name) start += piece[d].size;
  }
}

// --- Broadcast, ReduceSum, ReduceMax ---

std::vector<ResultShape> broadcast(const OpCall& call) {
  const Dims &x = dims(call, 0), &result = call.attributes.result_dims;
  std::size_t met = 0;
  for (const Dim& dim : result)
    if (met < x.size() && dim == x[met]) ++met;
  if (met != x.size()) fail(call, fmt::format("its result {} must hold the dimensions of x in order", to_text(result)));
  return {{dtype(call, 0), result}};
}

void broadcast_derivative(Backward& backward, const Op& op, TensorId dy) {
  const Attributes back{.result_names = names_of(backward.tensor(op.inputs[0]))};
  backward.derive_gradient(op, 0, OpKind::ReduceSum, "grad_x", {dy}, back);
}

std::vector<ResultShape> reduce(const OpCall& call) {
  expect_one_float_type(call, {0});
  const std::vector<std::string>& names = call.attributes.result_names;
  Dims result;
  for (const Dim& dim : dims(call, 0))
    if (result.size() < names.size() && dim.name == names[result.size()]) result.push_back(dim);
  if (result.size() != names.size())
    fail(call, fmt::format("its result's names ({}) must be names of x in their order", fmt::join(names, ", ")));
  return {{dtype(call, 0), result}};
}

// The factor goes onto dy, which is smaller than what it is repeated to.
void reduce_sum_derivative(Backward& backward, const Op& op, TensorId dy) {
  if (op.attributes.scale != 1.0)
    dy = backward.derive(op, OpKind::Scale, "grad_scaled", {dy}, {.scale = op.attributes.scale})[0];
  const Attributes back{.result_dims = backward.tensor(op.inputs[0]).dims};
  backward.derive_gradient(op, 0, OpKind::Broadcast, "grad_x", {dy}, back);
}

std::vector<ResultShape> reduce_max_backward(const OpCall& call) {
  expect_one_float_type(call, {0, 1, 2});
  expect_same_dims(call, 1, 2);
  std::size_t met = 0;
  for (const Dim& dim : dims(call, 0))
    if (met < dims(call, 1).size() && dim == dims(call, 1)[met]) ++met;
  expect(call, met == dims(call, 1).size(), "x must hold the dimensions of y in order");
  return {{dtype(call, 0), dims(call, 0)}};
}

void reduce_max_derivative(Backward& backward, const Op& op, TensorId dy) {
  backward.derive_gradient(op, 0, OpKind::ReduceMaxBackward, "grad_x", {backward.read(op, 0), backward.result(op), dy});
}

}  // namespace

std::vector<OpRow> layout_rows() {
  using K = OpKind;
  return {
      {K::Reshape,
       "reshape",
       {"x"},
       reshape,
       in_every_tensor,
       {.derivative = reshape_derivative, .space = reshape_space, .linear_operands = 0b1}},
      {K::Transpose,
       "transpose",
       {"x"},
       transpose,
       any_axis,
       {.derivative = transpose_derivative, .linear_operands = 0b1}},
      {K::Slice, "slice", {"x"}, slice, in_every_tensor, {.derivative = slice_derivative, .linear_operands = 0b1}},
      {K::Concat,
       "concat",
       {"x", "y"},
       concat,
       in_every_tensor,
       {.variadic = true, .derivative = concat_derivative, .linear_operands = ~0u}},
      {K::Pad, "pad", {"x"}, pad, in_every_tensor, {.derivative = pad_derivative}},
      {K::Broadcast,
       "broadcast",
       {"x"},
       broadcast,
       any_axis,
       {.derivative = broadcast_derivative, .linear_operands = 0b1}},
      {K::ReduceSum,
       "reduce_sum",
       {"x"},
       reduce,
       any_axis,
       {.derivative = reduce_sum_derivative, .linear_operands = 0b1}},
      {K::ReduceMax,
       "reduce_max",
       {"x"},
       reduce,
       any_axis,
       {.reduce = IterationSpace::Reduce::Max, .derivative = reduce_max_derivative}},
      {K::ReduceMaxBackward, "reduce_max_backward", {"x", "y", "dy"}, reduce_max_backward, any_axis},
  };
}

}  // namespace meshwright::ops
