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

}  // namespace meshwright
