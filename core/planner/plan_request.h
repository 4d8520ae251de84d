// SPDX-License-Identifier: Apache-2.0
// What the planner is asked for, and what it answers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/plan/lowering/lower.h"
#include "core/plan/plan.h"
#include "core/plan/program/check_program.h"
#include "core/plan/program/pipeline_times.h"
#include "core/planner/layers/layer_recompute.h"
#include "core/planner/method/framework.h"
#include "core/planner/method/layer_options.h"
#include "core/planner/method/method.h"
#include "core/planner/stages/stage_profile.h"

namespace meshwright {

// REQUIRES: the plan has the fingerprint of the graph.
struct PlanOfGraph {
  Plan plan;
  std::shared_ptr<const Graph> graph;  // of the training step
};

// A step of a whole plan.
struct StepOutcome {
  Seconds step{0.0};
  std::vector<Bytes> peaks = {};  // [stage] of its fullest device; empty: those of the trial
};

// A whole plan, lowered and checked in the form in which its evaluator simulates it: large ones in part.
class PlanTrial {
 public:
  virtual ~PlanTrial() = default;
  // What is promised of the plan: its step under the conditions that the evaluator stands for (shared links, overlap,
  // who issues the work). Throws InputError as program_costs and where the conditions do not suit the plan.
  [[nodiscard]] virtual StepOutcome step() = 0;

