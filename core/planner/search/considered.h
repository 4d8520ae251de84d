// SPDX-License-Identifier: Apache-2.0
// What the request's record (SearchRecord) is told of the pipelines of a point. Nothing here is called without one.
#pragma once

#include "core/planner/search/plan_program.h"

namespace meshwright {

// With the estimate of `candidate`, if there is one. Its fate is Bound until add_verdict.
[[nodiscard]] ConsideredPlan considered_pipeline(const Point& point, const TablePipeline& pipeline,
                                                 ScheduleKind schedule, const Candidate* candidate);
// The stages of the pipeline as entries of the stage table.
[[nodiscard]] std::vector<ConsideredStage> considered_stages(const Point& point, const TablePipeline& pipeline);
// All plans with these layers (empty: any) and micro-batches.
[[nodiscard]] ConsideredPlan considered_point(std::vector<int> layer_starts, std::int64_t microbatches,
                                              ScheduleKind schedule, Seconds estimated, std::string why);
void add_verdict(ConsideredPlan& considered, const Verdict& verdict);

}  // namespace meshwright
