// SPDX-License-Identifier: Apache-2.0
#include "core/planner/degrees/degrees_search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/errors.h"
#include "core/base/parallel.h"
#include "core/base/text.h"
#include "core/planner/degrees/degrees_bounds.h"
#include "core/planner/degrees/degrees_modules.h"
#include "core/planner/degrees/degrees_order.h"
#include "core/planner/degrees/degrees_plans.h"
#include "core/planner/degrees/first_degrees.h"
#include "core/planner/degrees/too_large_degrees.h"
#include "core/planner/method/stage_layout.h"
#include "core/planner/search/considered.h"
#include "core/planner/search/plan_program.h"

namespace meshwright {

namespace {

constexpr std::size_t kWave = 16;         // degrees that are planned together, whatever the number of threads
constexpr std::size_t kJudged = 4;        // plans that are simulated together
constexpr int kSeen = 4;                  // simulated plans from which others are told to be unlikely
constexpr double kLeastShare = 0.8;       // of what its stages take alone, a step takes at least
constexpr double kLearned = 0.97;         // of what they tell
constexpr std::size_t kMaxBases = 4;      // plans whose ends are made lighter
constexpr int kMaxStagesEach = 16;        // of a rank, where ends are lighter
constexpr std::size_t kMaxRepeating = 4;  // plans whose blocks are recomputed, of which modules may do
constexpr std::size_t kMaxTrials = 64;    // degrees that a stopped search tries for a first plan

// [kind] the one that keeps least.
std::map<ProbeKey, OrderedDegrees> probes_of(const std::vector<OrderedDegrees>& all) {
  const auto rank = [](const Degrees& d) {
    return std::tuple(d.schedule != ScheduleKind::OneFOneB, d.micro_batch, -d.zero, d.chunks);
  };
  std::map<ProbeKey, OrderedDegrees> probes;
  for (const OrderedDegrees& of : all) {
    const auto [known, is_new] = probes.emplace(probe_key(of.degrees), of);
    if (!is_new && rank(of.degrees) < rank(known->second.degrees)) known->second = of;
  }
  return probes;
}

class DegreesSearch {
 public:
  DegreesSearch(const PlanRequest& request, const CostModel& costs, PlanEvaluator& evaluator,
                std::optional<Seconds> to_beat)
      : request_(request),
        to_beat_(to_beat),
        evaluator_(evaluator),
        plans_(request, costs, evaluator, to_beat.has_value()),
        shape_(shape_of(request.model)) {}

  PlanningResult run();
  [[nodiscard]] std::vector<Degrees> fastest() const {
    std::vector<Degrees> found;
    for (const auto& [step, degrees] : in_order_of_steps())
      if (!to_beat_ || step < *to_beat_) found.push_back(degrees);
    return found;
  }

 private:
  // Asked by any thread; of the search as a whole stopped() tells.
  [[nodiscard]] bool is_to_stop() const { return request_.stop && request_.stop(); }
  [[nodiscard]] bool stopped() {
    log_.interrupted = log_.interrupted || is_to_stop();
    return log_.interrupted;
  }
  // Whether a plan that takes so long is of no use.
  [[nodiscard]] bool is_beaten(Seconds step) const {
    return (best_ && step >= *best_->step) || (to_beat_ && step >= *to_beat_);
  }
  // Its stages alone take so long that the plan is not expected to be of use, as steps took that share of them.
  [[nodiscard]] bool is_unlikely(const PlanOfDegrees& planned) const {
    return planned.alone && seen_ >= kSeen && is_beaten(kLearned * least_share_ * *planned.alone);
  }
  void take(const Degrees& degrees, PlanOfDegrees planned);
  // For the request's record.
  [[nodiscard]] static ConsideredPlan considered(const Degrees& degrees);
  void note(const Degrees& degrees, const PlanOfDegrees& planned) const;
  void note_rest(const DegreesOrder& order) const;
  // When the search is to stop, the rest is left. Those that may fit wait to be simulated.
  void plan_wave(const std::vector<OrderedDegrees>& wave);
  // Simulates the most promising of those that wait.
  void judge_some();
  // The next ones of `ordered` that may fit, and of each kind that was not met before the one that keeps least in its
  // place; those whose place was taken are as promising as any after them.
  void plan_next(const std::vector<OrderedDegrees>& ordered, std::size_t& next);
  // Returns the least bound of what was not looked at.
  std::optional<Seconds> plan_in_order(const std::vector<OrderedDegrees>& ordered);
  void plan_smallest(const std::vector<OrderedDegrees>& ordered);
  // The fastest plans, or where none fits the nearest, with fewer blocks at the ends of the pipeline.
  void plan_lighter_ends();
  [[nodiscard]] std::vector<Degrees> lighter_ends_of_fastest() const;
  // Takes the fastest plans that recompute blocks, and the sets with the least bounds that do, and plans them with
  // modules in the place of the blocks.
  void plan_modules(const DegreesOrder& order);
  [[nodiscard]] std::vector<Degrees> bases_of_modules(const DegreesOrder& order) const;
  // Plans these, which no order had, and simulates what may be faster.
  void plan_beside(const std::vector<Degrees>& wanted);
  [[nodiscard]] std::vector<std::pair<Seconds, Degrees>> in_order_of_steps() const {
    std::vector<std::pair<Seconds, Degrees>> all = fitting_;
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    return all;
  }
  // A search that was stopped before it found a plan answers with the first that fits.
  void find_first_plan(const std::vector<Degrees>& all);
  // `bound`: of the first that was not looked at; `proven`: with even stages no other is faster.
  [[nodiscard]] PlanningResult result_of(const AllDegrees& all, std::optional<Seconds> bound, bool proven);

