// SPDX-License-Identifier: Apache-2.0
// Losses.
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/backward.h"
#include "core/graph/op_rows.h"
#include "core/graph/ops/expect.h"

namespace meshwright::ops {

namespace {

using namespace infer;

std::vector<ResultShape> row_max(const OpCall& call) {
  expect_one_float_type(call, {0});
  expect(call, !dims(call, 0).empty(), "x must have a dimension");
  return {{accumulation_dtype(dtype(call, 0)), without_last(dims(call, 0))}};
}

std::vector<ResultShape> sum_exp(const OpCall& call) {
  expect_rows_of(call, 0, 1);
  expect(call, is_float(dtype(call, 0)) && dtype(call, 1) == accumulation_dtype(dtype(call, 0)),
         "max must have the type that x is summed in");
  return {{dtype(call, 1), dims(call, 1)}};
}

std::vector<ResultShape> pick_label(const OpCall& call) {
  expect_one_float_type(call, {0});
  expect(call, dtype(call, 1) == DType::I32, "labels must be i32");
  expect_rows_of(call, 0, 1);
  return {{accumulation_dtype(dtype(call, 0)), dims(call, 1)}};
}

// Backwards of losses that are scaled have one more operand, the last; how many they have beside it.
std::size_t without_scaling(const OpCall& call) {
  if (call.attributes.loss_scale == 0.0) return call.inputs.size();
  expect_scaling(call, call.inputs.size() - 1);
  return call.inputs.size() - 1;
}

// A weighted loss has two more operands, from number `first` to `end`: `rows` is an operand with the dimensions and the
// type of the weights.
void expect_weights(const OpCall& call, std::size_t first, std::size_t end, std::size_t rows) {
  if (end == first) return;
  expect(call, end == first + 2, "weights and total must be given together");
  expect_one_float_type(call, {rows, first, first + 1});
  expect_same_dims(call, rows, first);
  expect(call, dims(call, first + 1).empty(), "total must be a scalar");
}

std::vector<ResultShape> cross_entropy_loss(const OpCall& call) {
  expect_one_float_type(call, {0, 1, 2});
  expect_same_dims(call, 0, 1);
  expect_same_dims(call, 0, 2);
  expect_weights(call, 3, call.inputs.size(), 2);
  return {{dtype(call, 0), {}}};
}

std::vector<ResultShape> cross_entropy_backward(const OpCall& call) {
  expect(call, is_float(dtype(call, 0)), "x must be floating-point");
  expect(call, dtype(call, 3) == DType::I32, "labels must be i32");
  expect_one_float_type(call, {1, 2});
  for (const std::size_t rows : {1, 2, 3}) expect_rows_of(call, 0, rows);
  expect_weights(call, 4, without_scaling(call), 1);
  return {{dtype(call, 0), dims(call, 0)}};
}

std::vector<ResultShape> squared_error_loss(const OpCall& call) {
  expect_one_float_type(call, {0, 1});
  expect_same_dims(call, 0, 1);
  return {{accumulation_dtype(dtype(call, 0)), {}}};
}

std::vector<ResultShape> squared_error_backward(const OpCall& call) {
  expect(call, without_scaling(call) == 2, "with loss_scale > 0 it must have the scaling, and only then");
  expect_one_float_type(call, {0, 1});
  expect_same_dims(call, 0, 1);
  return {{dtype(call, 0), dims(call, 0)}};
}

int last_of_x(const IterationSpace& space) { return space.inputs[0].back(); }

// The attributes of the backward of the loss `op`; appends the loss scaling to its inputs.
Attributes scale_gradient(const Backward& backward, const Op& op, std::vector<TensorId>& inputs) {
  Attributes attributes{.scale = op.attributes.scale};
  if (const auto& scaling = backward.loss_scaling()) {
    inputs.push_back(scaling->state);
    attributes.loss_scale = scaling->first;
  }
  return attributes;
}

// Row maximum, sum of exponentials, picked label and loss are one function of x, with the gradient scale * weights
// (softmax(x) - onehot(labels)) / total. The op that picks the label iterates over the same names, the vocabulary
// included, and stands for the four.
void cross_entropy_derivative(Backward& backward, const Op& op) {
  const Op pick = backward.maker(op, 2, OpKind::PickLabel);
  const Op sum = backward.maker(op, 1, OpKind::SumExp);
  const Op max = backward.maker(op, 0, OpKind::RowMax);
  require(
      sum.inputs[0] == pick.inputs[0] && max.inputs[0] == pick.inputs[0] && sum.inputs[1] == max.outputs[0],
      "op '{}' (cross_entropy_loss): cannot be differentiated, because its maximum, sum and label are not those of one "
      "tensor; make all three from the same logits.",
      op.name);
  for (std::size_t i = 3; i < op.inputs.size(); ++i)
    require(!backward.wants(op, i),
            "op '{}' (cross_entropy_loss): its '{}' depends on parameters; give the weights and their total as inputs.",
            op.name, backward.tensor(op.inputs[i]).name);
  if (!backward.wants(pick, 0)) return;
  std::vector<TensorId> inputs = {backward.read(pick, 0), backward.read(op, 0), backward.read(op, 1),
                                  backward.read(pick, 1)};
  for (std::size_t i = 3; i < op.inputs.size(); ++i) inputs.push_back(backward.read(op, i));
  const Attributes scaled = scale_gradient(backward, op, inputs);
  backward.derive_gradient(pick, 0, OpKind::CrossEntropyBackward, "grad_x", inputs, scaled);
}

void squared_error_derivative(Backward& backward, const Op& op) {
  require(!backward.wants(op, 1),
          "op '{}' (squared_error_loss): its target '{}' depends on parameters; give the target as an input.", op.name,
          backward.tensor(op.inputs[1]).name);
  if (!backward.wants(op, 0)) return;
  std::vector<TensorId> inputs = {backward.read(op, 0), backward.read(op, 1)};
  const Attributes scaled = scale_gradient(backward, op, inputs);
  backward.derive_gradient(op, 0, OpKind::SquaredErrorBackward, "grad_x", inputs, scaled);
}

}  // namespace

std::vector<OpRow> loss_rows() {
  using K = OpKind;
  return {
      {K::RowMax, "row_max", {"x"}, row_max, any_axis, {.reduce = IterationSpace::Reduce::Max}},
      {K::SumExp, "sum_exp", {"x", "max"}, sum_exp, any_axis},
      {K::PickLabel, "pick_label", {"x", "labels"}, pick_label, any_axis, {.position_axis = last_of_x}},
      {K::CrossEntropyLoss,
       "cross_entropy_loss",
       {"max", "sum_exp", "picked", "weights", "total"},
       cross_entropy_loss,
       any_axis,
       {.optional_operands = 2, .loss_derivative = cross_entropy_derivative}},
      {K::CrossEntropyBackward,
       "cross_entropy_backward",
       {"x", "max", "sum_exp", "labels", "weights", "total", "scaling"},
       cross_entropy_backward,
       all_but_scaling,
       {.position_axis = last_of_x, .optional_operands = 3}},
      {K::SquaredErrorLoss,
       "squared_error_loss",
       {"x", "y"},
       squared_error_loss,
       any_axis,
       {.loss_derivative = squared_error_derivative}},
      {K::SquaredErrorBackward,
       "squared_error_backward",
       {"x", "y", "scaling"},
       squared_error_backward,
       all_but_scaling,
       {.optional_operands = 1}},
  };
}

}  // namespace meshwright::ops
