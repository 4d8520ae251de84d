// SPDX-License-Identifier: Apache-2.0
#include "core/graph/op_table.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright {

namespace {

// --- which axes may be split ---

bool any_axis(const Op&, const IterationSpace&, int) { return true; }

// A row's mean and variance need the whole row.
bool all_but_normalised(const Op&, const IterationSpace& space, int axis) { return axis != space.inputs[0].back(); }

// A query attends to the whole sequence, and its score needs the whole head.
bool batch_or_heads(const Op&, const IterationSpace& space, int axis) {
  return axis == space.inputs[0][0] || axis == space.inputs[0][3];
}

// A selecting bias acts on one index of the axis before its own: a shard without that index would have to do nothing.
bool all_but_selected(const Op& op, const IterationSpace& space, int axis) {
  if (!op.attributes.bias_select) return true;
  const std::size_t bias_rank = (op.kind == OpKind::BiasAdd ? space.inputs[1] : space.outputs[0]).size();
  return axis != space.inputs[0][space.inputs[0].size() - bias_rank - 1];
}

// --- which axis' global position matters ---

int rows_of_table(const IterationSpace& space) { return space.inputs[1][0]; }
int rows_of_result(const IterationSpace& space) { return space.outputs[0][0]; }
int last_of_x(const IterationSpace& space) { return space.inputs[0].back(); }

// --- FLOPs: a multiply-add counts 2 ---

double product(const std::vector<std::int64_t>& sizes) {
  double total = 1.0;
  for (const std::int64_t size : sizes) total *= static_cast<double>(size);
  return total;
}

double contract_flops(const std::vector<std::int64_t>& sizes) { return 2.0 * product(sizes); }

// Axes (batch, seq, qkv, heads, head_dim): scores and weighted values, 2 b s^2 h d each; the causal half is not taken
// off.
double attention_flops(const std::vector<std::int64_t>& sizes) {
  return 4.0 * product({sizes[0], sizes[1], sizes[1], sizes[3], sizes[4]});
}
double attention_backward_flops(const std::vector<std::int64_t>& sizes) { return 2.0 * attention_flops(sizes); }

std::vector<OpRow> make_table() {
  using K = OpKind;
  return {
      {K::Contract, "contract", {"x", "w"}, infer::contract, any_axis, nullptr, contract_flops},
      {K::BiasAdd, "bias_add", {"x", "bias"}, infer::bias_add, all_but_selected},
      {K::BiasGradient, "bias_gradient", {"dy"}, infer::bias_gradient, all_but_selected},
      {K::Add, "add", {"x", "y"}, infer::elementwise, any_axis},
      {K::Relu, "relu", {"x"}, infer::elementwise, any_axis},
      {K::ReluBackward, "relu_backward", {"x", "dy"}, infer::elementwise, any_axis},
      {K::Gelu, "gelu", {"x"}, infer::elementwise, any_axis},
      {K::GeluBackward, "gelu_backward", {"x", "dy"}, infer::elementwise, any_axis},
      {K::LayerNorm, "layer_norm", {"x", "gamma", "beta"}, infer::layer_norm, all_but_normalised},
      {K::LayerNormBackward,
       "layer_norm_backward",
       {"x", "gamma", "dy"},
       infer::layer_norm_backward,
       all_but_normalised},
      {.kind = K::LayerNormParamBackward,
       .name = "layer_norm_param_backward",
       .operands = {"x", "dy"},
       .infer = infer::layer_norm_param_backward,
       .splittable = all_but_normalised,
       .results = {"gamma", "beta"}},
      {K::Attention, "attention", {"qkv"}, infer::attention, batch_or_heads, nullptr, attention_flops},
      {K::AttentionBackward,
       "attention_backward",
       {"qkv", "dy"},
       infer::attention_backward,
       batch_or_heads,
       nullptr,
       attention_backward_flops},
      {K::Embedding, "embedding", {"ids", "table"}, infer::embedding, any_axis, rows_of_table},
      {K::EmbeddingBackward, "embedding_backward", {"ids", "dy"}, infer::embedding_backward, any_axis, rows_of_result},
      {.kind = K::RowMax,
       .name = "row_max",
       .operands = {"x"},
       .infer = infer::row_max,
       .splittable = any_axis,
       .reduce = IterationSpace::Reduce::Max},
      {K::SumExp, "sum_exp", {"x", "max"}, infer::sum_exp, any_axis},
      {K::PickLabel, "pick_label", {"x", "labels"}, infer::pick_label, any_axis, last_of_x},
      {K::CrossEntropyLoss, "cross_entropy_loss", {"max", "sum_exp", "picked"}, infer::cross_entropy_loss, any_axis},
      {K::CrossEntropyBackward,
       "cross_entropy_backward",
       {"x", "max", "sum_exp", "labels"},
       infer::cross_entropy_backward,
       any_axis,
       last_of_x},
      {K::SquaredErrorLoss, "squared_error_loss", {"x", "y"}, infer::squared_error_loss, any_axis},
      {K::SquaredErrorBackward, "squared_error_backward", {"x", "y"}, infer::elementwise, any_axis},
      {.kind = K::Accumulate,
       .name = "accumulate",
       .operands = {"acc", "g"},
       .infer = infer::in_place,
       .splittable = any_axis,
       .in_place = true},
      {.kind = K::SgdUpdate,
       .name = "sgd_update",
       .operands = {"w", "master", "g"},
       .infer = infer::in_place,
       .splittable = any_axis,
       .in_place = true,
       .optional_master = true},
      {.kind = K::AdamUpdate,
       .name = "adam_update",
       .operands = {"w", "master", "m", "v", "g"},
       .infer = infer::in_place,
       .splittable = any_axis,
       .in_place = true,
       .optional_master = true},
  };
}

}  // namespace

