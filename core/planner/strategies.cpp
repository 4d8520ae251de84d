// SPDX-License-Identifier: Apache-2.0
#include "core/planner/strategies.h"

#include <algorithm>
#include <bit>

#include "core/base/errors.h"

namespace meshwright {

namespace {

// Every way to hand the mesh axes from `mesh_axis` on to the iteration axes.
void assign_axes(const IterationSpace& space, const LogicalMesh& mesh, int mesh_axis, std::vector<AxisMask>& axes,
                 std::vector<std::vector<AxisMask>>& found) {
  if (mesh_axis == mesh.rank()) {
    found.push_back(axes);
    return;
  }
  assign_axes(space, mesh, mesh_axis + 1, axes, found);
  if (mesh.axes[static_cast<std::size_t>(mesh_axis)].size() == 1) return;
  for (std::size_t i = 0; i < space.axes.size(); ++i) {
    const AxisMask before = axes[i];
    axes[i] = static_cast<AxisMask>(before | 1 << mesh_axis);
    if (space.axes[i].splittable && space.axes[i].size % shards(axes[i], mesh) == 0)
      assign_axes(space, mesh, mesh_axis + 1, axes, found);
    axes[i] = before;
  }
}

// `raw` with its partial sums all-reduced, then, with `scatter`, reduce-scattered along each dimension in turn.
std::vector<ShardingSpec> resolved(const ShardingSpec& raw, const std::vector<Dim>& dims, bool scatter,
                                   const LogicalMesh& mesh) {
  ShardingSpec summed = raw;
  summed.partial = 0;
  std::vector<ShardingSpec> results = {summed};
  if (raw.partial == 0 || !scatter) return results;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    ShardingSpec scattered = summed;
    scattered.dims[d] = static_cast<AxisMask>(scattered.dims[d] | raw.partial);
    if (divides(dims, scattered, mesh)) results.push_back(scattered);
  }
  return results;
}

}  // namespace

std::vector<OpStrategy> enumerate_strategies(const Op& op, const IterationSpace& space,
                                             const std::vector<Dim>& result_dims, const LogicalMesh& mesh,
                                             const IntraOpRules& rules) {
  std::vector<std::vector<AxisMask>> assignments;
  std::vector<AxisMask> axes(space.axes.size(), 0);
  assign_axes(space, mesh, 0, axes, assignments);
  std::vector<OpStrategy> strategies;
  for (const auto& assignment : assignments) {
    if (rules.allow_op && !rules.allow_op(op, space, assignment)) continue;
    const ShardingSpec raw = raw_result(space, 0, axes_by_name(space, assignment));
    const bool scatter = space.reduce == IterationSpace::Reduce::Sum;
    for (ShardingSpec& result : resolved(raw, result_dims, scatter, mesh))
      strategies.push_back({assignment, raw, std::move(result)});
  }
  return strategies;
}

namespace {

// The weight's spec plus every axis it leaves free, on the first dimension that divides.
ShardingSpec split_further(const Tensor& parameter, ShardingSpec spec, AxisMask extra, const LogicalMesh& mesh) {
  for (int axis = 0; axis < mesh.rank(); ++axis) {
    if (!(extra >> axis & 1)) continue;
    for (std::size_t d = 0; d < spec.dims.size(); ++d) {
      ShardingSpec cut = spec;
      cut.dims[d] = static_cast<AxisMask>(cut.dims[d] | 1 << axis);
      if (!divides(parameter.dims, cut, mesh)) continue;
      spec = cut;
      break;
    }
  }
  return spec;
}

template <class Part>
void keep_split(std::vector<ParameterSharding>& found, IntraOpRules::Split rule, const Part& part) {
  if (rule == IntraOpRules::Split::Free) return;
  int most = 0;
  if (rule == IntraOpRules::Split::Most)
    for (const ParameterSharding& sharding : found) most = std::max(most, std::popcount(part(sharding).used()));
  std::erase_if(found, [&](const ParameterSharding& sharding) { return std::popcount(part(sharding).used()) != most; });
}

}  // namespace

std::vector<ParameterSharding> enumerate_parameter_shardings(const Tensor& parameter, bool has_state,
                                                             const LogicalMesh& mesh, const IntraOpRules& rules) {
  AxisMask all = 0;
  for (int axis = 0; axis < mesh.rank(); ++axis)
    if (mesh.axes[static_cast<std::size_t>(axis)].size() > 1) all = static_cast<AxisMask>(all | 1 << axis);
  std::vector<ParameterSharding> found;
  for (const ShardingSpec& weight : enumerate_specs(parameter.dims, mesh)) {
    const AxisMask free = static_cast<AxisMask>(all & ~weight.used());
    for (int extra = 0; extra <= free; ++extra) {
      if ((extra & ~free) != 0 || (extra != 0 && !has_state)) continue;
      ParameterSharding sharding{weight, split_further(parameter, weight, static_cast<AxisMask>(extra), mesh)};
      if (extra != 0 && sharding.state == weight) continue;
      if (std::find(found.begin(), found.end(), sharding) == found.end()) found.push_back(std::move(sharding));
    }
  }
  keep_split(found, rules.weight, [](const ParameterSharding& s) -> const ShardingSpec& { return s.weight; });
  if (has_state)
    keep_split(found, rules.state, [](const ParameterSharding& s) -> const ShardingSpec& { return s.state; });
  return found;
}

}  // namespace meshwright
