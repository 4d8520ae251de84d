// SPDX-License-Identifier: Apache-2.0
// What a plan states of the boundaries between its stages.
#pragma once

#include "core/plan/plan.h"

namespace meshwright {

// Every boundary between neighbours of the stage graph gets the form, in both directions where the plan trains.
// REQUIRES: check_plan(plan, graph) is empty.
void set_cross_mesh(Plan& plan, const Graph& graph, CrossMesh form);

}  // namespace meshwright
