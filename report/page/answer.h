// SPDX-License-Identifier: Apache-2.0
// What a page says first, read off the JSON document, so that neither can say something else than the other.
#pragma once

#include "core/plan/plan.h"
#include "report/page/page.h"

namespace meshwright {

// Answer, lead and tiles of a page about a plan. `document`: of plan or simulate.
void add_answer(Page& page, const Plan& plan);

// How to get the page again: pairs of a name and what it was. `lead`: what the same command gives.
[[nodiscard]] PageSection provenance_section(const std::string& lead,
                                             const std::vector<std::pair<std::string, std::string>>& rows);

}  // namespace meshwright
