// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts with a static capacity per batch row and expert.
//
// Lepikhin et al., "GShard" (arXiv:2006.16668), algorithm 1; Jiang et al., "Mixtral of Experts" (arXiv:2401.04088) for
// weights normalised over the chosen experts.
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/backward.h"
#include "core/graph/op_rows.h"
#include "core/graph/ops/expect.h"

namespace meshwright::ops {

namespace {

using namespace infer;

constexpr const char* kCapacity = "capacity";

// Dimensions of scores, slots and weights.
enum : std::size_t { kBatch = 0, kSeq = 1, kExpert = 2 };
// Where the tokens' buffer (expert, batch, capacity, embed) has its own two.
enum : std::size_t { kBufferCapacity = 2, kBufferEmbed = 3 };

void expect_slots(const OpCall& call, std::size_t operand) {
  expect(call, dtype(call, operand) == DType::I32 && dims(call, operand).size() == 3,
         "slots must be i32 of three dimensions (batch, seq, expert)");
}

// `tokens` is (batch, seq, embed) over the batch and seq of `slots`.
void expect_tokens(const OpCall& call, std::size_t tokens, std::size_t slots) {
  const Dims &x = dims(call, tokens), &s = dims(call, slots);
  if (x.size() != 3 || x[0] != s[kBatch] || x[1] != s[kSeq] || find(s, x[2].name) != nullptr)
    fail(call, fmt::format("{} must have the batch and seq of slots and one dimension more, (batch, seq, embed)",
                           row_of(call.kind).operands[tokens]));
}

// `dims` is (expert, batch, capacity, embed) over the expert and batch of `slots`, and the last two are its own.
bool is_buffer(const Dims& dims, const Dims& slots) {
  return dims.size() == 4 && dims[0] == slots[kExpert] && dims[1] == slots[kBatch] &&
         find(slots, dims[kBufferCapacity].name) == nullptr && find(slots, dims[kBufferEmbed].name) == nullptr &&
         dims[kBufferCapacity].name != dims[kBufferEmbed].name;
}

void expect_buffer(const OpCall& call, std::size_t buffer, std::size_t slots) {
  if (!is_buffer(dims(call, buffer), dims(call, slots)))
    fail(call, fmt::format("{} must have the expert and batch of slots and two dimensions more, "
                           "(expert, batch, capacity, embed)",
                           row_of(call.kind).operands[buffer]));
}

Dims tokens_of(const OpCall& call, std::size_t buffer, std::size_t slots) {
  return {dims(call, slots)[kBatch], dims(call, slots)[kSeq], dims(call, buffer)[kBufferEmbed]};
}

std::vector<ResultShape> top_k_slots(const OpCall& call) {
  expect_one_float_type(call, {0});
  expect(call, dims(call, 0).size() == 3, "scores must have three dimensions (batch, seq, expert)");
  const Attributes& a = call.attributes;
  if (a.top_k < 1 || a.top_k > dims(call, 0)[kExpert].size || a.capacity < 1)
    fail(call, fmt::format("top_k = {} must be 1 to the number of experts, and capacity = {} at least 1", a.top_k,
                           a.capacity));
  return {{DType::I32, dims(call, 0)}};
}

// (scores, slots, [dy]) -> scores' dimensions.
std::vector<ResultShape> gate_weights(const OpCall& call) {
  expect_slots(call, 1);
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (i != 1) expect_one_float_type(call, {0, i});
    expect_same_dims(call, 1, i);
  }
  return {{dtype(call, 0), dims(call, 0)}};
}

std::vector<ResultShape> dispatch(const OpCall& call) {
  expect_one_float_type(call, {0});
  expect_slots(call, 1);
  expect_tokens(call, 0, 1);
  const Dims& slots = dims(call, 1);
  const Dims buffer = {slots[kExpert], slots[kBatch], {kCapacity, call.attributes.capacity}, dims(call, 0)[2]};
  if (call.attributes.capacity < 1 || !is_buffer(buffer, slots))
    fail(call, fmt::format("capacity = {} must be at least 1, and no operand may have a dimension named '{}'",
                           call.attributes.capacity, kCapacity));
  return {{dtype(call, 0), buffer}};
}

std::vector<ResultShape> dispatch_backward(const OpCall& call) {
  expect_slots(call, 0);
  expect_one_float_type(call, {1});
  expect_buffer(call, 1, 0);
  return {{dtype(call, 1), tokens_of(call, 1, 0)}};
}

std::vector<ResultShape> combine(const OpCall& call) {
  expect_one_float_type(call, {0, 2});
  expect_slots(call, 1);
  expect_buffer(call, 0, 1);
  expect_same_dims(call, 1, 2);
  return {{dtype(call, 0), tokens_of(call, 0, 1)}};
}

// Attributes::result_dims: the dimensions of y.
std::vector<ResultShape> combine_backward(const OpCall& call) {
  expect_slots(call, 0);
  expect_one_float_type(call, {1, 2});
  expect_same_dims(call, 0, 1);
  expect_tokens(call, 2, 0);
  const Dims& buffer = call.attributes.result_dims;
  if (!is_buffer(buffer, dims(call, 0)) || buffer[kBufferEmbed] != dims(call, 2)[2])
    fail(call, fmt::format("its result {} must be (expert, batch, capacity, embed) over the expert and batch of slots "
                           "and the last dimension of dout",
                           to_text(buffer)));
  return {{dtype(call, 1), buffer}};
}

std::vector<ResultShape> combine_weights_backward(const OpCall& call) {
  expect_one_float_type(call, {0, 2});
  expect_slots(call, 1);
  expect_buffer(call, 0, 1);
  expect_tokens(call, 2, 1);
  expect(call, dims(call, 0)[kBufferEmbed] == dims(call, 2)[2], "y and dout must have the same last dimension");
  return {{dtype(call, 0), dims(call, 1)}};
}

// The capacity comes before the expert, so that what is made of it can have a bias per expert.
std::vector<ResultShape> one_hot_slots(const OpCall& call) {
  expect_slots(call, 0);
  const Attributes& a = call.attributes;
  const Dims& slots = dims(call, 0);
  expect(call, is_float(a.dtype), "its dtype must be floating-point");
  if (a.capacity < 1 || find(slots, kCapacity) != nullptr)
    fail(call, fmt::format("capacity = {} must be at least 1, and slots may not have a dimension named '{}'",
                           a.capacity, kCapacity));
  return {{a.dtype, {slots[kBatch], slots[kSeq], {kCapacity, a.capacity}, slots[kExpert]}}};
}

// A token's slot depends on all scores of its row; its weight on those of all experts.
bool batch_only(const Op&, const IterationSpace& space, int axis) { return axis == space.inputs[0][kBatch]; }
bool all_but_expert(const Op&, const IterationSpace& space, int axis) { return axis != space.inputs[0][kExpert]; }

// Slots are numbers in the whole capacity. Tokens of another shard leave their slots zero, and experts of another shard
// add nothing: partial sums.
bool all_but_capacity(const Op&, const IterationSpace& space, int axis) {
  for (const auto* tensors : {&space.inputs, &space.outputs})
    for (const std::vector<int>& dims : *tensors)
      if (dims.size() == 4 && dims[kBufferCapacity] == axis) return false;
  return true;
}

int capacity_of_result(const IterationSpace& space) { return space.outputs[0][kBufferCapacity]; }

void gate_weights_derivative(Backward& backward, const Op& op, TensorId dy) {
  backward.derive_gradient(op, 0, OpKind::GateWeightsBackward, "grad_scores",
                           {backward.read(op, 0), backward.read(op, 1), dy}, {.normalize = op.attributes.normalize});
}

void dispatch_derivative(Backward& backward, const Op& op, TensorId dy) {
  backward.derive_gradient(op, 0, OpKind::DispatchBackward, "grad_x", {backward.read(op, 1), dy});
}

void combine_derivative(Backward& backward, const Op& op, TensorId dout) {
  const TensorId y = backward.read(op, 0), slots = backward.read(op, 1), weights = backward.read(op, 2);
  backward.derive_gradient(op, 0, OpKind::CombineBackward, "grad_y", {slots, weights, dout},
                           {.result_dims = backward.tensor(op.inputs[0]).dims});
  backward.derive_gradient(op, 2, OpKind::CombineWeightsBackward, "grad_weights", {y, slots, dout});
}

// Dispatch and the unweighted sum are each other's adjoint, as are Combine and the dispatch of weighted tokens.
void dispatch_backward_derivative(Backward& backward, const Op& op, TensorId dx) {
  const std::int64_t capacity = backward.tensor(op.inputs[1]).dims[2].size;
  backward.derive_gradient(op, 1, OpKind::Dispatch, "grad_dy", {dx, backward.read(op, 0)}, {.capacity = capacity});
}

void combine_backward_derivative(Backward& backward, const Op& op, TensorId dy) {
  const TensorId slots = backward.read(op, 0), weights = backward.read(op, 1), dout = backward.read(op, 2);
  backward.derive_gradient(op, 1, OpKind::CombineWeightsBackward, "grad_weights", {dy, slots, dout});
  backward.derive_gradient(op, 2, OpKind::Combine, "grad_dout", {dy, slots, weights});
}

}  // namespace

