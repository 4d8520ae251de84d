// SPDX-License-Identifier: Apache-2.0
// Where the plan that a set of degrees stands for differs from the one that they were read from.
#pragma once

#include <string>
#include <vector>

#include "core/plan/plan.h"

namespace meshwright {

// "stage 1 keeps 'blk0.mlp.up' as S0R, and ... as S0S1 (3 of 40 operators)": a sentence for each stage and kind of
// decision. Layers may be cut otherwise within stages. Empty: both run the same step.
[[nodiscard]] std::vector<std::string> plan_differences(const Plan& plan, const Plan& launched,
                                                        const std::string& framework);

}  // namespace meshwright
