// SPDX-License-Identifier: Apache-2.0
#include "core/sharding/split_by_name.h"

namespace meshwright {

AxesByName axes_by_name(const IterationSpace& space, const std::vector<AxisMask>& axes) {
  AxesByName named;
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != 0) named[space.axes[i].name] = axes[i];
  return named;
}

AxisMask mask_of(const AxesByName& axes, const std::string& name) {
  const auto found = axes.find(name);
  return found == axes.end() ? AxisMask{0} : found->second;
}

AxesByName axes_of_dims(const std::vector<Dim>& dims, const ShardingSpec& spec) {
  AxesByName axes;
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (spec.dims[d] != 0) axes[dims[d].name] = spec.dims[d];
  return axes;
}

ShardingSpec spec_by_name(const std::vector<Dim>& dims, const AxesByName& axes) {
  ShardingSpec spec;
  for (const Dim& dim : dims) spec.dims.push_back(mask_of(axes, dim.name));
  return spec;
}

ShardingSpec operand_spec(const IterationSpace& space, std::size_t operand, const AxesByName& axes) {
  ShardingSpec spec;
  for (const int axis : space.inputs[operand])
    spec.dims.push_back(mask_of(axes, space.axes[static_cast<std::size_t>(axis)].name));
  return spec;
}

ShardingSpec raw_result(const IterationSpace& space, std::size_t result, const AxesByName& axes) {
  ShardingSpec spec;
  std::vector<bool> present(space.axes.size(), false);
  for (const int axis : space.outputs[result]) {
    present[static_cast<std::size_t>(axis)] = true;
    spec.dims.push_back(mask_of(axes, space.axes[static_cast<std::size_t>(axis)].name));
  }
  for (std::size_t i = 0; i < present.size(); ++i)
    if (!present[i]) spec.partial = static_cast<AxisMask>(spec.partial | mask_of(axes, space.axes[i].name));
  return spec;
}

std::vector<std::int64_t> local_axis_sizes(const IterationSpace& space, const AxesByName& axes,
                                           const LogicalMesh& mesh) {
  std::vector<std::int64_t> sizes;
  for (const IterationAxis& axis : space.axes)
    sizes.push_back(tile_size(axis.size, shards(mask_of(axes, axis.name), mesh)));
  const auto slots = space.find(kExpertSlots);
  if (!mesh.expert_load.even() && slots && space.find(kExperts)) {
    std::int64_t& own = sizes[static_cast<std::size_t>(*slots)];
    own = busiest_slots(own, shards(mask_of(axes, kExperts), mesh), mesh);
  }
  return sizes;
}

}  // namespace meshwright
