// SPDX-License-Identifier: Apache-2.0
// How tensors are split, and what every other way would cost.
#pragma once

#include <vector>

#include "core/planner/intra_op/explain.h"
#include "report/page/page.h"

namespace meshwright {

// With the columns "sharding.ways", all alternatives as JSON. nullopt: nothing is sharded. `found`: explain_plan of the
// plan. Tensors of one kind that are split alike, and would be at the same costs, are one row.
[[nodiscard]] std::optional<PageSection> sharding_section(Page& page, const std::vector<Explanation>& found,
                                                          const Plan& plan, const Graph& graph);

// "batch over 16 devices, seq over 8"; "whole on each device". `dims`: of the tensor.
[[nodiscard]] std::string spec_in_words(const ShardingSpec& spec, const std::vector<Dim>& dims,
                                        const std::vector<int>& mesh_shape);

}  // namespace meshwright
