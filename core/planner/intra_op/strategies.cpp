// SPDX-License-Identifier: Apache-2.0
#include "core/planner/intra_op/strategies.h"

#include <algorithm>
#include <bit>
#include <map>

#include "core/graph/op_table.h"

namespace meshwright {

namespace {

struct Assignment {
  std::vector<AxisMask> axes;  // [iteration axis]
  AxisMask partial = 0;
};

// Calls `visit` with every way to hand the mesh axes from `mesh_axis` on to the iteration axes, or to partial sums.
template <class Visit>
void assign_axes(const IterationSpace& space, const LogicalMesh& mesh, bool linear, int mesh_axis, Assignment& now,
                 const Visit& visit) {
  if (mesh_axis == mesh.rank()) return visit(now);
  // First without this mesh axis: the devices along it do the same work.
  assign_axes(space, mesh, linear, mesh_axis + 1, now, visit);
  if (mesh.axes[mesh_axis].size() == 1) return;
  for (std::size_t i = 0; i < space.axes.size(); ++i) {
    const AxisMask before = now.axes[i];
    now.axes[i] = static_cast<AxisMask>(before | 1 << mesh_axis);
    if (space.axes[i].splittable && space.axes[i].size % shards(now.axes[i], mesh) == 0)
      assign_axes(space, mesh, linear, mesh_axis + 1, now, visit);
    now.axes[i] = before;
  }
  // A linear op may work on operands that are partial sums along this mesh axis.
  if (!linear) return;
  now.partial = static_cast<AxisMask>(now.partial | 1 << mesh_axis);
  assign_axes(space, mesh, linear, mesh_axis + 1, now, visit);
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
  std::vector<OpStrategy> strategies;
  const auto add = [&](const Assignment& assignment) {
    const auto& [axes, partial] = assignment;
    if (rules.allow_op && !rules.allow_op(op, space, axes)) return;
    ShardingSpec raw = raw_result(space, 0, axes_by_name(space, axes));
    raw.partial = static_cast<AxisMask>(raw.partial | partial);
    const bool sum = space.reduce == IterationSpace::Reduce::Sum;
    for (ShardingSpec& result : resolved(raw, result_dims, sum, mesh))
      strategies.push_back({axes, partial, raw, std::move(result)});
    if (sum && raw.partial != 0 && results == Results::MayStayPartial) strategies.push_back({axes, partial, raw, raw});
  };
  Assignment none{std::vector<AxisMask>(space.axes.size(), 0)};
  assign_axes(space, mesh, row_of(op.kind).linear_operands != 0, 0, none, add);
  return strategies;
}

namespace {

double tile_elements(const Tensor& parameter, const ShardingSpec& spec, const LogicalMesh& mesh) {
  double elements = 1;
  for (const std::int64_t size : local_shape(parameter.dims, spec, mesh)) elements *= static_cast<double>(size);
  return elements;
}

// `spec` with one more axis: on the first dimension that divides, or else, with padding, on the one whose tile is then
// smallest; as it is where no dimension's tile becomes smaller.
ShardingSpec split_over(const Tensor& parameter, const ShardingSpec& spec, int axis, bool padding,
                        const LogicalMesh& mesh) {
  const auto with_cut = [&](std::size_t d) {
    ShardingSpec cut = spec;
    cut.dims[d] = static_cast<AxisMask>(cut.dims[d] | 1 << axis);
    return cut;
  };
  for (std::size_t d = 0; d < spec.dims.size(); ++d)
    if (ShardingSpec cut = with_cut(d); divides(parameter.dims, cut, mesh)) return cut;
  if (!padding) return spec;
  // Outside of a cut that there is, the way to the new tiles leads over whole rows: only where nothing else is
  // possible.
  for (const bool outside : {false, true}) {
    ShardingSpec best = spec;
    for (std::size_t d = 0; d < spec.dims.size(); ++d) {
      ShardingSpec cut = with_cut(d);
      if ((spec.dims[d] >> axis != 0) == outside &&
          tile_elements(parameter, cut, mesh) < tile_elements(parameter, best, mesh))
        best = std::move(cut);
    }
    if (best != spec) return best;
  }
  return spec;
}

// The weight's spec plus every axis of `extra`, as far as its dimensions can take them.
ShardingSpec split_further(const Tensor& parameter, ShardingSpec spec, AxisMask extra, bool padding,
                           const LogicalMesh& mesh) {
  for (int axis = 0; axis < mesh.rank(); ++axis)
    if (extra >> axis & 1) spec = split_over(parameter, spec, axis, padding, mesh);
  return spec;
}

// The specs that a parameter may have between its uses: all that divide; and, where none of them splits it over all
// axes of `counted`, those that split it further with padding.
std::vector<ShardingSpec> weight_specs(const Tensor& parameter, AxisMask counted, const LogicalMesh& mesh,
                                       const IntraOpRules& rules) {
  std::vector<ShardingSpec> specs = enumerate_specs(parameter.dims, mesh);
  const bool whole = rules.weight == IntraOpRules::Split::Whole;
  const auto never = static_cast<AxisMask>(rules.whole_axes | (whole ? rules.split_axes : AxisMask{0}));
  std::erase_if(specs, [&](const ShardingSpec& spec) { return (spec.used() & never) != 0; });
  if (whole) return specs;
  const auto is_complete = [&](const ShardingSpec& spec) { return (counted & ~spec.used()) == 0; };
  if (!rules.padding || std::any_of(specs.begin(), specs.end(), is_complete)) return specs;
  for (std::size_t s = 0, even = specs.size(); s < even; ++s) {
    const auto missing = static_cast<AxisMask>(counted & ~specs[s].used());
    for (int extra = 1; extra <= missing; ++extra) {
      if ((extra & ~missing) != 0) continue;
      ShardingSpec padded = split_further(parameter, specs[s], static_cast<AxisMask>(extra), true, mesh);
      if (std::find(specs.begin(), specs.end(), padded) == specs.end()) specs.push_back(std::move(padded));
    }
  }
  return specs;
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

// Where some shardings are padded: among those that are alike on the axes outside of `counted`, only the ones that
// leave a device the fewest bytes stay.
template <class Part>
void keep_least_padded(std::vector<ParameterSharding>& found, const Tensor& parameter, AxisMask counted,
                       const LogicalMesh& mesh, const Part& part) {
  if (std::all_of(found.begin(), found.end(),
                  [&](const ParameterSharding& sharding) { return divides(parameter.dims, part(sharding), mesh); }))
    return;
  std::map<ShardingSpec, double> least;  // by what the other axes split
  std::vector<double*> of;               // [sharding]
  std::vector<double> elements;
  for (const ParameterSharding& sharding : found) {
    ShardingSpec others = part(sharding);
    for (AxisMask& mask : others.dims) mask = static_cast<AxisMask>(mask & ~counted);
    elements.push_back(tile_elements(parameter, part(sharding), mesh));
    double& known = least.try_emplace(std::move(others), elements.back()).first->second;
    known = std::min(known, elements.back());
    of.push_back(&known);
  }
  std::vector<ParameterSharding> kept;
  for (std::size_t i = 0; i < found.size(); ++i)
    if (elements[i] == *of[i]) kept.push_back(std::move(found[i]));
  found = std::move(kept);
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
  using Split = IntraOpRules::Split;
  AxisMask all = 0;
  for (int axis = 0; axis < mesh.rank(); ++axis)
    if (mesh.axes[axis].size() > 1) all = static_cast<AxisMask>(all | 1 << axis);
  all = static_cast<AxisMask>(all & ~rules.whole_axes);
  std::vector<ParameterSharding> found;
  for (const ShardingSpec& weight :
       weight_specs(parameter, static_cast<AxisMask>(all & rules.split_axes), mesh, rules)) {
    const AxisMask whole = rules.state == Split::Whole ? rules.split_axes : AxisMask{0};
    const AxisMask free = static_cast<AxisMask>(all & ~weight.used() & ~whole);
    // All sets of free axes. Without optimizer state there is nothing to split further.
    for (int extra = 0; extra <= free; ++extra) {
      if ((extra & ~free) != 0 || (extra != 0 && !has_state)) continue;
      const ShardingSpec state = split_further(parameter, weight, static_cast<AxisMask>(extra), rules.padding, mesh);
      ParameterSharding sharding{weight, state, false};
      // No dimension could take the extra axes: this is the sharding without them.
      if (extra != 0 && sharding.state == weight) continue;
      if (std::find(found.begin(), found.end(), sharding) == found.end()) found.push_back(std::move(sharding));
    }
  }
  const auto weight_of = [](const ParameterSharding& s) -> const ShardingSpec& { return s.weight; };
  const auto state_of = [](const ParameterSharding& s) -> const ShardingSpec& { return s.state; };
  keep_split(found, rules.weight, rules.split_axes, weight_of);
  if (has_state) keep_split(found, rules.state, rules.split_axes, state_of);
  if (rules.weight == Split::Most) keep_least_padded(found, parameter, rules.split_axes, mesh, weight_of);
  if (has_state && rules.state == Split::Most) keep_least_padded(found, parameter, rules.split_axes, mesh, state_of);
  if (has_state) add_eager(found, rules.gradients);
  return found;
}

}  // namespace meshwright
