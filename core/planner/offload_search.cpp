// SPDX-License-Identifier: Apache-2.0
#include "core/planner/offload_search.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "core/planner/search/plan_incumbent.h"

namespace meshwright {

namespace {

// The fewest parts first.
std::vector<Offload> choices_of(const PlanRequest& request) {
  const Offload optimizer = Offload::Optimizer, activations = Offload::Activations, weights = Offload::Weights;
  if (request.search.launch_for != nullptr) return {Offload::None, optimizer};
  return {Offload::None,           optimizer,           activations,           weights,
          optimizer | activations, optimizer | weights, activations | weights, optimizer | activations | weights};
}

bool lacks_less(const PlanningResult& a, const PlanningResult& b) {
  return a.too_large && b.too_large &&
         a.too_large->needs / a.too_large->usable < b.too_large->needs / b.too_large->usable;
}

bool is_better(const PlanningResult& a, const PlanningResult& b) {
  if (a.plan && b.plan) return a.plan->predicted.step_time < b.plan->predicted.step_time;
  return a.plan || (!b.plan && lacks_less(a, b));
}

}  // namespace

PlanningResult search_offload(const PlanRequest& request, const OffloadPlanner& planner) {
  std::optional<PlanningResult> best;
  std::optional<Seconds> bound;
  std::vector<FrontPoint> front;
  SearchLog log;
  for (const Offload choice : choices_of(request)) {
    if (best && request.stop && request.stop()) log.interrupted = true;
    if (best && log.interrupted) break;
    PlanRequest own = request;
    own.search.any_offload = false;
    own.training.offload = choice;
    PlanningResult found = planner(own);
    log.add(found.log);
    std::move(found.front.begin(), found.front.end(), std::back_inserter(front));
    if (found.plan)
      bound = std::min(bound.value_or(found.plan->predicted.lower_bound), found.plan->predicted.lower_bound);
    if (!best || is_better(found, *best)) best = std::move(found);
  }
  if (best->plan) best->plan->predicted.lower_bound = *bound;
  log.how = best->log.how;
  best->log = std::move(log);
  if (request.goal.front) best->front = front_of(std::move(front));
  return *std::move(best);
}

}  // namespace meshwright
