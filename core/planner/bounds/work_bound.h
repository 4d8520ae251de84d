// SPDX-License-Identifier: Apache-2.0
// A lower bound of every plan of a request, whatever its cut into layers, its stages, shardings, schedule and memory.
//
// Devices of unlike kinds. An op of which k devices each compute a part takes k times the time of such a part of their
// time together, and of other devices that compute the same part again only more. Let w be the least of that over all
// splits of the op's axes among at most the devices of one stage, W the sum of w over all ops of a step: those of a
// micro-batch once for each, in the division into micro-batches for which the sum is least. The D devices share W, so a
// step takes at least W / D; of unlike devices, of which one of kind g needs W_g for all alone, at least the sum over
// ops of the least y_g w_g, for any y with the sum over g of y_g D_g = 1 (a dual solution of dividing the ops among the
// kinds).
//
// Like devices (held_bound.h), for each number B of micro-batches by itself:
//  - an op and all that autodiff made from it are split as one, on the k devices of one stage, and pay for the sums
//    that the split needs (op_groups.h): c(k) is the time of all k together;
//  - a value that waits for its backward lies in some device's memory while the ops of the trunk run that part the two
//    (held_values.h), each for t(k). With v bytes waiting beside an op, on average over the step T of D devices with
//    room R together: T R >= B sum of v t(k).
// Adding p times this to T D >= B sum of c(k) gives, for every price p >= 0,
//
//   T (D + p R) >= B sum over ops of min over k of (c(k) + p v t(k)) + what is made again instead of held.
//
// The minimum is concave in v, so at least what a line says from v = 0 to the most that may wait; by that line what
// holding each value adds is a sum over values, of which each is held or made again, whichever takes less. The largest
// over some p is the bound for B, and the least over all B that of the request.
//
// Divisions into micro-batches are left out whose activations all devices together cannot hold: when the last stage
// begins a micro-batch's backward, everything that its backward will read of what the forward made is in memory, as are
// all weights and the optimizer's state.
//
// What else is left out makes the bound smaller, never wrong: messages, most reshardings and gathers, the fill and
// drain of pipelines, stages that are busier than others, and what a method forbids. Of a software, or under
// conditions that hide communication, no collectives count, and of a software no memory.
#pragma once

#include "core/planner/plan_request.h"

namespace meshwright {

// 0 where nothing is known. Of a request that is to stop: what holds of unlike devices, too, which takes less to find.
[[nodiscard]] Seconds work_bound(const PlanRequest& request, const CostModel& costs);

}  // namespace meshwright
