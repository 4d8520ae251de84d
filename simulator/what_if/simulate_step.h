// SPDX-License-Identifier: Apache-2.0
// One step of a plan, as it stands (a plain step) or under the circumstances of a StepRequest.
#pragma once

#include <optional>
#include <vector>

#include "core/mesh/topology.h"
#include "core/plan/plan.h"
#include "core/planner/make_plan.h"
#include "simulator/fold/folded_plan.h"
#include "simulator/program/program_costs.h"
#include "simulator/program/program_graph.h"
#include "simulator/what_if/step_request.h"

namespace meshwright {

// How many messages of a step go along with another instead of taking a way of their own. Copies on one device are no
// messages.
struct BroadcastCount {
  int messages = 0, along = 0;
};

struct StepSimulation {
  ProgramGraph tasks;  // of one step; of several where a controller issues the work
  TaskTimes times;
  Conditions conditions;
  bool by_events = false;                    // tasks met on a link or a device, so that the order in time mattered
  int period = 1;                            // with a controller: steps until one is like the first of them
  SimTime step{0};                           // with a controller: from the end of one step to the end of the next
  std::optional<SimTime> without_fetches;    // the same, where a controller fetches the loss and if it did not
  std::optional<Topology> network;           // where messages meet
  std::vector<NetworkLinkId> link_of;        // [link of the graph] what it is there
  std::optional<BroadcastCount> broadcasts;  // where they are asked for
  std::vector<SimTime> samples;              // sorted; with jitter. The times above are of a step without
  double jitter = 0.0;                       // of the samples
  bool is_mean = false;                      // the step is the mean of the samples
  // Where tasks are named: what a Run takes, and its pieces where it has some. [executable]
  std::vector<SimTime> run_times = {};
  std::vector<std::vector<Piece>> pieces = {};

  [[nodiscard]] int steps() const { return static_cast<int>(tasks.first_of_step.size()) - 1; }
};

// By both engines; throws InternalError unless they agree to the picosecond. `folded`: the devices of the program that
// stand for others (simulator/fold/folded_program.h); null: each stands for itself. REQUIRES: the program is sound.
[[nodiscard]] StepSimulation simulate_plain_step(const Program& program, const ProgramTimes& times,
                                                 const FoldedDevices* folded = nullptr, bool name_tasks = false);

// The step of simulate_plain_step by one engine alone.
[[nodiscard]] SimTime plain_step(const Program& program, const ProgramTimes& times,
                                 const FoldedDevices* folded = nullptr);

// `costs`: of cluster_of_step; `times`: of the plan's own step. Throws InputError where no route leads from one device
// to another, or the step could be longer than the simulated clock (106 days). REQUIRES: check_slow_devices.
[[nodiscard]] StepSimulation simulate_step(const Plan& plan, const LoadedPlan& loaded, const ProgramTimes& times,
                                           const CostModel& costs, const StepRequest& request, int threads);

// The same of a program beside its plan and graph.
[[nodiscard]] StepSimulation simulate_step(const Plan& plan, const Graph& graph, const Program& program,
                                           const ProgramTimes& times, const CostModel& costs,
                                           const StepRequest& request, int threads);

// Whether devices that do the same still do so at the same time: nothing is drawn, issued or slow for some alone, and
// links are private or shared fairly.
[[nodiscard]] bool keeps_devices_alike(const StepRequest& request);
// A plan folded for simulate_step under such circumstances. REQUIRES: can_fold(plan), keeps_devices_alike(request).
[[nodiscard]] FoldedPlan load_folded_plan(const Plan& plan, const CostModel& costs, const StepRequest& request);
// The same of a plan just made, with the graph that it was made of.
[[nodiscard]] FoldedPlan load_folded_plan(const PlanOfGraph& made, const CostModel& costs, const StepRequest& request);
// The same step, of the devices that stand for all. `times`: of the folded program. REQUIRES: loaded for this request.
[[nodiscard]] StepSimulation simulate_step(const Plan& plan, const FoldedPlan& folded, const ProgramTimes& times,
                                           const CostModel& costs, const StepRequest& request);

// What failures leave of a training run of such steps. Throws InputError for a model out of its ranges. REQUIRES:
// request.failures.
[[nodiscard]] Goodput goodput_of(const StepSimulation& step, const Program& program, const StepRequest& request);

// [device] of the Program, with what is there all the time.
[[nodiscard]] std::vector<Bytes> peak_memory(const StepSimulation& step, const Program& program,
                                             const FoldedDevices* folded = nullptr);

}  // namespace meshwright
