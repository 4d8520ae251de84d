// SPDX-License-Identifier: Apache-2.0
// Fits all layers as one stage into the memory of its devices.
#pragma once

#include <optional>
#include <vector>

#include "core/planner/spans/layer_mixture.h"

namespace meshwright {

struct MemoryFit {
  std::vector<StepCost> costs;          // [price of the solver]: of the best sharding of all layers at it
  std::optional<LayerMixture> mixture;  // better than all of these
  // No sharding that fits takes less per microbatch.
  Seconds bound{0.0};
};

// Adds prices to the solver until one of its shardings, or a mixture of them, fits and is near the bound. When nothing
// fits, the last price gives the smallest shardings. `fastest`: the time per microbatch of the fastest sharding.
// REQUIRES: the solver's only price is 0.
[[nodiscard]] MemoryFit fit_memory(const LayerClasses& layers, const SpanBudget& budget, SpanSolver& solver,
                                   Seconds fastest);

}  // namespace meshwright
