// SPDX-License-Identifier: Apache-2.0
// What the search for stages is told beside the model and the cluster.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/mesh/submesh.h"
#include "core/planner/intra_op/intra_op_rules.h"
#include "core/planner/layers/step_structure.h"
#include "core/planner/spans/stage_costs.h"
#include "core/schedule/schedule.h"

namespace meshwright {

struct StageSearchOptions {
  std::int64_t microbatches = 1;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  Bytes usable_memory{0.0};
  std::function<IntraOpRules(const LogicalMesh& mesh)> rules = {};
  // The ways to recompute that each layer chooses from: the structure given beside the options is among them. Empty: as
  // that structure's graph has it.
  std::vector<StepVariant> variants = {};
  // All layers form one stage: only that span is solved, and its memory price is searched until the bytes fit exactly.
  bool one_stage = false;
  // No stage of a pipeline has more microbatches in flight; 0: not known. Where memory is no limit with as many, only
  // the fastest sharding of each span is found.
  double most_in_flight = 0.0;
  bool hosts_apart = false;           // the cluster has several hosts: stages may receive across them
  StageCostOptions stage_costs = {};  // costs that replace modelled ones
  int threads = 1;
  // Called before each mesh is solved; true: the rest is left out (StageSearch::interrupted).
  std::function<bool()> stop = {};
};

}  // namespace meshwright
