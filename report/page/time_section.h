// SPDX-License-Identifier: Apache-2.0
// Where the time of a step goes: a bar per kind of device, tables of kinds, collectives and ops.
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"
#include "report/page/page.h"
#include "report/page/time_bars.h"

namespace meshwright {

[[nodiscard]] PageSection time_section(const TimeOfPage& of);

// For a run: the measured step taken apart, beside the predicted one. `predicted`: null where the prediction has other
// tasks than the run. `op_times`: the member of the document of run --report; null: ops were not measured, and the
// section says that passes are split as they would cost.
[[nodiscard]] PageSection measured_time_section(const TimeOfPage& measured, const TimeOfPage* predicted,
                                                const Json& op_times);

}  // namespace meshwright
