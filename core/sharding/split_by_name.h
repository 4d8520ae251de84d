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

// Splits of a tensor whose dimensions carry the names; no partial sums.
[[nodiscard]] ShardingSpec spec_by_name(const std::vector<Dim>& dims, const AxesByName& axes);
// The spec of `op`'s output number `result`: split by name, partial over the split axes the output lacks.
[[nodiscard]] ShardingSpec raw_result(const IterationSpace& space, std::size_t result, const AxesByName& axes);
[[nodiscard]] std::vector<std::int64_t> local_axis_sizes(const IterationSpace& space, const AxesByName& axes,
                                                         const LogicalMesh& mesh);

}  // namespace meshwright
