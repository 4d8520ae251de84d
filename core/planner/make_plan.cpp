// SPDX-License-Identifier: Apache-2.0
#include "core/planner/make_plan.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <utility>

#include "core/base/errors.h"
#include "core/base/parallel.h"
#include "core/base/text.h"
#include "core/plan/ranks.h"
#include "core/planner/borders/border_refinement.h"
#include "core/planner/bounds/work_bound.h"
#include "core/planner/cross_mesh_search.h"
#include "core/planner/degrees/degrees_search.h"
#include "core/planner/degrees/eased_degrees.h"
#include "core/planner/layers/step_structure.h"
#include "core/planner/offload_search.h"
#include "core/planner/search/plan_incumbent.h"
#include "core/planner/search/plan_search.h"
#include "core/planner/search/side_by_side.h"
#include "core/planner/search/stage_space.h"
#include "core/planner/sharding_refinement.h"
#include "core/planner/simple_methods.h"

namespace meshwright {

namespace {

void expect_consistent(const PlanRequest& request) {
  require(request.training.batch >= 1, "the batch must be at least 1 sample; it is {}.", request.training.batch);
  require(request.goal.objective == Goal::Objective::StepTime || !request.trains(),
          "latency and throughput are for serving; give --schedule inference.");
  require(!request.search.any_offload || request.trains(),
          "what the hosts keep is searched for training, and --schedule inference serves a trained model; give "
          "--offload none, or what is to be kept.");
  require(
      request.search.launch_for == nullptr || request.trains(),
      "frameworks are launched for training, and --schedule inference serves a trained model; leave one of them out.");
}

// Any plan of these stages with a shorter step is better. Other methods and frameworks say what is split; and whose
// stages have stored costs is not judged by modelled ones alone.
bool takes_any_sharding(const PlanRequest& request) {
  using enum Method::Kind;
  const Method::Kind kind = request.search.method.kind;
  return (kind == Pipeshard || kind == Manual) && request.search.launch_for == nullptr &&
         request.goal.objective == Goal::Objective::StepTime && request.stage_profile.file == nullptr &&
         request.stage_profile.costs == StageCostSource::Composition;
}

bool takes_any_plan(const PlanRequest& request) {
  return request.search.method.kind == Method::Kind::Pipeshard && takes_any_sharding(request);
}

// Nothing speaks against a sharding by method shard.
bool allows_one_stage(const PlanRequest& request, const PlanningResult& result) {
  return takes_any_plan(request) && request.cluster.uniform() && !result.log.interrupted && !request.goal.front &&
         std::holds_alternative<SubmeshSpace>(request.search.submeshes);
}

bool is_one_stage_on_all(const PlanRequest& request, const PlanningResult& result) {
  return result.plan && result.plan->stages.size() == 1 && used_devices(*result.plan) == request.cluster.devices();
}

// The same point, where there is a plan, as one stage of a method; of a small request, whose numbers of micro-batches
// are all searched, any number of them, as one that seemed not to fit may do so more closely.
PlanRequest one_stage_request(const PlanRequest& request, const std::optional<Plan>& plan, Method::Kind method,
                              bool small) {
  PlanRequest one = request;
  one.search.method.kind = method;
  if (plan && !small) one.search.microbatches = plan->training.microbatches;
  if (one.search.layer_cut.fixes_count())
    one.search.layers = ModelDefault{};
  else if (plan)
    one.search.layers = static_cast<int>(plan->layer_starts.size());
  one.search.schedule = request.first_schedule();
  one.stage_profile.keep = false;
  return one;
}

PlanningResult better_of(PlanningResult result, PlanningResult one_stage) {
  if (!one_stage.plan) return result;
  if (result.plan && one_stage.plan->predicted.step_time >= result.plan->predicted.step_time) return result;
  // Nothing is known of pipelines that do not fit by the table.
  result.lower_bound_within_layers =
      result.plan ? std::min(one_stage.plan->predicted.step_time, result.lower_bound_within_layers) : Seconds(0.0);
  result.plan = std::move(one_stage.plan);
  result.graph = std::move(one_stage.graph);
  result.sharding.reset();
  result.reason.clear();
  result.too_large.reset();
  return result;
}

// What a bound within layers holds for.
struct LayersAndMicrobatches {
  std::vector<int> layer_starts;
  std::int64_t microbatches = 0;
  bool operator==(const LayersAndMicrobatches&) const = default;
};

LayersAndMicrobatches layers_and_microbatches(const Plan& plan) {
  return {plan.layer_starts, plan.training.microbatches};
}

// The bound that holds whatever the layers takes the place of the search's own, which holds within the plan's.
void set_lower_bounds(PlanningResult& result, Seconds bound) {
  const auto set = [&](Plan& plan) { plan.predicted.lower_bound = std::min(plan.predicted.step_time, bound); };
  if (result.plan) {
    set(*result.plan);
    result.lower_bound_within_layers = std::clamp(result.lower_bound_within_layers, result.plan->predicted.lower_bound,
                                                  result.plan->predicted.step_time);
  }
  for (FrontPoint& point : result.front) set(point.plan);
}

// `wrong`: what check_plan says.
LoadedPlan load_checked(const Plan& plan, std::shared_ptr<const Graph> graph, const std::vector<std::string>& wrong,
                        const CostModel& costs) {
  if (!wrong.empty()) throw InputError(wrong.front());
  LoadedPlan loaded{std::move(graph), {}, {}};
  loaded.program = lower(plan, *loaded.graph, costs);
  loaded.check = check_program(loaded.program);
  MW_CHECK(loaded.check.violations.empty(), "the plan lowers to a bad program: {}", loaded.check.violations.front());
  return loaded;
}

}  // namespace

namespace {

// Layers of the default number are too few for the stages of so many hosts.
constexpr int kManyHosts = 16;

// Nothing is asked of meshes, stages and their number, so that one set of degrees for all devices is an answer, too.
bool leaves_degrees_open(const PlanRequest& request) {
  const SearchOptions& search = request.search;
  const bool any_layers = is_auto(search.layers) ||
                          (std::holds_alternative<ModelDefault>(search.layers) && request.cluster.hosts() > kManyHosts);
  return leaves_all_open(request) && any_layers && search.layer_cut == LayerOptions{} && search.forced.empty() &&
         !request.recomputes_parts() && !request.goal.front && request.cluster.uniform() &&
         shape_of(request.model).heads > 0;
}

// Nothing is asked of the layers.
bool may_move_borders(const PlanRequest& request) {
  return takes_any_plan(request) && !std::holds_alternative<int>(request.search.layers) &&
         request.search.layer_cut == LayerOptions{} && !request.recomputes_parts() && !request.goal.front;
}

// By so much plans get faster, as a rule, when degrees need not be launched by a framework or borders move.
constexpr double kEasier = 1.05;

// A pipeline of many alike stages has more of them than a search of every mesh and sharding has layers to make.
// `eased`, where they are wanted: plans with the fastest degrees that need not be launched by a framework.
PlanningResult with_degrees(const PlanRequest& request, PlanningResult result, const CostModel& costs,
                            PlanEvaluator& evaluator, std::vector<PlanOfGraph>* eased) {
  constexpr std::size_t kMaxEased = 4;
  PlanRequest of = request;
  Framework framework = find_framework("megatron");
  // This program runs no rings on GPUs, where its own plans may be run.
  std::erase(framework.context_exchanges, ContextExchange::PointToPoint);
  of.search.launch_for = &framework;
  of.stage_profile.keep = false;
  const bool eases = eased != nullptr && may_move_borders(request);
  std::optional<Seconds> to_beat, before;
  if (result.plan) {
    before = result.plan->predicted.step_time;
    to_beat = (eases ? kEasier : 1.0) * *before;
  }
  auto [degrees, fastest] = find_degrees(of, costs, evaluator, to_beat);
  result.log.add(degrees.log);
  if (eases && !result.log.interrupted) {
    if (fastest.size() > kMaxEased) fastest.resize(kMaxEased);
    *eased = ease_degrees(request, fastest, costs, evaluator);
  }
  if (!degrees.plan || (before && degrees.plan->predicted.step_time >= *before)) return result;
  const std::string method = degrees.plan->method;
  degrees.plan->method = request.search.method.text;
  degrees.log = std::move(result.log);
  degrees.log.how += ", then the plan of " + method;
  degrees.lower_bound_within_layers = Seconds(0.0);
  degrees.stage_profile = std::move(result.stage_profile);
  return std::move(degrees);
}

// The sharding of one stage fits the memory more closely than the stages of pipelines do. Data parallelism and its ZeRO
// levels are among these shardings. But their costs count a resharding once per reader, and the program once per value,
// so that one of them may be faster by a hair. They are tried where the best plan is one stage on all devices, or the
// request is small, so that trying takes little: also where nothing fits.
PlanningResult with_one_stage(const PlanRequest& request, PlanningResult result, const CostModel& costs,
                              PlanEvaluator& evaluator, NearPlans* near) {
  using Kind = Method::Kind;
  if (!allows_one_stage(request, result)) return result;
  const bool small = is_small(request);
  if (!small && !is_one_stage_on_all(request, result)) return result;
  std::vector<Kind> methods = {Kind::Shard};
  if (leaves_all_open(request) && request.search.forced.empty() && request.cluster.devices() > 1)
    methods.insert(methods.end(), {Kind::Data, Kind::Zero1, Kind::Zero2, Kind::Zero3});
  const auto search_each = [&](const std::vector<PlanRequest>& requests) {
    if (result.log.interrupted) return;
    SideBySide beside(request, requests.size());
    std::deque<SideBySide::Part> parts;
    for (const PlanRequest& of : requests) parts.emplace_back(of, beside);
    std::vector<std::optional<PlanningResult>> found(parts.size());
    std::vector<NearPlans> near_by(parts.size());
    std::atomic<bool> stopped = false;
    beside.run(parts.size(), [&](std::size_t i) {
      if (request.stop && request.stop()) {
        stopped = true;
        return;
      }
      try {
        found[i] = search_plans(parts[i].request, costs, evaluator, near != nullptr ? &near_by[i] : nullptr);
      } catch (const InputError&) {
        // The method does not suit the model, the cluster, the schedule or the number of layers.
      }
    });
    for (std::size_t i = 0; i < parts.size(); ++i) {
      parts[i].tell_record();
      if (near != nullptr) near->join(std::move(near_by[i]));
      if (!found[i]) continue;
      result.log.add(found[i]->log);
      if (!found[i]->log.interrupted) result = better_of(std::move(result), *std::move(found[i]));
    }
    if (stopped) result.log.interrupted = true;
  };
  std::vector<PlanRequest> requests;
  for (const Kind method : methods) requests.push_back(one_stage_request(request, result.plan, method, small));
  search_each(requests);
  // The finer the layers, the more closely one stage fits; the coarser, the more ops are resharded together.
  if (small && is_auto(request.search.layers) && is_one_stage_on_all(request, result)) {
    PlanRequest other = one_stage_request(request, result.plan, Kind::Shard, false);
    const int layers = static_cast<int>(result.plan->layer_starts.size());
    requests.clear();
    for (const int count : {2 * layers, layers / 2}) {
      other.search.layers = count;
      if (count > 0) requests.push_back(other);
    }
    search_each(requests);
  }
  return result;
}

// As make_plan, with the bounds of the search alone.
PlanningResult plan_request(const PlanRequest& request, const CostModel& costs, PlanEvaluator& evaluator,
                            NearPlans* near = nullptr, std::vector<PlanOfGraph>* eased = nullptr) {
  PlanningResult result = request.search.launch_for != nullptr ? search_degrees(request, costs, evaluator)
                                                               : search_plans(request, costs, evaluator, near);
  result = with_one_stage(request, std::move(result), costs, evaluator, near);
  if (leaves_degrees_open(request) && !result.log.interrupted)
    result = with_degrees(request, std::move(result), costs, evaluator, eased);
  return result;
}

// A shorter step is all that counts. Whose costs are of a software sends its messages as that does.
bool may_choose_forms(const PlanRequest& request) {
  return is_auto(request.search.cross_mesh) && request.search.launch_for == nullptr && request.software.empty() &&
         request.goal.objective == Goal::Objective::StepTime;
}

// Hears of the plan that is the answer, and tells the request's record what becomes of it after the search.
class AnswerRecord final : public SearchRecord {
 public:
  explicit AnswerRecord(SearchRecord& record) : record_(record) {}

