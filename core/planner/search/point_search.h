// SPDX-License-Identifier: Apache-2.0
// The search over the pipelines of one point: rank the candidates of the stage table, then lower and judge the
// promising ones as whole programs.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "core/planner/search/expected_share.h"
#include "core/planner/search/plan_incumbent.h"
#include "core/planner/search/plan_program.h"
#include "core/planner/search/point.h"

namespace meshwright {

// REQUIRES: the context outlives this.
class PointSearch {
 public:
  PointSearch(SearchContext& context, Point point)
      : context_(context),
        point_(std::move(point)),
        graphs_(context.request, point_),
        subspaces_(subspaces_of(point_)),
        whole_(whole_share()) {}
  PointSearch(const PointSearch&) = delete;
  PointSearch& operator=(const PointSearch&) = delete;

  [[nodiscard]] const Point& point() const { return point_; }

  // The schedules that suit the model and the cluster and have candidates: the first of `schedules`, then
  // the others by the time of their stages alone; where programs are small, then those without. All but the first are
  // searched with less effort.
  [[nodiscard]] std::vector<ScheduleKind> rank(const std::vector<ScheduleKind>& schedules);
  // The least step of its pipelines by their stages alone; nullopt: `rank` found none of this schedule.
  [[nodiscard]] std::optional<Seconds> promised(ScheduleKind schedule) const {
    const auto found = candidates_.find(schedule);
    if (found == candidates_.end() || found->second.ranked.empty()) return std::nullopt;
    return found->second.ranked.front().step;
  }
  // The best candidate that `rank` found for the schedule may beat the incumbent.
  [[nodiscard]] bool is_promising(ScheduleKind schedule, const PlanIncumbent& incumbent) const;
  // Looks for plans that beat the incumbent; whether one was found.
  bool run(ScheduleKind schedule, PlanIncumbent& incumbent);
  // The pipeline that comes first by the table's costs, without a search: whether it is better than the incumbent.
  bool run_first(ScheduleKind schedule, PlanIncumbent& incumbent);
  // Plans on fewer devices, or with less memory of each, for the front.
  void widen(ScheduleKind schedule, PlanIncumbent& incumbent);
  // Some program fits, better than others or not.
  [[nodiscard]] bool fits() const { return !fitting_.empty(); }
  // Leaves its stages and what it tried. REQUIRES: nothing is asked for but what `promised`, `fits` and the point's cut
  // and bounds say.
  void forget_stages();
  // The share of the memory that is tried: the table's estimate is mostly too large.
  [[nodiscard]] double spare_share() const;

 private:
  // A candidate that was lowered, and fits.
  struct Fitting {
    TablePipeline pipeline;
    Seconds score;
    double fullest;  // Verdict::fullest
  };
  struct Progress {
    bool better = false;              // than the incumbent
    bool any = false;                 // candidate, whatever became of it
    std::optional<Fitting> best;      // of these candidates, better than the incumbent or not
    std::optional<Bytes> min_excess;  // of the plans that were too large

    void add(const Progress& more);
    void note(const Fitting& fitting);
  };

  // For the request's record: a candidate that is not lowered, and a pipeline that was.
  void note(const Candidate& candidate, ScheduleKind schedule, ConsideredPlan::Fate fate) const;
  void note(const TablePipeline& pipeline, ScheduleKind schedule, const Candidate* candidate,
            const Verdict& verdict) const;
  // lower, check, judge, apply.
  Verdict try_pipeline(const TablePipeline& pipeline, ScheduleKind schedule, const Candidate* candidate,
                       PlanIncumbent& incumbent);
  // Lowers at most `budget` programs, and deducts those that it lowers.
  Progress try_candidates(const Candidates& candidates, const Subspace& of, ScheduleKind schedule, std::size_t& budget,
                          PlanIncumbent& incumbent);
  bool search_one_stage(ScheduleKind schedule, PlanIncumbent& incumbent);
  bool search_one_stage(ScheduleKind schedule, std::optional<int> way, PlanIncumbent& incumbent);
  bool search_pipelines(ScheduleKind schedule, PlanIncumbent& incumbent);
  Progress search_subspace(const Subspace& of, ScheduleKind schedule, PlanIncumbent& incumbent);
  // What the same request on a part of the hosts would find.
  Progress search_fewer_hosts(ScheduleKind schedule, PlanIncumbent& incumbent);
  [[nodiscard]] int devices_of(const TablePipeline& pipeline) const;
  Progress search_within(const Subspace& of, double memory_share, ScheduleKind schedule, PlanIncumbent& incumbent);
  bool explain_failure(const Subspace& of, ScheduleKind schedule, PlanIncumbent& incumbent);

