// SPDX-License-Identifier: Apache-2.0
// A lower bound of every pipeline that can be made of a stage table.
#pragma once

#include "core/base/units.h"
#include "core/planner/spans/stage_search.h"

namespace meshwright {

// Whether ranks may also have several stages each, which together are no span.
enum class Ranks { OneStageEach, AnyStages };

// No pipeline of the table's meshes over its layers can take less, whatever its schedule, memory and recomputation: the
// larger of the best bottleneck and of the best use of all devices, times the microbatches.
[[nodiscard]] Seconds pipeline_bound(const StageSearch& stages, StageSearch::Costs costs, Ranks ranks);

}  // namespace meshwright
