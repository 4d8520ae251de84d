// SPDX-License-Identifier: Apache-2.0
// What share of the time of its stages alone a whole program is expected to take, from the programs that were seen.
#pragma once

#include <optional>

#include "core/base/units.h"
#include "core/planner/search/plan_incumbent.h"
#include "core/schedule/schedule.h"

namespace meshwright {

// What the expectation depends on beside the programs seen.
struct Programs {
  bool large;               // is_large of the point
  bool hide_communication;  // PlanEvaluator::hides_communication
};

// The minimum share that a program with so many stages on each rank is expected to take.
[[nodiscard]] double expected_share(const Programs& programs, ScheduleKind schedule, int chunks,
                                    const PlanIncumbent& incumbent);
// Pipelines whose stages alone take at least as long are not expected to win, also once more programs are seen;
// nullopt: there is no plan to beat.
[[nodiscard]] std::optional<Seconds> to_beat(const Programs& programs, ScheduleKind schedule,
                                             const PlanIncumbent& incumbent);

}  // namespace meshwright