  std::vector<Bytes> peaks = {};    // [stage] of its fullest device, as check_program counts it
  std::vector<Bytes> on_host = {};  // [stage] the most that a device keeps on its host; empty: none keeps anything
  // [stage] what its fullest device holds beside its tensors, beyond what its usable memory leaves for that; empty:
  // nothing.
  std::vector<Bytes> beside = {};
  [[nodiscard]] Bytes beside_of(std::size_t stage) const { return beside.empty() ? Bytes(0.0) : beside[stage]; }
};

struct PlanOutcome {
  Seconds step{0.0};
  Bytes peak{0.0};  // of the device that holds the most, with what PlanTrial::beside says of it
};

// Ranks plans and pipelines by their step time; implemented with the simulator outside core.
class PlanEvaluator {
 public:
  virtual ~PlanEvaluator() = default;
  // The plain step of a pipeline whose stages are single devices with given times, `chunks` of them on each.
  [[nodiscard]] virtual Seconds step_time(ScheduleKind schedule, int microbatches, const PipelineTimes& times,
                                          int chunks) = 0;
  // Several threads may ask at once. Throws InputError as load_plan.
  [[nodiscard]] virtual std::unique_ptr<PlanTrial> trial(const PlanOfGraph& made) const = 0;
  // The step and the memory of such a trial.
  [[nodiscard]] virtual PlanOutcome outcome(const PlanOfGraph& made) const;
  // Under the conditions communication runs beside computation: a step may then take less than its stages one piece
  // after the other.
  [[nodiscard]] virtual bool hides_communication() const { return false; }
  // How many computations before the one that reads it a weight may be gathered, where communication is hidden.
  [[nodiscard]] virtual int gathers_ahead() const { return 0; }
  // Steps are issued ahead: one may begin before another has drained, so that filling the pipeline takes no time of it.
  [[nodiscard]] virtual bool steps_run_into_each_other() const { return false; }
  // The evaluator of plain steps, where there are conditions; else nullptr.
  [[nodiscard]] virtual std::unique_ptr<PlanEvaluator> plain() const { return nullptr; }
  // What the software that the costs are of keeps on the plan's fullest device. nullopt: it is this program's own
  // executor, whose memory check_program counts. Several threads may ask at once.
  struct SoftwareMemory {
    Bytes needs{0.0}, usable{0.0};
  };
  [[nodiscard]] virtual std::optional<SoftwareMemory> software_memory(const Plan& /*plan*/,
                                                                      const Graph& /*graph*/) const {
    return std::nullopt;
  }
};

// Hears of every step of the search as it begins and ends: one at a time, never one inside another. The planner reads
// no clock; whoever listens may. A step that throws has no end.
class StepLog {
 public:
  virtual ~StepLog() = default;
  virtual void begin(const char* step) = 0;         // "cut", "span", "rank", ...
  virtual void end(const std::string& result) = 0;  // what the step made: "24 layers, 1203 ops, 16 micro-batches"
};

// A stage of a plan that the search considered: its entry of the stage table.
struct ConsideredStage {
  StageProfileName name;
  StageProfile costs;
};

// A plan that the search considered, as far as it followed it up.
struct ConsideredPlan {
  std::vector<int> layer_starts;  // as Plan's; empty: not cut
  std::int64_t microbatches = 1;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  int chunks = 1;  // stages of each rank
  std::vector<ConsideredStage>
      stages;                // empty: of all plans with these layers and micro-batches, or only degrees known
  std::string degrees = {};  // of a framework's plans: "tp=8,pp=4"
  // A step as the search ranked it before it simulated the whole program: of the stages alone, predicted, or a bound.
  std::optional<Seconds> estimated = {};
  std::optional<Seconds> simulated = {};  // a step of the whole program
  std::optional<Seconds> score = {};      // plans that fit: what the goal minimizes
  std::optional<Bytes> needs = {};        // memory of the device that lacks the most, or holds the most
  enum class Fate {
    Fits,           // simulated; the one with the least score is the answer
    TooLarge,       // for the memory
    RuledOut,       // as TooLarge, known from a plan that keeps less
    NoPlace,        // its submeshes do not fit on the hosts side by side
    MissesGoal,     // of throughput or latency
    Bound,          // it is not expected to beat the best plan known then
    Twin,           // its time differs from that of another, with as many stages, by less than a thousandth
    Limit,          // as many as are simulated for one stage table came before it
    Inexpressible,  // no plan has such degrees
  } fate = Fate::Bound;
  std::string why = {};  // where the fate has more to say: "stage 0 of 2 ... needs 21.4 GiB of 14.7 GiB per device"
};

// Hears of every plan that the search considered, in an order that does not depend on the number of threads: one at a
// time. A plan may come several times. Nothing is made for it where nobody listens.
class SearchRecord {
 public:
  virtual ~SearchRecord() = default;
  virtual void add(ConsideredPlan considered) = 0;
};

// Left to the search.
struct Auto {
  bool operator==(const Auto&) const = default;
};
template <class T>
using OrAuto = std::variant<Auto, T>;
template <class T>
[[nodiscard]] bool is_auto(const T& choice) {
  return std::holds_alternative<Auto>(choice);
}

// As suits the model (default_layer_count), without a search.
struct ModelDefault {
  bool operator==(const ModelDefault&) const = default;
};
using LayerCount = std::variant<ModelDefault, Auto, int>;  // Auto: ModelDefault first, then more and fewer

// Which plan is the best of those that fit.
struct Goal {
  enum class Objective {
    StepTime,    // minimum time of a step; serving: of all micro-batches
    Latency,     // serving: minimum time of one micro-batch from end to end, among plans with `min_throughput`
    Throughput,  // serving: maximum samples per second, among plans within `max_latency`
  } objective = Objective::StepTime;
  std::optional<double> min_throughput = std::nullopt;  // samples per second
  std::optional<Seconds> max_latency = std::nullopt;    // of one micro-batch
  bool front = false;                                   // also find PlanningResult::front
};

// Which plans are considered.
struct SearchOptions {
  LayerCount layers = ModelDefault{};
  LayerOptions layer_cut;
  OrAuto<std::int64_t> microbatches = Auto{};
  OrAuto<ScheduleKind> schedule = ScheduleKind::OneFOneB;  // Auto: every schedule that trains and suits the cluster
  OrAuto<int> chunks = Auto{};                             // interleaved: stages of each rank; Auto: 2, 3 and 4
  OrAuto<Recompute> recompute = Recompute::None;           // Auto: chosen for each layer
  std::vector<LayerRecompute> recompute_layers;            // exceptions to `recompute`, unless that is Auto
  // What of every block is recomputed by itself. REQUIRES: otherwise `recompute` is None, without exceptions.
  RecomputeModules recompute_modules = RecomputeModules::None;
  Method method;
  std::variant<SubmeshSpace, std::vector<Submesh>> submeshes = SubmeshSpace::PowerOfTwo;  // or exactly these
  LogicalMeshSpace logical_mesh_space = LogicalMeshSpace::SingleNodeModelParallel;
  std::optional<std::vector<int>> logical_mesh;  // one-stage methods: exactly this shape; nullopt: the method's
  std::optional<int> batch_axis;  // every op with a batch axis splits it over this mesh axis, and nothing else there
  ForcedSpecs forced;
  // How tensors get from stage to stage (StagePlan); Auto: as is fastest for the plan found, of equal forms the first.
  OrAuto<CrossMesh> cross_mesh = CrossMesh::Send;
  // Only plans of one set of degrees that this framework launches; method, layers and their cut are not read
  // (degrees/degrees_search.h).
  const Framework* launch_for = nullptr;
  // Sets of a framework's degrees that are planned at most, the most promising first.
  std::size_t most_degrees = 3000;
  bool any_offload = false;  // training only: what hosts keep is chosen, too; that of the training is not read
  // false: what a bound says cannot win is looked at nevertheless. Slower, with the same answer: for tests.
  bool prune = true;
};

// What is known of the stages' costs besides the models, and whether the search keeps its stage table.
struct StageProfileRequest {
  StageCostSource costs = StageCostSource::Composition;
  const StageProfileFile* file = nullptr;  // used for the spans of a search whose key it has
  StageProfileMode mode = StageProfileMode::Partly;
  std::string cost_fingerprint;  // of the cost model; part of the keys of stage profiles
  bool keep = false;             // also fill PlanningResult::stage_profile
};

struct PlanRequest {
  ModelConfig model;
  TrainingOptions training;  // `search` says the micro-batches and the recomputation; those here are not read
  Cluster cluster;
  std::string software = {};                           // of the costs, for Plan::software
  std::map<std::string, std::string> conditions = {};  // of the evaluator, for Plan::conditions
  SearchOptions search;
  Goal goal;
  // Only plans of which a step takes less are of use. What is not expected to is left out, so that the search may end
  // without a plan, and without a reason. nullopt: any plan is. REQUIRES: the goal is the time of a step.
  std::optional<Seconds> to_beat = std::nullopt;
  StageProfileRequest stage_profile;
  int threads = 1;
  // Called with what is being done; for progress lines only.
  std::function<void(const std::string&)> progress;
  StepLog* steps = nullptr;
  SearchRecord* record = nullptr;
  // Asked between the steps of the search, by any of its threads; true: the best plan found so far is the answer.
  std::function<bool()> stop;

