// SPDX-License-Identifier: Apache-2.0
// A lower bound of every plan of a request, whatever its cut into layers, its stages, shardings, schedule and memory.
//
// An op of which k devices each compute a part takes k times the time of such a part of their time together, and of
// other devices that compute the same part again only more. Let w be the least of that over all splits of the op's axes
// among at most the devices of one stage, W the sum of w over all ops of a step: those of a micro-batch once for each,
// in the division into micro-batches for which the sum is least. The D devices share W, so a step takes at least W / D;
// of unlike devices, of which one of kind g needs W_g for all alone, at least the sum over ops of the least
// y_g w_g, for any y with the sum over g of y_g D_g = 1 (a dual solution of dividing the ops among the kinds).
//
// Divisions into micro-batches are left out whose activations all devices together cannot hold: when the last stage
// begins a micro-batch's backward, everything that its backward will read of what the forward made is in memory, as are
// all weights and the optimizer's state.
//
// What else is left out makes the bound smaller, never wrong: collectives and messages, the fill and drain of
// pipelines, recomputation that the request leaves open, and what a method forbids.
#pragma once

#include "core/planner/plan_request.h"

namespace meshwright {

// 0 where nothing is known.
[[nodiscard]] Seconds work_bound(const PlanRequest& request, const CostModel& costs);

}  // namespace meshwright