  const PlanRequest& request_;
  const std::optional<Seconds> to_beat_;
  PlanEvaluator& evaluator_;
  DegreesPlans plans_;
  const ModelShape shape_;
  SearchLog log_;
  std::optional<PlanOfDegrees> best_;
  TooLargeDegrees too_large_;
  std::map<ProbeKey, OrderedDegrees> probes_;  // of kinds not met yet
  struct Waiting {
    Degrees degrees;
    PlanOfDegrees planned;
  };
  // Planned, not simulated: by bound, then by number.
  std::map<std::pair<Seconds, std::size_t>, Waiting> waiting_, unlikely_;
  // The least that a step took of what the stages take alone, and of how many.
  double least_share_ = 1.0;
  int seen_ = 0;
  std::size_t planned_ = 0, lighter_ = 0, in_modules_ = 0;     // the latter: with lighter ends, and with modules
  std::vector<std::pair<Seconds, Degrees>> fitting_;           // what was simulated
  std::set<std::string> taken_;                                // texts of the degrees that were planned
  std::optional<std::pair<Degrees, PlanOfDegrees>> smallest_;  // of those that do not fit, the one that lacks the least
  std::string wrong_;                                          // the first
};

ConsideredPlan DegreesSearch::considered(const Degrees& degrees) {
  ConsideredPlan of;
  of.microbatches = degrees.micro_batches;
  of.schedule = degrees.schedule;
  of.chunks = degrees.chunks;
  of.degrees = text_of(degrees);
  return of;
}

void DegreesSearch::note(const Degrees& degrees, const PlanOfDegrees& planned) const {
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

// The degrees that were not planned, and the plans that were not simulated.
void DegreesSearch::note_rest(const DegreesOrder& order) const {
  const auto note = [&](const OrderedDegrees& left, const PlanOfDegrees* planned) {
    using Fate = ConsideredPlan::Fate;
    const Bytes usable = request_.cluster.usable_memory();
    ConsideredPlan of = considered(left.degrees);
    if (left.bound > Seconds(0.0)) of.estimated = left.bound;
    if (planned != nullptr) of.stages = planned->stages, of.layer_starts = planned->plan->plan.layer_starts;
    of.fate = left.needs > usable                                                      ? Fate::TooLarge
              : too_large_.rule_out(left.degrees)                                      ? Fate::RuledOut
              : is_beaten(left.bound) || (planned != nullptr && is_unlikely(*planned)) ? Fate::Bound
                                                                                       : Fate::Limit;
    if (of.fate == Fate::TooLarge)
      of.why = fmt::format("needs at least {} of {} per device", human_bytes(left.needs), human_bytes(usable));
    request_.record->add(std::move(of));
  };
  for (const auto* of_order : {&order.by_bound, &order.too_large})
    for (const OrderedDegrees& of : *of_order)
      if (!taken_.contains(text_of(of.degrees))) note(of, nullptr);
  for (const auto* left : {&waiting_, &unlikely_})
    for (const auto& [key, waiting] : *left) note({waiting.degrees, key.first}, &waiting.planned);
}

// In order of the bounds, so that of equal steps the first stays.
void DegreesSearch::take(const Degrees& degrees, PlanOfDegrees planned) {
  taken_.insert(text_of(degrees));
  if (request_.record != nullptr) note(degrees, planned);
  if (!planned.plan) {
    if (wrong_.empty()) wrong_ = planned.wrong;
    return;
  }
  if (planned.step) {
    ++log_.simulations;
    fitting_.emplace_back(*planned.step, degrees);
    if (!is_beaten(*planned.step)) best_ = std::move(planned);
    return;
  }
  planned.plan.reset();
  too_large_.add(degrees);
  if (!smallest_ || planned.needs - planned.usable < smallest_->second.needs - smallest_->second.usable)
    smallest_ = {degrees, std::move(planned)};
}

PlanningResult DegreesSearch::result_of(const AllDegrees& all, std::optional<Seconds> bound, bool proven) {
  const Framework& framework = *request_.search.launch_for;
  PlanningResult result;
  log_.points_ruled_out = static_cast<std::int64_t>(all.legal.size() - (planned_ - lighter_ - in_modules_));
  log_.how = fmt::format("{} launches {} of {} combinations of degrees; {} were planned, {}", framework.name,
                         all.legal.size(), all.tried, planned_ - lighter_ - in_modules_,
                         log_.interrupted ? "then the search was interrupted"
                         : !bound         ? "all that may fit"
                         : proven         ? "no other can be faster"
                                          : "the most promising");
  if (in_modules_ > 0)
    log_.how += fmt::format(", then {} of the fastest that recompute modules in the place of blocks", in_modules_);
  if (lighter_ > 0) log_.how += fmt::format(", then {} with fewer blocks at the ends of the fastest", lighter_);
  result.log = log_;
  if (best_) {
    PlanOfGraph& made = *best_->plan;
    PlanProgram program = on_trial(std::move(made.plan), made.graph, evaluator_);
    if (evaluator_.plain() != nullptr) take_peaks(program.plan, program.trial->step().peaks);
    program.plan.predicted.step_time = *best_->step;
    result.lower_bound_within_layers = std::min(*best_->step, bound.value_or(*best_->step));
    result.plan = std::move(program.plan);
    result.graph = *program.graph;
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
  std::optional<Seconds> bound = Seconds(0.0);
  DegreesOrder order;
  if (!stopped()) order = order_of_degrees(all.legal, request_, plans_, [&] { return is_to_stop(); });
  log_.points = order.kinds;
  if (!stopped()) {
    bound = plan_in_order(order.by_bound);
    if (request_.record != nullptr) note_rest(order);
  }
  if (!best_ && stopped()) find_first_plan(all.legal);
  if (!best_ && !stopped() && !smallest_ && !to_beat_) plan_smallest(order.by_bound);
  const bool proven = bound && is_beaten(*bound);
  if (!stopped()) plan_modules(order);
  if (!stopped()) plan_lighter_ends();
  return result_of(all, bound, proven);
}

// Best first: what is the most promising by its bound is planned, and what is planned, by its stages' times, simulated.
std::optional<Seconds> DegreesSearch::plan_in_order(const std::vector<OrderedDegrees>& ordered) {
  probes_ = probes_of(ordered);
  std::size_t next = 0;
  for (std::optional<Seconds> left;;) {
    const std::optional<Seconds> before = left;
    left = next < ordered.size() ? std::optional(ordered[next].bound) : std::nullopt;
    const bool plans =
        left && planned_ < request_.search.most_degrees && (waiting_.empty() || *left <= waiting_.begin()->first.first);
    if (!waiting_.empty()) left = std::min(left.value_or(waiting_.begin()->first.first), waiting_.begin()->first.first);
    if (stopped()) return before ? before : left;  // some of what was begun may be left
    // Beyond the most that are planned, those that wait are simulated as long as one of them may be faster.
    if (!left || is_beaten(*left) || (!plans && (waiting_.empty() || is_beaten(waiting_.begin()->first.first))))
      return left;
    if (plans)
      plan_next(ordered, next);
    else
      judge_some();
    if (request_.progress)
      request_.progress(fmt::format("{} of {} combinations planned; {}", planned_, ordered.size(),
                                    best_      ? "best " + human_seconds(*best_->step)
                                    : to_beat_ ? "none is better than " + human_seconds(*to_beat_)
                                               : "none fits so far"));
  }
}

void DegreesSearch::plan_next(const std::vector<OrderedDegrees>& ordered, std::size_t& next) {
  std::vector<OrderedDegrees> wave, delayed;
  for (; next < ordered.size() && wave.size() < kWave; ++next) {
    const OrderedDegrees& of = ordered[next];
    if (of.needs > request_.cluster.usable_memory()) continue;
    if (too_large_.rule_out(of.degrees) || taken_.contains(text_of(of.degrees))) continue;
    // It may already stand in the wave, in another's place.
    if (std::any_of(wave.begin(), wave.end(), [&](const OrderedDegrees& other) { return other.degrees == of.degrees; }))
      continue;
    const auto probe = probes_.find(probe_key(of.degrees));
    if (probe == probes_.end()) {
      wave.push_back(of);
      continue;
    }
    if (probe->second.degrees != of.degrees) delayed.push_back(of);
    wave.push_back(probe->second);
    probes_.erase(probe);
  }
  plan_wave(wave);
  std::erase_if(delayed, [&](const OrderedDegrees& of) {
    return taken_.contains(text_of(of.degrees)) || too_large_.rule_out(of.degrees);
  });
  plan_wave(delayed);
}

void DegreesSearch::plan_wave(const std::vector<OrderedDegrees>& wave) {
  std::vector<Degrees> all;
  for (const OrderedDegrees& of : wave) all.push_back(of.degrees);
  plans_.build_graphs(all);
  std::vector<std::optional<PlanOfDegrees>> found(wave.size());
  for_each_index(wave.size(), request_.threads, [&](std::size_t i) {
    if (is_to_stop()) return;
    found[i] = plans_.plan_of(wave[i].degrees);
  });
  for (std::size_t i = 0; i < wave.size(); ++i) {
    if (!found[i]) continue;
    ++planned_;
    taken_.insert(text_of(wave[i].degrees));
    if (!found[i]->plan || found[i]->needs > found[i]->usable) {
      take(wave[i].degrees, *std::move(found[i]));
      continue;
    }
    const Seconds bound =
        std::max({wave[i].bound, found[i]->floor, kLeastShare * found[i]->alone.value_or(Seconds(0.0))});
    waiting_.emplace(std::pair(bound, planned_), Waiting{wave[i].degrees, *std::move(found[i])});
  }
}

void DegreesSearch::judge_some() {
  std::vector<Waiting> some;
  while (!waiting_.empty() && some.size() < kJudged && !is_beaten(waiting_.begin()->first.first)) {
    auto next = waiting_.extract(waiting_.begin());
    if (is_unlikely(next.mapped().planned))
      unlikely_.insert(std::move(next));
    else
      some.push_back(std::move(next.mapped()));
  }
  for_each_index(some.size(), request_.threads, [&](std::size_t i) { plans_.judge(some[i].planned); });
  for (Waiting& of : some) {
    if (of.planned.step && of.planned.alone) {
      const double share = *of.planned.step / *of.planned.alone;
      least_share_ = seen_++ == 0 ? share : std::min(least_share_, share);
    }
    take(of.degrees, std::move(of.planned));
  }
}

// So that the reason names what is nearest to the memory.
void DegreesSearch::plan_smallest(const std::vector<OrderedDegrees>& ordered) {
  const auto smallest =
      std::min_element(ordered.begin(), ordered.end(),
                       [](const OrderedDegrees& a, const OrderedDegrees& b) { return a.needs < b.needs; });
  if (smallest == ordered.end() || smallest->needs <= request_.cluster.usable_memory()) return;
  plans_.graph_of(smallest->degrees);
  PlanOfDegrees planned = plans_.plan_of(smallest->degrees);
  if (planned.plan) plans_.judge(planned);
  take(smallest->degrees, std::move(planned));
  ++planned_;
}

std::vector<Degrees> DegreesSearch::lighter_ends_of_fastest() const {
  const Framework& framework = *request_.search.launch_for;
  std::vector<std::pair<Seconds, Degrees>> bases = in_order_of_steps();
  if (bases.empty() && smallest_) bases.emplace_back(Seconds(0.0), smallest_->first);
  bases.erase(bases.begin() + static_cast<std::ptrdiff_t>(std::min(kMaxBases, bases.size())), bases.end());
  std::vector<Degrees> found;
  for (const auto& [step, base] : bases) {
    if (base.schedule != ScheduleKind::OneFOneB && base.schedule != ScheduleKind::Interleaved) continue;
    for (int chunks = 1; chunks <= kMaxStagesEach; ++chunks) {
      Degrees degrees = base;
      degrees.chunks = chunks;
      // Another number of stages on each rank may be another schedule, if the request leaves that open.
      degrees.schedule = chunks == 1 ? ScheduleKind::OneFOneB : ScheduleKind::Interleaved;
      if (degrees.schedule != base.schedule && !request_.any_schedule()) continue;
      const auto* given = std::get_if<int>(&request_.search.chunks);
      if (chunks > 1 && given != nullptr && chunks != *given) continue;
      for (const StageSplit& split : lighter_ends(shape_.blocks, degrees.pp, chunks, shape_.further)) {
        degrees.split = shape_.further == 0 ? split
                                            : with_further_modules(split, shape_.blocks, degrees.pp, chunks,
                                                                   static_cast<int>(shape_.further));
        if (broken_rules(framework, shape_, degrees).empty() &&
            std::find(found.begin(), found.end(), degrees) == found.end())
          found.push_back(degrees);
      }
    }
  }
  return found;
}

void DegreesSearch::plan_lighter_ends() {
  if (!request_.search.launch_for->splits_ends) return;
  const std::size_t before = planned_;
  plan_beside(lighter_ends_of_fastest());
  lighter_ = planned_ - before;
}

void DegreesSearch::plan_beside(const std::vector<Degrees>& wanted) {
  std::vector<OrderedDegrees> wave;
  for (const Degrees& degrees : wanted) wave.push_back({degrees});
  waiting_.clear();
  plan_wave(wave);
  while (!waiting_.empty() && !is_beaten(waiting_.begin()->first.first) && !stopped()) judge_some();
}

// What has to beat a step may be slower with whole blocks, and is not simulated then.
std::vector<Degrees> DegreesSearch::bases_of_modules(const DegreesOrder& order) const {
  std::vector<Degrees> bases;
  const auto add = [&](const Degrees& degrees, std::size_t most) {
    const bool repeats = degrees.recompute != Recompute::None && bases.size() < most;
    if (repeats && std::find(bases.begin(), bases.end(), degrees) == bases.end()) bases.push_back(degrees);
  };
  for (const auto& [step, degrees] : in_order_of_steps()) add(degrees, kMaxRepeating);
  const std::size_t by_steps = bases.size();
  for (const OrderedDegrees& of : order.by_bound)
    if (of.needs <= request_.cluster.usable_memory() && !too_large_.rule_out(of.degrees))
      add(of.degrees, by_steps + kMaxRepeating);
  return bases;
}

void DegreesSearch::plan_modules(const DegreesOrder& order) {
  if (!request_.search.launch_for->recomputes_modules || !request_.any_recompute()) return;
  std::vector<Degrees> wanted;
  for (const Degrees& base : bases_of_modules(order))
    for (const Degrees& degrees : with_modules_for_blocks(base, modules_of(plans_.graph_of(base))))
      wanted.push_back(degrees);
  const std::size_t before = planned_;
  plan_beside(wanted);
  in_modules_ = planned_ - before;
}

void DegreesSearch::find_first_plan(const std::vector<Degrees>& all) {
  if (all.empty()) return;
  // What was planned before the stop has only to be simulated.
  while (!best_ && !waiting_.empty() && !is_beaten(waiting_.begin()->first.first)) {
    auto next = waiting_.extract(waiting_.begin());
    plans_.judge(next.mapped().planned);
    take(next.mapped().degrees, std::move(next.mapped().planned));
  }
  const ReplicaBytes replica = bytes_of_replica(plans_.graph_of(all.front()));
  std::size_t tried = 0;
  for (const Degrees& degrees : in_order_of_trial(all, replica, request_.cluster.usable_memory())) {
    if (best_ || tried == kMaxTrials) return;
    if (too_large_.rule_out(degrees) || taken_.contains(text_of(degrees))) continue;
    plans_.graph_of(degrees);
    PlanOfDegrees planned = plans_.plan_of(degrees);
    if (planned.plan && planned.needs <= planned.usable) plans_.judge(planned);
    take(degrees, std::move(planned));
    ++planned_;
    ++tried;
  }
}

}  // namespace

FoundDegrees find_degrees(const PlanRequest& request, const CostModel& costs, PlanEvaluator& evaluator,
                          std::optional<Seconds> to_beat) {
  const Framework& framework = *request.search.launch_for;
  require(request.cluster.uniform(),
          "{} launches one set of degrees on devices that are alike, but {} has {} kinds of "
          "hosts; choose a framework with a mesh for each stage, as alpa.",
          framework.name, request.cluster.name, request.cluster.groups.size());
  require(shape_of(request.model).heads > 0,
          "{} launches transformers, and model {} has no attention heads; leave the framework out.", framework.name,
          request.model.name);
  expect_further_tokens(framework, request.model);
  DegreesSearch search(request, costs, evaluator, to_beat);
  PlanningResult result = search.run();
  return {std::move(result), search.fastest()};
}

}  // namespace meshwright
