// SPDX-License-Identifier: Apache-2.0
// Which numbers of microbatches are looked at. With few, a pipeline is badly filled and its microbatches take much
// memory; with many, its devices are badly filled. Two numbers far apart are priced; what the best pipelines of the
// others would take is predicted from them (PointSearch::predict), and the most promising are priced in their turn,
// until no prediction comes near the best found. Last come the divisors of the batch around the best, as predicted from
// its own stages. A method with one stage has nothing to fill: there the search begins with one microbatch and ends
// when twice there was no gain, as fewer samples never fill a device better.
//
// Of several schedules the first is looked at as if it were alone; the others are ranked by simulations of their stages
// alone, and their programs are lowered only where that promises more than the best found (PointSearch::rank). What is
// predicted of a number of microbatches is predicted of the first.
#include "core/planner/make_plan.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/planner/search/point_search.h"

namespace meshwright {

namespace {

constexpr std::int64_t kMostMicrobatches = 1024;
constexpr double kPromise = 0.985;  // of a prediction: what the plan may take less
constexpr double kGain = 0.9995;    // of the best's prediction: what a number of microbatches near it has to promise
constexpr int kMostNearby = 2;      // so many of these are priced at most
constexpr int kMostLayers = 64;

class PlanSearch {
 public:
  PlanSearch(const PlanRequest& request, const CostModel& costs, PlanEvaluator& evaluator)
      : request_(request), incumbent_(request, costs, evaluator) {
    schedules_ = {request.schedule};
    if (request.any_schedule && request.schedule != ScheduleKind::Inference)
      std::erase_if(schedules_ = all_schedules(), [](ScheduleKind kind) { return !traits_of(kind).trains; });
  }

  PlanningResult run() {
    const SearchPoint first{request_.layers, request_.layer_options, 1};
    search_microbatches(first);
    if (request_.any_layers) search_layers(first);
    if (request_.stage_profile != nullptr && !incumbent_.profile_served && incumbent_.last_key)
      throw InputError(request_.stage_profile->why_unused(*incumbent_.last_key));
    explain();
    if (request_.front) make_front();
    return std::move(incumbent_.result);
  }

 private:
  // By number of microbatches.
  using Priced = std::map<std::int64_t, std::unique_ptr<PointSearch>>;
  using Predictions = std::map<std::int64_t, Seconds>;  // without those of which none fits

  // The point's stages are priced; `search` may be one that has done so.
  bool look_at(const SearchPoint& point) {
    PointSearch search(incumbent_, point);
    return look_at(point, search);
  }
  bool look_at(const SearchPoint& point, PointSearch& search) {
    layers_tried_.push_back(search.layers());
    if (request_.objective.kind == Objective::Kind::StepTime && incumbent_.score &&
        search.lower_bound() >= *incumbent_.score) {
      ++incumbent_.result.log.points_ruled_out;
      return false;
    }
    bool better = false;
    for (const ScheduleKind schedule : schedules_.size() > 1 ? search.rank(schedules_) : schedules_) {
      if (incumbent_.stopped()) break;
      if (schedules_.size() > 1 && !search.is_promising(schedule)) continue;
      if (search.run(schedule)) better = true;
      if (request_.front) search.widen(schedule);
    }
    if (better) best_ = point;
    PlanningResult& result = incumbent_.result;
    if (request_.keep_stage_profile && result.plan && (better || !result.stage_profile))
      result.stage_profile = search.profile();
    return better;
  }

  // Divisors of the batch, each the least that is at least twice the one before; one sample per microbatch is among
  // them.
  [[nodiscard]] std::vector<std::int64_t> microbatch_counts() const {
    const std::int64_t batch = request_.training.batch, most = std::min(batch, kMostMicrobatches);
    std::vector<std::int64_t> counts = {1};
    for (std::int64_t m = 2; m <= most; ++m)
      if (batch % m == 0 && (m >= 2 * counts.back() || m == batch)) counts.push_back(m);
    return counts;
  }

  // The other divisors of the batch between the neighbours of `best` among `counts`.
  [[nodiscard]] std::vector<std::int64_t> counts_around(const std::vector<std::int64_t>& counts,
                                                        std::int64_t best) const {
    const std::int64_t batch = request_.training.batch;
    const auto own = std::lower_bound(counts.begin(), counts.end(), best);
    const std::int64_t after = own + 1 == counts.end() ? std::min(batch, kMostMicrobatches) + 1 : own[1];
    std::vector<std::int64_t> around;
    for (std::int64_t m = own == counts.begin() ? best : own[-1] + 1; m < after; ++m)
      if (batch % m == 0 && m != best) around.push_back(m);
    return around;
  }

