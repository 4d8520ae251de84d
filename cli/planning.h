// SPDX-License-Identifier: Apache-2.0
// Planning as the verbs plan, replay and sweep do it: search, predict, and the document about what was found.
#pragma once

#include "cli/options.h"
#include "cli/report.h"
#include "core/planner/make_plan.h"

namespace meshwright {

struct Planned {
  Plan plan;
  PlanningResult result;  // its `plan` is moved out
  Prediction prediction;
  Seconds wall{0.0};  // of the search
};

// Why no plan was found, or the plan. Progress goes to stderr, `lead` in front of each line.
struct PlanningOutcome {
  std::optional<Planned> planned;
  std::string reason;
};
[[nodiscard]] PlanningOutcome search_plan(PlanRequest request, const Costs& costs, const std::string& lead);

// One command that ends with a plan: searches, writes the plan file (unless `output` is empty) and prints the document
// or its JSON twin. `provenance` ("" or whole lines) follows the header; `extra` joins the JSON. Throws NoFeasiblePlan
// with the reason.
struct PlanReport {
  std::string verb;
  std::string output;
  std::string provenance;
  Json extra = Json::object();
};
void plan_and_report(const PlanningOptions& options, const Cluster& cluster, const Costs& costs,
                     const PlanReport& report);

void write_plan(const Plan& plan, const std::string& path);

}  // namespace meshwright
