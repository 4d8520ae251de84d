// SPDX-License-Identifier: Apache-2.0
// Lowers a Plan to a Program: local op lists with collectives per stage and phase, cross-stage transfers by tile
// intersection, gradient synchronisation and update, buffers freed after their last use.
#pragma once

#include "core/plan/plan.h"
#include "core/plan/program/program.h"

namespace meshwright {

// REQUIRES: check_plan(plan, graph) is empty. `costs` chooses among resharding sequences (the
// same ones whose cost the planner used).
[[nodiscard]] Program lower(const Plan& plan, const Graph& graph, const CostModel& costs);

// Which devices have instruction lists and which transfers there are, where a part of a program says what the rest does
// (simulator/fold/folded_plan.h).
struct KeptPart {
  std::vector<bool> devices;    // [device]
  std::vector<bool> transfers;  // [transfer of the same plan with one microbatch]
};
struct PartialProgram {
  Program program;
  std::vector<int> like;  // [transfer] the one of `KeptPart::transfers` that it is, of its own microbatch
};
// All devices, stages and buffers keep their numbers; transfers are numbered anew, in the same order. REQUIRES: as
// lower; the schedule splits no backward, so that stages exchange the same for any number of microbatches.
[[nodiscard]] PartialProgram lower_part(const Plan& plan, const Graph& graph, const CostModel& costs,
                                        const KeptPart& part);

}  // namespace meshwright