  [[nodiscard]] bool any_schedule() const { return is_auto(search.schedule); }
  [[nodiscard]] bool any_recompute() const { return is_auto(search.recompute); }
  // Parts of the model recompute more or less than `search.recompute` says.
  [[nodiscard]] bool recomputes_parts() const {
    return !search.recompute_layers.empty() || search.recompute_modules != RecomputeModules::None;
  }
  // The schedule, or the first of several.
  [[nodiscard]] ScheduleKind first_schedule() const {
    return any_schedule() ? ScheduleKind::OneFOneB : std::get<ScheduleKind>(search.schedule);
  }
  [[nodiscard]] bool trains() const { return first_schedule() != ScheduleKind::Inference; }
  // The training with so many micro-batches, and the same recomputation in all layers (None where each layer chooses).
  [[nodiscard]] TrainingOptions training_with(std::int64_t microbatches) const {
    TrainingOptions of_plan = training;
    of_plan.microbatches = microbatches;
    of_plan.recompute = any_recompute() ? Recompute::None : std::get<Recompute>(search.recompute);
    of_plan.recompute_modules = search.recompute_modules;
    return of_plan;
  }
};

// A plan that no other plan matches in step time, memory and number of devices at once.
struct FrontPoint {
  Plan plan;  // with its prediction; what it costs to run follows from the devices and the step time
  int devices;
};

// How far the search went.
struct SearchLog {
  std::int64_t points = 0;            // cuts and numbers of micro-batches whose stage costs were computed
  std::int64_t points_ruled_out = 0;  // by a bound or a prediction
  std::int64_t ranked = 0;            // pipelines whose stages alone were simulated
  bool ranked_all = true;             // no other pipeline of the points' stages could be faster by its stages alone
  std::int64_t simulations = 0;       // whole programs simulated
  std::int64_t stages_costed = 0;     // stage table entries
  bool interrupted = false;
  std::string how;  // why the search stopped, in words

  // A part of this search.
  void join(const SearchLog& part) {
    add(part);
    points_ruled_out += part.points_ruled_out;
    ranked += part.ranked;
    ranked_all = ranked_all && part.ranked_all;
  }
  // Adds the work of a search that was made beside this one.
  void add(const SearchLog& more) {
    points += more.points;
    simulations += more.simulations;
    stages_costed += more.stages_costed;
    interrupted = interrupted || more.interrupted;
  }
};

struct PlanningResult {
  std::optional<Plan> plan;  // nullopt: nothing fits, see `reason`
  std::string reason;        // "stage 0 (layers 0..3 on 1x4) needs 21.4 GiB of 14.7 GiB per device; ..."
  // Where memory is the limit: the stage that lacks the most, in the plan that `reason` speaks of.
  struct TooLarge {
    int stage, stages, first_layer, last_layer;
    Bytes needs, usable;   // of a device
    Seconds step_time{0};  // of that plan, simulated as if it fitted; 0: not known
    bool of_host = false;  // bytes of its share of the host's memory
    bool likely = false;   // usable is what fits with the probability that is asked of a software's memory
    Bytes beside{0.0};     // of `needs`: PlanTrial::beside
    // "needs 9.1 GiB of 8.0 GiB per device"; "needs 9.1 GiB (1.3 GiB beside its tensors) of 8.0 GiB per device"
    [[nodiscard]] std::string text() const;
  };
  std::optional<TooLarge> too_large;  // unset when there is a plan, or something else is the limit
  // No plan with the plan's layers and micro-batches takes less: the plan's own lower_bound holds for any layers.
  Seconds lower_bound_within_layers{0.0};
  Graph graph;  // of the plan
  // One-stage methods: the sharding's cost per micro-batch by the layer models, and a proven lower bound for every
  // sharding within the memory and the method's constraints. The layer models count that memory; the difference between
  // their count and the lowered plan's corrects it.
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
