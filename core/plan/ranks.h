// SPDX-License-Identifier: Apache-2.0
// Ranks of a plan: stages that lie on the same devices, one after the other. Under most schedules every stage is a rank
// of its own; under the others each rank has as many stages (chunks) as every other, placed as ranks_of_stages says.
#pragma once

#include <string>
#include <vector>

#include "core/plan/stage_graph.h"

namespace meshwright {

// Stages of each rank. REQUIRES: check_plan(plan, graph) is empty.
[[nodiscard]] int chunks_of(const Plan& plan);

// What is wrong with the places of the stages under the plan's schedule, as sentences. Stages of one rank list the same
// devices in the same order and name the same submesh. `feeding`: of the plan's stages.
[[nodiscard]] std::vector<std::string> wrong_ranks(const Plan& plan, const StageGraph& feeding);

}  // namespace meshwright
