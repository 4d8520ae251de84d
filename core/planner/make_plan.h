// SPDX-License-Identifier: Apache-2.0
// The planner's driver: from a model and a cluster to a Plan, its Program and what the search saw.
// Read layer_options.h, intra_op.h and choose_pipeline.h for the three steps it strings together.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/check_program.h"
#include "core/plan/lower.h"
#include "core/plan/plan.h"
#include "core/planner/layer_options.h"
#include "core/planner/method.h"

namespace meshwright {

// Ranks a sound Program by its step time; implemented with the simulator outside core.
class PlanEvaluator {
 public:
  virtual ~PlanEvaluator() = default;
  [[nodiscard]] virtual Seconds step_time(const Program& program, const ProgramCheck& check) = 0;
};

struct PlanRequest {
  ModelConfig model;
  TrainingOptions training;  // microbatches 0: search
  Cluster cluster;
  int layers = 0;  // 0: as make_layers finds
  LayerOptions layer_options;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  Method method;
  SubmeshSpace submesh_space = SubmeshSpace::PowerOfTwo;
  LogicalMeshSpace logical_mesh_space = LogicalMeshSpace::SingleNodeModelParallel;
  std::vector<int> logical_mesh;  // one-stage methods: exactly this shape; empty: the method's
  std::optional<int> batch_axis;  // every op with a batch axis splits it over this mesh axis, and nothing else there
  ForcedSpecs forced;
  int candidates = 8;  // pipelines simulated before one is chosen
  int threads = 1;
  // Called with what is being done; for progress lines only.
  std::function<void(const std::string&)> progress;
};

struct PlanningResult {
  std::optional<Plan> plan;  // nullopt: nothing fits, see `reason`
  std::string reason;        // "stage 0 (layers 0..3 on 1x4) needs 21.4 GiB of 14.7 GiB per device; ..."
  Graph graph;               // of the plan
  Program program;
  ProgramCheck check;
  // One-stage methods: what the sharding costs per microbatch as the layer models price it, and the proven least that
  // any sharding within the memory and the method's constraints costs. The memory is counted here as the layer models
  // count it, corrected by what the lowered plan takes more or less than they say.
  struct Sharding {
    Seconds cost{0.0}, bound{0.0};
    [[nodiscard]] double gap() const { return cost.si() > 0 ? (cost - bound) / cost : 0.0; }
  };
  std::optional<Sharding> sharding;
  std::int64_t simulations = 0;    // programs simulated
  std::int64_t stages_priced = 0;  // stage table entries
};

// Throws InputError for impossible requests (batch not divisible, more layers than ops, method that does not fit the
// cluster).
[[nodiscard]] PlanningResult make_plan(const PlanRequest& request, const CostModel& costs, PlanEvaluator& evaluator);

// Graph, Program and check of an existing plan. Throws InputError with the first of check_plan's sentences.
struct LoadedPlan {
  Graph graph;
  Program program;
  ProgramCheck check;
};
[[nodiscard]] LoadedPlan load_plan(const Plan& plan, const CostModel& costs);

}  // namespace meshwright
