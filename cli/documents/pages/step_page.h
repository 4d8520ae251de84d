// SPDX-License-Identifier: Apache-2.0
// --html of plan, simulate and run: what a page about a plan says, from the documents and simulations of the verbs.
#pragma once

#include <string>

#include "cli/documents/step/breakdown_text.h"
#include "cli/documents/step/simulated_plan.h"
#include "cli/options/costs.h"
#include "report/page/page.h"
#include "report/page/step_sections.h"

namespace meshwright {

inline constexpr const char* kHtmlHelp =
    "write a report to this HTML file: one file that opens from disk, with timeline, memory and tables";
[[nodiscard]] std::string html_line(const std::string& path);  // "# report written to ...\n"

// The document with devices of which it says the same listed together: "devices": [[0, 127]] for "device": 0. Nothing
// in a page grows with the number of like devices.
[[nodiscard]] Json with_devices_together(Json document);

// What the sections of a page read; all that is given outlives it.
[[nodiscard]] StepOfPage step_of_page(const Plan& plan, const SimulatedPlan& simulated, const Breakdown& breakdown);

// Answer, tiles and all sections about the simulated step. REQUIRES: the page has its document; the request had
// name_tasks.
void add_step_page(Page& page, const Plan& plan, const SimulatedPlan& simulated, const Breakdown& breakdown);

// What each tensor's other shardings would cost.
void add_sharding(Page& page, const Plan& plan, const Graph& graph, const Costs& costs);

// The last section.
void add_provenance(Page& page, const std::string& command_line, const ProfileSource& profile);

}  // namespace meshwright
