// SPDX-License-Identifier: Apache-2.0
// The parameters of a plan, and how each of their readers' copies is split.
#pragma once

#include <vector>

#include "core/plan/plan.h"

namespace meshwright {

struct PlacedParameter {
  TensorId tensor;
  int stage;
  const ParameterSharding* sharding;  // of the plan
  bool first_reader;                  // whose copy has the optimizer state
};
// One for each forward op that reads a parameter, in the order of the graph; those for which the plan has no sharding
// are left out.
[[nodiscard]] std::vector<PlacedParameter> placed_parameters(const Plan& plan, const Graph& graph);

// Whether a reader beside the first one sums the gradient split.
[[nodiscard]] bool splits_sums(const Plan& plan, const Graph& graph);

// Whether the last tiles of some parameter or optimizer state of the plan end in padding.
[[nodiscard]] bool has_padding(const Plan& plan, const Graph& graph);

}  // namespace meshwright