  void add(ConsideredPlan considered) override {
    if (considered.fate == ConsideredPlan::Fate::Fits) fitting_.push_back(considered);
    record_.add(std::move(considered));
  }
  // The plan of `before` now takes a shorter step.
  void shorten(const Plan& before, Seconds step) {
    for (ConsideredPlan& of : fitting_) {
      if (!of.simulated || to_sim_time(*of.simulated) != to_sim_time(before.predicted.step_time) ||
          of.stages.size() != before.stages.size() || of.microbatches != before.training.microbatches ||
          of.schedule != before.schedule || of.layer_starts != before.layer_starts)
        continue;
      // Stored stage costs may make the score another time than the simulated one.
      of.score = step / before.predicted.step_time * *of.score;
      of.simulated = step;
      return record_.add(of);
    }
  }

 private:
  SearchRecord& record_;
  std::vector<ConsideredPlan> fitting_;
};

// A plan that no stage table has: its stages are named by how they are split.
ConsideredPlan considered_of(const Plan& plan, const Graph& graph) {
  ConsideredPlan of;
  of.layer_starts = plan.layer_starts;
  of.microbatches = plan.training.microbatches;
  of.schedule = plan.schedule;
  of.chunks = chunks_of(plan);
  of.simulated = of.score = plan.predicted.step_time;
  of.needs = plan.predicted.peak_memory;
  of.fate = ConsideredPlan::Fate::Fits;
  const Layers layers = assign_layers(graph, plan.layer_starts);
  const StepStructure structure(graph, layers);
  for (const StagePlan& stage : plan.stages) {
    const StagePlace place{stage.first_layer, stage.last_layer, stage.submesh, stage.logical_shape};
    const StageBoundary boundary = stage_boundary(structure, stage.first_layer, stage.last_layer);
    of.stages.push_back({{.place = place, .sharding = sharding_fingerprint(stage)},
                         {.forward = stage.forward,
                          .backward = stage.backward,
                          .step = stage.update,
                          .memory = std::nullopt,
                          .boundary_in = boundary.in,
                          .boundary_out = boundary.out,
                          .measured = std::nullopt}});
  }
  return of;
}

void choose_forms(PlanningResult& result, const PlanRequest& request, const CostModel& costs, PlanEvaluator& evaluator,
                  AnswerRecord* record) {
  if (!may_choose_forms(request) || !result.plan || result.log.interrupted) return;
  for (FrontPoint& point : result.front) {
    const auto graph =
        std::make_shared<const Graph>(build_step_graph(point.plan.model, point.plan.training, point.plan.schedule));
    auto found = choose_cross_mesh({point.plan, graph}, costs, evaluator);
    if (found) point.plan = std::move(found->plan);
  }
  if (!result.front.empty()) result.front = front_of(std::move(result.front));
  if (result.plan->stages.size() < 2) return;
  const PlanOfGraph made{*result.plan, std::make_shared<const Graph>(result.graph)};
  auto found = choose_cross_mesh(made, costs, evaluator);
  if (!found) return;
  if (record != nullptr) record->shorten(made.plan, found->plan.predicted.step_time);
  result.log.simulations += found->simulations;
  result.plan = std::move(found->plan);
  const Seconds step = result.plan->predicted.step_time;
  result.lower_bound_within_layers = std::min(result.lower_bound_within_layers, step);
}

// Refining shardings may make a plan this near the best one faster than it.
constexpr double kNearRefined = 1.02;

bool may_refine(const PlanRequest& request) {
  return takes_any_sharding(request) && !is_large(request, request.training.batch);
}

// The fastest of the plan that was found, the eased ones and those near it, with borders moved inside layers. Whether
// it is another one. `with_borders`: all that were moved and come near it.
bool refine_borders(PlanningResult& result, std::vector<PlanOfGraph> eased, const NearPlans& near,
                    const PlanRequest& request, const CostModel& costs, PlanEvaluator& evaluator, AnswerRecord* record,
                    NearPlans& with_borders) {
  constexpr NearPlans::Limit kNear = {4, kEasier};
  if (!may_move_borders(request) || !result.plan || result.log.interrupted) return false;
  if (request.steps != nullptr) request.steps->begin("borders");
  const Seconds before = result.plan->predicted.step_time;
  std::vector<PlanOfGraph> plans = {{*result.plan, std::make_shared<const Graph>(result.graph)}};
  for (PlanOfGraph& plan : eased)
    if (plan.plan.predicted.step_time < kEasier * before) plans.push_back(std::move(plan));
  const std::size_t first_near = plans.size();
  const auto has_borders = [](const Plan& plan) { return plan.stages.size() > 1; };
  for (NearPlans::Near& near_by : near.fastest(kNear, kNear, has_borders))
    if (near_by.made.plan.predicted.step_time < kEasier * before && !same_plans(near_by.made.plan, plans[0].plan))
      plans.push_back(std::move(near_by.made));
  std::vector<std::optional<PlanWithBorders>> moved(plans.size());
  const auto* form = std::get_if<CrossMesh>(&request.search.cross_mesh);
  const Seconds to_beat = may_refine(request) ? kNearRefined * before : before;
  for_each_index(plans.size(), request.threads, [&](std::size_t i) {
    if (!request.stop || !request.stop())
      moved[i] = move_borders(plans[i], form != nullptr ? std::optional(*form) : std::nullopt,
                              std::min(to_beat, plans[i].plan.predicted.step_time), costs, evaluator);
  });
  std::size_t best = 0;
  const auto step_of = [&](std::size_t i) { return (moved[i] ? moved[i]->plan : plans[i].plan).predicted.step_time; };
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (step_of(i) < step_of(best)) best = i;
    if (!moved[i]) continue;
    result.log.simulations += moved[i]->simulations;
    with_borders.add(moved[i]->plan, plans[i].graph);
    if (record != nullptr) record->add(considered_of(moved[i]->plan, *plans[i].graph));
  }
  const Seconds step = step_of(best);
  if (request.steps != nullptr)
    request.steps->end(step < before ? fmt::format("{}, better than {}", human_seconds(step), human_seconds(before))
                                     : std::string("nothing faster"));
  if (step >= before) return false;
  const bool is_eased = best > 0 && best < first_near;
  if (is_eased) result.log.how += ", then the same degrees with each op split as is fastest";
  if (moved[best]) result.log.how += ", then borders inside layers";
  result.plan = moved[best] ? std::move(moved[best]->plan) : plans[best].plan;
  result.graph = *plans[best].graph;
  if (record != nullptr && is_eased && !moved[best]) record->add(considered_of(*result.plan, result.graph));
  return true;
}

void refine(PlanningResult& result, const NearPlans& near, ShardingCosts kind, const PlanRequest& request,
            const CostModel& costs, PlanEvaluator& evaluator, AnswerRecord* record) {
  // One more plan for so many whole programs that were simulated: of a small search the best plan of each choice alone
  // is refined.
  constexpr std::int64_t kMaxPlans = 4, kProgramsOfPlan = 32;
  constexpr std::size_t kMaxChoices = 4;
  if (!may_refine(request) || !result.plan || result.log.interrupted) return;
  if (kind == ShardingCosts::Noisy && noisy_costs(result.graph) == 0) return;
  const std::int64_t simulated = result.log.simulations;
  std::vector<PlanToRefine> plans = {
      {{*result.plan, std::make_shared<const Graph>(result.graph)}, simulated, kMinRefined}};
  const auto others = static_cast<std::size_t>(std::min(kMaxPlans, simulated / kProgramsOfPlan));
  for (NearPlans::Near& near_by : near.fastest({others, kNearRefined}, {kMaxChoices, 1.0 / kMinRefinedChoice}))
    if (kMinRefinedChoice * near_by.made.plan.predicted.step_time <= result.plan->predicted.step_time)
      plans.push_back({std::move(near_by.made), near_by.programs, near_by.of_choice ? kMinRefinedChoice : kMinRefined});
  if (request.steps != nullptr) request.steps->begin("refine");
  auto found = refine_shardings(request, plans, kind, costs, evaluator);
  if (request.steps != nullptr)
    request.steps->end(found ? fmt::format("{}, better than {}", human_seconds(found->plan.predicted.step_time),
                                           human_seconds(result.plan->predicted.step_time))
                             : std::string("nothing faster"));
  if (!found) return;
  if (record != nullptr) record->shorten(plans[found->of].made.plan, found->plan.predicted.step_time);
  result.log.simulations += found->simulations;
  result.plan = std::move(found->plan);
  result.graph = *found->graph;
  if (!request.goal.front) return;
  result.front.push_back({*result.plan, used_devices(*result.plan)});
  result.front = front_of(std::move(result.front));
}

PlanningResult plan_and_bound(const PlanRequest& asked, const CostModel& costs, PlanEvaluator& evaluator) {
  PlanRequest request = asked;
  std::optional<AnswerRecord> record;
  if (asked.record != nullptr) request.record = &record.emplace(*asked.record);
  // What comes after the search asks, too, and then leaves out the rest.
  std::atomic<bool> stopped = false;
  if (asked.stop)
    request.stop = [&] {
      if (!stopped && asked.stop()) stopped = true;
      return stopped.load();
    };
  NearPlans near;
  std::vector<PlanOfGraph> eased;
  PlanningResult result = plan_request(request, costs, evaluator, may_refine(request) ? &near : nullptr, &eased);
  const auto note_stop = [&] { result.log.interrupted = result.log.interrupted || stopped; };
  note_stop();
  const bool plain = evaluator.plain() == nullptr || request.search.launch_for != nullptr;
  if (plain && !result.plan) return result;
  const Seconds bound = work_bound(request, costs);
  if (!plain) {
    const Planner planner = [&](const PlanRequest& of, PlanEvaluator& by) { return plan_request(of, costs, by); };
    result = faster_of_simple_methods(request, std::move(result), bound, costs, evaluator, planner);
  }
  AnswerRecord* heard = record ? &*record : nullptr;
  note_stop();
  const auto searched = result.plan ? std::optional(layers_and_microbatches(*result.plan)) : std::nullopt;
  refine(result, near, ShardingCosts::Likely, request, costs, evaluator, heard);
  note_stop();
  NearPlans with_borders;
  const bool moved = refine_borders(result, std::move(eased), near, request, costs, evaluator, heard, with_borders);
  note_stop();
  if (moved || !with_borders.empty())
    refine(result, with_borders, ShardingCosts::Likely, request, costs, evaluator, heard);
  refine(result, {}, ShardingCosts::Noisy, request, costs, evaluator, heard);
  note_stop();
  choose_forms(result, request, costs, evaluator, heard);
  if (!result.plan) return result;
  if (layers_and_microbatches(*result.plan) != searched) result.lower_bound_within_layers = Seconds(0.0);
  set_lower_bounds(result, bound);
  return result;
}

}  // namespace

