// SPDX-License-Identifier: Apache-2.0
// The stage costs of two numbers far apart are computed, and the cost of the best pipeline for the others is predicted
// from them (predict_point). The most promising numbers are searched, and the others predicted anew from the points
// beside them, until no prediction comes near the best plan. Last come the divisors of the batch around the best
// number, predicted from its own stages. A one-stage method has no pipeline to fill: its search begins with one
// micro-batch and ends when two numbers in a row were no better, as fewer samples never fill a device better.
#include "core/planner/search/microbatch_search.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "core/base/divisors.h"
#include "core/base/errors.h"

namespace meshwright {

namespace {

constexpr std::int64_t kMaxMicrobatches = 1024;
constexpr double kPromise = 0.985;       // a plan may take this share of its prediction
constexpr double kPromiseHidden = 0.93;  // the same where communication hides: predictions only estimate how much
constexpr double kGain = 0.9995;         // a number near the best must promise this share of the best's prediction
constexpr int kMaxNearby = 2;            // numbers near the best that are searched

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

class MicrobatchSearch {
 public:
  explicit MicrobatchSearch(SearchedPoints& searched) : searched_(searched) {}

  void search(SearchPoint at);

 private:
  using Points = std::map<std::int64_t, std::unique_ptr<PointSearch>>;  // by number of micro-batches
  using Predictions = std::map<std::int64_t, Seconds>;                  // the same; none where nothing fits

  void search_every_count(SearchPoint at);
  void search_counts_in_order(SearchPoint at, const std::vector<std::int64_t>& counts);
  void search_for_serving(SearchPoint at, const std::vector<std::int64_t>& counts);
  void search_predicted(SearchPoint at, const std::vector<std::int64_t>& counts);
  Predictions predict_around(const std::vector<std::int64_t>& counts, const Points& points);
  [[nodiscard]] std::optional<Seconds> predict(const PointSearch& own, const PointSearch& other, std::int64_t count);
  // The two points between which the number of micro-batches lies, or that come next to it. REQUIRES: two points.
  [[nodiscard]] static std::pair<const PointSearch*, const PointSearch*> nearest(const Points& points,
                                                                                 std::int64_t count);

  template <class Counts, class Predict>
  Predictions predict_each(const Counts& counts, const Predict& predict) {
    Predictions predicted;
    for (const std::int64_t count : counts) {
      if (context().stopped()) break;
      if (const auto cost = predict(count)) predicted.emplace(count, *cost);
    }
    return predicted;
  }

  [[nodiscard]] double promise() const {
    return searched_.context().evaluator.hides_communication() ? kPromiseHidden : kPromise;
  }

