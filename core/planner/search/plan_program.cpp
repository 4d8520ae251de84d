// SPDX-License-Identifier: Apache-2.0
#include "core/planner/search/plan_program.h"

#include <algorithm>
#include <utility>

#include "core/base/errors.h"
#include "core/plan/boundaries.h"
#include "core/plan/ranks.h"
#include "core/planner/search/plan_incumbent.h"

namespace meshwright {

namespace {

// nullopt: no place for its stages.
std::optional<Plan> make_plan_of(const PlanRequest& request, const Point& point, const TablePipeline& pipeline,
                                 ScheduleKind schedule) {
  const ModelCut& cut = *point.cut;
  const StageSearch& search = *point.spans.search;
  Plan plan;
  plan.model = request.model;
  plan.training = cut.training;
  plan.cluster = request.cluster;
  plan.method = request.search.method.text;
  plan.software = request.software;
  plan.conditions = request.conditions;
  plan.schedule = schedule;
  plan.layer_starts = cut.layer_starts();
  const auto placed = point.spans.ranking->place(pipeline, schedule, cut.training.microbatches);
  if (!placed) return std::nullopt;
  std::vector<Recompute> recompute;  // [layer]
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const TableStage& stage = pipeline.stages[s];
    const StageChoice choice = search.choice(stage.slice, stage.config);
    plan.stages.push_back(search.spans(choice).plan(stage.first, stage.last, choice.option));
    plan.stages.back().devices = (*placed)[s];
    if (s >= pipeline.stages.size() / static_cast<std::size_t>(traits_of(schedule).copies)) continue;
    // Stages come in the order of their layers, so the concatenation is indexed by layer.
    const auto own = search.spans(choice).recompute(stage.first, stage.last, choice.option);
    recompute.insert(recompute.end(), own.begin(), own.end());
  }
  // Without variants the training options have the recomputation of all layers already.
  if (!point.structure->variants.empty()) set_recompute(plan.training, cut.layers, *cut.graph, recompute);
  return plan;
}

// What the plan's own software keeps, as the excess of the stage that holds the most. nullopt: it fits.
std::optional<PlanningResult::TooLarge> software_excess(const Plan& plan, const PlanEvaluator::SoftwareMemory& memory) {
  if (memory.needs <= memory.usable) return std::nullopt;
  const auto fullest = std::max_element(plan.stages.begin(), plan.stages.end(),
                                        [](const auto& a, const auto& b) { return a.peak_memory < b.peak_memory; });
  PlanningResult::TooLarge excess{static_cast<int>(fullest - plan.stages.begin()),
                                  static_cast<int>(plan.stages.size()),
                                  fullest->first_layer,
                                  fullest->last_layer,
                                  memory.needs,
                                  memory.usable};
  excess.likely = true;
  return excess;
}

Bytes usable_memory_of(const Plan& plan, const StagePlan& stage) {
  return plan.cluster.group(stage.submesh.group).usable_memory();
}

// [stage] what has to fit into the usable memory of its fullest device, with the `peaks` of a step under conditions, if
// any.
std::vector<Bytes> stage_needs(const Plan& plan, const PlanTrial& trial, const std::vector<Bytes>& peaks) {
  std::vector<Bytes> needs;
  for (const StagePlan& stage : plan.stages) needs.push_back(stage.peak_memory);
  for (std::size_t s = 0; s < peaks.size(); ++s) needs[s] = std::max(needs[s], peaks[s]);
  for (std::size_t s = 0; s < needs.size(); ++s) needs[s] += trial.beside_of(s);
  return needs;
}

// `needs` [stage]. nullopt: every stage fits.
std::optional<PlanningResult::TooLarge> largest_excess(const Plan& plan, const PlanTrial& trial,
                                                       const std::vector<Bytes>& needs) {
  std::optional<PlanningResult::TooLarge> worst;
  for (std::size_t s = 0; s < needs.size(); ++s) {
    const StagePlan& stage = plan.stages[s];
    const Bytes usable = usable_memory_of(plan, stage);
    if (worst && needs[s] - usable <= worst->needs - worst->usable) continue;
    worst = {
        static_cast<int>(s), static_cast<int>(needs.size()), stage.first_layer, stage.last_layer, needs[s], usable};
    worst->beside = trial.beside_of(s);
  }
  return worst->needs <= worst->usable ? std::nullopt : worst;
}

// What largest_excess is for the memory of the hosts; nullopt also where no optimizer state lies there.
std::optional<PlanningResult::TooLarge> host_excess(const Plan& plan, const std::vector<Bytes>& on_host) {
  std::optional<PlanningResult::TooLarge> worst;
  for (std::size_t s = 0; s < on_host.size(); ++s) {
    const StagePlan& stage = plan.stages[s];
    const Bytes needs = on_host[s], room = plan.cluster.group(stage.submesh.group).device.host_memory;
    if (needs <= room || (worst && needs - room <= worst->needs - worst->usable)) continue;
    worst = {
        static_cast<int>(s), static_cast<int>(plan.stages.size()), stage.first_layer, stage.last_layer, needs, room};
    worst->of_host = true;
  }
  return worst;
}

// On trial without what it knew of its memory.
PlanProgram on_trial_anew(Plan plan, const std::shared_ptr<const Graph>& graph, const PlanEvaluator& evaluator) {
  for (StagePlan& stage : plan.stages) stage.peak_memory = Bytes(0.0);
  plan.predicted.peak_memory = Bytes(0.0);
  return on_trial(std::move(plan), graph, evaluator);
}

// The plan gets the step of its program, and the memory of that.
void take_step(PlanProgram& program) {
  const StepOutcome outcome = program.trial->step();
  take_peaks(program.plan, outcome.peaks);
  program.plan.predicted.step_time = outcome.step;
}

}  // namespace

