// SPDX-License-Identifier: Apache-2.0
#include "core/planner/simple_methods.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/divisors.h"
#include "core/base/errors.h"
#include "core/base/parallel.h"
#include "core/base/text.h"
#include "core/plan/ranks.h"
#include "core/planner/considered_plans.h"
#include "core/planner/search/plan_incumbent.h"
#include "core/planner/search/plan_program.h"

namespace meshwright {

namespace {

constexpr int kMaxAcrossHosts = 16;
constexpr const char* kDataParallel[] = {"data", "zero1", "zero2", "zero3"};
// The least share of its step without conditions that a plan is expected to take under them: somewhat less where
// messages leave in another order, and about half where all communication goes on beside computation.
constexpr double kLeastShare = 0.95, kLeastShareHidden = 0.5;

// A plan made as without conditions, and its step under them; no plan where there is none or it does not fit.
struct Judged {
  std::string method;  // "zero2"; "": of the request itself
  std::shared_ptr<PlanOfGraph> made = {};
  Seconds step{0.0};
  bool too_large = false;  // of the plain step's memory
  SearchLog log = {};
};

}  // namespace

bool leaves_all_open(const PlanRequest& request) {
  const SearchOptions& search = request.search;
  const LogicalMeshSpace logical = search.logical_mesh_space;
  return search.method.kind == Method::Kind::Pipeshard && search.launch_for == nullptr &&
         request.goal.objective == Goal::Objective::StepTime && request.trains() &&
         std::holds_alternative<SubmeshSpace>(search.submeshes) && !search.batch_axis &&
         request.stage_profile.file == nullptr && request.stage_profile.costs == StageCostSource::Composition &&
         (logical == LogicalMeshSpace::SingleNodeModelParallel || logical == LogicalMeshSpace::All ||
          logical == LogicalMeshSpace::ThreeDimensional);
}

namespace {

PlanRequest alone(const PlanRequest& request) {
  PlanRequest own = request;
  own.goal.front = false;
  own.stage_profile.keep = false;
  own.progress = {};
  own.steps = nullptr;
  own.record = nullptr;
  return own;
}

std::string in_words(const std::string& method) { return method.empty() ? "the plain step" : "method " + method; }

// "": as the request itself.
PlanRequest by_method(const PlanRequest& request, const std::string& text) {
  PlanRequest own = alone(request);
  if (text.empty()) return own;
  own.search.method = method_from_text(text);
  if (is_auto(own.search.layers)) own.search.layers = ModelDefault{};
  return own;
}

// Methods of which each keeps at least as much of a model on a device as the one before.
using Family = std::vector<std::string>;

std::vector<Family> families(const Cluster& cluster) {
  std::vector<Family> found;
  if (cluster.uniform()) found.push_back({std::rbegin(kDataParallel), std::rend(kDataParallel)});
  const std::int64_t devices = cluster.devices();
  std::int64_t in_host = devices;
  for (const HostGroup& group : cluster.groups) in_host = std::min<std::int64_t>(in_host, group.devices_per_host);
  for (const std::int64_t tp : divisors(devices, devices <= kMaxAcrossHosts ? devices : in_host))
    for (const std::int64_t pp : divisors(devices / tp))
      for (const char* sequence : {"", ",sp=1"}) {
        if (tp == 1 && *sequence != '\0') continue;
        const std::string degrees = fmt::format("megatron:tp={},pp={}{}", tp, pp, sequence);
        found.push_back({degrees});
        Family& levels = found.emplace_back();
        // One replica has nothing to split: all levels are alike.
        for (int zero = tp * pp == devices ? 0 : 3; zero >= 0; --zero)
          levels.push_back(fmt::format("{},zero={}", degrees, zero));
      }
  return found;
}

// How many times what its devices compute a step of n stages takes at least, where a micro-batch passes one after the
// other, forward and back, and no stage begins before or ends after it has passed those before. Let t be what a
// micro-batch takes on a stage and m the number of micro-batches: the step takes at least m t and the sum of t over the
// stages before. The stages' sum is the least for a step f where this is f for all: t of the first is f / m, and of
// each next one (1 - 1/m) times that of the one before, in all f (1 - (1 - 1/m)^n). On devices that share the work
// evenly it would be f n / m.
double fill_factor(std::int64_t microbatches, int stages) {
  const double part = 1.0 / static_cast<double>(microbatches);
  return stages * part / (1.0 - std::pow(1.0 - part, stages));
}

class Rivals {
 public:
  Rivals(const PlanRequest& request, PlanningResult found, Seconds bound, const CostModel& costs,
         PlanEvaluator& evaluator, const Planner& planner)
      : request_(request),
        found_(std::move(found)),
        bound_(bound),
        costs_(costs),
        evaluator_(evaluator),
        planner_(planner) {}

