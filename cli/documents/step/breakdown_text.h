// SPDX-License-Identifier: Apache-2.0
// Where a step's time goes, as tables and as JSON.
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"
#include "simulator/report/step_breakdown.h"
#include "simulator/report/top_ops.h"

namespace meshwright {

struct Breakdown {
  StepBreakdown step;
  std::vector<TopOp> ops;
};

// Shares of each stage, collectives by what they are, and the ops that take the most time.
[[nodiscard]] std::string breakdown_text(const Breakdown& breakdown, const Program& program);
// The same of a measured step, without the ops.
[[nodiscard]] std::string measured_breakdown_text(const StepBreakdown& step, const Program& program);
// `time` of the document.
void add_time(Json& json, const StepBreakdown& step, const Program& program, const FoldedDevices* folded = nullptr);
// `time` and `top_ops` of the document. `folded`: as the step was simulated.
void add_breakdown(Json& json, const Breakdown& breakdown, const Program& program,
                   const FoldedDevices* folded = nullptr);

}  // namespace meshwright
