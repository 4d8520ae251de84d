// SPDX-License-Identifier: Apache-2.0
#include "core/planner/search/near_plans.h"

#include <algorithm>
#include <utility>

#include "core/base/text.h"
#include "core/planner/search/known_trials.h"

namespace meshwright {

namespace {

// Everything but the sharding of stages, and what follows from it.
std::string outline_of(const Plan& plan) {
  std::string key = fmt::format("{} {} {}", plan.graph_fingerprint, plan.training.microbatches,
                                name_of(same_order(plan.schedule, plan.stages.size())));
  for (const StagePlan& stage : plan.stages)
    key += fmt::format(" {} {} {} {}", plan.layer_starts[static_cast<std::size_t>(stage.first_layer)],
                       to_text(stage.submesh), fmt::join(stage.logical_shape, "x"), fmt::join(stage.devices, ","));
  return key;
}

}  // namespace

void NearPlans::add(const Plan& plan, const std::shared_ptr<const Graph>& graph) {
  const auto [known, is_new] = known_.try_emplace(outline_of(plan), Known{{plan, graph}, known_.size()});
  if (!is_new && plan.predicted.step_time < known->second.made.plan.predicted.step_time)
    known->second.made = {plan, graph};
}

std::vector<PlanOfGraph> NearPlans::fastest(std::size_t most, double factor) const {
  const auto step = [](const Known* of) { return of->made.plan.predicted.step_time; };
  std::vector<const Known*> order;
  for (const auto& [key, known] : known_) order.push_back(&known);
  std::sort(order.begin(), order.end(), [&](const Known* a, const Known* b) {
    return std::pair(step(a), a->number) < std::pair(step(b), b->number);
  });
  std::vector<PlanOfGraph> found;
  for (const Known* of : order) {
    if (found.size() == most || step(of) > factor * step(order.front())) break;
    found.push_back(of->made);
  }
  return found;
}

}  // namespace meshwright