const PlanGraphs::GraphOfPlan& PlanGraphs::of(const TrainingOptions& training) {
  // The graphs of a point's plans differ by recomputation alone, so that is the key.
  std::string key = name_of(training.recompute);
  for (const RecomputeRange& range : training.recompute_ranges)
    key += fmt::format(" {}-{} {}", range.first, range.last, name_of(range.recompute));
  GraphOfPlan& found = graphs_[key];
  if (found.graph) return found;
  const TrainingOptions& own = point_.cut->training;
  if (training.recompute == own.recompute && training.recompute_ranges == own.recompute_ranges) {
    found = {point_.cut->graph, point_.cut->fingerprint};
    return found;
  }
  for (const auto& [recompute, graph] : point_.cut->graphs->variants)
    if (training.recompute == recompute && training.recompute_ranges == own.recompute_ranges) found.graph = graph;
  if (!found.graph)
    found.graph = std::make_shared<const Graph>(build_step_graph(request_.model, training, request_.first_schedule()));
  found.fingerprint = fingerprint_of(*found.graph);
  return found;
}

std::optional<Plan> plan_of_pipeline(const PlanRequest& request, const Point& point, PlanGraphs& graphs,
                                     const TablePipeline& pipeline, ScheduleKind schedule) {
  std::optional<Plan> plan = make_plan_of(request, point, pipeline, schedule);
  if (!plan) return std::nullopt;
  const PlanGraphs::GraphOfPlan& of_plan = graphs.of(plan->training);
  plan->graph_fingerprint = of_plan.fingerprint;
  // What is left open is chosen for the plan found (make_plan).
  if (const auto* form = std::get_if<CrossMesh>(&request.search.cross_mesh))
    set_cross_mesh(*plan, *of_plan.graph, *form);
  return plan;
}

namespace {

PlanProgram with_trial(PlanProgram program) {
  take_peaks(program.plan, program.trial->peaks);
  return program;
}

// The search asks for memory as this program's executor counts it.
Bytes as_counted_here(const PlanEvaluator::SoftwareMemory& memory, const PlanRequest& request) {
  return memory.needs / memory.usable * request.cluster.usable_memory();
}

// What a software keeps of a plan does not depend on its program.
std::optional<Verdict> too_large_for_software(const SearchContext& context, const Plan& plan, const Graph& graph,
                                              const PlanIncumbent& incumbent) {
  if (!context.request.search.prune) return std::nullopt;
  const auto memory = context.evaluator.software_memory(plan, graph);
  if (!memory || memory->needs <= memory->usable || incumbent.would_explain(memory->needs - memory->usable))
    return std::nullopt;
  Verdict verdict;
  verdict.kind = Verdict::Kind::TooLarge;
  verdict.peak = as_counted_here(*memory, context.request);
  verdict.software = memory;
  verdict.to_beat = incumbent.score();
  verdict.excess = memory->needs - memory->usable;
  return verdict;
}

}  // namespace

