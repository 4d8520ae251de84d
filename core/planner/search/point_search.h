// SPDX-License-Identifier: Apache-2.0
// The search at one point: one cut into layers, one number of microbatches. Its stages are priced once; every schedule
// then has its own candidates, of which the promising are lowered, checked and simulated as whole programs.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/planner/plan_request.h"
#include "core/planner/search/candidates.h"
#include "core/planner/search/memory_request.h"
#include "core/planner/search/stage_space.h"

namespace meshwright {

struct SearchPoint {
  int layers = 0;  // 0: as make_layers finds
  LayerOptions layer_options;
  std::int64_t microbatches = 1;
};

// What the points of one search share: the best so far, and what was learnt on the way.
class Incumbent {
 public:
  Incumbent(const PlanRequest& of, const CostModel& cost_model, PlanEvaluator& by)
      : request(of), costs(cost_model), evaluator(by) {}

  const PlanRequest& request;
  const CostModel& costs;
  PlanEvaluator& evaluator;
  PlanningResult result;
  std::optional<Seconds> score;  // of result.plan, by the objective: the less the better
  // By schedule and stages of each rank: of a whole program's step, as a share of what its stages alone take.
  std::map<std::pair<ScheduleKind, int>, double> least_seen;
  std::optional<Bytes> least_excess{};      // of the plans that are too large: the least bytes over what a device has
  std::optional<double> most_throughput;    // of plans that miss the objective's limits: samples per second
  std::optional<Seconds> least_latency;     // of these
  std::vector<FrontPoint> seen;             // every plan that fits, when a front is asked for
  bool profile_served = false;              // PlanRequest::stage_profile has entries for one of the points
  std::optional<StageProfileKey> last_key;  // of a point that it has none for

  [[nodiscard]] bool stopped() {
    if (!result.log.interrupted && request.stop && request.stop()) result.log.interrupted = true;
    return result.log.interrupted;
  }
  template <class... Args>
  void say(fmt::format_string<Args...> text, Args&&... args) const {
    if (request.progress) request.progress(fmt::format(text, std::forward<Args>(args)...));
  }
};

class PointSearch {
 public:
  // Prices the stages. Throws InputError when the batch does not divide, or the method does not fit.
  PointSearch(Incumbent& incumbent, const SearchPoint& point);
  ~PointSearch();

  // No plan of this point takes less.
  [[nodiscard]] Seconds lower_bound() const { return bound_; }
  // Looks for plans better than the incumbent; says whether one was found.
  bool run(ScheduleKind schedule);
  // Of several schedules, those that the model and the cluster allow and that have candidates: the first of
  // `schedules`, then the best by their stages alone. All but the first are looked at more quickly.
  [[nodiscard]] std::vector<ScheduleKind> rank(const std::vector<ScheduleKind>& schedules);
  // The best candidate that `rank` found for a schedule may beat the incumbent.
  [[nodiscard]] bool is_promising(ScheduleKind schedule) const;
  // What the best pipeline would cost (T of stage_dp.h) with `microbatches`, when each stage's times and saved bytes
  // are taken to grow with the samples of a microbatch as they do from this point to `other`; nullopt: none fits into
  // that share of the memory, as the prices estimate it.
  // REQUIRES: the points have the same layers and other numbers of microbatches.
  [[nodiscard]] std::optional<Seconds> predict(const PointSearch& other, std::int64_t microbatches,
                                               ScheduleKind schedule, double memory_share = 1.0) const;
  // The share of the memory that is tried, as the prices' estimate is mostly on the large side.
  [[nodiscard]] double spare_share() const;
  // Plans that take fewer devices, or less memory of each, for Incumbent::seen.
  void widen(ScheduleKind schedule);
  [[nodiscard]] int layers() const { return layers_.count; }
  // The stage table as it was priced last.
  [[nodiscard]] StageProfileTable profile() const { return search_->profile(key_of(memory_)); }

