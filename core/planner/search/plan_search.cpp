// SPDX-License-Identifier: Apache-2.0
// Which numbers of micro-batches are searched. With few, a pipeline is badly filled and a micro-batch takes much
// memory; with many, the devices are badly filled. The stage costs of two numbers far apart are computed, and the cost
// of the best pipeline for the others is predicted from them (predict_point). The most promising numbers are searched,
// and the others predicted anew from the points beside them, until no prediction comes near the best plan. Last come
// the divisors of the batch around the best number, predicted from its own stages. A one-stage method has no pipeline
// to fill: its search begins with one micro-batch and ends when two numbers in a row were no better, as fewer samples
// never fill a device better.
//
// With several schedules, the first is searched as if it were alone. The others are ranked by simulations of their
// stages alone, and searched where these promise more than the best plan. Predictions are for the first schedule.
#include "core/planner/search/plan_search.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/divisors.h"
#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/planner/search/considered.h"
#include "core/planner/search/point_search.h"

namespace meshwright {

namespace {

constexpr std::int64_t kMaxMicrobatches = 1024;
constexpr double kPromise = 0.985;       // a plan may take this share of its prediction
constexpr double kPromiseHidden = 0.93;  // the same where communication hides: predictions only estimate how much
constexpr double kGain = 0.9995;         // a number near the best must promise this share of the best's prediction
constexpr int kMaxNearby = 2;            // numbers near the best that are searched
constexpr int kMaxLayers = 64;
constexpr std::int64_t kMaxHalves = 1 << 20;  // devices times the square of twice the blocks, for a cut of half blocks
constexpr double kNear = 1.1;    // times the best by stages alone: schedules that are tried with half blocks
constexpr int kFewDevices = 16;  // their first plan comes before anyone could ask for it

// Other methods give them.
bool searches_stages(const PlanRequest& request) { return request.search.method.kind == Method::Kind::Pipeshard; }

// Divisors of the batch, each the first that is at least twice the one before; one sample per micro-batch is the last.
std::vector<std::int64_t> microbatch_counts(std::int64_t batch) {
  std::vector<std::int64_t> counts = {1};
  for (const std::int64_t m : divisors(batch, kMaxMicrobatches))
    if (m > 1 && (m >= 2 * counts.back() || m == batch)) counts.push_back(m);
  return counts;
}

// The other divisors of the batch between the neighbours of `best` among `counts`.
std::vector<std::int64_t> counts_around(const std::vector<std::int64_t>& counts, std::int64_t batch,
                                        std::int64_t best) {
  const auto own = std::lower_bound(counts.begin(), counts.end(), best);
  const std::int64_t before = own == counts.begin() ? best : own[-1];
  const std::int64_t last = own + 1 == counts.end() ? kMaxMicrobatches : own[1] - 1;
  std::vector<std::int64_t> around = divisors(batch, last);
  std::erase_if(around, [&](std::int64_t m) { return m <= before || m == best; });
  return around;
}

std::vector<ScheduleKind> schedules_of(const PlanRequest& request) {
  if (!request.any_schedule()) return {request.first_schedule()};
  std::vector<ScheduleKind> schedules = all_schedules();
  // Passes of a rank run one at a time here. Unless a pass hides the exchange of tokens beside it, zb-v mostly takes
  // less time and memory than dualpipe-v, which large requests search by name alone.
  const bool large = is_large(request, request.training.batch);
  std::erase_if(schedules, [large](ScheduleKind kind) {
    return !traits_of(kind).trains || (large && kind == ScheduleKind::DualPipeV);
  });
  return schedules;
}

// Leaves those that the schedule can run. Among all schedules some run any number.
std::vector<std::int64_t> possible(std::vector<std::int64_t> counts, const PlanRequest& request) {
  if (request.any_schedule()) return counts;
  const ScheduleKind schedule = request.first_schedule();
  std::optional<std::string> unmet;
  std::erase_if(counts, [&](std::int64_t count) {
    auto why = unmet_by(request, schedule, count);
    if (!why) return false;
    unmet = std::move(why);
    return true;
  });
  require(!counts.empty(),
          "no number of micro-batches of a batch of {} suits schedule {}, which needs {}; give another --batch or "
          "--method, or another schedule.",
          request.training.batch, name_of(schedule), unmet.value_or(""));
  return counts;
}

class PlanSearch {
 public:
  PlanSearch(const PlanRequest& request, const CostModel& costs, PlanEvaluator& evaluator, NearPlans* near)
      : request_(request),
        context_(request, costs, evaluator),
        incumbent_(request, near),
        schedules_(schedules_of(request)) {}