  PlanningResult best() && {
    compare({judged("", alone(request_))});
    if (leaves_all_open(request_)) {
      if (request_.cluster.uniform())
        for (const char* method : kDataParallel) search_by(method);
      compare(judged_methods());
    }
    if (taken_) found_.log.how += ", then the plan of " + in_words(*taken_);
    return std::move(found_);
  }

 private:
  [[nodiscard]] bool stopped() const { return found_.log.interrupted || (request_.stop && request_.stop()); }
  [[nodiscard]] Judged judged(std::string method, const PlanRequest& request) const;
  [[nodiscard]] Seconds find_update() const;
  [[nodiscard]] Seconds bound_of(const Method& method, Seconds update) const;
  [[nodiscard]] std::vector<Judged> judged_methods() const;
  void search_by(const std::string& method);
  // Takes the fastest that fits, if it is faster than what was found.
  void compare(std::vector<Judged> rivals);
  [[nodiscard]] bool beats(Seconds step) const { return !found_.plan || step < found_.plan->predicted.step_time; }
  // nullopt: some stage does not fit.
  [[nodiscard]] std::optional<PlanProgram> complete(const Judged& rival) const;
  // `searched_by`: what planned the method.
  void take(PlanProgram program, const std::string& method, PlanEvaluator& searched_by);
  // Tells the request's record of a plan that is the answer, or was judged and is not.
  void note_answer(const PlanProgram& program, const std::string& method, PlanEvaluator& searched_by) const;
  void note_loser(const Judged& rival) const;