 private:
  struct Lowered {
    std::shared_ptr<const Graph> graph;
    Plan plan;
    Program program;
    ProgramCheck check;
  };
  [[nodiscard]] IntraOpRules rules(const LogicalMesh& mesh) const;
  void price(Bytes memory);
  [[nodiscard]] double most_in_flight() const;
  [[nodiscard]] StageProfileKey key_of(Bytes memory) const;
  // Throws InputError where the schedule does not suit the model, the method or the cluster.
  void expect_suitable(ScheduleKind schedule) const;
  [[nodiscard]] std::optional<std::string> why_unsuitable(ScheduleKind schedule) const;
  [[nodiscard]] bool may_be_chunked() const;
  bool run_one_stage(ScheduleKind schedule);
  bool run_pipeline(ScheduleKind schedule);
  bool run_memory_share(ScheduleKind schedule, double share);
  [[nodiscard]] double share_left(bool better) const;
  [[nodiscard]] bool large() const;
  // The least share of what its stages alone take that a whole program is expected to take.
  [[nodiscard]] double least_share(ScheduleKind schedule, int chunks) const;
  void explain_failure(ScheduleKind schedule);
  [[nodiscard]] StageTable prices(double memory_share, StageSearch::Keep keep = StageSearch::Keep::Best) const;
  [[nodiscard]] CandidateRequest candidate_request(ScheduleKind schedule) const;
  Candidates find(const StageTable& prices, const CandidateRequest& wanted);
  [[nodiscard]] std::optional<TablePipeline> best_pipeline(const StageTable& prices, ScheduleKind schedule,
                                                           std::int64_t microbatches) const;
  // Lowers `budget` programs at most, and takes from it those it lowers.
  bool lower_candidates(const Candidates& candidates, ScheduleKind schedule, std::size_t& budget);
  // nullopt: no place for its stages side by side.
  [[nodiscard]] std::optional<Lowered> lower_pipeline(const TablePipeline& pipeline, ScheduleKind schedule);
  // Whether the plan is the new best.
  bool judge(Lowered lowered, const Candidate* candidate = nullptr);
  [[nodiscard]] std::vector<int> layer_starts() const;
  [[nodiscard]] std::optional<Plan> make(const TablePipeline& pipeline, ScheduleKind schedule);
  void note_too_large(const Lowered& lowered);

  // The graph with another recomputation, and its layers.
  struct Variant {
    Graph graph;
    Layers layers;
    std::unique_ptr<StepStructure> structure;
  };
  void make_variants();
  struct Built {
    std::shared_ptr<const Graph> graph;
    std::string fingerprint;
  };
  // Of the plan: the point's own, unless its layers make other things again.
  [[nodiscard]] const Built& graph_of(const Plan& plan);

  Incumbent& incumbent_;
  const PlanRequest& request_;
  TrainingOptions training_;
  std::shared_ptr<const Graph> graph_;
  Layers layers_;
  std::unique_ptr<StepStructure> structure_;
  StageSpace space_;
  std::vector<Variant> variants_;           // any_recompute: besides the point's own
  std::map<std::string, Built> graphs_;     // by recomputation
  std::optional<StageProfileTable> known_;  // of its stages, from PlanRequest::stage_profile
  Bytes memory_{0.0};                       // as the stages were priced
  std::unique_ptr<StageSearch> search_;
  std::unique_ptr<CandidateRanking> ranking_;
  Seconds bound_{0.0}, modelled_bound_{0.0};  // with stored stage costs where there are any, and without
  std::optional<TablePipeline> best_;         // the incumbent's, where it is of this point
  std::map<ScheduleKind, Candidates> found_;  // by `rank`
  std::set<std::tuple<ScheduleKind, int, std::vector<TableStage>>> lowered_;    // candidates that have had their turn
  std::map<std::pair<ScheduleKind, std::size_t>, std::vector<Seconds>> quick_;  // of them, by number of stages
};

}  // namespace meshwright
