// SPDX-License-Identifier: Apache-2.0
// Where the time of a step goes that was measured, in the parts of a simulated one (simulator/report/step_breakdown.h).
#pragma once

#include <vector>

#include "core/plan/program/timeline.h"
#include "simulator/report/step_breakdown.h"

namespace meshwright {

// [executable][op] what one Run's op took, on average; an empty list: its ops were not measured.
using MeasuredOpTimes = std::vector<std::vector<Seconds>>;

// Takes the Timeline's step apart. A Run is split by the times of its ops, or, where these were not measured, as its
// ops would cost (RunParts::of_measured_run). Of what is left, a device's own sends are messages; that it waits for
// those of others is bubble between its first and its last Run, and idle else. REQUIRES: the timeline is of a run of
// this program, with a computing span for every Run of a device.
[[nodiscard]] StepBreakdown measured_breakdown(const Program& program, const RunParts& parts, const Timeline& timeline,
                                               const MeasuredOpTimes& op_times);

}  // namespace meshwright