LoweredPipeline lower_pipeline(SearchContext& context, const Point& point, PlanGraphs& graphs,
                               const TablePipeline& pipeline, ScheduleKind schedule, const PlanIncumbent& incumbent) {
  std::optional<Plan> plan = plan_of_pipeline(context.request, point, graphs, pipeline, schedule);
  if (!plan) return {};
  const PlanGraphs::GraphOfPlan& of_plan = graphs.of(plan->training);
  // The user's input was checked before. What is wrong from here on is the planner's mistake, not an InputError.
  const std::vector<std::string> wrong = check_plan(*plan, *of_plan.graph, of_plan.fingerprint);
  MW_CHECK(wrong.empty(), "the planner made a bad plan: {}", wrong.front());
  if (auto too_large = too_large_for_software(context, *plan, *of_plan.graph, incumbent)) return {{}, *too_large};
  if (!context.request.search.prune) return {on_trial(*std::move(plan), of_plan.graph, context.evaluator), {}};
  auto trial = context.trials->trial({*plan, of_plan.graph}, context.evaluator, context.simulated);
  return {with_trial({of_plan.graph, *std::move(plan), std::move(trial)}), {}};
}

PlanProgram on_trial(Plan plan, std::shared_ptr<const Graph> graph, const PlanEvaluator& evaluator) {
  auto trial = evaluator.trial({plan, graph});
  return with_trial({std::move(graph), std::move(plan), std::move(trial)});
}

Seconds latency_of(const Plan& plan, const std::shared_ptr<const Graph>& graph, const PlanEvaluator& evaluator) {
  // The micro-batch keeps its size, so the stages compute the same shapes as in the plan.
  Plan alone = plan;
  alone.training.batch /= alone.training.microbatches;
  alone.training.microbatches = 1;
  return evaluator.trial({std::move(alone), graph})->step().step;
}

void take_peaks(Plan& plan, const std::vector<Bytes>& peaks) {
  Bytes& largest = plan.predicted.peak_memory;
  for (std::size_t s = 0; s < peaks.size(); ++s) {
    Bytes& peak = plan.stages[s].peak_memory;
    peak = std::max(peak, peaks[s]);
    largest = std::max(largest, peak);
  }
}

bool fits_devices(const Plan& plan, const PlanTrial& trial) {
  return !largest_excess(plan, trial, stage_needs(plan, trial, {}));
}

Plan with_step_and_memory(Plan plan, const std::shared_ptr<const Graph>& graph, const PlanEvaluator& evaluator) {
  PlanProgram program = on_trial_anew(std::move(plan), graph, evaluator);
  take_step(program);
  return std::move(program.plan);
}

std::optional<Plan> with_step_if_it_fits(Plan plan, const std::shared_ptr<const Graph>& graph,
                                         const PlanEvaluator& evaluator) {
  const auto memory = evaluator.software_memory(plan, *graph);
  if (memory && memory->needs > memory->usable) return std::nullopt;
  PlanProgram program = on_trial_anew(std::move(plan), graph, evaluator);
  const auto fits = [&] { return memory || fits_devices(program.plan, *program.trial); };
  // The memory comes first: a program that does not fit need not be simulated.
  if (!fits() || host_excess(program.plan, program.trial->on_host)) return std::nullopt;
  take_step(program);
  return fits() ? std::optional(std::move(program.plan)) : std::nullopt;
}

