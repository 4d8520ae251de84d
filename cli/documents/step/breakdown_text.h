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
// `time` and `top_ops` of the document. `folded`: as the step was simulated.
void add_breakdown(Json& json, const Breakdown& breakdown, const Program& program,
                   const FoldedDevices* folded = nullptr);

}  // namespace meshwright
