// SPDX-License-Identifier: Apache-2.0
// The planner's driver: from a model and a cluster to a Plan, its Program and what the search saw.
// Read cluster_layers.h, intra_op.h and choose_pipeline.h for the three steps it strings together.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/check_program.h"
#include "core/plan/lower.h"
#include "core/plan/plan.h"

namespace meshwright {

// Parallel methods are constraints on the one search, never separate code paths.
struct Method {
  enum class Kind {
    Pipeshard,  // everything free
    Shard,      // one stage
    Data,       // one stage, every op split along "batch" only
    Zero2,      // Data, optimizer state split
    Zero3,      // Data, weights and optimizer state split
    Megatron,   // dp x tp x pp given: logical mesh (dp, tp), batch on axis 0, never batch on axis 1, pp equal stages
    Manual,     // stages given: layers, submeshes, logical shapes
  } kind = Kind::Pipeshard;
  int dp = 0, tp = 1, pp = 1;  // Megatron; dp = 0: what is left
  struct ManualStage {
    int first_layer, last_layer;
    Submesh submesh;
    std::vector<int> logical_shape;
  };
  std::vector<ManualStage> stages;  // Manual
  std::string text = "pipeshard";   // as the user wrote it
};
// "pipeshard", "shard", "data", "zero2", "zero3", "megatron:tp=8,pp=4", "manual:FILE" (JSON: {"stages": [{"layers": [0,
// 3], "submesh": [1, 4], "logical_shape": [1, 4]}, ...]}). Throws InputError.
[[nodiscard]] Method method_from_text(const std::string& text);

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
  int layers = 0;  // 0: search
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  Method method;
  SubmeshSpace submesh_space = SubmeshSpace::PowerOfTwo;
  LogicalMeshSpace logical_mesh_space = LogicalMeshSpace::SingleNodeModelParallel;
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