PlanningResult make_plan(const PlanRequest& request, const CostModel& costs, PlanEvaluator& evaluator) {
  expect_consistent(request);
  const OffloadPlanner planner = [&](const PlanRequest& of) { return plan_and_bound(of, costs, evaluator); };
  return request.search.any_offload ? search_offload(request, planner) : planner(request);
}

PlanOutcome PlanEvaluator::outcome(const PlanOfGraph& made) const {
  const std::unique_ptr<PlanTrial> trial = this->trial(made);
  const StepOutcome found = trial->step();
  PlanOutcome outcome{found.step};
  for (std::size_t s = 0; s < trial->peaks.size(); ++s) {
    const Bytes tensors = found.peaks.empty() ? trial->peaks[s] : std::max(trial->peaks[s], found.peaks[s]);
    outcome.peak = std::max(outcome.peak, tensors + trial->beside_of(s));
  }
  return outcome;
}

LoadedPlan load_plan(const Plan& plan, const CostModel& costs) {
  const auto graph = std::make_shared<const Graph>(build_step_graph(plan.model, plan.training, plan.schedule));
  return load_checked(plan, graph, check_plan(plan, *graph), costs);
}

LoadedPlan load_plan(const PlanOfGraph& made, const CostModel& costs) {
  return load_checked(made.plan, made.graph, check_plan(made.plan, *made.graph, made.plan.graph_fingerprint), costs);
}

}  // namespace meshwright
