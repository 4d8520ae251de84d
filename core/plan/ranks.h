// SPDX-License-Identifier: Apache-2.0
// Ranks of a plan: stages that lie on the same devices, one after the other. Under most schedules every stage is a rank
// of its own; under the others each rank has as many stages (chunks) as every other, placed as ranks_of_stages says; a
// schedule that is given run by run places them as it likes. With what else follows from the plan's schedule.
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
// What each rank runs. REQUIRES: as rank_of_stages; `feeding`: of the plan's stages.
[[nodiscard]] Schedule schedule_of(const Plan& plan, const StageGraph& feeding);

// How the backwards of a stage run: whole, in two, or some this way and some that.
struct BackwardPasses {
  bool whole = false, halves = false;
};
[[nodiscard]] std::vector<BackwardPasses> backward_passes(const Plan& plan);  // [stage]

// What keeps `runs` from being the schedule of the plan, as a sentence that begins with `place`: what wrong_schedule
// finds, no backwards, another number of microbatches or stages, stages on one rank that do not have one list of
// devices.
[[nodiscard]] std::optional<std::string> wrong_runs(const Schedule& runs, const Plan& plan, const std::string& place);

// What is wrong with the places of the stages under the plan's schedule, and with a schedule that is given, as
// sentences. Stages of one rank list the same devices in the same order and name the same submesh. `feeding`: of the
// plan's stages.
[[nodiscard]] std::vector<std::string> wrong_ranks(const Plan& plan, const StageGraph& feeding);

}  // namespace meshwright
