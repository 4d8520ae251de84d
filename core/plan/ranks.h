// SPDX-License-Identifier: Apache-2.0
// Ranks of a plan: the stages on the same devices. Under most schedules every stage is a rank; under chunked schedules
// each rank has the same number of stages, placed by ranks_of_stages; a custom schedule places them freely. Also: other
// facts that follow from the plan's schedule.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plan/stage_graph.h"

namespace meshwright {

// Stages of each rank. REQUIRES: check_plan(plan, graph) is empty; not Custom, where ranks may differ.
[[nodiscard]] int chunks_of(const Plan& plan);
// [stage] its rank. REQUIRES: as chunks_of, of any schedule.
[[nodiscard]] std::vector<int> rank_of_stages(const Plan& plan);
// Devices that have a stage. REQUIRES: as rank_of_stages.
[[nodiscard]] int used_devices(const Plan& plan);
// What each rank runs. REQUIRES: as rank_of_stages; `feeding`: of the plan's stages.
[[nodiscard]] Schedule schedule_of(const Plan& plan, const StageGraph& feeding);
// The same for another number of microbatches. REQUIRES: the schedule is not custom, or lists just these.
[[nodiscard]] Schedule schedule_of(const Plan& plan, const StageGraph& feeding, int microbatches);

// How the backwards of a stage run: whole, in two halves, or mixed.
struct BackwardPasses {
  bool whole = false, halves = false;
};
[[nodiscard]] std::vector<BackwardPasses> backward_passes(const Plan& plan);  // [stage]

// Why `runs` cannot be the schedule of the plan, as a sentence that begins with `place`: an error of wrong_schedule, no
// backwards, another number of microbatches or stages, or stages on one rank with different devices. nullopt: it can.
[[nodiscard]] std::optional<std::string> wrong_runs(const Schedule& runs, const Plan& plan, const std::string& place);

// Errors of the placement of the stages under the plan's schedule, and of a custom schedule, as sentences. Stages of
// one rank list the same devices in the same order and name the same submesh. `feeding`: of the plan's stages.
[[nodiscard]] std::vector<std::string> wrong_ranks(const Plan& plan, const StageGraph& feeding);

}  // namespace meshwright
