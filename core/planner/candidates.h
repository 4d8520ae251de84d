// SPDX-License-Identifier: Apache-2.0
// Pipelines worth lowering, best first: found by the stage DP, told apart by a simulation of their stages alone with
// the transfers between them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "core/planner/layer_branches.h"
#include "core/planner/make_plan.h"
#include "core/planner/stage_dp.h"
#include "core/planner/stage_search.h"

namespace meshwright {

struct Candidate {
  PricedPipeline pipeline;
  // What a step takes with the stages' own times, the transfers between them and the update; serving: of all
  // microbatches, and of one alone.
  Seconds step{0.0}, alone{0.0};
  // The step where stored stage costs stand for modelled ones: as a share of what the models alone say. Else 1.
  double known = 1.0;
};

struct CandidateRequest {
  ScheduleKind schedule;
  std::int64_t microbatches;
  std::int64_t samples;  // of a microbatch
  Objective objective;
  std::optional<int> stages;  // exactly this many
  std::vector<int> devices;   // per group, at most
  std::function<bool()> stop = {};
  bool beyond_best = false;  // what is best by its stages' times may not fit: look at the fixed number
};

struct Candidates {
  std::vector<Candidate> ranked;  // by what the objective asks for
  std::int64_t looked_at = 0;
  bool all = false;  // no pipeline of the table that was not looked at can take less
};

// Simulates the stages of candidate pipelines: `structure` and `search` give what travels between them.
class CandidateRanking {
 public:
  CandidateRanking(const StepStructure& structure, const StageSearch& search, const Cluster& cluster,
                   const CostModel& costs, PlanEvaluator& evaluator);

  // How the looking ends, in order of the DP's cost T (stage_dp.h): where the least that a step with cost T can take is
  // no less than the best step found; or after a fixed number of pipelines. Further, the best pipelines of every number
  // of stages, on every logical mesh alone and on every kind of device alone are looked at. Pipelines whose
  // submeshes have no place side by side are left out.
  [[nodiscard]] Candidates find(const StagePrices& prices, const CandidateRequest& request);
  // Those that differ from `pipeline` in one stage's configuration, by what the objective asks for.
  [[nodiscard]] Candidates around(const PricedPipeline& pipeline, const StagePrices& prices,
                                  const CandidateRequest& request);
  // nullopt: no place.
  [[nodiscard]] std::optional<Candidate> simulate(const PricedPipeline& pipeline, const CandidateRequest& request);
  // The devices of each stage.
  [[nodiscard]] std::optional<std::vector<std::vector<int>>> place(const PricedPipeline& pipeline,
                                                                   std::int64_t microbatches) const;

 private:
  // A tensor that layers read beyond the one that makes it, or, a parameter, beyond the first that reads it.
  struct Shared {
    TensorId tensor;
    bool parameter;
    int layer;
    std::vector<int> readers;
    Bytes bytes;
  };
  struct Direction {
    SimTime forward{0}, backward{0};
  };
  enum class StageTimes { Known, Modelled };
  [[nodiscard]] PipelineTimes times_of(const PricedPipeline& pipeline, const std::vector<std::vector<int>>& devices,
                                       bool trains, StageTimes from);
  // Of the pipelines whose stages all have this logical mesh, the first by T.
  [[nodiscard]] std::vector<PricedPipeline> best_on_one_mesh(const StagePrices& prices, const StageDpRequest& request,
                                                             int mesh) const;
  [[nodiscard]] Direction travel(const PricedStage& from, const PricedStage& to, bool hosts_apart);

  const StepStructure& structure_;
  const StageSearch& search_;
  const Cluster& cluster_;
  const CostModel& costs_;
  PlanEvaluator& evaluator_;
  LayerBranches branches_;
  std::vector<Shared> shared_;
  std::map<std::tuple<PricedStage, PricedStage, bool>, Direction> known_;
};

}  // namespace meshwright
