// SPDX-License-Identifier: Apache-2.0
// Planning as the verbs plan, replay and sweep do it: search, predict, and the document about what was found.
#pragma once

#include "cli/documents/report.h"
#include "cli/options/options.h"
#include "core/planner/make_plan.h"

namespace meshwright {

struct Planned {
  Plan plan;
  PlanningResult result;  // its `plan` is moved out
  Prediction prediction;
  Seconds wall{0.0};               // of the search
  std::optional<Seconds> latency;  // serving: of one micro-batch from end to end, alone on the devices
};

// Why no plan was found, or the plan. Progress goes to stderr, `lead` in front of each line; `request.stop` ends the
// search early.
struct PlanningOutcome {
  std::optional<Planned> planned;
  std::string reason;
  bool interrupted = false;
  std::optional<PlanningResult> failed = std::nullopt;  // without a plan
  Seconds wall{0.0};                                    // of the failed search
};
[[nodiscard]] PlanningOutcome search_plan(PlanRequest request, const Costs& costs, const std::string& lead);

// One command that ends with a plan: searches, writes the plan file (unless `output` is empty) and the files of the
// front (if asked for), and prints the document or its JSON twin. A first SIGINT or SIGTERM ends the search; what it
// has found by then is the answer. `provenance` ("" or whole lines) follows the header; `extra` joins the JSON. Throws
// NoFeasiblePlan with the reason.
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
