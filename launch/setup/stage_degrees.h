// SPDX-License-Identifier: Apache-2.0
// The degrees of one stage of a plan, as they follow from the way its operators and parameters are split.
#pragma once

#include <string>
#include <variant>

#include "core/plan/plan.h"
#include "core/planner/method/framework.h"

namespace meshwright {

// Why a stage has none: "splits 'blk0.mlp.up' along embed over 4 of its devices, as no framework's degrees do".
struct NoDegrees {
  std::string why;
};

// dp, tp, cp, ep, sequence_parallel, whole_experts, folded_experts, context and zero of a stage whose operators are
// split as Megatron-LM splits them over these degrees, and whose parameters are all split alike. What is left of
// Degrees is as by default.
[[nodiscard]] std::variant<Degrees, NoDegrees> degrees_of_stage(const StagePlan& stage, const Graph& graph);

}  // namespace meshwright
