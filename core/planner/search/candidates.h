// SPDX-License-Identifier: Apache-2.0
// Pipelines worth lowering, best first: found by the stage DP, told apart by a simulation of their stages alone with
// the transfers between them.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/planner/layers/layer_branches.h"
#include "core/planner/pipeline/chunked_pipelines.h"
#include "core/planner/pipeline/stage_dp.h"
#include "core/planner/plan_request.h"
#include "core/planner/search/stage_messages.h"
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
  Goal goal;
  std::optional<int> stages;  // exactly this many
  std::vector<int> devices;   // per group, at most
  std::function<bool()> stop = {};
  bool beyond_best = false;     // simulate the fixed number, as the best by its stages' times may not fit
  OrAuto<int> chunks = Auto{};  // schedules with any number of stages per rank: this; Auto: 2 to kMaxChunks
  // `around` also moves borders and changes submeshes, the best of several cuts is improved, those of each number of
  // stages are found by their passes alone, too, and where ranks have several stages these may have different logical
  // meshes from the start.
  bool thorough = false;
  bool few = false;                      // one of several schedules: the best by T of each number of stages will do
  std::vector<TablePipeline> like = {};  // of other schedules with one stage per rank: simulated too
  // Pipelines whose stages alone take as much are of no use: an order of pipelines ends where all others do.
  std::optional<Seconds> to_beat = {};
  int threads = 1;  // what is found is the same on any number
  static constexpr int kMaxChunks = 4;

  [[nodiscard]] bool stopped() const { return stop && stop(); }
};

struct Candidates {
  std::vector<Candidate> ranked;  // by what the goal asks for
  std::int64_t simulated = 0;
  bool all = false;     // no other pipeline of the table can take less
  bool beaten = false;  // some were left out because of CandidateRequest::to_beat
};

// What the step log is told of `rank`: "883 pipelines, best 1.232 s".
[[nodiscard]] std::string summary_of(const Candidates& candidates);
// The same of several searches side by side: "8 searches, 1883 pipelines, best 1.232 s".
[[nodiscard]] std::string summary_of(const std::vector<Candidates>& searches);
[[nodiscard]] std::string summary_of(const std::optional<TablePipeline>& first_by_cost);

// Simulates the stages of candidate pipelines: `structure` and `search` give what travels between them. Several threads
// may ask; what they get does not depend on what others ask. REQUIRES: so may the evaluator's step_time be.
class CandidateRanking {
 public:
  CandidateRanking(const StepStructure& structure, const StageSearch& search, const Cluster& cluster,
                   const CostModel& costs, PlanEvaluator& evaluator);

  // Simulates pipelines in order of the DP's cost T (stage_dp.h). It stops when no step with cost T can beat the best
  // step found, or after a fixed number of pipelines. Then it simulates the best pipelines of every number of stages,
  // on every logical mesh alone and on every kind of device alone. Pipelines whose submeshes do not fit on the hosts
  // side by side are left out.
  //
  // Schedules that split the backward: the best few by T of each number of stages, as the bytes kept depend on it.
  // Several stages per rank (chunked_pipelines.h): the best few by T of every logical mesh, number of ranks of one kind
  // of device and number of stages on each. Those that fit are simulated, and the best is improved stage by stage.
  [[nodiscard]] Candidates find(const StageTable& table, const CandidateRequest& request) {
    return finish(begin(table, request), table, request);
  }
  // The pipelines that `find` has simulated.
  struct Ranking {
    Candidates found;
    std::set<std::pair<int, std::vector<TableStage>>> known;  // by chunks
    std::optional<Seconds> best;
  };
  // The two halves of `find`: `begin` does not read CandidateRequest::like.
  [[nodiscard]] Ranking begin(const StageTable& table, const CandidateRequest& request);
  [[nodiscard]] Candidates finish(Ranking ranking, const StageTable& table, const CandidateRequest& request);
  // The first by T (stage_dp.h, chunked_pipelines.h) that fits by the table's estimate; nullopt: none does.
  [[nodiscard]] std::optional<TablePipeline> first_by_cost(const StageTable& table, const CandidateRequest& request);
  // Those that differ from `pipeline` in one stage's configuration, by what the goal asks for; `thorough`: or in one
  // stage's submesh, with the fastest configuration on it, or in one border by one layer.
  [[nodiscard]] Candidates around(const TablePipeline& pipeline, const StageTable& table,
                                  const CandidateRequest& request);
  // The pipelines that `thorough` adds to these.
  [[nodiscard]] std::vector<TablePipeline> moved(const TablePipeline& pipeline, const StageTable& table,
                                                 const CandidateRequest& request) const;
  // Those of them that have a place, by what the goal asks for.
  [[nodiscard]] Candidates simulate_all(const std::vector<TablePipeline>& pipelines, const CandidateRequest& request);
  // What the goal asks for, the less the better.
  [[nodiscard]] static Seconds score(const Candidate& candidate, const CandidateRequest& request);
  // Stable: pipelines of equal score keep the order of the DP, so every run gives the same result.
  static void sort(Candidates& candidates, const CandidateRequest& request);
  // nullopt: no place. REQUIRES: as many micro-batches as in every other request.
  [[nodiscard]] std::optional<Candidate> simulate(const TablePipeline& pipeline, const CandidateRequest& request);
  // No pipeline of the table takes less by its stages alone than this share of the first by T.
  [[nodiscard]] static double least_share(const StageTable& table, const CandidateRequest& request);
  // The same of the order by T, where more is known of what lies in line.
  [[nodiscard]] double share_of_order(const StageTable& table, const CandidateRequest& request) const;
  // The layers form a line: every stage feeds the next.
  [[nodiscard]] bool is_line() const { return branches_.is_line(); }
  // The devices of each stage.
  [[nodiscard]] std::optional<std::vector<std::vector<int>>> place(const TablePipeline& pipeline, ScheduleKind schedule,
                                                                   std::int64_t microbatches) const;