  const PlanRequest& request_;
  PlanningResult found_;
  std::optional<std::string> taken_;  // the method whose plan is the answer; nullopt: the search's own is
  const Seconds bound_;               // no plan of the request takes less
  const CostModel& costs_;
  PlanEvaluator& evaluator_;
  const Planner& planner_;
};

Judged Rivals::judged(std::string method, const PlanRequest& request) const {
  Judged rival{std::move(method)};
  if (stopped()) return rival;
  try {
    const std::unique_ptr<PlanEvaluator> plain = evaluator_.plain();
    PlanningResult result = planner_(request, *plain);
    rival.log = std::move(result.log);
    rival.too_large = result.too_large.has_value();
    if (!result.plan) return rival;
    auto graph = std::make_shared<const Graph>(std::move(result.graph));
    rival.made = std::make_shared<PlanOfGraph>(PlanOfGraph{*std::move(result.plan), std::move(graph)});
  } catch (const InputError&) {
    return rival;  // the method does not suit the model or the cluster
  }
  const PlanOutcome outcome = evaluator_.outcome(*rival.made);
  rival.step = outcome.step;
  // Devices of several kinds are looked at one by one (complete).
  const auto memory = evaluator_.software_memory(rival.made->plan, *rival.made->graph);
  const bool too_large = memory ? memory->needs > memory->usable
                                : request_.cluster.uniform() && outcome.peak > request_.cluster.usable_memory();
  if (too_large) rival.made.reset();
  return rival;
}

// At least what the devices' share of `bound_` has of the updates, which no micro-batch waits for.
Seconds Rivals::find_update() const {
  Seconds update(0.0);
  const Graph graph = build_step_graph(request_.model, request_.training_with(1), request_.first_schedule());
  for (const Op& op : graph.ops()) {
    if (op.phase != Phase::Update) continue;
    const IterationSpace space = iteration_space(graph, op);
    std::vector<std::int64_t> sizes;
    for (const IterationAxis& axis : space.axes) sizes.push_back(axis.size);
    update += costs_.compute(op_work(graph, op, space, sizes)).time;
  }
  return update / static_cast<double>(request_.cluster.devices());
}

// No plan of the method takes less.
Seconds Rivals::bound_of(const Method& method, Seconds update) const {
  const ScheduleTraits traits = traits_of(request_.first_schedule());
  const bool fills = method.kind == Method::Kind::Megatron && request_.cluster.uniform() && !request_.any_schedule() &&
                     traits.chunks == 1 && !traits.splits_backward && !evaluator_.steps_run_into_each_other();
  if (!fills || update >= bound_) return bound_;
  // Fewer samples in a micro-batch than replicas cannot be divided among them.
  const std::int64_t replicas = request_.cluster.devices() / (std::int64_t{method.tp} * method.pp);
  std::int64_t microbatches = std::max<std::int64_t>(1, request_.training.batch / replicas);
  if (const auto* given = std::get_if<std::int64_t>(&request_.search.microbatches)) microbatches = *given;
  return bound_ + (fill_factor(microbatches, method.pp) - 1.0) * (bound_ - update);
}

std::vector<Judged> Rivals::judged_methods() const {
  const std::vector<Family> all = families(request_.cluster);
  const Seconds update = find_update();
  const double least_share = evaluator_.hides_communication() ? kLeastShareHidden : kLeastShare;
  std::vector<std::vector<Judged>> rivals(all.size());
  for_each_index(all.size(), request_.threads, [&](std::size_t f) {
    for (const std::string& method : all[f]) {
      PlanRequest own = by_method(request_, method);
      if (!beats(bound_of(own.search.method, update))) return;
      own.threads = 1;
      if (found_.plan) own.to_beat = found_.plan->predicted.step_time / least_share;
      rivals[f].push_back(judged(method, own));
      if (rivals[f].back().too_large) return;
    }
  });
  std::vector<Judged> found;
  for (std::vector<Judged>& family : rivals)
    for (Judged& rival : family) found.push_back(std::move(rival));
  return found;
}

void Rivals::search_by(const std::string& method) {
  if (stopped()) return;
  try {
    PlanRequest own = by_method(request_, method);
    if (found_.plan) own.to_beat = found_.plan->predicted.step_time;
    PlanningResult result = planner_(own, evaluator_);
    found_.log.add(result.log);
    if (!result.plan || !beats(result.plan->predicted.step_time)) return;
    take({std::make_shared<const Graph>(std::move(result.graph)), *std::move(result.plan), nullptr}, method,
         evaluator_);
  } catch (const InputError&) {
    // The method does not suit the model or the cluster.
  }
}

void Rivals::compare(std::vector<Judged> rivals) {
  for (const Judged& rival : rivals) found_.log.add(rival.log);
  std::erase_if(rivals, [](const Judged& rival) { return !rival.made; });
  std::stable_sort(rivals.begin(), rivals.end(), [](const Judged& a, const Judged& b) { return a.step < b.step; });
  for (const Judged& rival : rivals) {
    auto program = beats(rival.step) ? complete(rival) : std::nullopt;
    if (program)
      take(*std::move(program), rival.method, *evaluator_.plain());
    else if (request_.record != nullptr && !beats(rival.step))
      note_loser(rival);
  }
}

void Rivals::note_loser(const Judged& rival) const {
  ConsideredPlan of;
  of.layer_starts = rival.made->plan.layer_starts;
  of.microbatches = rival.made->plan.training.microbatches;
  of.schedule = rival.made->plan.schedule;
  of.degrees = in_words(rival.method);
  of.simulated = of.score = rival.step;
  of.fate = ConsideredPlan::Fate::Fits;
  request_.record->add(std::move(of));
}

void Rivals::note_answer(const PlanProgram& program, const std::string& method, PlanEvaluator& searched_by) const {
  // The stage table is the method's own, so it is planned once more for whoever listens.
  ConsideredPlans heard;
  PlanRequest own = by_method(request_, method);
  own.record = &heard;
  static_cast<void>(planner_(own, searched_by));
  const ConsideredPlan* chosen = heard.chosen();
  MW_CHECK(chosen != nullptr && chosen->stages.size() == program.plan.stages.size(),
           "planned again, {} has another plan", in_words(method));
  ConsideredPlan of = *chosen;
  of.degrees = in_words(method);
  of.simulated = of.score = program.plan.predicted.step_time;
  of.needs = program.plan.predicted.peak_memory;
  request_.record->add(std::move(of));
}

std::optional<PlanProgram> Rivals::complete(const Judged& rival) const {
  PlanProgram program = on_trial(rival.made->plan, rival.made->graph, evaluator_);
  const StepOutcome outcome = program.trial->step();
  MW_CHECK(to_sim_time(outcome.step) == to_sim_time(rival.step), "a plan of {} s takes {} s", rival.step.si(),
           outcome.step.si());
  take_peaks(program.plan, outcome.peaks);
  program.plan.predicted.step_time = outcome.step;
  const bool counted_by_software = evaluator_.software_memory(program.plan, *program.graph).has_value();
  if (!counted_by_software && !fits_devices(program.plan, *program.trial)) return std::nullopt;
  return program;
}

void Rivals::take(PlanProgram program, const std::string& method, PlanEvaluator& searched_by) {
  program.plan.conditions = request_.conditions;
  program.plan.method = request_.search.method.text;
  taken_ = method;
  if (request_.record != nullptr) note_answer(program, method, searched_by);
  found_.lower_bound_within_layers = Seconds(0.0);
  found_.sharding.reset();
  found_.reason.clear();
  found_.too_large.reset();
  if (request_.goal.front) {
    found_.front.push_back({program.plan, used_devices(program.plan)});
    found_.front = front_of(std::move(found_.front));
  }
  found_.plan = std::move(program.plan);
  found_.graph = *program.graph;
}

}  // namespace

std::vector<std::string> simple_methods(const Cluster& cluster) {
  std::vector<std::string> methods;
  for (const Family& family : families(cluster)) methods.insert(methods.end(), family.begin(), family.end());
  return methods;
}

PlanningResult faster_of_simple_methods(const PlanRequest& request, PlanningResult found, Seconds bound,
                                        const CostModel& costs, PlanEvaluator& evaluator, const Planner& planner) {
  return Rivals(request, std::move(found), bound, costs, evaluator, planner).best();
}

}  // namespace meshwright
