// SPDX-License-Identifier: Apache-2.0
// How long steps are whose durations vary by chance.
#pragma once

#include <optional>

#include "report/page/page.h"
#include "simulator/what_if/simulate_step.h"

namespace meshwright {

// Quantiles of the drawn steps, and how many are how long. The other sections show the step without variation, and this
// one says so. nullopt: none were drawn.
[[nodiscard]] std::optional<PageSection> variation_section(const StepSimulation& step);

}  // namespace meshwright
