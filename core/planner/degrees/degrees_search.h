// SPDX-License-Identifier: Apache-2.0
// The fastest plan that a framework can launch: degrees of one set for the whole job, all of them compared.
#pragma once

#include "core/planner/degrees/all_degrees.h"
#include "core/planner/plan_request.h"

namespace meshwright {

// All legal degrees are put in the order of a bound on their step: the work of a micro-batch, which depends on few of
// them, spread over the ranks, and the time to fill and drain the pipeline. In this order each is planned, its memory
// is counted (as the software keeps it, or exactly), and what fits is simulated whole, until no bound is below the best
// step. So more freedom never gives a slower plan. Where the framework can be told the blocks of its stages, the
// fastest are planned again with lighter_ends, in the end. The result does not depend on the number of threads. Throws
// InputError for models that are no transformers and clusters of several kinds of hosts. REQUIRES:
// request.search.launch_for, of a framework without own meshes; a schedule that trains.
[[nodiscard]] PlanningResult search_degrees(const PlanRequest& request, const CostModel& costs,
                                            PlanEvaluator& evaluator);

// The request of one set of degrees: method, schedule, micro-batches, recomputation and layers are given.
[[nodiscard]] PlanRequest request_of(const PlanRequest& request, const Degrees& degrees);

}  // namespace meshwright
