// SPDX-License-Identifier: Apache-2.0
#include "core/planner/degrees/degrees_search.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/errors.h"
#include "core/base/parallel.h"
#include "core/base/text.h"
#include "core/planner/degrees/computing_costs.h"
#include "core/planner/search/considered.h"
#include "core/planner/search/plan_program.h"

namespace meshwright {

namespace {

constexpr std::size_t kWave = 16;  // degrees that are planned together, whatever the number of threads
constexpr std::size_t kMaxPlanned = 3000;
// The work of a micro-batch is that of other degrees, which may differ by this much.
constexpr double kDoubt = 0.98;

// What the work of a micro-batch depends on. Not on the number of stages, and on replicas only by what ZeRO gathers.
struct WorkKey {
  int tp, cp, ep;
  ContextExchange context;
  bool whole_experts, folded_experts;
  std::int64_t micro_batch;
  Recompute recompute;
  auto operator<=>(const WorkKey&) const = default;
};

WorkKey work_key(const Degrees& d) {
  return {d.tp, d.cp, d.ep, d.context, d.whole_experts, d.folded_experts, d.micro_batch, d.recompute};
}

// What all degrees of this many micro-batches share.
struct GraphKey {
  std::int64_t micro_batches;
  Recompute recompute;
  LayerOptions::Cut cut;
  auto operator<=>(const GraphKey&) const = default;
};

// A plan of given degrees, as far as it was followed up.
struct Planned {
  std::string wrong;  // why no plan expresses the degrees; "" where one does
  std::optional<PlanOfGraph> plan;
  Bytes needs{0.0}, usable{0.0};             // of the device that lacks the most memory
  std::optional<Seconds> step;               // of a plan that fits
  std::vector<ConsideredStage> stages = {};  // where the request has a record
};

// In the order of what the recomputations keep.
int kept_share(Recompute recompute) {
  return recompute == Recompute::Full ? 0 : recompute == Recompute::Selective ? 1 : 2;
}

// What did not fit. Degrees that keep more everywhere do not fit either: they are not planned. With larger
// micro-batches a rank keeps at least as many samples; several stages on each rank, and GPipe, keep at least what 1F1B
// does.
class TooLargeDegrees {
 public:
  void add(const Degrees& degrees) { known_[key_of(degrees)].push_back(degrees); }
  [[nodiscard]] bool rule_out(const Degrees& degrees) const {
    const auto found = known_.find(key_of(degrees));
    return found != known_.end() && std::any_of(found->second.begin(), found->second.end(), [&](const Degrees& small) {
             return small.zero >= degrees.zero && kept_share(small.recompute) <= kept_share(degrees.recompute) &&
                    small.micro_batch <= degrees.micro_batch && keeps_no_more(small, degrees);
           });
  }

 private:
  using Key = std::tuple<int, int, int, int, bool, bool, ContextExchange>;
  static Key key_of(const Degrees& d) { return {d.tp, d.cp, d.pp, d.ep, d.whole_experts, d.folded_experts, d.context}; }
  static bool keeps_no_more(const Degrees& a, const Degrees& b) {
    if (a.schedule == b.schedule && a.chunks == b.chunks) return true;
    return a.schedule == ScheduleKind::OneFOneB &&
           (b.schedule == ScheduleKind::Interleaved || b.schedule == ScheduleKind::GPipe);
  }

  std::map<Key, std::vector<Degrees>> known_;
};

// Degrees with one such key: those that keep least are tried first, and where they do not fit, none does.
using ProbeKey = std::tuple<int, int, int, int, bool, bool, ContextExchange, Recompute>;
ProbeKey probe_key(const Degrees& d) {
  return {d.tp, d.cp, d.pp, d.ep, d.whole_experts, d.folded_experts, d.context, d.recompute};
}
std::map<ProbeKey, Degrees> probes_of(const std::vector<Degrees>& all) {
  const auto rank = [](const Degrees& d) {
    return std::tuple(d.schedule != ScheduleKind::OneFOneB, d.micro_batch, -d.zero, d.chunks);
  };
  std::map<ProbeKey, Degrees> probes;
  for (const Degrees& degrees : all) {
    const auto [known, is_new] = probes.emplace(probe_key(degrees), degrees);
    if (!is_new && rank(degrees) < rank(known->second)) known->second = degrees;
  }
  return probes;
}

class DegreesSearch {
 public:
  DegreesSearch(const PlanRequest& request, const CostModel& costs, PlanEvaluator& evaluator)
      : request_(request),
        costs_(costs),
        computing_(costs),
        evaluator_(evaluator),
        hides_(evaluator.hides_communication()),
        shape_(shape_of(request.model)) {}