const OpRow& row_of(OpKind kind) {
  static const std::vector<OpRow> table = make_table();
  const auto index = static_cast<std::size_t>(kind);
  MW_CHECK(index < table.size() && table[index].kind == kind, "op kind {} has its row in the wrong place", index);
  return table[index];
}

const char* name_of(OpKind kind) { return row_of(kind).name; }

std::vector<ResultShape> infer_results(const OpCall& call) {
  const OpRow& row = row_of(call.kind);
  const std::size_t most = row.operands.size();
  const std::size_t fewest = row.optional_master ? most - 1 : most;
  require(call.inputs.size() >= fewest && call.inputs.size() <= most,
          "op '{}' ({}): has {} operands, but takes ({}){}.", call.name, row.name, call.inputs.size(),
          fmt::join(row.operands, ", "), row.optional_master ? ", of which the master copy may be left out" : "");
  return row.infer(call);
}

// --- what follows from a row and the names ---

std::optional<int> IterationSpace::find(const std::string& name) const {
  const auto found =
      std::find_if(axes.begin(), axes.end(), [&](const IterationAxis& axis) { return axis.name == name; });
  if (found == axes.end()) return std::nullopt;
  return static_cast<int>(found - axes.begin());
}

namespace {

// The axis each dimension walks; names not met before become new axes, reductions until a result is seen to have them.
std::vector<int> walk(IterationSpace& space, const std::vector<Dim>& dims) {
  std::vector<int> axes;
  for (const Dim& dim : dims) {
    if (!space.find(dim.name)) space.axes.push_back({dim.name, dim.size, true, false});
    axes.push_back(*space.find(dim.name));
  }
  return axes;
}

}  // namespace

IterationSpace iteration_space(const Graph& graph, const Op& op) {
  const OpRow& row = row_of(op.kind);
  IterationSpace space;
  space.reduce = row.reduce;
  for (const TensorId id : op.inputs) space.inputs.push_back(walk(space, graph.tensor(id).dims));
  for (const TensorId id : op.outputs) {
    space.outputs.push_back(walk(space, graph.tensor(id).dims));
    for (const int axis : space.outputs.back()) space.axes[static_cast<std::size_t>(axis)].reduction = false;
  }
  for (std::size_t a = 0; a < space.axes.size(); ++a)
    space.axes[a].splittable = space.axes[a].size > 1 && row.splittable(op, space, static_cast<int>(a));
  if (row.position_axis != nullptr) space.position_axis = row.position_axis(space);
  return space;
}

Flops contraction_flops(OpKind kind, const IterationSpace& space, const std::vector<std::int64_t>& sizes) {
  MW_CHECK(sizes.size() == space.axes.size(), "{} sizes for the {} axes of a {}", sizes.size(), space.axes.size(),
           name_of(kind));
  const OpRow& row = row_of(kind);
  return Flops(row.flops == nullptr ? 0.0 : row.flops(sizes));
}

Flops graph_flops(const Graph& graph) {
  Flops total(0.0);
  for (const Op& op : graph.ops()) {
    const IterationSpace space = iteration_space(graph, op);
    std::vector<std::int64_t> sizes;
    for (const IterationAxis& axis : space.axes) sizes.push_back(axis.size);
    total += contraction_flops(op.kind, space, sizes);
  }
  return total;
}

}  // namespace meshwright
