// SPDX-License-Identifier: Apache-2.0
#include "core/planner/degrees/degrees_plans.h"

#include <algorithm>
#include <utility>

#include "core/base/errors.h"
#include "core/base/parallel.h"

namespace meshwright {

GivenModel DegreesPlans::build_graph(const Degrees& degrees, KnownGraphs& graphs) const {
  // The graph serves all degrees of its key; what some cannot do is found where they are planned.
  Degrees plain = degrees;
  plain.dp = degrees.dp * degrees.tp * degrees.cp;
  plain.tp = plain.cp = plain.ep = 1;
  plain.context = ContextExchange::AllGather;
  plain.whole_experts = plain.folded_experts = plain.sequence_parallel = false;
  const PlanRequest of = request_of(request_, plain);
  SearchContext context(of, costs_, evaluator_);
  std::swap(context.graphs, graphs);
  GivenModel model = given_model(
      context, {.layers = std::nullopt, .layer_cut = of.search.layer_cut, .microbatches = degrees.micro_batches});
  std::swap(context.graphs, graphs);
  return model;
}

void DegreesPlans::build_graphs(const std::vector<Degrees>& all) {
  std::map<GraphKey, const Degrees*> wanted;
  for (const Degrees& degrees : all)
    if (!graphs_.contains(graph_key(degrees))) wanted.emplace(graph_key(degrees), &degrees);
  struct Made {
    GraphKey key;
    const Degrees* degrees;
    std::optional<GivenModel> model = {};
  };
  // Cuts of one graph follow one another.
  std::vector<std::vector<Made>> list;
  std::vector<KnownGraphs*> uncut;
  for (const auto& [key, degrees] : wanted) {
    const GraphKey* last = list.empty() ? nullptr : &list.back().front().key;
    if (last == nullptr || last->micro_batches != key.micro_batches || last->recompute != key.recompute ||
        last->modules != key.modules) {
      list.emplace_back();
      uncut.push_back(&uncut_[{key.micro_batches, key.recompute, key.modules}]);
    }
    list.back().push_back({key, degrees});
  }
  for_each_index(list.size(), request_.threads, [&](std::size_t i) {
    for (Made& made : list[i])
      if (!request_.stop || !request_.stop()) made.model = build_graph(*made.degrees, *uncut[i]);
  });
  for (std::vector<Made>& of_graph : list)
    for (Made& made : of_graph)
      if (made.model) graphs_.emplace(made.key, *std::move(made.model));
}

const Graph& DegreesPlans::graph_of(const Degrees& degrees) {
  auto known = graphs_.find(graph_key(degrees));
  if (known == graphs_.end()) {
    KnownGraphs& uncut = uncut_[{degrees.micro_batches, degrees.recompute, degrees.recompute_modules}];
    known = graphs_.emplace(graph_key(degrees), build_graph(degrees, uncut)).first;
  }
  return *known->second.cut->graph;
}

std::optional<Work> DegreesPlans::work_of(Degrees degrees) const {
  // Without ZeRO nothing is gathered, and the bytes on a device are those of any number of replicas.
  degrees.zero = 0;
  const PlanRequest of = request_of(request_, degrees);
  // Under conditions that hide communication only computing is sure to take time.
  SearchContext context(of, hides_ ? computing_ : costs_, evaluator_);
  context.eliminations = eliminations_;
  try {
    const Point point = point_of(context, degrees);
    const TablePipeline pipeline = given_pipeline(of, point);
    const StageSearch& search = *point.spans.search;
    std::vector<StepCost> layers;
    for (const TableStage& stage : pipeline.stages) {
      const StageChoice choice = search.choice(stage.slice, stage.config);
      StepCost before;  // of the stage's layers so far
      for (int layer = stage.first; layer <= stage.last; ++layer) {
        const StepCost& cost = search.cost(stage.first, layer, choice);
        StepCost& own = layers.emplace_back();
        own.forward = cost.forward - before.forward;
        own.backward = cost.backward - before.backward;
        own.resident = cost.resident - before.resident;
        own.saved = cost.saved - before.saved;
        before = cost;
      }
    }
    return work_of_layers(std::move(layers), shape_.blocks, shape_.further);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

PlanOfDegrees DegreesPlans::plan_of(const Degrees& degrees) const {
  PlanOfDegrees planned;
  const PlanRequest of = request_of(request_, degrees);
  SearchContext context(of, costs_, evaluator_);
  context.eliminations = eliminations_;
  try {
    const Point point = point_of(context, degrees);
    PlanGraphs graphs(of, point);
    const TablePipeline pipeline = given_pipeline(of, point);
    if (request_.record != nullptr) planned.stages = considered_stages(point, pipeline);
    auto plan = plan_of_pipeline(of, point, graphs, pipeline, degrees.schedule);
    require(plan.has_value(), "the stages have no place side by side");
    std::shared_ptr<const Graph> graph = graphs.of(plan->training).graph;
    // What ZeRO gathers and scatters in several passes a program may move at once.
    if (!hides_ && degrees.zero <= 1) planned.floor = bound_of_stages(*plan, degrees);
    if (times_stages_ || planned.floor == Seconds(0.0)) {
      const CandidateRequest wanted = candidate_request(context, point, degrees.schedule);
      if (const auto candidate = point.spans.ranking->simulate(pipeline, wanted)) planned.alone = candidate->step;
    }
    planned.needs = least_memory(degrees, *point.spans.search, pipeline);
    planned.usable = request_.cluster.usable_memory();
    planned.plan = PlanOfGraph{*std::move(plan), std::move(graph)};
  } catch (const InputError& error) {
    planned.wrong = error.what();
    return planned;
  }
  // Exactly where the software says how it counts it; otherwise simulating does.
  if (const auto memory = evaluator_.software_memory(planned.plan->plan, *planned.plan->graph)) {
    planned.needs = memory->needs;
    planned.usable = memory->usable;
    planned.counted = true;
  }
  return planned;
}

void DegreesPlans::judge(PlanOfDegrees& planned) const {
  const PlanOutcome outcome = evaluator_.outcome(*planned.plan);
  if (!planned.counted) planned.needs = outcome.peak;
  if (planned.needs <= planned.usable) planned.step = outcome.step;
}

PlanRequest request_of(const PlanRequest& request, const Degrees& degrees) {
  PlanRequest of = request;
  SearchOptions& search = of.search;
  search.launch_for = nullptr;
  search.method = method_from_text(method_text(degrees));
  search.microbatches = degrees.micro_batches;
  search.schedule = degrees.schedule;
  search.chunks = std::max(2, degrees.chunks);
  search.recompute = degrees.recompute;
  search.recompute_modules = degrees.recompute_modules;
  search.layers = ModelDefault{};
  search.layer_cut = {};
  search.layer_cut.cut = cut_of(degrees, shape_of(request.model).blocks);
  of.goal = {};
  of.threads = 1;
  of.progress = {};
  of.steps = nullptr;
  of.record = nullptr;
  of.stop = {};
  return of;
}

}  // namespace meshwright
