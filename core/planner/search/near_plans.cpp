// SPDX-License-Identifier: Apache-2.0
#include "core/planner/search/near_plans.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/text.h"
#include "core/planner/search/known_trials.h"

namespace meshwright {

namespace {

// What a narrower request may have fixed. Only a request that leaves the recomputation open has mixtures, so all of
// them are one choice.
std::string choice_of(const Plan& plan) {
  const TrainingOptions& training = plan.training;
  return fmt::format("{} {} {} {}", training.recompute_ranges.empty() ? name_of(training.recompute) : "mixed",
                     training.microbatches, name_of(same_order(plan.schedule, plan.stages.size())),
                     fmt::join(plan.layer_starts, ","));
}

// Everything but the sharding of stages, and what follows from it.
std::string outline_of(const Plan& plan) {
  std::string key = plan.graph_fingerprint + " " + choice_of(plan);
  for (const StagePlan& stage : plan.stages)
    key += fmt::format(" {} {} {} {}", stage.first_layer, to_text(stage.submesh), fmt::join(stage.logical_shape, "x"),
                       fmt::join(stage.devices, ","));
  return key;
}

}  // namespace

void NearPlans::add(const Plan& plan, const std::shared_ptr<const Graph>& graph) {
  const std::string choice = choice_of(plan);
  ++programs_[choice];
  const auto [known, is_new] = known_.try_emplace(outline_of(plan), Known{{plan, graph}, choice, known_.size()});
  if (!is_new && plan.predicted.step_time < known->second.made.plan.predicted.step_time)
    known->second.made = {plan, graph};
}

void NearPlans::join(NearPlans others) {
  for (const auto& [choice, programs] : others.programs_) programs_[choice] += programs;
  std::vector<std::pair<const std::string, Known>*> order;
  for (auto& of : others.known_) order.push_back(&of);
  std::sort(order.begin(), order.end(),
            [](const auto* a, const auto* b) { return a->second.number < b->second.number; });
  for (auto* of : order) {
    auto& [key, theirs] = *of;
    theirs.number = known_.size();
    const auto known = known_.find(key);
    if (known == known_.end())
      known_.emplace(key, std::move(theirs));
    else if (theirs.made.plan.predicted.step_time < known->second.made.plan.predicted.step_time)
      known->second.made = std::move(theirs.made);
  }
}

std::vector<NearPlans::Near> NearPlans::fastest(const Limit& all, const Limit& choices,
                                                const std::function<bool(const Plan&)>& suits) const {
  const auto step = [](const Known* of) { return of->made.plan.predicted.step_time; };
  std::vector<const Known*> order;
  for (const auto& [key, known] : known_)
    if (!suits || suits(known.made.plan)) order.push_back(&known);
  std::sort(order.begin(), order.end(), [&](const Known* a, const Known* b) {
    return std::pair(step(a), a->number) < std::pair(step(b), b->number);
  });
  std::vector<Near> found;
  std::set<std::string> seen;  // choices
  std::size_t of_all = 0;
  for (const Known* of : order) {
    const auto within = [&](const Limit& limit, std::size_t before) {
      return before < limit.most && step(of) <= limit.factor * step(order.front());
    };
    const bool is_near = within(all, of_all);
    const bool is_fastest = seen.insert(of->choice).second && within(choices, seen.size() - 1);
    if (!is_near && !is_fastest) continue;
    of_all += is_near ? 1 : 0;
    found.push_back({of->made, programs_.at(of->choice), is_fastest});
  }
  return found;
}

}  // namespace meshwright
