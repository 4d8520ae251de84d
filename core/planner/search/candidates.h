// SPDX-License-Identifier: Apache-2.0
// Pipelines worth lowering, best first: found by the stage DP, told apart by a simulation of their stages alone with
// the transfers between them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "core/planner/layers/layer_branches.h"
#include "core/planner/pipeline/chunked_pipelines.h"
#include "core/planner/pipeline/stage_dp.h"
#include "core/planner/plan_request.h"
#include "core/planner/spans/stage_search.h"

namespace meshwright {

struct Candidate {
  TablePipeline pipeline;
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
  bool beyond_best = false;              // what is best by its stages' times may not fit: look at the fixed number
  int chunks = 0;                        // schedules with any number of stages per rank: this; 0: 2 to kMostChunks
  bool few = false;                      // one of several schedules: the best by T of each number of stages will do
  std::vector<TablePipeline> like = {};  // of other schedules with one stage per rank: looked at too
  static constexpr int kMostChunks = 4;
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
  //
  // Schedules that split the backward: the best few by T of each number of stages, as what is kept depends on it.
  // Several stages per rank (chunked_pipelines.h): the best few by T of every logical mesh, number of ranks of one kind
  // of device and number of stages on each; those that fit their ranks are simulated, the best improved stage by stage.
  [[nodiscard]] Candidates find(const StageTable& prices, const CandidateRequest& request);
  // The first by T (stage_dp.h, chunked_pipelines.h) that fits by the prices; nullopt: none does.
  [[nodiscard]] std::optional<TablePipeline> first_by_cost(const StageTable& prices, const CandidateRequest& request);
  // Those that differ from `pipeline` in one stage's configuration, by what the objective asks for.
  [[nodiscard]] Candidates around(const TablePipeline& pipeline, const StageTable& prices,
                                  const CandidateRequest& request);
  // nullopt: no place.
  [[nodiscard]] std::optional<Candidate> simulate(const TablePipeline& pipeline, const CandidateRequest& request);
  // The layers form a line: every stage feeds the next.
  [[nodiscard]] bool is_line() const { return branches_.is_line(); }
  // The devices of each stage.
  [[nodiscard]] std::optional<std::vector<std::vector<int>>> place(const TablePipeline& pipeline, ScheduleKind schedule,
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
  [[nodiscard]] PipelineTimes times_of(const TablePipeline& pipeline, const std::vector<std::vector<int>>& devices,
                                       ScheduleKind schedule, StageTimes from);
  // What `find` has looked at.
  struct Looked {
    Candidates found;
    std::set<std::pair<int, std::vector<TableStage>>> known;  // by chunks
    std::optional<Seconds> best;
  };
  void look_at(const TablePipeline& pipeline, const CandidateRequest& request, Looked& looked);
  void look_in_order(const StageTable& prices, const CandidateRequest& request, Looked& looked);
  // What the order of T leaves out. `dp`: the request of that order.
  void look_elsewhere(const StageTable& prices, const CandidateRequest& request, StageDpRequest dp, Looked& looked);
  void look_by_stages(const StageTable& prices, const CandidateRequest& request, Looked& looked);
  void look_at_chunked(const StageTable& prices, const CandidateRequest& request, Looked& looked);
  // Calls look(slice, configurations of one logical mesh, schedule) for the shapes of ranks with several stages.
  template <class Look>
  void each_shape(const StageTable& prices, const CandidateRequest& request, const Look& look);
  void improve(const StageTable& prices, const CandidateRequest& request, Looked& looked);
  // Pipelines that differ from this in a border or a configuration of a stage on its slowest rank.
  [[nodiscard]] std::vector<TablePipeline> near_slowest(const TablePipeline& pipeline, const StageTable& prices,
                                                        const ChunkedSchedule& schedule) const;
  [[nodiscard]] const ChunkedSchedule& schedule_of(const TablePipeline& pipeline, const CandidateRequest& request);
  [[nodiscard]] const ChunkedSchedule& schedule_of(const ChunkedShape& shape);
  // By the prices' estimate; one stage per rank: as if the stages were a line.
  [[nodiscard]] bool fits(const TablePipeline& pipeline, const StageTable& prices, const CandidateRequest& request);
  [[nodiscard]] std::vector<int> configs_on(const StageTable& prices, int mesh) const;
  // Of the pipelines whose stages all have this logical mesh, the first by T.
  [[nodiscard]] std::vector<TablePipeline> best_on_one_mesh(const StageTable& prices, const StageDpRequest& request,
                                                            int mesh) const;
  // Between stages that lie on other devices.
  [[nodiscard]] Direction travel(const TableStage& from, const TableStage& to, bool hosts_apart);

  const StepStructure& structure_;
  const StageSearch& search_;
  const Cluster& cluster_;
  const CostModel& costs_;
  PlanEvaluator& evaluator_;
  LayerBranches branches_;
  std::vector<Shared> shared_;
  std::map<std::tuple<TableStage, TableStage, bool>, Direction> known_;
  std::map<ChunkedShape, ChunkedSchedule> schedules_;
};

}  // namespace meshwright