  PlanningResult run();

 private:
  struct Ordered {
    Degrees degrees;
    Seconds bound{0.0};
  };

  [[nodiscard]] bool stopped() {
    log_.interrupted = log_.interrupted || (request_.stop && request_.stop());
    return log_.interrupted;
  }
  [[nodiscard]] GraphKey graph_key(const Degrees& d) const {
    return {d.micro_batches, d.recompute, cut_for_stages(shape_.blocks, d.stages())};
  }
  void build_graphs(const std::vector<Degrees>& all);
  [[nodiscard]] Point point_of(SearchContext& context, const Degrees& degrees) const {
    return prepare_given_point(context, graphs_.at(graph_key(degrees)));
  }
  [[nodiscard]] std::optional<Seconds> work_of(const Degrees& degrees) const;
  [[nodiscard]] std::vector<Ordered> in_order(const std::vector<Degrees>& all);
  [[nodiscard]] Planned plan_of(const Degrees& degrees) const;
  [[nodiscard]] Planned follow_up(const Degrees& degrees) const;
  void take(const Degrees& degrees, Planned planned);
  // For the request's record.
  [[nodiscard]] static ConsideredPlan considered(const Degrees& degrees);
  void note(const Degrees& degrees, const Planned& planned) const;
  void note_rest(const std::vector<Ordered>& ordered) const;
  // Their number.
  std::size_t plan_wave(const std::vector<Degrees>& wave);
  // `bound`: of the first that was not looked at.
  [[nodiscard]] PlanningResult result_of(const AllDegrees& all, std::size_t planned, std::optional<Seconds> bound);