// TopKSlots and OneHotSlots have no derivative: slots are integers.
std::vector<OpRow> mixture_rows() {
  using K = OpKind;
  return {
      {K::TopKSlots, "top_k_slots", {"scores"}, top_k_slots, batch_only},
      {K::GateWeights,
       "gate_weights",
       {"scores", "slots"},
       gate_weights,
       all_but_expert,
       {.derivative = gate_weights_derivative}},
      {K::GateWeightsBackward, "gate_weights_backward", {"scores", "slots", "dy"}, gate_weights, all_but_expert},
      {K::Dispatch,
       "dispatch",
       {"x", "slots"},
       dispatch,
       all_but_capacity,
       {.derivative = dispatch_derivative, .linear_operands = 0b01}},
      {K::DispatchBackward,
       "dispatch_backward",
       {"slots", "dy"},
       dispatch_backward,
       all_but_capacity,
       {.derivative = dispatch_backward_derivative}},
      {K::Combine, "combine", {"y", "slots", "weights"}, combine, all_but_capacity, {.derivative = combine_derivative}},
      {K::CombineBackward,
       "combine_backward",
       {"slots", "weights", "dout"},
       combine_backward,
       all_but_capacity,
       {.derivative = combine_backward_derivative}},
      {K::CombineWeightsBackward,
       "combine_weights_backward",
       {"y", "slots", "dout"},
       combine_weights_backward,
       all_but_capacity},
      {K::OneHotSlots, "one_hot_slots", {"slots"}, one_hot_slots, any_axis, {.position_axis = capacity_of_result}},
  };
}

}  // namespace meshwright::ops
