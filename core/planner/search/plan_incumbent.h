// SPDX-License-Identifier: Apache-2.0
// The best plan of one search so far, and what earlier verdicts teach about later ones.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/planner/search/near_plans.h"
#include "core/planner/search/plan_program.h"

namespace meshwright {

class PlanIncumbent {
 public:
  // `near`: told of every plan that fits; nullptr: nobody asks.
  explicit PlanIncumbent(const PlanRequest& request, NearPlans* near = nullptr)
      : request_(request), near_(near), score_(request.to_beat) {}

  // The only place where a verdict has an effect: the best plan, the reason why there is none, the plans of the front.
  void apply(PlanProgram found, const Verdict& verdict);

  // nullptr: no plan fits so far.
  [[nodiscard]] const Plan* plan() const { return best_ ? &best_->plan : nullptr; }
  [[nodiscard]] const PlanProgram* best() const { return best_ ? &*best_ : nullptr; }
  // The goal's measure of the best plan, or what the request's has to beat while there is none; lower is better.
  [[nodiscard]] std::optional<Seconds> score() const { return score_; }
  // Plans that do not beat the best may do so once they are refined: the share of the best's score that counts as near.
  [[nodiscard]] double near_share() const { return near_ != nullptr ? kMinRefined : 1.0; }
  // A plan that lacks so many bytes is nearer to the memory than any before: the reason speaks of it.
  [[nodiscard]] bool would_explain(Bytes excess) const;
  // The minimum, over the whole programs of this schedule with this many stages on each rank, of the step as a share of
  // what the candidate's stages take alone; nullopt: there were none.
  struct MinShare {
    double share;
    std::int64_t programs;  // that it is the minimum of
  };
  [[nodiscard]] std::optional<MinShare> min_share(ScheduleKind schedule, int chunks) const;

  // Why no plan was found. A plan, also one that is too large, explains itself.
  void explain_unless_too_large(std::string reason) {
    if (!best_ && !too_large_) reason_ = std::move(reason);
  }
  // The same, unless there is a reason.
  void explain_if_unknown(const std::string& reason) {
    if (reason_.empty()) reason_ = reason;
  }
  // One-stage methods: the sharding of the best plan.
  void set_sharding(const PlanningResult::Sharding& sharding) { sharding_ = sharding; }
  // No sharding takes less than this: the bound of set_sharding may have been of some shardings only.
  void bound_sharding(Seconds bound) {
    if (sharding_) sharding_->bound = std::min(sharding_->bound, bound);
  }

  // One for a point that is searched beside others: it begins as this one. `near`: as the constructor's, its own.
  // REQUIRES: the goal is the time of a step, without a front.
  [[nodiscard]] PlanIncumbent beside(NearPlans* near) const;
  // What such a one and its `near` were told, as if it had been told here. REQUIRES: the stages are searched.
  void join(PlanIncumbent other, NearPlans near);

  // The plan and what belongs to it; the log is left out. REQUIRES: is called last.
  [[nodiscard]] PlanningResult take_result();

 private:
  void note_miss(const Verdict& verdict);
  void note_excess(const Plan& plan, const Verdict& verdict);

  const PlanRequest& request_;
  NearPlans* near_;
  std::optional<PlanProgram> best_;
  std::optional<Seconds> score_;
  std::string reason_;
  std::optional<PlanningResult::TooLarge> too_large_;
  std::optional<PlanningResult::Sharding> sharding_;
  std::map<std::pair<ScheduleKind, int>, MinShare> min_shares_;
  std::map<std::pair<ScheduleKind, int>, std::int64_t> programs_before_;  // of another, in min_shares_
  std::optional<double> max_throughput_;  // of the plans that miss the goal: samples per second
  std::optional<Seconds> min_latency_;    // of the plans that miss the goal
  std::vector<FrontPoint> fitting_;       // every plan that fits, if a front is asked for
};

// The points that no other point matches in step time, memory and devices at once, by step time.
[[nodiscard]] std::vector<FrontPoint> front_of(std::vector<FrontPoint> points);

}  // namespace meshwright
