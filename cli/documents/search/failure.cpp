// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/search/failure.h"

#include "cli/documents/figures/gpu_memory.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "core/planner/ways_out.h"
#include "simulator/what_if/evaluator.h"

namespace meshwright {

std::string explain_failure(const PlanRequest& request, const PlanningResult& failed, const Costs& costs) {
  WaysOutLimits limits;
  limits.stop = request.stop;
  const StepRequest conditions = conditions_of(conditions_from_plan(request.conditions));
  const CostContextOf cost_context_of = [&](const Cluster& cluster) {
    CostContext pricing{costs.software ? make_physical_cost_model(cluster, *costs.software, costs.kernels.get())
                        : costs.db     ? make_profiled_cost_model(cluster, *costs.db, costs.profile_as)
                                       : make_analytic_cost_model(cluster),
                        nullptr};
    pricing.evaluator = std::make_unique<SimulatedEvaluator>(
        *pricing.costs, costs.software ? &*costs.software : nullptr, conditions, memory_beside_tensors);
    return pricing;
  };
  Progress progress;
  PlanRequest shown = request;
  shown.progress = [&](const std::string& text) { progress("no plan fits; trying " + text); };
  return sentence(failed, find_ways_out(shown, failed, cost_context_of, limits));
}

}  // namespace meshwright
