// SPDX-License-Identifier: Apache-2.0
// A plan for thousands of devices, lowered for those alone that stand for all others.
//
// Which devices are alike is found in the Program of one microbatch (simulator/fold/fold_devices.h). It is the same for
// any number of them: the stages' devices exchange the same tiles for each microbatch, and an instruction list depends
// on the schedule and on these tiles alone. So the lists of the whole step are made of the representatives only, and
// the Program that would hold thousands of devices times thousands of microbatches never exists.
#pragma once

#include <optional>
#include <vector>

#include "core/mesh/topology.h"
#include "core/planner/make_plan.h"
#include "simulator/fold/folded_program.h"
#include "simulator/program/executable_pieces.h"
#include "simulator/program/program_flows.h"

namespace meshwright {

// A network whose links are shared fairly, and how the Runs are cut whose collectives are on them.
struct NetworkToFold {
  const Topology& topology;
  CutOptions cut;
};

struct FoldedPlan {
  LoadedPlan loaded;        // `program`: representatives have lists; `check`: the peak memory of all devices, no order
  FoldedDevices folded;     // of this program
  std::int64_t events = 0;  // Runs and messages of the whole program
  std::optional<NetworkFlows> network = {};  // of this program on the network that was asked for
};

// Whether the schedule lets a plan be lowered in part: it does not split backward passes, and is no custom schedule.
[[nodiscard]] bool can_fold(const Plan& plan);
// can_fold, and the plan has enough devices for it to pay off (kMinDevicesToFold).
[[nodiscard]] bool worth_folding(const Plan& plan);

// [device of the Program] its number in the cluster.
[[nodiscard]] std::vector<DeviceId> devices_in_cluster(const Plan& plan, const Program& program);

// The same as fold_program of the whole Program, with the check that load_plan would make; with a `network`, devices
// are alike beside its links as well. Throws InputError as load_plan and program_flows do. REQUIRES: can_fold(plan).
[[nodiscard]] FoldedPlan load_folded_plan(const Plan& plan, const CostModel& costs,
                                          const NetworkToFold* network = nullptr);
// The same of a plan just made, with the graph that it was made of. REQUIRES: can_fold(made.plan).
[[nodiscard]] FoldedPlan load_folded_plan(const PlanOfGraph& made, const CostModel& costs,
                                          const NetworkToFold* network = nullptr);

}  // namespace meshwright
