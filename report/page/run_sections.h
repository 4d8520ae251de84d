// SPDX-License-Identifier: Apache-2.0
// What a page says of a plan that was run: read off the JSON document of `run`, as answer.h reads those of others.
#pragma once

#include "core/plan/plan.h"
#include "report/page/page.h"

namespace meshwright {

// Answer, lead and tiles.
void add_run_answer(Page& page, const Plan& plan);

// Step and stages, measured beside predicted, and the steps one by one.
[[nodiscard]] PageSection measured_section(const Json& document);

}  // namespace meshwright
