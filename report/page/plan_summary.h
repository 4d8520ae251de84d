// SPDX-License-Identifier: Apache-2.0
// A plan in small, as the pages of many plans show it: its stages, and where the time of a step goes.
#pragma once

#include <string>

#include "core/base/json.h"
#include "report/page/step_sections.h"

namespace meshwright {

// {"stages": [{"layers", "hosts", "devices", "mesh", "forward_s", ..., "memory_bytes", "in_flight"}, ...],
//  "time": {"step_ps", "rows": [{"stage", "devices", "parts_ps": {"products": 5, ...}}, ...]}}, which the database of a
// sweep keeps; older ones have no "time" of steps that a controller issues.
[[nodiscard]] Json plan_summary(const StepOfPage& of);

// Bars and a table. Beyond 32 stages or rows the others are counted. Throws InputError, which begins with `place`, for
// JSON that is no summary.
[[nodiscard]] std::string plan_summary_html(const Json& summary, const std::string& place);

}  // namespace meshwright