  [[nodiscard]] Candidates find_candidates(const StageTable& table, const CandidateRequest& wanted);
  void note_ranked(const Candidates& candidates);  // in the tally
  // Those of all requests, side by side. `leads`: the best pipelines of the first are tried with the others, too.
  [[nodiscard]] std::vector<Candidates> find_side_by_side(const StageTable& table, std::vector<CandidateRequest> wanted,
                                                          bool leads);
  // Candidates from the table of a subspace. Where programs are large, those of the whole point include the best of
  // every narrower subspace.
  [[nodiscard]] Candidates find_candidates(const Subspace& of, double memory_share, const CandidateRequest& wanted);
  [[nodiscard]] Candidates neighbours(const TablePipeline& pipeline, const StageTable& table,
                                      const CandidateRequest& wanted);
  // The same stages of the subspace fit into both shares of the memory.
  [[nodiscard]] bool fit_alike(const Subspace& of, StageSearch::Keep keep, const CandidateRequest& wanted, double share,
                               double other);
  // What the search of this subspace has found before, where the same stages fit, or what `find` finds. `around`: the
  // stages whose neighbours they are.
  template <class Find>
  const Candidates& find_once(const Subspace& of, double memory_share, StageSearch::Keep keep,
                              const CandidateRequest& wanted, const std::vector<TableStage>& around, const Find& find);
  [[nodiscard]] std::optional<TablePipeline> best_pipeline(const StageTable& table, const CandidateRequest& wanted);
  [[nodiscard]] double share_left(const std::optional<Fitting>& best) const;
  void set_spans(PointSpans spans);
  // The table of a subspace, as long as no other is asked for.
  [[nodiscard]] const StageTable& table_of(const Subspace& of, double memory_share, StageSearch::Keep keep);
  // No pipeline of the subspace can win, whatever its order: its devices would be busy for too long.
  [[nodiscard]] bool is_beaten(const Subspace& of, ScheduleKind schedule, const PlanIncumbent& incumbent);
  // What a candidate's stages may take alone before it is not expected to win; nullopt: anything.
  [[nodiscard]] std::optional<Seconds> to_beat(ScheduleKind schedule, const PlanIncumbent& incumbent) const;
  [[nodiscard]] double expected_share(ScheduleKind schedule, int chunks, const PlanIncumbent& incumbent) const;
  [[nodiscard]] Programs programs() const;
  [[nodiscard]] bool is_large() const;
  // What the tensors of large programs may have by what earlier ones held beside them: where the search begins with all
  // of the memory, most of what comes first turns out too large.
  [[nodiscard]] double whole_share() const;
  // For one stage table.
  [[nodiscard]] std::size_t most_lowered() const;

  SearchContext& context_;
  Point point_;
  PlanGraphs graphs_;
  std::vector<Subspace> subspaces_;
  double whole_;  // the share of the memory that is tried first
  // The latest tables, whatever their memory.
  using TableKey = std::tuple<const std::vector<bool>*, std::optional<int>, const CoarserCut*, StageSearch::Keep>;
  static TableKey key_of(const Subspace& of, StageSearch::Keep keep) { return {of.meshes, of.way, of.cut, keep}; }
  const StageTable& keep_table(const TableKey& key, StageTable table);
  std::map<TableKey, StageTable> tables_;
  // What least_busy_time says of a part of the stages.
  std::map<std::tuple<const std::vector<bool>*, std::optional<int>, const CoarserCut*>, std::optional<Seconds>> busy_;
  std::map<ScheduleKind, Candidates> candidates_;  // by `rank`
  struct Found {
    double memory_share;
    StageSearch::Keep keep;
    std::vector<TableStage> around;
    std::unique_ptr<const Candidates> candidates;
  };
  std::vector<Found> found_;  // by find_once, for the subspace and schedule that are being searched
  // What each candidate was: by schedule, chunks and stages.
  std::map<std::tuple<ScheduleKind, int, std::vector<TableStage>>, Progress> tried_;
  std::set<std::pair<ScheduleKind, std::optional<int>>> fitting_;  // of which a program fits, by Subspace::way
  std::map<std::pair<ScheduleKind, std::size_t>, std::vector<Seconds>> times_tried_;  // theirs, by number of stages
};

}  // namespace meshwright
