// SPDX-License-Identifier: Apache-2.0
// One step of a plan under the circumstances of `simulate`, as the simulator has it, and what the document says of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options/step_options.h"
#include "core/base/json.h"
#include "core/mesh/topology.h"
#include "core/plan/plan.h"
#include "core/planner/make_plan.h"
#include "simulator/program/program_graph.h"
#include "simulator/report/step_report.h"

namespace meshwright {

// The messages of one step, and how many of them are forwarded along a chain.
struct BroadcastCount {
  int messages = 0, along = 0;
};

struct StepSimulation {
  ProgramGraph made;
  TaskTimes times;
  Conditions conditions;
  bool by_events = false;                    // some link or device was shared, so that the order in time mattered
  SimTime step{0};                           // among many where a controller issues, else of one
  SimTime without_fetches{0};                // with a controller that fetches: the same step if it did not
  std::optional<Topology> network;           // where messages meet
  std::vector<NetworkLinkId> link_of;        // [link of the graph] what it is there
  std::optional<BroadcastCount> broadcasts;  // where they are asked for
  std::vector<SimTime> samples;              // sorted; with jitter
  std::optional<Goodput> goodput;
};

// The cluster as costs see it: with slower links where they are asked for.
[[nodiscard]] Cluster cluster_of_step(const Cluster& cluster, const StepRequest& request);

// `costs` are of cluster_of_step. Throws InputError naming the flag for a device or network that the plan does not
// have.
[[nodiscard]] StepSimulation simulate_step(const Plan& plan, const LoadedPlan& loaded, const ProgramTimes& times,
                                           const CostModel& costs, const StepRequest& request, int threads);

// [device] of the Program, with what lies there all the time.
[[nodiscard]] std::vector<Bytes> peak_memory(const StepSimulation& step, const Program& program);

// Tables of the shares of every stage, the critical path, the fullest links and the memory.
[[nodiscard]] std::string report_text(const StepSimulation& step, const LoadedPlan& loaded);
// What only some circumstances have: quantiles, goodput, what fetching the loss costs.
[[nodiscard]] std::string outcome_text(const StepSimulation& step, const StepRequest& request);
void add_step(Json& json, const StepSimulation& step, const LoadedPlan& loaded, const StepRequest& request);

// A trace with a track per stream and the memory of every device.
[[nodiscard]] std::string trace_text(const StepSimulation& step, const LoadedPlan& loaded, const std::string& title);

}  // namespace meshwright
