// SPDX-License-Identifier: Apache-2.0
// What a method that splits parameters or their optimizer state over devices could not split evenly: what is padded,
// and what stays whole.
#pragma once

#include <string>
#include <vector>

#include "core/plan/plan.h"
#include "core/planner/method/method.h"

namespace meshwright {

struct UnevenParameters {
  // Names of parameters that the method splits over more devices than the plan does: no dimension can be cut further.
  std::vector<std::string> unsplit;
  Bytes unsplit_bytes{0.0};  // of what should have been split of them, on each device of the stage with most
  Bytes padding{0.0};        // of all parameters and states, on each device of the stage with most
};
// REQUIRES: the plan is one of this method, and valid for the graph.
[[nodiscard]] UnevenParameters uneven_parameters(const Method& method, const Plan& plan, const Graph& graph);

}  // namespace meshwright