  // Calls search(count) for at most `max` counts, the most promising first, until no prediction comes near the best.
  // revise(counts) predicts those that are left anew.
  template <class Search, class Revise>
  void search_promising(Predictions predicted, int max, const Search& search, const Revise& revise) {
    for (; !predicted.empty() && !context().stopped(); --max) {
      const auto next = std::min_element(predicted.begin(), predicted.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
      if (max == 0 || (incumbent().score() && promise() * next->second >= *incumbent().score())) {
        context().log.points_ruled_out += static_cast<std::int64_t>(predicted.size());
        for (const auto& [count, cost] : predicted)
          searched_.note_ruled_out({}, count, cost, "predicted from other micro-batches");
        return;
      }
      search(next->first);
      predicted.erase(next);
      predicted = revise(std::move(predicted));
    }
  }

  [[nodiscard]] const PlanRequest& request() const { return searched_.request(); }
  [[nodiscard]] SearchContext& context() { return searched_.context(); }
  [[nodiscard]] const PlanIncumbent& incumbent() const { return std::as_const(searched_).incumbent(); }

  SearchedPoints& searched_;
  // By the micro-batches of two points and the number in question.
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::optional<Seconds>> predicted_;
};

void MicrobatchSearch::search(SearchPoint at) {
  if (const auto* given = std::get_if<std::int64_t>(&request().search.microbatches)) {
    at.microbatches = *given;
    searched_.search(at);
    return;
  }
  const std::vector<std::int64_t> counts = microbatch_counts(request());
  if (request().goal.objective != Goal::Objective::StepTime) return search_for_serving(at, counts);
  if (is_small(request())) return search_every_count(at);
  // Whether given stages fit, their programs say more closely than the table.
  if (!searches_stages(request()) || counts.size() <= 3) return search_counts_in_order(at, counts);
  search_predicted(at, counts);
}

// Predictions and bounds are of a step's time, which is not the goal; smaller micro-batches answer sooner.
void MicrobatchSearch::search_for_serving(SearchPoint at, const std::vector<std::int64_t>& counts) {
  for (auto count = counts.rbegin(); count != counts.rend() && !context().stopped(); ++count) {
    at.microbatches = *count;
    searched_.search(at);
  }
}

// Numbers in the middle first: the best plan is mostly near them, and rules out others.
void MicrobatchSearch::search_every_count(SearchPoint at) {
  std::vector<std::int64_t> counts = all_microbatch_counts(request());
  const auto middle = static_cast<std::ptrdiff_t>(counts.size() / 2);
  std::stable_sort(counts.begin(), counts.end(), [middle = counts[middle]](std::int64_t a, std::int64_t b) {
    const auto from_middle = [&](std::int64_t m) { return std::max(m * 1.0 / middle, middle * 1.0 / m); };
    return from_middle(a) < from_middle(b);
  });
  std::vector<SearchPoint> points;
  for (const std::int64_t count : counts) {
    points.push_back(at);
    points.back().microbatches = count;
  }
  // The first is searched alone: it rules out much of the others.
  searched_.search(points.front());
  points.erase(points.begin());
  for (const std::vector<SearchPoint>& round : rounds_of(points)) {
    if (context().stopped()) return;
    searched_.search_round(round);
  }
}

void MicrobatchSearch::search_counts_in_order(SearchPoint at, const std::vector<std::int64_t>& counts) {
  int worse = 0;  // in a row
  for (const std::int64_t count : counts) {
    if (worse == 2 || (count > 1 && context().stopped())) return;
    at.microbatches = count;
    worse = searched_.search(at) || !incumbent().plan() ? 0 : worse + 1;
  }
}

// REQUIRES: at least four counts.
void MicrobatchSearch::search_predicted(SearchPoint at, const std::vector<std::int64_t>& counts) {
  const std::size_t middle = (counts.size() - 1) / 2;
  const std::int64_t few = counts[middle], many = counts[middle + 1 + (counts.size() - 1) / 10], last = counts.back();
  const auto with = [&](std::int64_t count) {
    at.microbatches = count;
    return at;
  };
  Points points;
  for (const std::int64_t count : {many, few}) {
    if (context().stopped()) return;
    points[count] = searched_.prepare(with(count));
  }
  std::set<std::int64_t> left(counts.begin(), counts.end());
  const auto search = [&](std::int64_t count) {
    left.erase(count);
    if (const auto known = points.find(count); known != points.end()) {
      searched_.search(with(count), *known->second);
      return;
    }
    auto point = searched_.prepare(with(count));
    searched_.search(with(count), *point);
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
  if (!incumbent().plan() && left.contains(last) && !context().stopped()) search(last);
  const auto as_before = [](Predictions rest) { return rest; };
  if (incumbent().plan()) search_promising(predict_around(counts, points), kMaxNearby, search, as_before);
}

// Most points between which a number lies stay the same when another point is searched.
std::optional<Seconds> MicrobatchSearch::predict(const PointSearch& own, const PointSearch& other, std::int64_t count) {
  const std::tuple key(own.point().microbatches(), other.point().microbatches(), count);
  const auto [known, is_new] = predicted_.try_emplace(key);
  if (is_new)
    known->second = predict_point(context(), own.point(), other.point(), count, searched_.schedules().front());
  return known->second;
}

// The first is the one with more micro-batches.
std::pair<const PointSearch*, const PointSearch*> MicrobatchSearch::nearest(const Points& points, std::int64_t count) {
  auto after = points.lower_bound(count);  // the point itself, or the next with more
  if (after == points.end()) --after;
  if (after == points.begin()) ++after;
  return {after->second.get(), std::prev(after)->second.get()};
}

// The numbers around the best that promise a gain, predicted from its stages and those of the next larger number, where
// more fits.
MicrobatchSearch::Predictions MicrobatchSearch::predict_around(const std::vector<std::int64_t>& counts,
                                                               const Points& points) {
  const std::int64_t best = searched_.best().microbatches;
  std::vector<std::int64_t> wanted = counts_around(counts, request().training.batch, best);
  if (!request().any_schedule())
    std::erase_if(wanted,
                  [&](std::int64_t m) { return unmet_by(request(), request().first_schedule(), m).has_value(); });
  if (wanted.empty()) return {};
  const auto found = points.find(best), larger = std::next(found);
  const PointSearch& own = *found->second;
  const PointSearch& other = larger == points.end() ? *std::prev(found)->second : *larger->second;
  const auto predict = [&](std::int64_t count) {
    return predict_point(context(), own.point(), other.point(), count, searched_.schedules().front(),
                         own.spare_share());
  };
  Predictions around = predict_each(wanted, predict);
  if (const auto cost = around.empty() ? std::nullopt : predict(best))
    std::erase_if(around, [&](const auto& of) { return of.second > kGain * std::max(*cost, *incumbent().score()); });
  return around;
}

}  // namespace

std::vector<std::int64_t> microbatch_counts(const PlanRequest& request) {
  const std::int64_t batch = request.training.batch;
  std::vector<std::int64_t> counts = {1};
  for (const std::int64_t m : divisors(batch, kMaxMicrobatches))
    if (m > 1 && (m >= 2 * counts.back() || m == batch)) counts.push_back(m);
  return possible(std::move(counts), request);
}

std::vector<std::int64_t> all_microbatch_counts(const PlanRequest& request) {
  return possible(divisors(request.training.batch, kMaxMicrobatches), request);
}

void search_microbatches(SearchedPoints& points, SearchPoint at) { MicrobatchSearch(points).search(std::move(at)); }

}  // namespace meshwright