  void search_microbatches(SearchPoint at);
  // Finer and coarser cuts, at the best number of micro-batches.
  void search_layers(SearchPoint at);
  // Small requests: the best cut suits other numbers of micro-batches than the first, and these other cuts.
  void search_around(const SearchPoint& first);
  // A search that was stopped before it found a plan answers with a plain one: the first by cost of pipelines of like
  // stages, with tensor parallelism within the hosts and data parallelism between them; or what the method gives.
  void find_first_plan(SearchPoint at);
  [[nodiscard]] std::optional<PlanRequest> first_request() const;
  [[nodiscard]] PlanningResult take_result();

 private:
  using Points = std::map<std::int64_t, std::unique_ptr<PointSearch>>;  // by number of micro-batches
  using Predictions = std::map<std::int64_t, Seconds>;                  // the same; none where nothing fits

  [[nodiscard]] std::unique_ptr<PointSearch> prepare(const SearchPoint& at,
                                                     std::optional<Seconds> to_beat = std::nullopt);
  // What pipelines of another cut have to beat by their stages alone. No prediction is made from its stages, so that
  // those of other pipelines need no costs. nullopt: nobody knows, or a refinement may change the order of plans.
  [[nodiscard]] std::optional<Seconds> to_beat() const;
  void note_profile(const PointSearch& search);
  // Whether the point has a better plan.
  bool search_point(const SearchPoint& at, PointSearch& search) { return search_point(at, search, schedules_); }
  bool search_point(const SearchPoint& at, PointSearch& search, const std::vector<ScheduleKind>& schedules);
  bool search_point(const SearchPoint& at) { return search_point(at, *prepare(at)); }
  void search_every_count(SearchPoint at);
  void search_counts_in_order(SearchPoint at, const std::vector<std::int64_t>& counts);
  void search_for_serving(SearchPoint at, const std::vector<std::int64_t>& counts);
  void search_predicted(SearchPoint at, const std::vector<std::int64_t>& counts);
  Predictions predict_around(const std::vector<std::int64_t>& counts, const Points& points);
  [[nodiscard]] std::optional<Seconds> predict(const PointSearch& own, const PointSearch& other, std::int64_t count);
  // The two points between which the number of micro-batches lies, or that come next to it. REQUIRES: two points.
  [[nodiscard]] static std::pair<const PointSearch*, const PointSearch*> nearest(const Points& points,
                                                                                 std::int64_t count);
  [[nodiscard]] bool may_cut_anew() const;
  [[nodiscard]] std::vector<SearchPoint> other_cuts(SearchPoint at) const;
  // The best point with the next smaller and larger numbers of micro-batches, then with other cuts.
  [[nodiscard]] std::vector<SearchPoint> points_around(const SearchPoint& first) const;
  void step_around(const SearchPoint& first);
  [[nodiscard]] std::optional<SearchPoint> half_blocks(SearchPoint at) const;
  [[nodiscard]] std::vector<ScheduleKind> near_schedules() const;
  [[nodiscard]] std::string how_it_stopped() const;
  void note_ruled_out(std::vector<int> layer_starts, std::int64_t microbatches, Seconds estimated,
                      const char* why) const {
    if (request_.record != nullptr)
      request_.record->add(considered_point(std::move(layer_starts), microbatches, schedules_.front(), estimated, why));
  }

  template <class Counts, class Predict>
  Predictions predict_each(const Counts& counts, const Predict& predict) {
    Predictions predicted;
    for (const std::int64_t count : counts) {
      if (context_.stopped()) break;
      if (const auto cost = predict(count)) predicted.emplace(count, *cost);
    }
    return predicted;
  }