  const PlanRequest& request_;
  const CostModel& costs_;
  const ComputingCosts computing_;
  PlanEvaluator& evaluator_;
  const bool hides_;
  const ModelShape shape_;
  std::map<GraphKey, GivenModel> graphs_;
  SearchLog log_;
  std::optional<Planned> best_;
  TooLargeDegrees too_large_;
  std::set<std::string> taken_;                          // texts of the degrees that were planned
  std::optional<std::pair<Degrees, Planned>> smallest_;  // of those that do not fit, the one that lacks the least
  std::string wrong_;                                    // the first
};

void DegreesSearch::build_graphs(const std::vector<Degrees>& all) {
  std::map<GraphKey, const Degrees*> wanted;
  for (const Degrees& degrees : all) wanted.emplace(graph_key(degrees), &degrees);
  std::vector<std::pair<GraphKey, const Degrees*>> list(wanted.begin(), wanted.end());
  std::vector<std::optional<GivenModel>> made(list.size());
  for_each_index(list.size(), request_.threads, [&](std::size_t i) {
    const PlanRequest of = request_of(request_, *list[i].second);
    SearchContext context(of, costs_, evaluator_);
    made[i] = given_model(
        context,
        {.layers = std::nullopt, .layer_cut = of.search.layer_cut, .microbatches = list[i].second->micro_batches});
  });
  for (std::size_t i = 0; i < list.size(); ++i) graphs_.emplace(list[i].first, *std::move(made[i]));
}

// nullopt: no plan expresses the degrees.
std::optional<Seconds> DegreesSearch::work_of(const Degrees& degrees) const {
  const PlanRequest of = request_of(request_, degrees);
  // Under conditions that hide communication only computing is sure to take time.
  SearchContext context(of, hides_ ? computing_ : costs_, evaluator_);
  try {
    const Point point = point_of(context, degrees);
    const TablePipeline pipeline = given_pipeline(of, point);
    Seconds work{0.0};
    for (const TableStage& stage : pipeline.stages) {
      const StageSearch& search = *point.spans.search;
      const StepCost& cost = search.cost(stage.first, stage.last, search.choice(stage.slice, stage.config));
      work += cost.forward + cost.backward;
    }
    return work;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

std::vector<DegreesSearch::Ordered> DegreesSearch::in_order(const std::vector<Degrees>& all) {
  // Each kind of work is computed for its degrees with the lowest ZeRO level and the fewest stages: these move the
  // least.
  std::map<WorkKey, Degrees> kinds;
  for (const Degrees& degrees : all) {
    const auto [known, is_new] = kinds.emplace(work_key(degrees), degrees);
    const auto rank = [](const Degrees& d) { return std::tuple(d.zero, d.stages()); };
    if (!is_new && rank(degrees) < rank(known->second)) known->second = degrees;
  }
  const std::vector<std::pair<WorkKey, Degrees>> list(kinds.begin(), kinds.end());
  std::vector<std::optional<Seconds>> found(list.size());
  for_each_index(list.size(), request_.threads, [&](std::size_t i) { found[i] = work_of(list[i].second); });
  std::map<WorkKey, Seconds> work;
  for (std::size_t i = 0; i < list.size(); ++i) work.emplace(list[i].first, found[i].value_or(Seconds(0.0)));
  log_.points = static_cast<std::int64_t>(list.size());

  std::vector<Ordered> ordered;
  for (const Degrees& degrees : all) {
    const ScheduleTraits traits = traits_of(degrees.schedule);
    const double fill = traits.splits_backward ? 0.0 : static_cast<double>(degrees.pp - 1) / degrees.chunks;
    const double times = (static_cast<double>(degrees.micro_batches) + fill) / degrees.pp;
    ordered.push_back({degrees, kDoubt * times * work.at(work_key(degrees))});
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const Ordered& a, const Ordered& b) { return a.bound < b.bound; });
  return ordered;
}

Planned DegreesSearch::plan_of(const Degrees& degrees) const {
  Planned planned;
  const PlanRequest of = request_of(request_, degrees);
  SearchContext context(of, costs_, evaluator_);
  try {
    const Point point = point_of(context, degrees);
    PlanGraphs graphs(of, point);
    const TablePipeline pipeline = given_pipeline(of, point);
    if (request_.record != nullptr) planned.stages = considered_stages(point, pipeline);
    auto plan = plan_of_pipeline(of, point, graphs, pipeline, degrees.schedule);
    require(plan.has_value(), "the stages have no place side by side");
    std::shared_ptr<const Graph> graph = graphs.of(plan->training).graph;
    planned.plan = PlanOfGraph{*std::move(plan), std::move(graph)};
  } catch (const InputError& error) {
    planned.wrong = error.what();
  }
  return planned;
}

Planned DegreesSearch::follow_up(const Degrees& degrees) const {
  Planned planned = plan_of(degrees);
  if (!planned.plan) return planned;
  const auto memory = evaluator_.software_memory(planned.plan->plan, *planned.plan->graph);
  if (memory) {
    planned.needs = memory->needs, planned.usable = memory->usable;
    if (memory->needs > memory->usable) return planned;
  }
  const PlanOutcome outcome = evaluator_.outcome(*planned.plan);
  if (!memory) planned.needs = outcome.peak, planned.usable = request_.cluster.usable_memory();
  if (planned.needs <= planned.usable) planned.step = outcome.step;
  return planned;
}

ConsideredPlan DegreesSearch::considered(const Degrees& degrees) {
  ConsideredPlan of;
  of.microbatches = degrees.micro_batches;
  of.schedule = degrees.schedule;
  of.chunks = degrees.chunks;
  of.degrees = text_of(degrees);
  return of;
}

void DegreesSearch::note(const Degrees& degrees, const Planned& planned) const {
  using Fate = ConsideredPlan::Fate;
  ConsideredPlan of = considered(degrees);
  of.stages = planned.stages;
  of.why = planned.wrong;
  of.fate = planned.step ? Fate::Fits : planned.plan ? Fate::TooLarge : Fate::Inexpressible;
  if (planned.plan) {
    of.layer_starts = planned.plan->plan.layer_starts;
    of.needs = planned.needs;
  }
  of.simulated = of.score = planned.step;
  if (of.fate == Fate::TooLarge)
    of.why = fmt::format("needs {} of {} per device", human_bytes(planned.needs), human_bytes(planned.usable));
  request_.record->add(std::move(of));
}

// The degrees that were not planned.
void DegreesSearch::note_rest(const std::vector<Ordered>& ordered) const {
  for (const auto& [degrees, bound] : ordered) {
    if (taken_.contains(text_of(degrees))) continue;
    ConsideredPlan of = considered(degrees);
    of.estimated = bound;
    of.fate = too_large_.rule_out(degrees)     ? ConsideredPlan::Fate::RuledOut
              : best_ && bound >= *best_->step ? ConsideredPlan::Fate::Bound
                                               : ConsideredPlan::Fate::Limit;
    request_.record->add(std::move(of));
  }
}

// In order of the bounds, so that of equal steps the first stays.
void DegreesSearch::take(const Degrees& degrees, Planned planned) {
  taken_.insert(text_of(degrees));
  if (request_.record != nullptr) note(degrees, planned);
  if (!planned.plan) {
    if (wrong_.empty()) wrong_ = planned.wrong;
    return;
  }
  if (planned.step) {
    ++log_.simulations;
    if (!best_ || *planned.step < *best_->step) best_ = std::move(planned);
    return;
  }
  planned.plan.reset();
  too_large_.add(degrees);
  if (!smallest_ || planned.needs - planned.usable < smallest_->second.needs - smallest_->second.usable)
    smallest_ = {degrees, std::move(planned)};
}

PlanningResult DegreesSearch::result_of(const AllDegrees& all, std::size_t planned, std::optional<Seconds> bound) {
  const Framework& framework = *request_.search.launch_for;
  PlanningResult result;
  log_.points_ruled_out = static_cast<std::int64_t>(all.legal.size() - planned);
  log_.how = fmt::format("{} launches {} of {} combinations of degrees; {} were planned, {}", framework.name,
                         all.legal.size(), all.tried, planned,
                         log_.interrupted                  ? "then the search was interrupted"
                         : !bound                          ? "all that may fit"
                         : best_ && *bound >= *best_->step ? "no other can be faster"
                                                           : "the most promising");
  result.log = log_;
  if (best_) {
    PlanOfGraph& made = *best_->plan;
    PlanProgram program{made.graph, std::move(made.plan), {}, {}};
    program.program = lower(program.plan, *program.graph, costs_);
    program = check_plan_program(std::move(program));
    if (evaluator_.plain() != nullptr)
      take_peaks(program, evaluator_.step_of_plan({program.plan, program.graph}, program.program, program.check).peaks);
    program.plan.predicted.step_time = *best_->step;
    result.lower_bound_within_layers = std::min(*best_->step, bound.value_or(*best_->step));
    result.plan = std::move(program.plan);
    result.graph = *program.graph;
    result.program = std::move(program.program);
    result.check = std::move(program.check);
    return result;
  }
  if (all.legal.empty()) {
    const auto most = std::max_element(all.broken.begin(), all.broken.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    result.reason =
        fmt::format("{} launches none of {} combinations of degrees on {} devices; most often {}", framework.name,
                    all.tried, request_.cluster.devices(), most == all.broken.end() ? "there is none" : most->first);
  } else if (smallest_) {
    result.reason = fmt::format(
        "of the {} combinations of degrees that {} launches none fits; the nearest, {}, needs {} of {} per device",
        all.legal.size(), framework.name, text_of(smallest_->first), human_bytes(smallest_->second.needs),
        human_bytes(smallest_->second.usable));
  } else {
    result.reason = wrong_;
  }
  return result;
}

PlanningResult DegreesSearch::run() {
  const AllDegrees all = all_degrees(*request_.search.launch_for, request_);
  if (request_.progress)
    request_.progress(fmt::format("{} launches {} of {} combinations of degrees", request_.search.launch_for->name,
                                  all.legal.size(), all.tried));
  build_graphs(all.legal);
  const std::vector<Ordered> ordered = in_order(all.legal);
  std::map<ProbeKey, Degrees> probes = probes_of(all.legal);
  std::size_t next = 0, planned = 0;
  while (next < ordered.size() && planned < kMaxPlanned && !stopped()) {
    if (best_ && ordered[next].bound >= *best_->step) break;
    // The next ones that may fit, and of each kind that was not met before the one that keeps least in its place.
    std::vector<Degrees> wave;
    std::vector<Ordered> delayed;
    for (; next < ordered.size() && wave.size() < kWave; ++next) {
      const Degrees& degrees = ordered[next].degrees;
      if (too_large_.rule_out(degrees) || taken_.contains(text_of(degrees))) continue;
      const auto probe = probes.find(probe_key(degrees));
      if (probe == probes.end()) {
        wave.push_back(degrees);
        continue;
      }
      if (probe->second != degrees) delayed.push_back(ordered[next]);
      wave.push_back(probe->second);
      probes.erase(probe);
    }
    planned += plan_wave(wave);
    // Those whose place was taken are as promising as any after them.
    wave.clear();
    for (const Ordered& of : delayed)
      if (!taken_.contains(text_of(of.degrees)) && !too_large_.rule_out(of.degrees) &&
          !(best_ && of.bound >= *best_->step))
        wave.push_back(of.degrees);
    planned += plan_wave(wave);
    if (request_.progress)
      request_.progress(fmt::format("{} of {} combinations planned; {}", planned, ordered.size(),
                                    best_ ? "best " + human_seconds(*best_->step) : "none fits so far"));
  }
  if (request_.record != nullptr) note_rest(ordered);
  return result_of(all, planned, next < ordered.size() ? std::optional(ordered[next].bound) : std::nullopt);
}

std::size_t DegreesSearch::plan_wave(const std::vector<Degrees>& wave) {
  std::vector<Planned> found(wave.size());
  for_each_index(wave.size(), request_.threads, [&](std::size_t i) { found[i] = follow_up(wave[i]); });
  for (std::size_t i = 0; i < wave.size(); ++i) take(wave[i], std::move(found[i]));
  return wave.size();
}

}  // namespace

PlanRequest request_of(const PlanRequest& request, const Degrees& degrees) {
  PlanRequest of = request;
  SearchOptions& search = of.search;
  search.launch_for = nullptr;
  search.method = method_from_text(method_text(degrees));
  search.microbatches = degrees.micro_batches;
  search.schedule = degrees.schedule;
  search.chunks = std::max(2, degrees.chunks);
  search.recompute = degrees.recompute;
  search.layers = ModelDefault{};
  search.layer_cut = {};
  search.layer_cut.cut = cut_for_stages(shape_of(request.model).blocks, degrees.stages());
  of.goal = {};
  of.threads = 1;
  of.progress = {};
  of.steps = nullptr;
  of.record = nullptr;
  of.stop = {};
  return of;
}

PlanningResult search_degrees(const PlanRequest& request, const CostModel& costs, PlanEvaluator& evaluator) {
  const Framework& framework = *request.search.launch_for;
  require(request.cluster.uniform(),
          "{} launches one set of degrees on devices that are alike, but {} has {} kinds of "
          "hosts; choose a framework with a mesh for each stage, as alpa.",
          framework.name, request.cluster.name, request.cluster.groups.size());
  require(shape_of(request.model).heads > 0,
          "{} launches transformers, and model {} has no attention heads; leave the framework out.", framework.name,
          request.model.name);
  return DegreesSearch(request, costs, evaluator).run();
}

}  // namespace meshwright
