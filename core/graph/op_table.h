// SPDX-License-Identifier: Apache-2.0
// The op table: one row per OpKind. Everything the planner, the simulator and autodiff need to know of an op follows
// from its row and from the names of its dimensions.
#pragma once

#include <string>
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
using FlopsRule = double (*)(const std::vector<std::int64_t>& sizes);

struct OpRow {
  OpKind kind;
  const char* name;
  std::vector<const char*> operands;  // short names, for messages and for the names of gradients
  InferRule infer;
  SplitRule splittable;                   // axes of size 1 are never split, whatever this says
  PositionRule position_axis = nullptr;   // null: results do not depend on where the shard lies
  FlopsRule flops = nullptr;              // null: no contraction
  std::vector<const char*> results = {};  // suffixes when there are several
  bool in_place = false;                  // overwrites every operand but the last
  bool optional_master = false;           // operand 1 may be left out
  IterationSpace::Reduce reduce = IterationSpace::Reduce::Sum;
};

[[nodiscard]] const OpRow& row_of(OpKind kind);

// Checks operand count and shapes; the shapes of the results (none for in-place ops).
[[nodiscard]] std::vector<ResultShape> infer_results(const OpCall& call);

[[nodiscard]] std::string to_text(const std::vector<Dim>& dims);  // "(batch=4, seq=8)"

// The inference rules, in core/graph/infer.cpp.
namespace infer {
std::vector<ResultShape> contract(const OpCall& call);
std::vector<ResultShape> bias_add(const OpCall& call);
std::vector<ResultShape> bias_gradient(const OpCall& call);
std::vector<ResultShape> elementwise(const OpCall& call);
std::vector<ResultShape> layer_norm(const OpCall& call);
std::vector<ResultShape> layer_norm_backward(const OpCall& call);
std::vector<ResultShape> layer_norm_param_backward(const OpCall& call);
std::vector<ResultShape> attention(const OpCall& call);
std::vector<ResultShape> attention_backward(const OpCall& call);
std::vector<ResultShape> embedding(const OpCall& call);
std::vector<ResultShape> embedding_backward(const OpCall& call);
std::vector<ResultShape> row_max(const OpCall& call);
std::vector<ResultShape> sum_exp(const OpCall& call);
std::vector<ResultShape> pick_label(const OpCall& call);
std::vector<ResultShape> cross_entropy_loss(const OpCall& call);
std::vector<ResultShape> cross_entropy_backward(const OpCall& call);
std::vector<ResultShape> squared_error_loss(const OpCall& call);
std::vector<ResultShape> in_place(const OpCall& call);
}  // namespace infer

}  // namespace meshwright
