// SPDX-License-Identifier: Apache-2.0
#include "core/graph/op_table.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/op_rows.h"

namespace meshwright {

namespace {

std::vector<OpRow> make_table() {
  std::vector<OpRow> table;
  for (const auto family : {ops::contraction_rows, ops::elementwise_rows, ops::normalization_rows, ops::attention_rows,
                            ops::scan_rows, ops::embedding_rows, ops::loss_rows, ops::convolution_rows,
                            ops::layout_rows, ops::mixture_rows, ops::optimizer_rows})
    for (OpRow& row : family()) table.push_back(std::move(row));
  std::sort(table.begin(), table.end(), [](const OpRow& a, const OpRow& b) { return a.kind < b.kind; });
  return table;
}

}  // namespace

const OpRow& row_of(OpKind kind) {
  static const std::vector<OpRow> table = make_table();
  const auto found =
      std::lower_bound(table.begin(), table.end(), kind, [](const OpRow& row, OpKind k) { return row.kind < k; });
  MW_CHECK(found != table.end() && found->kind == kind, "op kind {} has no row", static_cast<int>(kind));
  return *found;
}

const char* name_of(OpKind kind) { return row_of(kind).name; }

double product(const std::vector<std::int64_t>& sizes) {
  double total = 1.0;
  for (const std::int64_t size : sizes) total *= static_cast<double>(size);
  return total;
}

std::vector<std::string> operand_names(OpKind kind, std::size_t count, const Attributes& attributes) {
  const OpRow& row = row_of(kind);
  std::vector<std::string> names(row.operands.begin(), row.operands.end());
  const auto drop = [&](const std::string& name) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (names.size() > count && found != names.end()) names.erase(found);
  };
  if (attributes.loss_scale == 0.0) drop("scaling");
  if (attributes.max_norm == 0.0 && attributes.loss_scale == 0.0) drop("norm");
  if (!attributes.factored)
    for (const char* factor : {"c", "mean"}) drop(factor);
  drop("master");
  drop("extra");
  if (attributes.loss_scale != 0.0)  // else what is left out stands at the end
    for (const char* left_out : {"weights", "total"}) drop(left_out);
  while (row.variadic && names.size() < count) names.push_back(fmt::format("{}{}", row.operands.back(), names.size()));
  names.resize(count);
  return names;
}

std::vector<ResultShape> infer_results(const OpCall& call) {
  const OpRow& row = row_of(call.kind);
  const std::size_t maximum = row.operands.size();
  const std::size_t fewest = maximum - static_cast<std::size_t>(row.optional_operands);
  require(call.inputs.size() >= fewest && (row.variadic || call.inputs.size() <= maximum),
          "op '{}' ({}): has {} operands, but takes ({}{}){}.", call.name, row.name, call.inputs.size(),
          fmt::join(row.operands, ", "), row.variadic ? ", ..." : "",
          row.optional_operands > 0 ? fmt::format(", of which {} may be left out", row.optional_operands) : "");
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
  axes.reserve(dims.size());
  for (const Dim& dim : dims) {
    std::optional<int> axis = space.find(dim.name);
    if (!axis) {
      axis = static_cast<int>(space.axes.size());
      space.axes.push_back({dim.name, dim.size, true, false});
    }
    axes.push_back(*axis);
  }
  return axes;
}

IterationSpace space_by_names(const Graph& graph, const Op& op) {
  IterationSpace space;
  space.axes.reserve(8);
  space.inputs.reserve(op.inputs.size());
  space.outputs.reserve(op.outputs.size());
  for (const TensorId id : op.inputs) space.inputs.push_back(walk(space, graph.tensor(id).dims));
  for (const TensorId id : op.outputs) {
    space.outputs.push_back(walk(space, graph.tensor(id).dims));
    for (const int axis : space.outputs.back()) space.axes[static_cast<std::size_t>(axis)].reduction = false;
  }
  return space;
}

}  // namespace

IterationSpace iteration_space(const Graph& graph, const Op& op) {
  const OpRow& row = row_of(op.kind);
  IterationSpace space = row.space != nullptr ? row.space(graph, op) : space_by_names(graph, op);
  space.reduce = row.reduce;
  for (std::size_t a = 0; a < space.axes.size(); ++a)
    space.axes[a].splittable = space.axes[a].size > 1 && row.splittable(op, space, static_cast<int>(a));
  if (row.position_axis != nullptr) space.position_axis = row.position_axis(space);
  return space;
}

Flops contraction_flops(OpKind kind, const IterationSpace& space, const std::vector<std::int64_t>& sizes) {
  MW_CHECK(sizes.size() == space.axes.size(), "{} sizes for the {} axes of a {}", sizes.size(), space.axes.size(),
           name_of(kind));
  const OpRow& row = row_of(kind);
  return Flops(row.flops == nullptr ? 0.0 : row.flops(space, sizes));
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

bool moves_tokens(OpKind kind) {
  return kind == OpKind::Dispatch || kind == OpKind::DispatchBackward || kind == OpKind::Combine ||
         kind == OpKind::CombineBackward;
}

}  // namespace meshwright
