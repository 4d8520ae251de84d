// SPDX-License-Identifier: Apache-2.0
// The points that a search has looked at, the best plan of them, and what they say of those that are left.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/planner/search/near_plans.h"
#include "core/planner/search/plan_incumbent.h"
#include "core/planner/search/point_search.h"

namespace meshwright {

// REQUIRES: request, costs and evaluator outlive it.
class SearchedPoints {
 public:
  SearchedPoints(const PlanRequest& request, const CostModel& costs, PlanEvaluator& evaluator, NearPlans* near);

  [[nodiscard]] const PlanRequest& request() const { return context_.request; }
  [[nodiscard]] SearchContext& context() { return context_; }
  [[nodiscard]] PlanIncumbent& incumbent() { return incumbent_; }
  [[nodiscard]] const PlanIncumbent& incumbent() const { return incumbent_; }
  // Predictions and bounds of points are for the first; where there are several, the others are ranked by simulations
  // of their stages alone, and searched where these promise more than the best plan.
  [[nodiscard]] const std::vector<ScheduleKind>& schedules() const { return schedules_; }
  // The one of the best plan. REQUIRES: there is one.
  [[nodiscard]] const SearchPoint& best() const { return best_; }
  // Points of which a program fits, better than others or not.
  [[nodiscard]] const std::vector<SearchPoint>& fitting() const { return fitting_; }
  [[nodiscard]] bool has(const SearchPoint& at) const;
  // The number of layers of the first point. REQUIRES: there was one.
  [[nodiscard]] int first_layers() const { return *first_layers_; }
  // A number of layers all of whose stages the best point looked at, too.
  [[nodiscard]] std::optional<int> covered() const { return covered_; }
  // Schedules whose pipelines came near the best at some point.
  [[nodiscard]] std::vector<ScheduleKind> near_schedules() const;

  // `to_beat`: as of prepare_point.
  [[nodiscard]] std::unique_ptr<PointSearch> prepare(const SearchPoint& at,
                                                     std::optional<Seconds> to_beat = std::nullopt);
  // Whether the point has a better plan.
  bool search(const SearchPoint& at) { return search(at, *prepare(at)); }
  bool search(const SearchPoint& at, PointSearch& of) { return search(at, of, schedules_); }
  bool search(const SearchPoint& at, PointSearch& of, const std::vector<ScheduleKind>& schedules);
  // At most kRound points, side by side where the request lets them be: each begins with the best plan of those before
  // the round. Whether one has a better plan. Cuts that were searched are left out, and the answer does not depend on
  // the number of threads.
  static constexpr std::size_t kRound = 8;
  bool search_round(const std::vector<SearchPoint>& points);
  // For the request's record: a point that is not searched.
  void note_ruled_out(std::vector<int> layer_starts, std::int64_t microbatches, Seconds estimated,
                      const char* why) const;

  // The answer. Throws InputError where stored stage costs were of no use. REQUIRES: is called last.
  [[nodiscard]] PlanningResult take_result();

 private:
  struct Looked {
    bool ruled_out = false, better = false;
  };
  struct Beside;
  // Looks for plans of the point that beat the incumbent.
  Looked look(SearchContext& context, PlanIncumbent& incumbent, PointSearch& of,
              const std::vector<ScheduleKind>& schedules) const;
  void note(const SearchPoint& at, const PointSearch& of, const std::vector<ScheduleKind>& schedules,
            const Looked& looked);
  [[nodiscard]] bool may_search_side_by_side() const;
  // Every plan of the cut, with its number of micro-batches, was looked at.
  [[nodiscard]] bool has_cut(const ModelCut& cut) const;
  void note_profile(const PointSearch& search);
  // No plan of the point can, or is expected to, beat the best.
  [[nodiscard]] bool is_ruled_out(const SearchContext& context, const PlanIncumbent& incumbent,
                                  const Point& point) const;
  [[nodiscard]] std::string how_it_stopped() const;

  SearchContext context_;
  PlanIncumbent incumbent_;
  std::vector<ScheduleKind> schedules_;
  std::optional<int> first_layers_, covered_;
  SearchPoint best_;
  std::vector<SearchPoint> searched_, fitting_;
  std::set<std::pair<std::vector<int>, std::int64_t>> cuts_;  // has_cut: starts of layers and micro-batches
  std::map<ScheduleKind, Seconds> promised_;  // where there are several: the least of all points, by stages alone
  std::optional<StageProfileTable> stage_profile_;
  bool profile_used_ = false;                  // the request's stage profile has entries for some point
  std::optional<StageProfileKey> unused_key_;  // of the last point that it has none for
};

// In the same order, each as large as one may be.
[[nodiscard]] std::vector<std::vector<SearchPoint>> rounds_of(const std::vector<SearchPoint>& points);

// Other methods give the stages.
[[nodiscard]] inline bool searches_stages(const PlanRequest& request) {
  return request.search.method.kind == Method::Kind::Pipeshard;
}

}  // namespace meshwright
