// SPDX-License-Identifier: Apache-2.0
#include "core/planner/degrees/eased_degrees.h"

#include <optional>
#include <utility>

#include "core/base/errors.h"
#include "core/base/parallel.h"
#include "core/planner/degrees/degrees_plans.h"
#include "core/planner/search/plan_search.h"

namespace meshwright {

namespace {

std::optional<PlanOfGraph> ease(const PlanRequest& request, const Degrees& degrees, const CostModel& costs,
                                PlanEvaluator& evaluator) {
  PlanRequest of = request_of(request, degrees);
  of.search.method.exact = false;
  of.search.layer_cut = {};
  of.search.layers = degrees.stages();  // cut by their work: one for each stage
  of.stage_profile.keep = false;
  of.stop = request.stop;
  try {
    PlanningResult found = search_plans(of, costs, evaluator);
    if (!found.plan || found.log.interrupted) return std::nullopt;
    found.plan->method = request.search.method.text;
    return PlanOfGraph{*std::move(found.plan), std::make_shared<const Graph>(std::move(found.graph))};
  } catch (const InputError&) {
    return std::nullopt;  // such degrees are only for what the framework fixes
  }
}

}  // namespace

std::vector<PlanOfGraph> ease_degrees(const PlanRequest& request, const std::vector<Degrees>& degrees,
                                      const CostModel& costs, PlanEvaluator& evaluator) {
  std::vector<std::optional<PlanOfGraph>> eased(degrees.size());
  for_each_index(degrees.size(), request.threads,
                 [&](std::size_t i) { eased[i] = ease(request, degrees[i], costs, evaluator); });
  std::vector<PlanOfGraph> found;
  for (std::optional<PlanOfGraph>& plan : eased)
    if (plan) found.push_back(*std::move(plan));
  return found;
}

}  // namespace meshwright