  void search_microbatches(SearchPoint point) {
    const std::vector<std::int64_t> counts = microbatch_counts();
    if (request_.training.microbatches > 0) {
      point.microbatches = request_.training.microbatches;
      look_at(point);
    } else if (request_.objective.kind != Objective::Kind::StepTime) {
      // Predictions and bounds are of a step's time; smaller microbatches answer sooner.
      for (auto count = counts.rbegin(); count != counts.rend() && !incumbent_.stopped(); ++count) {
        point.microbatches = *count;
        look_at(point);
      }
    } else if (request_.method.one_stage() || counts.size() <= 3) {
      int worse = 0;
      for (const std::int64_t count : counts) {
        if (worse == 2 || (count > 1 && incumbent_.stopped())) break;
        point.microbatches = count;
        worse = look_at(point) || !incumbent_.result.plan ? 0 : worse + 1;
      }
    } else {
      search_predicted(point, counts);
    }
  }

  // REQUIRES: at least four counts.
  void search_predicted(SearchPoint point, const std::vector<std::int64_t>& counts) {
    const std::size_t middle = (counts.size() - 1) / 2;
    const std::int64_t few = counts[middle], many = counts[middle + 1 + (counts.size() - 1) / 10], last = counts.back();
    const auto at = [&](std::int64_t count) {
      point.microbatches = count;
      return point;
    };
    Priced priced;
    bool last_tried = false;
    for (const std::int64_t count : {many, few}) priced[count] = std::make_unique<PointSearch>(incumbent_, at(count));
    const auto look = [&](std::int64_t count) {
      last_tried = last_tried || count == last;
      if (const auto known = priced.find(count); known != priced.end()) {
        look_at(at(count), *known->second);
        return;
      }
      auto search = std::make_unique<PointSearch>(incumbent_, at(count));
      look_at(at(count), *search);
      if (!counts_around(counts, count).empty()) priced[count] = std::move(search);  // it may be asked about these
    };
    Predictions predicted = predict_each(
        counts, [&](std::int64_t count) { return priced[many]->predict(*priced[few], count, schedules_.front()); });
    // Where none is expected to fit, many small microbatches have the best chance.
    if (predicted.empty()) predicted.emplace(last, Seconds(0.0));
    look_at_promising(std::move(predicted), static_cast<int>(counts.size()), look);
    if (!incumbent_.result.plan && !last_tried && !incumbent_.stopped()) look(last);
    if (incumbent_.result.plan) look_at_promising(predict_around(counts, priced), kMostNearby, look);
  }

  // Of the numbers around the best, those with a gain to expect: as its stages differ from those of the next larger
  // number, where more fits.
  Predictions predict_around(const std::vector<std::int64_t>& counts, const Priced& priced) {
    const std::int64_t best = best_.microbatches;
    const std::vector<std::int64_t> wanted = counts_around(counts, best);
    if (wanted.empty()) return {};
    const auto found = priced.find(best), larger = std::next(found);
    const PointSearch& own = *found->second;
    const PointSearch& other = larger == priced.end() ? *std::prev(found)->second : *larger->second;
    const auto predict = [&](std::int64_t count) {
      return own.predict(other, count, schedules_.front(), own.spare_share());
    };
    Predictions around = predict_each(wanted, predict);
    if (const auto cost = around.empty() ? std::nullopt : predict(best))
      std::erase_if(around, [&](const auto& of) { return of.second > kGain * std::max(*cost, *incumbent_.score); });
    return around;
  }

  template <class Predict>
  Predictions predict_each(const std::vector<std::int64_t>& counts, const Predict& predict) {
    Predictions predicted;
    for (const std::int64_t count : counts) {
      if (incumbent_.stopped()) break;
      if (const auto cost = predict(count)) predicted.emplace(count, *cost);
    }
    return predicted;
  }

