// SPDX-License-Identifier: Apache-2.0
// Values as Python writes them.
#pragma once

#include <string>
#include <vector>

#include "core/plan/plan.h"

namespace meshwright {

[[nodiscard]] std::string python_text(const std::string& text);          // "'blk0.attn.q'"
[[nodiscard]] std::string python_tuple(const std::vector<int>& values);  // "(2, 4)", "(8,)"
// BATCH, MICRO_BATCHES, SCHEDULE, DTYPE, RECOMPUTE, OPTIMIZER and LAYER_STARTS of a plan as constants of a module.
[[nodiscard]] std::string plan_constants(const Plan& plan, const Graph& graph);
// A spec as a JAX PartitionSpec over mesh axes named x0, x1, ...: "P('x0', None, ('x1', 'x2'))".
[[nodiscard]] std::string partition_spec(const ShardingSpec& spec);

}  // namespace meshwright
