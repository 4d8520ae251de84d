// SPDX-License-Identifier: Apache-2.0
// What the planner is asked for, and what it answers.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/lowering/lower.h"
#include "core/plan/plan.h"
#include "core/plan/program/check_program.h"
#include "core/plan/program/pipeline_times.h"
#include "core/planner/layers/layer_recompute.h"
#include "core/planner/method/layer_options.h"
#include "core/planner/method/method.h"
#include "core/planner/spans/stage_profile.h"

namespace meshwright {

// Ranks sound Programs and pipelines by their step time; implemented with the simulator outside core.
class PlanEvaluator {
 public:
  virtual ~PlanEvaluator() = default;
  [[nodiscard]] virtual Seconds step_time(const Program& program, const ProgramCheck& check) = 0;
  // Of stages that are single devices with given times, `chunks` of them on each.
  [[nodiscard]] virtual Seconds step_time(ScheduleKind schedule, int microbatches, const PipelineTimes& times,
                                          int chunks) = 0;
};

// What is the best of the plans that fit.
struct Objective {
  enum class Kind {
    StepTime,    // least time of a step; serving: of all microbatches
    Latency,     // serving: least time of one microbatch from end to end, among plans with `least_throughput`
    Throughput,  // serving: most samples per second, among plans within `most_latency`
  } kind = Kind::StepTime;
  double least_throughput = 0.0;                       // samples per second; 0: any
  std::optional<Seconds> most_latency = std::nullopt;  // of one microbatch; nullopt: any
};

struct PlanRequest {
  ModelConfig model;
  TrainingOptions training;  // microbatches 0: search
  Cluster cluster;
  int layers = 0;           // 0: as make_layers finds
  bool any_layers = false;  // further: try other numbers of layers
  LayerOptions layer_options;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  int chunks = 0;                                // interleaved: stages of each rank; 0: 2, 3 and 4 are tried
  bool any_schedule = false;                     // training: try every schedule that suits the model and the cluster
  bool any_recompute = false;                    // each layer as is best; training.recompute is not read then
  std::vector<LayerRecompute> recompute_layers;  // these layers so, the others as training.recompute says
  Objective objective;
  Method method;
  SubmeshSpace submesh_space = SubmeshSpace::PowerOfTwo;
  std::vector<Submesh> submeshes;  // exactly these may become stages; empty: those of submesh_space
  LogicalMeshSpace logical_mesh_space = LogicalMeshSpace::SingleNodeModelParallel;
  std::vector<int> logical_mesh;  // one-stage methods: exactly this shape; empty: the method's
  std::optional<int> batch_axis;  // every op with a batch axis splits it over this mesh axis, and nothing else there
  ForcedSpecs forced;
  int threads = 1;
  bool front = false;  // also find PlanningResult::front
  StageCostSource stage_costs = StageCostSource::Composition;
  const StageProfileFile* stage_profile = nullptr;  // what is known of spans; used where its key is that of the search
  StageProfileMode stage_profile_mode = StageProfileMode::Partly;
  std::string cost_fingerprint;     // of the cost model; stands in the keys of stage profiles
  bool keep_stage_profile = false;  // also fill PlanningResult::stage_profile
  // Called with what is being done; for progress lines only.
  std::function<void(const std::string&)> progress;
  // Asked between the steps of the search, by any of its threads; true: the best found so far is the answer.
  std::function<bool()> stop;
};

// A plan that no other found is as good as in step time, memory and number of devices at once.
struct FrontPoint {
  Plan plan;  // with its prediction; cost follows from devices and step time
  int devices;
};

// How far the search went.
struct SearchLog {
  std::int64_t points = 0;            // numbers of layers, microbatches, schedules whose stages were priced
  std::int64_t points_ruled_out = 0;  // by a bound, without pricing their stages
  std::int64_t ranked = 0;            // pipelines whose stages alone were simulated
  bool ranked_all = true;          // no other pipeline of the points' stages could have been faster by its stages alone
  std::int64_t simulations = 0;    // whole programs simulated
  std::int64_t stages_priced = 0;  // stage table entries
  bool interrupted = false;
  std::string how;  // a sentence on why no more were looked at
};

struct PlanningResult {
  std::optional<Plan> plan;  // nullopt: nothing fits, see `reason`
  std::string reason;        // "stage 0 (layers 0..3 on 1x4) needs 21.4 GiB of 14.7 GiB per device; ..."
  // Where memory is the limit: the stage that needs the most, in the plan that `reason` speaks of.
  struct TooLarge {
    int stage, stages, first_layer, last_layer;
    Bytes needs, usable;   // of a device
    Seconds step_time{0};  // of that plan, simulated as if it fitted; 0: not known
  };
  std::optional<TooLarge> too_large;  // unset when there is a plan, or something else is the limit
  Graph graph;                        // of the plan
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
  SearchLog log;
  std::vector<FrontPoint> front;                   // by step time; empty unless asked for
  std::optional<StageProfileTable> stage_profile;  // of the plan's stage table; nullopt unless asked for
};

}  // namespace meshwright