  // The most promising first, `most` of them, until no prediction comes near the best found.
  template <class Look>
  void look_at_promising(Predictions predicted, int most, const Look& look) {
    for (; !predicted.empty() && !incumbent_.stopped(); --most) {
      const auto next = std::min_element(predicted.begin(), predicted.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
      if (most == 0 || (incumbent_.score && kPromise * next->second >= *incumbent_.score)) {
        incumbent_.result.log.points_ruled_out += static_cast<std::int64_t>(predicted.size());
        return;
      }
      look(next->first);
      predicted.erase(next);
    }
  }

  // Finer and coarser cuts, at the best number of microbatches.
  void search_layers(SearchPoint point) {
    if (!incumbent_.result.plan || request_.layers > 0 || request_.layer_options.fixes_count() ||
        request_.method.kind != Method::Kind::Pipeshard)
      return;
    point.microbatches = best_.microbatches;
    const int first = layers_tried_.front();
    SearchPoint blocks = point;
    blocks.layer_options.cut = LayerOptions::Cut::Blocks;
    std::vector<SearchPoint> points;
    for (const int count : {2 * first, first / 2}) {
      point.layers = count;
      if (count >= 1 && count <= kMostLayers && count <= static_cast<int>(forward_ops(incumbent_.result.graph).size()))
        points.push_back(point);
    }
    const int block_count = static_cast<int>(block_starts(incumbent_.result.graph).size());
    if (block_count > 1 && block_count <= kMostLayers) points.push_back(blocks);
    point.layers = first;
    point.layer_options.cut = LayerOptions::Cut::EvenCount;
    points.push_back(point);
    for (const SearchPoint& other : points) {
      if (incumbent_.stopped()) return;
      look_at(other);
    }
  }

  void explain() {
    SearchLog& log = incumbent_.result.log;
    std::vector<std::string> parts;
    if (log.interrupted) parts.push_back("interrupted: the best of what was looked at");
    if (log.points + log.points_ruled_out > 1) parts.push_back("micro-batches by what is predicted of them");
    if (schedules_.size() > 1) parts.push_back("schedules by what their stages alone take");
    if (log.ranked > 0)
      parts.push_back(log.ranked_all
                          ? "every pipeline that could win by its stages' times"
                          : "the best pipelines by their stages' times and the best of each number of stages");
    parts.push_back(log.points + log.ranked > 1 ? "programs until the next was not expected to win"
                                                : "the method leaves one pipeline");
    log.how = join(parts, ", ");
  }

  void make_front() {
    std::vector<FrontPoint>& seen = incumbent_.seen;
    const auto no_worse = [](const FrontPoint& a, const FrontPoint& b) {
      return a.plan.predicted.step_time <= b.plan.predicted.step_time &&
             a.plan.predicted.peak_memory <= b.plan.predicted.peak_memory && a.devices <= b.devices;
    };
    std::stable_sort(seen.begin(), seen.end(), [](const FrontPoint& a, const FrontPoint& b) {
      return a.plan.predicted.step_time < b.plan.predicted.step_time;
    });
    std::vector<FrontPoint>& front = incumbent_.result.front;
    for (FrontPoint& point : seen) {
      const bool beaten =
          std::any_of(front.begin(), front.end(), [&](const FrontPoint& other) { return no_worse(other, point); });
      if (!beaten) front.push_back(std::move(point));
    }
  }

  const PlanRequest& request_;
  Incumbent incumbent_;
  std::vector<ScheduleKind> schedules_;
  std::vector<int> layers_tried_;
  SearchPoint best_;
};

// Where one stage is best its sharding can be fitted into the memory more closely than stages of pipelines are.
void try_one_stage(const PlanRequest& request, const CostModel& costs, PlanEvaluator& evaluator,
                   PlanningResult& result) {
  if (request.method.kind != Method::Kind::Pipeshard || !result.plan || result.plan->stages.size() != 1 ||
      !request.cluster.uniform() || result.log.interrupted || request.front || !request.submeshes.empty() ||
      request.objective.kind != Objective::Kind::StepTime || request.stage_profile != nullptr ||
      request.stage_costs != StageCostSource::Composition ||
      static_cast<int>(result.program.stage_of_device.size()) != request.cluster.devices())
    return;
  PlanRequest one = request;
  one.method.kind = Method::Kind::Shard;
  one.training.microbatches = result.plan->training.microbatches;
  one.layers = static_cast<int>(result.plan->layer_starts.size());
  one.any_layers = one.any_schedule = one.keep_stage_profile = false;
  if (one.layer_options.fixes_count()) one.layers = 0;
  PlanningResult found = PlanSearch(one, costs, evaluator).run();
  SearchLog& log = result.log;
  log.points += found.log.points;
  log.simulations += found.log.simulations;
  log.stages_priced += found.log.stages_priced;
  log.interrupted = log.interrupted || found.log.interrupted;
  if (!found.plan || found.plan->predicted.step_time >= result.plan->predicted.step_time) return;
  found.plan->predicted.lower_bound = std::min(found.plan->predicted.step_time, result.plan->predicted.lower_bound);
  result.plan = std::move(found.plan);
  result.graph = std::move(found.graph);
  result.program = std::move(found.program);
  result.check = std::move(found.check);
}

}  // namespace

PlanningResult make_plan(const PlanRequest& request, const CostModel& costs, PlanEvaluator& evaluator) {
  require(request.training.batch >= 1, "the batch must be at least 1 sample; it is {}.", request.training.batch);
  require(request.objective.kind == Objective::Kind::StepTime || request.schedule == ScheduleKind::Inference,
          "latency and throughput are for serving; give --schedule inference.");
  PlanningResult result = PlanSearch(request, costs, evaluator).run();
  try_one_stage(request, costs, evaluator, result);
  return result;
}

LoadedPlan load_plan(const Plan& plan, const CostModel& costs) {
  LoadedPlan loaded{build_step_graph(plan.model, plan.training, plan.schedule), {}, {}};
  const std::vector<std::string> wrong = check_plan(plan, loaded.graph);
  if (!wrong.empty()) throw InputError(wrong.front());
  loaded.program = lower(plan, loaded.graph, costs);
  loaded.check = check_program(loaded.program);
  MW_CHECK(loaded.check.violations.empty(), "the plan lowers to a bad program: {}", loaded.check.violations.front());
  return loaded;
}

}  // namespace meshwright
