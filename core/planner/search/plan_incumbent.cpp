// SPDX-License-Identifier: Apache-2.0
#include "core/planner/search/plan_incumbent.h"

#include <algorithm>
#include <tuple>

#include "core/base/text.h"
#include "core/plan/ranks.h"

namespace meshwright {

void PlanIncumbent::apply(PlanProgram found, const Verdict& verdict) {
  switch (verdict.kind) {
    case Verdict::Kind::NoPlace:
      return;
    case Verdict::Kind::TooLarge:
      return note_excess(found.plan, verdict);
    case Verdict::Kind::MissesGoal:
      return note_miss(verdict);
    case Verdict::Kind::NotBetter:
    case Verdict::Kind::Better:
      break;
  }
  found.trial.reset();  // which holds its program
  take_peaks(found.plan, verdict.peaks);
  found.plan.predicted.step_time = verdict.step;
  found.plan.predicted.lower_bound = verdict.lower_bound;
  if (verdict.share) {
    // With several schedules to compare, a share above 1 tells one from another. Where plans are refined each has a few
    // programs, the first of which may fit badly.
    const bool tells = request_.any_schedule() && near_ == nullptr;
    const double share = tells ? *verdict.share : std::min(1.0, *verdict.share);
    MinShare& seen = min_shares_.try_emplace({found.plan.schedule, verdict.chunks}, MinShare{share, 0}).first->second;
    seen.share = std::min(seen.share, share);
    ++seen.programs;
  }
  // The front also takes plans that are slower than the best: they may use less memory or fewer devices.
  if (request_.goal.front) fitting_.push_back({found.plan, used_devices(found.plan)});
  if (near_ != nullptr) near_->add(found.plan, found.graph);
  if (!verdict.better()) return;
  score_ = verdict.score;
  best_ = std::move(found);
  // With a plan at hand, a plan that does not fit explains nothing.
  too_large_.reset();
}

PlanIncumbent PlanIncumbent::beside(NearPlans* near) const {
  PlanIncumbent other(request_, near_ != nullptr ? near : nullptr);
  if (best_) other.best_ = PlanProgram{best_->graph, best_->plan, nullptr};
  other.score_ = score_;
  other.reason_ = reason_;
  other.too_large_ = too_large_;
  other.min_shares_ = min_shares_;
  for (const auto& [of, seen] : min_shares_) other.programs_before_[of] = seen.programs;
  return other;
}

void PlanIncumbent::join(PlanIncumbent other, NearPlans near) {
  if (near_ != nullptr) near_->join(std::move(near));
  for (const auto& [of, theirs] : other.min_shares_) {
    MinShare& seen = min_shares_.try_emplace(of, MinShare{theirs.share, 0}).first->second;
    seen.share = std::min(seen.share, theirs.share);
    seen.programs += theirs.programs - other.programs_before_[of];
  }
  if (other.best_ && (!best_ || *other.score_ < *score_)) {
    best_ = std::move(other.best_);
    score_ = other.score_;
  }
  if (best_) {
    too_large_.reset();
    return;
  }
  const auto excess = [](const PlanningResult::TooLarge& of) { return of.needs - of.usable; };
  const bool explains = other.too_large_ ? !too_large_ || excess(*other.too_large_) < excess(*too_large_)
                                         : !too_large_ && !other.reason_.empty();
  if (!explains) return;
  too_large_ = other.too_large_;
  reason_ = std::move(other.reason_);
}

bool PlanIncumbent::would_explain(Bytes excess) const {
  return !best_ && (!too_large_ || excess < too_large_->needs - too_large_->usable);
}

void PlanIncumbent::note_excess(const Plan& plan, const Verdict& verdict) {
  if (!would_explain(verdict.excess)) return;
  too_large_ = verdict.worst;
  const Submesh& submesh = plan.stages[verdict.worst->stage].submesh;
  reason_ = fmt::format("stage {} of {} (layers {}..{} on {}x{}) {}", too_large_->stage, too_large_->stages,
                        too_large_->first_layer, too_large_->last_layer, submesh.hosts, submesh.devices_per_host,
                        too_large_->text());
}

void PlanIncumbent::note_miss(const Verdict& verdict) {
  // Both are over all misses, so the reason names the best value found so far.
  max_throughput_ = std::max(max_throughput_.value_or(verdict.throughput), verdict.throughput);
  min_latency_ = std::min(min_latency_.value_or(verdict.latency), verdict.latency);
  if (best_) return;
  reason_ = request_.goal.max_latency
                ? fmt::format("the minimum latency found is {}; allow at least that, or give more or faster devices",
                              human_seconds(*min_latency_))
                : fmt::format(
                      "the maximum throughput found is {:.6g} samples/s; ask for no more, or give more or faster "
                      "devices",
                      *max_throughput_);
}

std::optional<PlanIncumbent::MinShare> PlanIncumbent::min_share(ScheduleKind schedule, int chunks) const {
  const auto seen = min_shares_.find({schedule, chunks});
  return seen == min_shares_.end() ? std::nullopt : std::optional(seen->second);
}

PlanningResult PlanIncumbent::take_result() {
  PlanningResult result;
  result.reason = std::move(reason_);
  result.too_large = too_large_;
  result.sharding = sharding_;
  if (best_) {
    result.plan = std::move(best_->plan);
    result.lower_bound_within_layers = result.plan->predicted.lower_bound;
    // A copy: the point shares the graph with its other plans.
    result.graph = *best_->graph;
  }
  if (request_.goal.front) result.front = front_of(std::move(fitting_));
  return result;
}

std::vector<FrontPoint> front_of(std::vector<FrontPoint> points) {
  const auto no_worse = [](const FrontPoint& a, const FrontPoint& b) {
    return a.plan.predicted.step_time <= b.plan.predicted.step_time &&
           a.plan.predicted.peak_memory <= b.plan.predicted.peak_memory && a.devices <= b.devices;
  };
  // Sorted so, a point can be matched only by points before it. The sort is stable: the first of equal points stays.
  std::stable_sort(points.begin(), points.end(), [](const FrontPoint& a, const FrontPoint& b) {
    const auto key = [](const FrontPoint& of) {
      return std::tuple(of.plan.predicted.step_time, of.plan.predicted.peak_memory, of.devices);
    };
    return key(a) < key(b);
  });
  std::vector<FrontPoint> front;
  for (FrontPoint& point : points) {
    const bool beaten =
        std::any_of(front.begin(), front.end(), [&](const FrontPoint& other) { return no_worse(other, point); });
    if (!beaten) front.push_back(std::move(point));
  }
  return front;
}

}  // namespace meshwright
