// SPDX-License-Identifier: Apache-2.0
// The step of a pipeline whose stages are single devices.
#pragma once

#include <vector>

#include "core/plan/program/pipeline_times.h"
#include "core/schedule/schedule.h"

namespace meshwright {

// The pipeline alone, for ranking thousands of candidates: stages as single devices with given times.
struct PipelineResult {
  SimTime step;                                // end of the last update
  std::vector<SimTime> first_begin, last_end;  // [stage] first forward's begin, last backward's end
};
// As a program that is lowered from stages of one device each would take (`chunks` of them per rank).
// O((stages + edges) * microbatches), no allocation beyond a few vectors. Many candidates of one shape:
// simulator/pipeline/pipeline_shape.h.
[[nodiscard]] PipelineResult simulate_pipeline(ScheduleKind schedule, int microbatches, const PipelineTimes& times,
                                               int chunks = 1);

}  // namespace meshwright
