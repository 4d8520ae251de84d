// SPDX-License-Identifier: Apache-2.0
#include "core/planner/considered_plans.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

using Fate = ConsideredPlan::Fate;

// How far it was followed up: lower is further.
int order_of(const ConsideredPlan& plan) {
  switch (plan.fate) {
    case Fate::Fits:
      return 0;
    case Fate::MissesGoal:
      return 1;
    case Fate::Bound:
    case Fate::Twin:
    case Fate::Limit:
      return 2;
    case Fate::TooLarge:
      return 3;
    case Fate::RuledOut:
      return 4;
    case Fate::NoPlace:
    case Fate::Inexpressible:
      break;
  }
  return 5;
}

bool was_judged(const ConsideredPlan& plan) {
  return plan.fate != Fate::Bound && plan.fate != Fate::Twin && plan.fate != Fate::Limit;
}

std::string key_of(const ConsideredPlan& plan) {
  return fmt::format("{} {} {} {} {} {}", fmt::join(plan.layer_starts, ","), plan.microbatches, name_of(plan.schedule),
                     plan.chunks, plan.degrees, stages_text(plan));
}

double time_of(const ConsideredPlan& plan) {
  for (const auto& time : {plan.score, plan.simulated, plan.estimated})
    if (time) return time->si();
  return std::numeric_limits<double>::infinity();
}

}  // namespace

void ConsideredPlans::add(ConsideredPlan considered) {
  const auto [known, is_new] = known_.emplace(key_of(considered), plans_.size());
  if (is_new) {
    plans_.push_back(std::move(considered));
    judged_at_.push_back(count_++);
    return;
  }
  ConsideredPlan& before = plans_[known->second];
  if (!considered.estimated) considered.estimated = before.estimated;
  if (!before.estimated) before.estimated = considered.estimated;
  // One-stage methods solve the same stage for ever less memory: what fits, and of that the fastest, stays.
  const bool further = was_judged(considered) && !was_judged(before);
  const bool better = considered.fate == Fate::Fits && (before.fate != Fate::Fits || *considered.score < *before.score);
  if (!further && !better) return;
  before = std::move(considered);
  judged_at_[known->second] = count_++;
}

std::vector<const ConsideredPlan*> ConsideredPlans::ranked() const {
  std::vector<const ConsideredPlan*> order;
  for (const ConsideredPlan& plan : plans_) order.push_back(&plan);
  const ConsideredPlan* first = chosen();
  std::stable_sort(order.begin(), order.end(), [&](const ConsideredPlan* a, const ConsideredPlan* b) {
    return std::tuple(a != first, order_of(*a), time_of(*a)) < std::tuple(b != first, order_of(*b), time_of(*b));
  });
  return order;
}

const ConsideredPlan* ConsideredPlans::chosen() const {
  // A search keeps the first that it simulated of those that are equal.
  std::optional<std::size_t> best;
  const auto before = [&](std::size_t a, std::size_t b) {
    return std::pair(*plans_[a].score, judged_at_[a]) < std::pair(*plans_[b].score, judged_at_[b]);
  };
  for (std::size_t p = 0; p < plans_.size(); ++p)
    if (plans_[p].fate == Fate::Fits && (!best || before(p, *best))) best = p;
  return best ? &plans_[*best] : nullptr;
}

std::string stages_text(const ConsideredPlan& plan) {
  std::vector<std::string> parts;
  for (const ConsideredStage& stage : plan.stages) {
    const StagePlace& place = stage.name.place;
    parts.push_back(fmt::format(
        "{}..{} on {}x{}{} as {}{} #{}", place.first, place.last, place.submesh.hosts, place.submesh.devices_per_host,
        place.submesh.group == 0 ? "" : fmt::format("@{}", place.submesh.group), fmt::join(place.shape, "x"),
        place.batch_axis ? fmt::format(" batch on {}", *place.batch_axis) : "", stage.name.option));
  }
  return parts.empty() ? "any" : join(parts, "; ");
}

std::string reason_text(const ConsideredPlan& plan, const ConsideredPlan* chosen) {
  if (&plan == chosen) return "chosen";
  const auto with = [&](const std::string& text) { return plan.why.empty() ? text : text + ": " + plan.why; };
  switch (plan.fate) {
    case Fate::Fits:
      return *plan.score == *chosen->score ? "as fast as the chosen one, which came first"
                                           : "slower by " + human_seconds(*plan.score - *chosen->score);
    case Fate::TooLarge:
      return with("does not fit");
    case Fate::RuledOut:
      return "does not fit: one that keeps less does not";
    case Fate::NoPlace:
      return "no place for its submeshes side by side";
    case Fate::MissesGoal:
      return with("misses the goal");
    case Fate::Bound:
      return with("bound: not expected to beat the best plan found before");
    case Fate::Twin:
      return "twin: as fast by its stages as others with as many";
    case Fate::Limit:
      return "limit: enough better ones were simulated";
    case Fate::Inexpressible:
      return with("no plan expresses it");
  }
  throw InternalError("unknown fate of a plan");
}

}  // namespace meshwright
