// SPDX-License-Identifier: Apache-2.0
// Lowers a Plan to a Program: local op lists with collectives per stage and phase, cross-stage transfers by tile
// intersection, gradient synchronisation and update, buffers freed after their last use.
#pragma once

#include <memory>

#include "core/plan/plan.h"
#include "core/plan/program/program.h"

namespace meshwright {

// REQUIRES: check_plan(plan, graph) is empty. `costs` chooses among resharding sequences (the
// same ones whose cost the planner used).
[[nodiscard]] Program lower(const Plan& plan, const Graph& graph, const CostModel& costs);

// Which devices have instruction lists and which transfers there are, where a part of a program says what the rest does
// (simulator/fold/folded_plan.h).
struct KeptPart {
  std::vector<bool> devices;    // [device]
  std::vector<bool> transfers;  // [transfer of the same plan with one microbatch]
};
struct PartialProgram {
  Program program;
  std::vector<int> like;  // [transfer] the one of `KeptPart::transfers` that it is, of its own microbatch
};

// A plan in two steps: the constructor lowers its stages (meshes, buffers and executables), and a function below adds
// transfers and instruction lists, which alone depend on the number of microbatches. REQUIRES: as lower; plan, graph
// and costs outlive this.
class LoweredStages {
 public:
  LoweredStages(const Plan& plan, const Graph& graph, const CostModel& costs);
  ~LoweredStages();

  // The program as lower makes it.
  [[nodiscard]] Program take_program() &&;
  // The program of the same plan with one microbatch of the same size, or with as few as the schedule runs. It is gone
  // with the next call.
  // REQUIRES: the schedule is not custom.
  [[nodiscard]] const Program& of_one_microbatch();
  // The part of take_program's that is kept. All devices, stages and buffers keep their numbers; transfers are numbered
  // anew, in the same order. REQUIRES: the schedule splits no backward and is not custom, so that stages exchange the
  // same for any number of microbatches.
  [[nodiscard]] PartialProgram take_part(const KeptPart& part) &&;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace meshwright
