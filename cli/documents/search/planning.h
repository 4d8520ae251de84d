// SPDX-License-Identifier: Apache-2.0
// Planning as the verbs plan, replay and sweep do it: search, predict, report.
#pragma once

#include "cli/documents/figures/report.h"
#include "cli/options/options.h"
#include "core/planner/considered_plans.h"
#include "core/planner/make_plan.h"

namespace meshwright {

// A plan with what the simulator predicts of it.
struct PredictedPlan {
  Plan plan;
  PlanningResult result;  // its `plan` is moved out
  LoadedPlan loaded;      // folded where `folded` is
  std::optional<FoldedDevices> folded;
  Prediction prediction;
  Seconds wall{0.0};               // of the search
  std::optional<Seconds> latency;  // serving: of one micro-batch from end to end, alone on the devices
  [[nodiscard]] const FoldedDevices* alike() const { return folded ? &*folded : nullptr; }
};

// The plan, or why there is none. Progress goes to stderr, with `lead` in front of each line, unless the request has a
// step log; `request.stop` ends the search early.
struct PlanningOutcome {
  std::optional<PredictedPlan> planned;
  std::string reason;
  bool interrupted = false;
  std::optional<PlanningResult> failed = std::nullopt;  // without a plan
};
[[nodiscard]] PlanningOutcome search_plan(PlanRequest request, const Costs& costs, const std::string& lead);

// The plan's stages take what the prediction says that they do, so that all documents say the same of them.
void take_stage_times(Plan& plan, const Prediction& prediction);

// One command that ends with a plan: searches, writes the plan file (unless `output` is empty) and the files of the
// front (if asked for), and prints the document as text or JSON. A first SIGINT or SIGTERM ends the search; the best
// plan found by then is the answer. `provenance` ("" or whole lines) follows the header; `extra` joins the JSON. Throws
// NoFeasiblePlan with the reason.
// A search that was made before its plan is reported.
struct FinishedSearch {
  PlanningOutcome outcome;
  std::shared_ptr<ConsideredPlans> considered = std::make_shared<ConsideredPlans>();
};

struct PlanNote {
  std::string text;            // whole lines after the document
  Json json = Json::object();  // members of the JSON form
};
struct PlanReport {
  std::string verb;
  std::string output;
  std::string dump = {};          // "": no folder; else as write_dump
  std::string html = {};          // "": no page
  std::string command_line = {};  // that the page tells
  std::string provenance;
  Json extra = Json::object();
  std::function<PlanNote(const Plan& plan)> note = {};  // what else is to be said of the plan
  std::shared_ptr<FinishedSearch> finished = {};        // of the same options and cluster, in the place of a search
  std::string svg = {};                                 // where the front is drawn; "": nowhere
  std::string axes = {};                                // of the picture
  bool report = false;                                  // also tell where the time of a step goes
  bool free_plan = true;  // with a framework: also search for the plan without its restrictions
};
void plan_and_report(const PlanningOptions& options, const Cluster& cluster, const Costs& costs,
                     const PlanReport& report);

void write_plan(const Plan& plan, const std::string& path);

}  // namespace meshwright
