// SPDX-License-Identifier: Apache-2.0
#include "core/planner/intra_op/strategies.h"

#include <algorithm>
#include <bit>

#include "core/graph/op_table.h"

namespace meshwright {

namespace {

struct Assignment {
  std::vector<AxisMask> axes;  // [iteration axis]
  AxisMask partial = 0;
};

// Every way to hand the mesh axes from `mesh_axis` on to the iteration axes, or to partial sums.
void assign_axes(const IterationSpace& space, const LogicalMesh& mesh, bool linear, int mesh_axis, Assignment& now,
                 std::vector<Assignment>& found) {
  if (mesh_axis == mesh.rank()) {
    found.push_back(now);
    return;
  }
  // First without this mesh axis: the devices along it do the same work.
  assign_axes(space, mesh, linear, mesh_axis + 1, now, found);
  if (mesh.axes[mesh_axis].size() == 1) return;
  for (std::size_t i = 0; i < space.axes.size(); ++i) {
    const AxisMask before = now.axes[i];
    now.axes[i] = static_cast<AxisMask>(before | 1 << mesh_axis);
    if (space.axes[i].splittable && space.axes[i].size % shards(now.axes[i], mesh) == 0)
      assign_axes(space, mesh, linear, mesh_axis + 1, now, found);
    now.axes[i] = before;
  }
  // A linear op may work on operands that are partial sums along this mesh axis.
  if (!linear) return;
  now.partial = static_cast<AxisMask>(now.partial | 1 << mesh_axis);
  assign_axes(space, mesh, linear, mesh_axis + 1, now, found);
  now.partial = static_cast<AxisMask>(now.partial & ~(1 << mesh_axis));
}

// `raw` with its partial sums all-reduced, then, with `scatter`, reduce-scattered along each dimension in turn.
std::vector<ShardingSpec> resolved(const ShardingSpec& raw, const std::vector<Dim>& dims, bool scatter,
                                   const LogicalMesh& mesh) {
  const ShardingSpec summed = whole_sums(raw);
  std::vector<ShardingSpec> results = {summed};
  if (raw.partial == 0 || !scatter) return results;
  // All partial axes go to one dimension, by one reduce-scatter.
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
                                             const IntraOpRules& rules, Results results) {
  std::vector<Assignment> assignments;
  Assignment none{std::vector<AxisMask>(space.axes.size(), 0)};
  assign_axes(space, mesh, row_of(op.kind).linear_operands != 0, 0, none, assignments);
  std::vector<OpStrategy> strategies;
  for (const auto& [axes, partial] : assignments) {
    if (rules.allow_op && !rules.allow_op(op, space, axes)) continue;
    ShardingSpec raw = raw_result(space, 0, axes_by_name(space, axes));
    raw.partial = static_cast<AxisMask>(raw.partial | partial);
    const bool sum = space.reduce == IterationSpace::Reduce::Sum;
    for (ShardingSpec& result : resolved(raw, result_dims, sum, mesh))
      strategies.push_back({axes, partial, raw, std::move(result)});
    if (sum && raw.partial != 0 && results == Results::MayStayPartial) strategies.push_back({axes, partial, raw, raw});
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
void keep_split(std::vector<ParameterSharding>& found, IntraOpRules::Split rule, AxisMask counted, const Part& part) {
  if (rule == IntraOpRules::Split::Free) return;
  const auto axes = [&](const ParameterSharding& sharding) {
    return std::popcount(static_cast<unsigned>(part(sharding).used() & counted));
  };
  int most = 0;
  if (rule == IntraOpRules::Split::Most)
    for (const ParameterSharding& sharding : found) most = std::max(most, axes(sharding));
  std::erase_if(found, [&](const ParameterSharding& sharding) { return axes(sharding) != most; });
}

// With a state that is whole everywhere, eager synchronisation costs more and saves nothing: it is left out.
void add_eager(std::vector<ParameterSharding>& found, IntraOpRules::Gradients rule) {
  if (rule == IntraOpRules::Gradients::Delayed) return;
  std::vector<ParameterSharding> all;
  for (ParameterSharding& sharding : found) {
    const bool possible = sharding.state.used() != 0;
    if (rule == IntraOpRules::Gradients::Free || !possible) all.push_back(sharding);
    sharding.eager = true;
    if (possible) all.push_back(sharding);
  }
  found = std::move(all);
}

}  // namespace

std::vector<ParameterSharding> enumerate_parameter_shardings(const Tensor& parameter, bool has_state,
                                                             const LogicalMesh& mesh, const IntraOpRules& rules) {
  AxisMask all = 0;
  for (int axis = 0; axis < mesh.rank(); ++axis)
    if (mesh.axes[axis].size() > 1) all = static_cast<AxisMask>(all | 1 << axis);
  std::vector<ParameterSharding> found;
  for (const ShardingSpec& weight : enumerate_specs(parameter.dims, mesh)) {
    const AxisMask free = static_cast<AxisMask>(all & ~weight.used());
    // All sets of free axes. Without optimizer state there is nothing to split further.
    for (int extra = 0; extra <= free; ++extra) {
      if ((extra & ~free) != 0 || (extra != 0 && !has_state)) continue;
      ParameterSharding sharding{weight, split_further(parameter, weight, static_cast<AxisMask>(extra), mesh), false};
      // No dimension could take the extra axes: this is the sharding without them.
      if (extra != 0 && sharding.state == weight) continue;
      if (std::find(found.begin(), found.end(), sharding) == found.end()) found.push_back(std::move(sharding));
    }
  }
  keep_split(found, rules.weight, rules.split_axes,
             [](const ParameterSharding& s) -> const ShardingSpec& { return s.weight; });
  if (has_state)
    keep_split(found, rules.state, rules.split_axes,
               [](const ParameterSharding& s) -> const ShardingSpec& { return s.state; });
  if (has_state) add_eager(found, rules.gradients);
  return found;
}

}  // namespace meshwright