  [[nodiscard]] double promise() const { return context_.evaluator.hides_communication() ? kPromiseHidden : kPromise; }

  // Calls search(count) for at most `max` counts, the most promising first, until no prediction comes near the best.
  // revise(counts) predicts those that are left anew.
  template <class Search, class Revise>
  void search_promising(Predictions predicted, int max, const Search& search, const Revise& revise) {
    for (; !predicted.empty() && !context_.stopped(); --max) {
      const auto next = std::min_element(predicted.begin(), predicted.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
      if (max == 0 || (incumbent_.score() && promise() * next->second >= *incumbent_.score())) {
        context_.log.points_ruled_out += static_cast<std::int64_t>(predicted.size());
        for (const auto& [count, cost] : predicted)
          note_ruled_out({}, count, cost, "predicted from other micro-batches");
        return;
      }
      search(next->first);
      predicted.erase(next);
      predicted = revise(std::move(predicted));
    }
  }

  const PlanRequest& request_;
  SearchContext context_;
  PlanIncumbent incumbent_;
  std::vector<ScheduleKind> schedules_;
  std::optional<int> first_layers_;  // of the first point searched
  std::optional<int> covered_;       // number of layers of which its point looked at all stages, too
  SearchPoint best_;                 // the incumbent's
  std::vector<SearchPoint> searched_;
  std::vector<SearchPoint> fitting_;  // of which a program fits, better than others or not
  // By the micro-batches of two points and the number in question.
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::optional<Seconds>> predicted_;
  std::map<ScheduleKind, Seconds> promised_;  // where there are several: the least of all points, by stages alone
  std::optional<StageProfileTable> stage_profile_;
  bool profile_used_ = false;                  // the request's stage profile has entries for some point
  std::optional<StageProfileKey> unused_key_;  // of the last point that it has none for
};

// --- one point ---

std::unique_ptr<PointSearch> PlanSearch::prepare(const SearchPoint& at, std::optional<Seconds> to_beat) {
  auto search = std::make_unique<PointSearch>(context_, prepare_point(context_, at, to_beat));
  note_profile(*search);
  return search;
}

bool PlanSearch::search_point(const SearchPoint& at, PointSearch& search, const std::vector<ScheduleKind>& schedules) {
  if (!first_layers_) first_layers_ = search.point().layers();
  searched_.push_back(at);
  if (request_.goal.objective == Goal::Objective::StepTime && incumbent_.score() &&
      incumbent_.near_share() * search.point().bounds.known >= *incumbent_.score()) {
    ++context_.log.points_ruled_out;
    note_ruled_out(search.point().cut->layer_starts(), at.microbatches, search.point().bounds.known,
                   "no plan of these takes less");
    return false;
  }
  bool better = false;
  const bool several = schedules_.size() > 1;
  for (const ScheduleKind schedule : several ? search.rank(schedules) : schedules) {
    if (context_.stopped()) break;
    if (several && !search.is_promising(schedule, incumbent_)) continue;
    if (search.run(schedule, incumbent_)) better = true;
    if (request_.goal.front) search.widen(schedule, incumbent_);
  }
  for (const ScheduleKind schedule : schedules)
    if (const auto promised = search.promised(schedule)) {
      Seconds& least = promised_.try_emplace(schedule, *promised).first->second;
      least = std::min(least, *promised);
    }
  note_profile(search);  // one-stage methods may have asked for other memory
  if (search.fits()) fitting_.push_back(at);
  if (better) {
    best_ = at;
    covered_ = search.point().coarser ? std::optional(search.point().coarser->layers) : std::nullopt;
  }
  if (request_.stage_profile.keep && incumbent_.plan() && (better || !stage_profile_))
    stage_profile_ = stage_profile_of(request_, search.point());
  return better;
}

// --- numbers of micro-batches ---

void PlanSearch::search_microbatches(SearchPoint at) {
  if (const auto* given = std::get_if<std::int64_t>(&request_.search.microbatches)) {
    at.microbatches = *given;
    search_point(at);
    return;
  }
  const std::vector<std::int64_t> counts = possible(microbatch_counts(request_.training.batch), request_);
  if (request_.goal.objective != Goal::Objective::StepTime) return search_for_serving(at, counts);
  if (is_small(request_)) return search_every_count(at);
  // Whether given stages fit, their programs say more closely than the table.
  if (!searches_stages(request_) || counts.size() <= 3) return search_counts_in_order(at, counts);
  search_predicted(at, counts);
}

// Predictions and bounds are of a step's time, which is not the goal; smaller micro-batches answer sooner.
void PlanSearch::search_for_serving(SearchPoint at, const std::vector<std::int64_t>& counts) {
  for (auto count = counts.rbegin(); count != counts.rend() && !context_.stopped(); ++count) {
    at.microbatches = *count;
    search_point(at);
  }
}

// Numbers in the middle first: the best plan is mostly near them, and rules out others.
void PlanSearch::search_every_count(SearchPoint at) {
  std::vector<std::int64_t> counts = possible(divisors(request_.training.batch, kMaxMicrobatches), request_);
  const auto middle = static_cast<std::ptrdiff_t>(counts.size() / 2);
  std::stable_sort(counts.begin(), counts.end(), [middle = counts[middle]](std::int64_t a, std::int64_t b) {
    const auto from_middle = [&](std::int64_t m) { return std::max(m * 1.0 / middle, middle * 1.0 / m); };
    return from_middle(a) < from_middle(b);
  });
  for (const std::int64_t count : counts) {
    if (context_.log.points > 0 && context_.stopped()) return;
    at.microbatches = count;
    search_point(at);
  }
}

void PlanSearch::search_counts_in_order(SearchPoint at, const std::vector<std::int64_t>& counts) {
  int worse = 0;  // in a row
  for (const std::int64_t count : counts) {
    if (worse == 2 || (count > 1 && context_.stopped())) return;
    at.microbatches = count;
    worse = search_point(at) || !incumbent_.plan() ? 0 : worse + 1;
  }
}

// REQUIRES: at least four counts.
void PlanSearch::search_predicted(SearchPoint at, const std::vector<std::int64_t>& counts) {
  const std::size_t middle = (counts.size() - 1) / 2;
  const std::int64_t few = counts[middle], many = counts[middle + 1 + (counts.size() - 1) / 10], last = counts.back();
  const auto with = [&](std::int64_t count) {
    at.microbatches = count;
    return at;
  };
  Points points;
  for (const std::int64_t count : {many, few}) {
    if (context_.stopped()) return;
    points[count] = prepare(with(count));
  }
  std::set<std::int64_t> left(counts.begin(), counts.end());
  const auto search = [&](std::int64_t count) {
    left.erase(count);
    if (const auto known = points.find(count); known != points.end()) {
      search_point(with(count), *known->second);
      return;
    }
    auto point = prepare(with(count));
    search_point(with(count), *point);
    points[count] = std::move(point);
  };
  Predictions least;  // beyond the points that are known a prediction mostly promises too much
  const auto predict = [&](const Predictions&) {
    Predictions found = predict_each(left, [&](std::int64_t count) {
      const auto [own, other] = nearest(points, count);
      return this->predict(*own, *other, count);
    });
    for (auto& [count, cost] : found) {
      Seconds& before = least.try_emplace(count, cost).first->second;
      if (count < points.begin()->first || count > points.rbegin()->first) cost = std::max(cost, before);
      before = cost;
    }
    return found;
  };
  Predictions predicted = predict({});
  // Where nothing is expected to fit, many small micro-batches have the best chance.
  if (predicted.empty()) predicted.emplace(last, Seconds(0.0));
  search_promising(std::move(predicted), static_cast<int>(counts.size()), search, predict);
  if (!incumbent_.plan() && left.contains(last) && !context_.stopped()) search(last);
  const auto as_before = [](Predictions rest) { return rest; };
  if (incumbent_.plan()) search_promising(predict_around(counts, points), kMaxNearby, search, as_before);
}

// Most points between which a number lies stay the same when another point is searched.
std::optional<Seconds> PlanSearch::predict(const PointSearch& own, const PointSearch& other, std::int64_t count) {
  const std::tuple key(own.point().microbatches(), other.point().microbatches(), count);
  const auto [known, is_new] = predicted_.try_emplace(key);
  if (is_new) known->second = predict_point(context_, own.point(), other.point(), count, schedules_.front());
  return known->second;
}

// The first is the one with more micro-batches.
std::pair<const PointSearch*, const PointSearch*> PlanSearch::nearest(const Points& points, std::int64_t count) {
  auto after = points.lower_bound(count);  // the point itself, or the next with more
  if (after == points.end()) --after;
  if (after == points.begin()) ++after;
  return {after->second.get(), std::prev(after)->second.get()};
}

// The numbers around the best that promise a gain, predicted from its stages and those of the next larger number, where
// more fits.
PlanSearch::Predictions PlanSearch::predict_around(const std::vector<std::int64_t>& counts, const Points& points) {
  const std::int64_t best = best_.microbatches;
  std::vector<std::int64_t> wanted = counts_around(counts, request_.training.batch, best);
  if (!request_.any_schedule())
    std::erase_if(wanted, [&](std::int64_t m) { return unmet_by(request_, request_.first_schedule(), m).has_value(); });
  if (wanted.empty()) return {};
  const auto found = points.find(best), larger = std::next(found);
  const PointSearch& own = *found->second;
  const PointSearch& other = larger == points.end() ? *std::prev(found)->second : *larger->second;
  const auto predict = [&](std::int64_t count) {
    return predict_point(context_, own.point(), other.point(), count, schedules_.front(), own.spare_share());
  };
  Predictions around = predict_each(wanted, predict);
  if (const auto cost = around.empty() ? std::nullopt : predict(best))
    std::erase_if(around, [&](const auto& of) { return of.second > kGain * std::max(*cost, *incumbent_.score()); });
  return around;
}

// --- cuts into layers ---

std::optional<Seconds> PlanSearch::to_beat() const {
  const Goal& goal = request_.goal;
  if (goal.objective != Goal::Objective::StepTime || goal.front || !request_.search.prune ||
      !is_large(request_, best_.microbatches) || incumbent_.near_share() < 1.0)
    return std::nullopt;
  std::optional<Seconds> most;
  for (const ScheduleKind schedule : schedules_) {
    const auto of = meshwright::to_beat({true, context_.evaluator.hides_communication()}, schedule, incumbent_);
    if (!of) continue;
    // Each copy of the layers runs a share of the micro-batches, and its stages may take so much longer for one.
    const Seconds limit = static_cast<double>(traits_of(schedule).copies) * *of;
    most = std::max(most.value_or(limit), limit);
  }
  return most;
}

std::vector<SearchPoint> PlanSearch::other_cuts(SearchPoint at) const {
  const Graph& graph = *incumbent_.best()->graph;
  const int first = *first_layers_;
  at.microbatches = best_.microbatches;
  SearchPoint blocks = at, even_count = at;
  std::vector<SearchPoint> cuts;
  // Among all schedules some suit any number of layers.
  const int least = request_.any_schedule() ? 1 : least_layers(request_, request_.first_schedule());
  for (const int count : {2 * first, first / 2, first / 4}) {
    at.layers = count;
    if (covered_ == count) continue;
    if (count >= least && count <= kMaxLayers && count <= static_cast<int>(forward_ops(graph).size()))
      cuts.push_back(at);
  }
  blocks.layer_cut.cut = LayerOptions::Cut::Blocks;
  const int block_count = static_cast<int>(block_starts(graph).size());
  if (block_count >= std::max(2, least) && block_count <= kMaxLayers) cuts.push_back(blocks);
  even_count.layers = first;
  even_count.layer_cut.cut = LayerOptions::Cut::EvenCount;
  cuts.push_back(even_count);
  return cuts;
}

// Half blocks part the embedding and the loss from the first and the last stage more evenly. Their spans repeat.
std::optional<SearchPoint> PlanSearch::half_blocks(SearchPoint at) const {
  const Graph& graph = *incumbent_.best()->graph;
  const std::int64_t halves = 2 * std::ssize(block_starts(graph));
  if (halves <= kMaxLayers / 2 || request_.cluster.devices() * halves * halves > kMaxHalves ||
      halves > std::ssize(forward_ops(graph)))
    return std::nullopt;
  at.microbatches = best_.microbatches;
  at.layers = static_cast<int>(halves);
  return at;
}

// Those whose pipelines came near the best at some point.
std::vector<ScheduleKind> PlanSearch::near_schedules() const {
  if (promised_.empty()) return schedules_;
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  const Seconds best = std::min_element(promised_.begin(), promised_.end(), less)->second;
  std::vector<ScheduleKind> near;
  for (const ScheduleKind schedule : schedules_) {
    const auto promised = promised_.find(schedule);
    if (promised != promised_.end() && promised->second <= kNear * best) near.push_back(schedule);
  }
  return near;
}

bool PlanSearch::may_cut_anew() const {
  return incumbent_.plan() && !request_.search.layer_cut.fixes_count() && searches_stages(request_);
}

void PlanSearch::search_layers(SearchPoint at) {
  if (!may_cut_anew()) return;
  for (const SearchPoint& other : other_cuts(at)) {
    if (context_.stopped()) return;
    search_point(other, *prepare(other, to_beat()));
  }
  const std::optional<SearchPoint> halves = half_blocks(at);
  if (halves && !context_.stopped()) search_point(*halves, *prepare(*halves, to_beat()), near_schedules());
}

std::vector<SearchPoint> PlanSearch::points_around(const SearchPoint& first) const {
  const std::vector<std::int64_t> counts = possible(divisors(request_.training.batch, kMaxMicrobatches), request_);
  const auto own = std::lower_bound(counts.begin(), counts.end(), best_.microbatches);
  std::vector<SearchPoint> around;
  const auto add = [&](std::int64_t count) {
    around.push_back(best_);
    around.back().microbatches = count;
  };
  if (own != counts.begin()) add(own[-1]);
  if (own + 1 != counts.end()) add(own[1]);
  around.push_back(first);
  around.back().microbatches = best_.microbatches;
  for (const SearchPoint& cut : other_cuts(first)) around.push_back(cut);
  return around;
}

// One step after the other, each to a better plan.
void PlanSearch::step_around(const SearchPoint& first) {
  for (bool better = true; better;) {
    better = false;
    for (const SearchPoint& next : points_around(first)) {
      if (context_.stopped()) return;
      if (std::find(searched_.begin(), searched_.end(), next) != searched_.end()) continue;
      better = search_point(next);
      if (better) break;
    }
  }
}

void PlanSearch::search_around(const SearchPoint& first) {
  if (!is_auto(request_.search.microbatches) || !may_cut_anew() || !is_small(request_) ||
      request_.goal.objective != Goal::Objective::StepTime)
    return;
  step_around(first);
  // A finer cut may make another number of micro-batches the best from which no single step leads on.
  const std::vector<SearchPoint> fitting = fitting_;
  if (fitting.empty()) return;
  const int layers = 2 * *first_layers_;
  if (layers > std::min(kMaxLayers, static_cast<int>(forward_ops(*incumbent_.best()->graph).size()))) return;
  for (SearchPoint finer : fitting) {
    finer.layers = layers;
    finer.layer_cut = first.layer_cut;
    if (context_.stopped()) return;
    if (std::find(searched_.begin(), searched_.end(), finer) != searched_.end()) continue;
    if (search_point(finer)) step_around(first);
  }
}

// --- the first plan ---

// Whether there is a request for the first plan, whose search is short whatever the model.
std::optional<PlanRequest> PlanSearch::first_request() const {
  using enum Method::Kind;
  const Method::Kind kind = request_.search.method.kind;
  const bool free = kind == Pipeshard;
  // What these leave open is not named by a few meshes.
  if (kind == Shard || kind == Specs || (free && !std::holds_alternative<SubmeshSpace>(request_.search.submeshes)))
    return std::nullopt;
  PlanRequest plain = request_;
  plain.stop = {};
  plain.search.schedule = request_.first_schedule();
  if (plain.any_recompute()) plain.search.recompute = Recompute::Full;
  if (free) {
    plain.search.logical_mesh_space = LogicalMeshSpace::SameAsPhysical;
    plain.search.submeshes = whole_host_submeshes(request_.cluster, {1});
  }
  return plain;
}

void PlanSearch::find_first_plan(SearchPoint at) {
  if (incumbent_.plan() || !context_.log.interrupted || request_.cluster.devices() <= kFewDevices ||
      request_.goal.objective != Goal::Objective::StepTime || !request_.trains() ||
      request_.stage_profile.file != nullptr)
    return;
  const std::optional<PlanRequest> plain = first_request();
  if (!plain) return;
  std::vector<std::int64_t> counts = possible(microbatch_counts(request_.training.batch), request_);
  if (const auto* given = std::get_if<std::int64_t>(&request_.search.microbatches)) counts = {*given};
  // Fewer samples in a micro-batch take less memory.
  for (std::size_t c = counts.size() - 1 - (counts.size() - 1) / 4; c < counts.size() && !incumbent_.plan(); ++c) {
    at.microbatches = counts[c];
    SearchContext context(*plain, context_.costs, context_.evaluator);
    Point point = prepare_point(context, at);
    point.bounds = {};  // they are of these stages alone
    PointSearch search(context, std::move(point));
    if (plain->search.method.kind == Method::Kind::Pipeshard)
      search.run_first(plain->first_schedule(), incumbent_);
    else
      search.run(plain->first_schedule(), incumbent_);
    context_.log.add(context.log);
  }
}

// --- the answer ---

void PlanSearch::note_profile(const PointSearch& search) {
  if (request_.stage_profile.file == nullptr) return;
  const StageProfileTable& known = *search.point().spans.known;
  if (known.empty())
    unused_key_ = known.key();
  else
    profile_used_ = true;
}

std::string PlanSearch::how_it_stopped() const {
  const SearchLog& log = context_.log;
  std::vector<std::string> parts;
  if (log.interrupted) parts.push_back("interrupted: the best plan found so far");
  if (log.points + log.points_ruled_out > 1)
    parts.push_back(searches_stages(request_) ? "numbers of micro-batches by predicted step time"
                                              : "numbers of micro-batches one after the other");
  if (schedules_.size() > 1) parts.push_back("schedules by the time of their stages alone");
  if (log.ranked > 0)
    parts.push_back(log.ranked_all ? "every pipeline that could win by its stages' times"
                                   : "the best pipelines by stage times and the best of each number of stages");
  parts.push_back(log.points + log.ranked > 1 ? "stopped when no remaining candidate could beat the best"
                                              : "the method leaves one pipeline");
  return join(parts, ", ");
}

PlanningResult PlanSearch::take_result() {
  if (request_.stage_profile.file != nullptr && !profile_used_ && unused_key_)
    throw InputError(request_.stage_profile.file->why_unused(*unused_key_));
  context_.log.how = how_it_stopped();
  PlanningResult result = incumbent_.take_result();
  result.log = context_.log;
  result.stage_profile = std::move(stage_profile_);
  return result;
}

}  // namespace

PlanningResult search_plans(const PlanRequest& request, const CostModel& costs, PlanEvaluator& evaluator,
                            NearPlans* near) {
  PlanSearch search(request, costs, evaluator, near);
  SearchPoint first{.layers = std::nullopt, .layer_cut = request.search.layer_cut};
  if (const auto* given = std::get_if<int>(&request.search.layers)) first.layers = *given;
  search.search_microbatches(first);
  if (is_auto(request.search.layers)) {
    search.search_layers(first);
    search.search_around(first);
  }
  search.find_first_plan(first);
  return search.take_result();
}

}  // namespace meshwright
