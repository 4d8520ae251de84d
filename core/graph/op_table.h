// SPDX-License-Identifier: Apache-2.0
// The op table: one row per OpKind. Everything the planner, the simulator and autodiff need to know of an op follows
// from its row and from the names of its dimensions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/graph/graph.h"

namespace meshwright {

// An op about to be added: what a row's inference reads.
struct OpCall {
  OpKind kind;
  const std::string& name;
  std::vector<const Tensor*> inputs;
  const Attributes& attributes;
};

struct ResultShape {
  DType dtype;
  std::vector<Dim> dims;
};

// Throws InputError unless the operands fit.
using InferRule = std::vector<ResultShape> (*)(const OpCall& call);
using SplitRule = bool (*)(const Op& op, const IterationSpace& space, int axis);
using PositionRule = int (*)(const IterationSpace& space);
using FlopsRule = double (*)(const IterationSpace& space, const std::vector<std::int64_t>& sizes);
// Replaces the space that follows from the names (splittable is filled in afterwards).
using SpaceRule = IterationSpace (*)(const Graph& graph, const Op& op);
// Appends the backward ops for the cotangent `dy` of the op's result (core/graph/backward.h).
class Backward;
using Derivative = void (*)(Backward& backward, const Op& op, TensorId dy);
// The same for a loss that is the objective itself: its cotangent is 1.
using LossDerivative = void (*)(Backward& backward, const Op& op);

// What only some ops have.
struct OpTraits {
  PositionRule position_axis = nullptr;   // null: no operand's integers are positions
  FlopsRule flops = nullptr;              // null: no contraction
  std::vector<const char*> results = {};  // suffixes when there are several
  bool in_place = false;                  // overwrites every operand before the gradient "g"
  int optional_operands = 0;              // of `operands`, how many may be left out; the row's infer says which
  bool variadic = false;                  // the last operand may repeat
  IterationSpace::Reduce reduce = IterationSpace::Reduce::Sum;
  Derivative derivative = nullptr;  // null: none by itself
  LossDerivative loss_derivative = nullptr;
  unsigned passes_gradient = 0;  // bit i: the gradient of operand i is the result's gradient itself
  SpaceRule space = nullptr;
  // Bit i: the op is linear in these operands together and its derivative reads none of them, so that it may work on
  // partial sums of them and leave partial sums.
  unsigned linear_operands = 0;
};

// A row reads {kind, name, operands, shapes, splits, {what else it has, by name}}.
struct OpRow : OpTraits {
  OpRow(OpKind kind_, const char* name_, std::vector<const char*> operands_, InferRule infer_, SplitRule splittable_,
        OpTraits traits = {})
      : OpTraits(std::move(traits)),
        kind(kind_),
        name(name_),
        operands(std::move(operands_)),
        infer(infer_),
        splittable(splittable_) {}

  OpKind kind;
  const char* name;
  std::vector<const char*> operands;  // short names, for messages and for the names of gradients
  InferRule infer;
  SplitRule splittable;  // axes of size 1 are never split, whatever this says
};

[[nodiscard]] const OpRow& row_of(OpKind kind);
// Tokens to their experts, back, or the gradients of either.
[[nodiscard]] bool moves_tokens(OpKind kind);

// Checks operand count and shapes; the shapes of the results (none for in-place ops).
[[nodiscard]] std::vector<ResultShape> infer_results(const OpCall& call);

// The short names of `count` operands, those left out skipped.
[[nodiscard]] std::vector<std::string> operand_names(OpKind kind, std::size_t count, const Attributes& attributes);

[[nodiscard]] double product(const std::vector<std::int64_t>& sizes);

[[nodiscard]] std::string to_text(const std::vector<Dim>& dims);  // "(batch=4, seq=8)"

}  // namespace meshwright
