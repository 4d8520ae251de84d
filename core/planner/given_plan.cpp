// SPDX-License-Identifier: Apache-2.0
#include "core/planner/given_plan.h"

#include "core/base/errors.h"
#include "core/planner/search/plan_program.h"

namespace meshwright {

namespace {

// Nothing is compared, so nothing is evaluated.
class NoEvaluator final : public PlanEvaluator {
 public:
  Seconds step_time(ScheduleKind /*schedule*/, int /*microbatches*/, const PipelineTimes& /*times*/,
                    int /*chunks*/) override {
    return unexpected();
  }
  std::unique_ptr<PlanTrial> trial(const PlanOfGraph& /*made*/) const override { unexpected(); }

 private:
  [[noreturn]] static Seconds unexpected() { throw InternalError("a given plan was to be evaluated"); }
};

}  // namespace

PlanOfGraph given_plan(const PlanRequest& request, const CostModel& costs) {
  const auto* microbatches = std::get_if<std::int64_t>(&request.search.microbatches);
  require(microbatches != nullptr && !request.any_schedule() && !request.any_recompute(),
          "a given plan needs the number of micro-batches, the schedule and the recomputation; none may be auto.");
  NoEvaluator evaluator;
  SearchContext context(request, costs, evaluator);
  SearchPoint at{.layers = std::nullopt, .layer_cut = request.search.layer_cut, .microbatches = *microbatches};
  if (const auto* given = std::get_if<int>(&request.search.layers)) at.layers = *given;
  const Point point = prepare_given_point(context, given_model(context, at));
  PlanGraphs graphs(request, point);
  const TablePipeline pipeline = given_pipeline(request, point);
  auto plan = plan_of_pipeline(request, point, graphs, pipeline, request.first_schedule());
  require(plan.has_value(), "the stages' submeshes have no place side by side on the {} hosts of {}.",
          request.cluster.hosts(), request.cluster.name);
  std::shared_ptr<const Graph> graph = graphs.of(plan->training).graph;
  return {*std::move(plan), std::move(graph)};
}

}  // namespace meshwright
