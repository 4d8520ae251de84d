// SPDX-License-Identifier: Apache-2.0
// A plan whose stages begin elsewhere.
#pragma once

#include <vector>

#include "core/planner/borders/stage_pieces.h"

namespace meshwright {

// What is split on one of them can be split alike on the other.
[[nodiscard]] bool same_meshes(const StagePlan& a, const StagePlan& b);

// Every op and parameter is split as it was, on the stage that now has it. What stages receive only now they receive as
// it was kept, and what they expect of themselves is what their pieces take. Layers begin where they did, and where
// stages do now. The plan states no forms of boundaries. It may be none: what was partial sums on one stage cannot be
// sent to another (check_plan).
// REQUIRES: `first_of_stage` as that of the pieces, which are the plan's; pieces go to stages of same_meshes only.
[[nodiscard]] Plan moved_plan(const PlanOfGraph& made, const StagePieces& pieces,
                              const std::vector<int>& first_of_stage);

}  // namespace meshwright
