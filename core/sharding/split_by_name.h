// SPDX-License-Identifier: Apache-2.0
// What follows from splitting iteration axes by name: the specs of operands and results, and the local sizes. Planner
// and lowering use the same rules.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/sharding/sharding_spec.h"

namespace meshwright {

using AxesByName = std::map<std::string, AxisMask>;
// The mesh axes of an iteration axis; 0 when it is not split.
[[nodiscard]] AxisMask mask_of(const AxesByName& axes, const std::string& name);
[[nodiscard]] AxesByName axes_by_name(const IterationSpace& space, const std::vector<AxisMask>& axes);

// The inverse of naming: mesh axes by the names of `dims`, as `spec` splits them.
[[nodiscard]] AxesByName axes_of_dims(const std::vector<Dim>& dims, const ShardingSpec& spec);
// How a tensor of `dims` lies where axes are split like this; no partial sums. Optimizer state lies so by the axes of
// its parameter's state, of whose dimensions it may have some only.
[[nodiscard]] ShardingSpec spec_by_name(const std::vector<Dim>& dims, const AxesByName& axes);
// How an op reads its operand number `operand` when its iteration axes are split like this; no partial sums.
[[nodiscard]] ShardingSpec operand_spec(const IterationSpace& space, std::size_t operand, const AxesByName& axes);
// The spec of `op`'s output number `result`: split by name, partial over the split axes the output lacks.
[[nodiscard]] ShardingSpec raw_result(const IterationSpace& space, std::size_t result, const AxesByName& axes);
// With padding: what works element by element on a padded tile, as an update does, works on its padding too. Of experts
// that several devices share, on the busiest.
[[nodiscard]] std::vector<std::int64_t> local_axis_sizes(const IterationSpace& space, const AxesByName& axes,
                                                         const LogicalMesh& mesh);

// What a shard that has `local` of an axis of `size` has of a dimension that walks it: as much where the dimension is
// as long as the axis, with its padding; where it is not, the same share. REQUIRES: `local` divides `size` then.
[[nodiscard]] constexpr std::int64_t local_extent(std::int64_t dimension, std::int64_t size, std::int64_t local) {
  return dimension == size ? local : dimension / (size / local);
}

}  // namespace meshwright