 private:
  // A tensor with readers in other layers than its home: the layer that computes it, or a parameter's first reader.
  struct Shared {
    TensorId tensor;
    bool parameter;
    int layer;
    std::vector<int> readers;
    Bytes bytes;
  };
  enum class StageTimes { Known, Modelled };
  [[nodiscard]] PipelineTimes times_of(const TablePipeline& pipeline, const std::vector<std::vector<int>>& devices,
                                       ScheduleKind schedule, StageTimes from);
  void add(const TablePipeline& pipeline, const CandidateRequest& request, Ranking& ranking);
  [[nodiscard]] std::optional<Candidate> simulate_anew(const TablePipeline& pipeline, const CandidateRequest& request);
  void rank_in_order(const StageTable& table, const CandidateRequest& request, Ranking& ranking);
  // What the order of T leaves out. `dp`: the request of that order.
  // The part of the backward that nothing waits for where the schedule splits it: gradients of weights, and all of the
  // first stage's.
  [[nodiscard]] double weights_share(const TableStage& stage, const StepCost& cost) const;
  // [stages - 1] what the first micro-batch takes from its first pass to its last, at least; empty: not known.
  [[nodiscard]] std::vector<Seconds> least_latencies_of(const StageTable& table, const CandidateRequest& request) const;
  // No pipeline of so many stages can win. `latencies`: of least_latencies_of.
  [[nodiscard]] static bool takes_too_long(const std::vector<Seconds>& latencies, int stages,
                                           const CandidateRequest& request, const Ranking& ranking);
  void rank_others(const StageTable& table, const CandidateRequest& request, StageDpRequest dp, Ranking& ranking);
  void rank_by_stages(const StageTable& table, const CandidateRequest& request, Ranking& ranking);
  void rank_chunked(const StageTable& table, const CandidateRequest& request, Ranking& ranking);
  // Calls visit(slice, configurations of one logical mesh, shape, least_sum of these) for the shapes of ranks with
  // several stages; `thorough`: then with those of all logical meshes of a submesh.
  template <class Visit>
  void each_shape(const StageTable& table, const CandidateRequest& request, const Visit& visit);
  void improve(const StageTable& table, const CandidateRequest& request, Ranking& ranking);
  // Adds what a local search that starts from `best` passes through.
  void climb(Candidate best, const StageTable& table, const CandidateRequest& request, Candidates& found);
  // Pipelines that differ from this in a border or a configuration of a stage on its slowest rank.
  [[nodiscard]] std::vector<TablePipeline> near_slowest(const TablePipeline& pipeline, const StageTable& table,
                                                        const ChunkedSchedule& schedule) const;
  [[nodiscard]] const ChunkedSchedule& schedule_of(const TablePipeline& pipeline, const CandidateRequest& request);
  [[nodiscard]] const ChunkedSchedule& schedule_of(const ChunkedShape& shape);
  // By the table's estimate; one stage per rank: as if the stages were a line.
  [[nodiscard]] bool fits(const TablePipeline& pipeline, const StageTable& table, const CandidateRequest& request);
  [[nodiscard]] std::vector<int> configs_on(const StageTable& table, int mesh) const;
  // The first by T of the pipelines whose stages all have this logical mesh.
  [[nodiscard]] std::vector<TablePipeline> best_on_one_mesh(const StageTable& table, const StageDpRequest& request,
                                                            int mesh) const;
  // What the devices of a stage and of its copy send each other at the end of a step: gradients one way, weights back.
  [[nodiscard]] Seconds copies_time(const TableStage& stage, bool hosts_apart) const;

  const StepStructure& structure_;
  const StageSearch& search_;
  const Cluster& cluster_;
  const CostModel& costs_;
  PlanEvaluator& evaluator_;
  LayerBranches branches_;
  StageMessages messages_;
  double copied_;  // ChunkedSchedule::copied
  std::vector<Shared> shared_;
  std::mutex mutex_;  // of what is remembered:
  std::map<ChunkedShape, ChunkedSchedule> schedules_;
  // Several tables give the same pipelines. By schedule, chunks and stages; nullopt: no place.
  std::map<std::tuple<ScheduleKind, int, std::vector<TableStage>>, std::optional<Candidate>> simulated_;
};

}  // namespace meshwright
