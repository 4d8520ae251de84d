// SPDX-License-Identifier: Apache-2.0
// What a page says of a plan that was run: read off the JSON document of `run`, as answer.h reads those of others.
#pragma once

#include <optional>
#include <vector>

#include "core/plan/plan.h"
#include "report/page/page.h"
#include "simulator/report/plan_tables.h"

namespace meshwright {

// Answer, lead and tiles.
void add_run_answer(Page& page, const Plan& plan);

// Step and stages, measured beside predicted, and the steps one by one.
[[nodiscard]] PageSection measured_section(const Json& document);

// The loss over the steps, and their times. nullopt: a single step, which is no curve.
[[nodiscard]] std::optional<PageSection> loss_section(const Json& document);
// Peak memory of each device, measured beside predicted. `predicted`: the section about the predicted step, whose curve
// stands below; null: there is none.
[[nodiscard]] PageSection measured_memory_section(const Json& document, const PageSection* predicted);
// What devices sent each other in a step, and how long that and waiting for it took. `collectives`: those of a step
// (simulator/report/plan_tables.h). nullopt: nothing was sent.
[[nodiscard]] std::optional<PageSection> measured_links_section(const Json& document,
                                                                const std::vector<CollectiveRow>& collectives);

}  // namespace meshwright