Verdict judge(const SearchContext& context, const PlanProgram& found, const PointBounds& bounds,
              const Candidate* candidate, const PlanIncumbent& incumbent) {
  const Goal& goal = context.request.goal;
  Verdict verdict;
  verdict.to_beat = incumbent.score();
  const auto memory = context.evaluator.software_memory(found.plan, *found.graph);
  std::vector<Bytes> needs = stage_needs(found.plan, *found.trial, {});
  verdict.peak = memory ? as_counted_here(*memory, context.request) : std::ranges::max(needs);
  // The memory comes first: a program that does not fit need not be simulated.
  verdict.worst = memory ? software_excess(found.plan, *memory) : largest_excess(found.plan, *found.trial, needs);
  if (!verdict.worst) verdict.worst = host_excess(found.plan, found.trial->on_host);
  if (verdict.worst) {
    verdict.kind = Verdict::Kind::TooLarge;
    verdict.excess = verdict.worst->needs - verdict.worst->usable;
    // Simulated as if it fitted, only where the answer may speak of it.
    if (incumbent.would_explain(verdict.excess)) verdict.worst->step_time = found.trial->step().step;
    return verdict;
  }
  StepOutcome outcome = found.trial->step();
  verdict.step = outcome.step;
  verdict.peaks = std::move(outcome.peaks);
  needs = stage_needs(found.plan, *found.trial, verdict.peaks);
  if (!memory && !verdict.peaks.empty()) {
    verdict.peak = std::ranges::max(needs);
    if ((verdict.worst = largest_excess(found.plan, *found.trial, needs))) {
      verdict.kind = Verdict::Kind::TooLarge;
      verdict.excess = verdict.worst->needs - verdict.worst->usable;
      verdict.worst->step_time = verdict.step;
      return verdict;
    }
  }
  for (std::size_t s = 0; s < needs.size(); ++s)
    verdict.fullest = std::max(verdict.fullest, needs[s] / usable_memory_of(found.plan, found.plan.stages[s]));
  // The simulation uses modelled costs, so the bound from modelled costs belongs to it.
  verdict.lower_bound = std::min(verdict.step, bounds.modelled);
  verdict.score = verdict.step;
  if (goal.objective != Goal::Objective::StepTime) {
    verdict.latency = latency_of(found.plan, found.graph, context.evaluator);
    verdict.throughput = static_cast<double>(found.plan.training.batch) / verdict.step.si();
    if ((goal.min_throughput && verdict.throughput < *goal.min_throughput) ||
        (goal.max_latency && verdict.latency > *goal.max_latency)) {
      verdict.kind = Verdict::Kind::MissesGoal;
      return verdict;
    }
    if (goal.objective == Goal::Objective::Latency) verdict.score = verdict.latency;
  }
  if (candidate) {
    // Stored stage costs change the time of the stages alone by the factor `known`. The whole program is assumed to
    // change by the same factor.
    verdict.score = candidate->known * verdict.score;
    const Seconds alone = goal.objective == Goal::Objective::Latency ? candidate->alone : candidate->step;
    verdict.share = verdict.score / alone;
    verdict.chunks = candidate->pipeline.chunks;
  }
  const bool beats = !verdict.to_beat || verdict.score < *verdict.to_beat;
  verdict.kind = beats ? Verdict::Kind::Better : Verdict::Kind::NotBetter;
  return verdict;
}

std::string summary_of(const LoweredPipeline& lowered) {
  if (lowered.too_large) return "not lowered: " + summary_of(*lowered.too_large);
  if (!lowered.program) return "no place for its stages";
  const Plan& plan = lowered.program->plan;
  const std::size_t stages = plan.stages.size();
  const int devices = used_devices(plan);
  return fmt::format("{} stage{} on {} device{}, peak memory {}", stages, stages == 1 ? "" : "s", devices,
                     devices == 1 ? "" : "s", human_bytes(plan.predicted.peak_memory));
}

std::string summary_of(const Verdict& verdict) {
  switch (verdict.kind) {
    case Verdict::Kind::Better:
      return verdict.to_beat
                 ? fmt::format("{}, better than {}", human_seconds(verdict.score), human_seconds(*verdict.to_beat))
                 : fmt::format("{}, the first that fits", human_seconds(verdict.score));
    case Verdict::Kind::NotBetter:
      return fmt::format("{}, not better than {}", human_seconds(verdict.score), human_seconds(*verdict.to_beat));
    case Verdict::Kind::TooLarge:
      return fmt::format("too large by {}", human_bytes(verdict.excess));
    case Verdict::Kind::MissesGoal:
      return fmt::format("misses the goal: latency {}, {:.6g} samples/s", human_seconds(verdict.latency),
                         verdict.throughput);
    case Verdict::Kind::NoPlace:
      break;
  }
  return "no place for its stages";
}

}  // namespace meshwright
