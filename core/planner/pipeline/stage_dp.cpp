// SPDX-License-Identifier: Apache-2.0
// Which bounds m on the stage times are looked at. Let sum(m) be the least sum of the pipelines whose stages take at
// most m, W(m) one that attains it, and T the cost of the best pipeline met so far.
//  (1) The best pipeline is W(m) for the m that is its own largest stage time, or costs as much.
//  (2) sum(m) does not grow with m. So the pipelines whose largest stage time lies in [low, high] cost at least
//      sum(high) + w low, and only those up to (T - sum(high)) / w can cost less than T. Any bound of sum(high) will
//      do: Solver::bound_sum's is cheap, and often ends the matter.
//  (3) For the pipelines in [low, high] a sum of T - w low is too much: that is the limit of Solver::solve.
//  (4) W(m) is also W(m') for every m' down to its own largest stage time: after m the next one is below that.
// Where no pipeline finishes is known from bits alone, and looked for first: with many microbatches the optimum is near
// there. Comparisons that leave something out allow for rounding; what is compared in the end is the exact cost.
#include "core/planner/pipeline/stage_dp.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/planner/pipeline/stage_dp_solver.h"

namespace meshwright {

using stage_dp::Keep;
using stage_dp::kNever;
using stage_dp::kRounding;
using stage_dp::Solver;
using stage_dp::Space;

namespace {

constexpr double kUlp = std::numeric_limits<double>::epsilon();
double above(double x) { return std::nextafter(x, kNever); }
double below(double x) { return std::nextafter(x, -kNever); }

// Largest stage times [low, high] that may hold a better pipeline; the sum of those up to `high` is at least `sum`.
struct Interval {
  double low, high, sum;
};

class Search {
 public:
  Search(const Space& space, double weight) : space_(space), solver_(space), weight_(weight) {}

  // Least sum + weight * slowest with slowest <= max_slowest.
  std::optional<TablePipeline> fastest(double max_slowest);
  // Least slowest with sum <= latency, then least sum.
  std::optional<TablePipeline> steadiest(double latency);

 private:
  // Largest stage times with no pipeline below `low` and one at `high`, close together; nullopt: there is none at all.
  struct Bracket {
    double low, high;
  };
  std::optional<Bracket> find_slowest(double max_slowest);
  // Looks at m = high: keeps a better pipeline, returns what is left of the interval.
  std::optional<Interval> examine(const Interval& interval);
  [[nodiscard]] double cost() const { return best_ ? best_->cost.si() : kNever; }

  const Space& space_;
  Solver solver_;
  double weight_;
  std::optional<TablePipeline> best_;
};

std::optional<Search::Bracket> Search::find_slowest(double max_slowest) {
  double low = solver_.min_slowest();
  if (low == kNever || low > max_slowest) return std::nullopt;
  if (solver_.can_finish(low)) return Bracket{low, low};
  double high = low;
  for (double step = 1.0 / 64.0;; step *= 4.0) {
    low = above(high);
    high = step < 1e6 ? std::min(high + step * high, max_slowest) : max_slowest;
    if (low > max_slowest) return std::nullopt;
    if (solver_.can_finish(high)) break;
    if (high == max_slowest) return std::nullopt;
  }
  while (high - low > 1e-3 * high) {
    const double middle = low + (high - low) / 2;
    (solver_.can_finish(middle) ? high : low) = middle;
  }
  return Bracket{low, high};
}

std::optional<Interval> Search::examine(const Interval& interval) {
  const auto [low, high, known_sum] = interval;
  const double limit = cost() == kNever ? kNever : cost() * (1.0 + 4.0 * kUlp) - weight_ * low;
  const double bound = std::max(known_sum, solver_.bound_sum(high) * (1.0 - kRounding));
  if (bound >= limit || !solver_.can_finish(high)) return std::nullopt;
  solver_.solve(limit);
  double sum = kNever, slowest = low;
  for (int c = space_.first_whole_class(); c <= space_.classes(); ++c) {
    if (solver_.sum(c) >= limit) continue;
    TablePipeline found = solver_.pipeline(c);
    found.cost = Seconds(found.sum.si() + weight_ * found.slowest.si());
    if (found.sum.si() < sum) sum = found.sum.si(), slowest = found.slowest.si();
    if (found.cost.si() < cost()) best_ = std::move(found);
  }
  if (sum >= limit || slowest <= low) return std::nullopt;
  return Interval{low, below(slowest), sum};
}

std::optional<TablePipeline> Search::fastest(double max_slowest) {
  max_slowest = std::min(max_slowest, space_.largest_time());
  if (weight_ == 0.0) {
    examine({0.0, max_slowest, 0.0});
    return best_;
  }
  const std::optional<Bracket> bracket = find_slowest(max_slowest);
  if (!bracket) return std::nullopt;
  const auto [low, high] = *bracket;
  std::vector<Interval> open;
  if (const auto rest = examine({low, high, 0.0})) open.push_back(*rest);
  if (high < max_slowest)
    open.push_back({above(high), max_slowest, solver_.bound_sum(max_slowest) * (1.0 - kRounding)});
  while (!open.empty()) {
    Interval interval = open.back();
    open.pop_back();
    interval.high = std::min(interval.high, (cost() * (1.0 + 4.0 * kUlp) - interval.sum) / weight_ * (1.0 + kRounding));
    if (interval.low > interval.high) continue;
    const bool narrow = interval.high - interval.low <= 1e-4 * interval.high;
    const double middle = narrow ? interval.high : interval.low + (interval.high - interval.low) / 2;
    if (middle < interval.high) open.push_back({above(middle), interval.high, interval.sum});
    if (const auto rest = examine({interval.low, middle, interval.sum})) open.push_back(*rest);
  }
  return best_;
}

std::optional<TablePipeline> Search::steadiest(double latency) {
  const std::optional<Bracket> bracket = find_slowest(space_.largest_time());
  if (!bracket) return std::nullopt;
  const std::vector<double> times = space_.times_between(bracket->low, kNever);
  // The first of `times` that admits a sum within the latency.
  std::size_t begin = 0, end = times.size();
  while (begin < end) {
    const std::size_t middle = begin + (end - begin) / 2;
    bool found = false;
    if (solver_.bound_sum(times[middle]) * (1.0 - kRounding) <= latency && solver_.can_finish(times[middle])) {
      solver_.solve(latency);
      for (int c = space_.first_whole_class(); c <= space_.classes(); ++c) {
        if (solver_.sum(c) > latency) continue;
        TablePipeline pipeline = solver_.pipeline(c);
        if (!found || pipeline.sum < best_->sum) best_ = std::move(pipeline);
        found = true;
      }
    }
    if (found)
      end = static_cast<std::size_t>(std::lower_bound(times.begin(), times.end(), best_->slowest.si()) - times.begin());
    else
      begin = middle + 1;
  }
  if (best_) best_->cost = best_->slowest;
  return best_;
}

}  // namespace

InFlight in_flight_of(ScheduleKind schedule, std::optional<int> stages) {
  return [schedule, stages](int from_end, std::int64_t microbatches) -> std::int64_t {
    const int in_all = static_cast<int>(std::min<std::int64_t>(microbatches, std::numeric_limits<int>::max()));
    if (!traits_of(schedule).splits_backward) return in_flight(schedule, from_end, in_all);
    return stages ? in_flight(schedule, from_end, in_all, std::max(*stages - 1, from_end)) : in_all;
  };
}

std::optional<TablePipeline> fastest_training(const StageTable& table, const StageDpRequest& request) {
  const Space space(table, request, Keep::Fastest);
  return space.can_be_used() ? Search(space, space.weight()).fastest(kNever) : std::nullopt;
}

std::optional<TablePipeline> min_latency(const StageTable& table, const StageDpRequest& request, Seconds slowest) {
  const Space space(table, request, Keep::Fastest);
  return space.can_be_used() ? Search(space, 0.0).fastest(slowest.si()) : std::nullopt;
}

std::optional<TablePipeline> max_throughput(const StageTable& table, const StageDpRequest& request, Seconds latency) {
  const Space space(table, request, Keep::Fastest);
  return space.can_be_used() ? Search(space, 0.0).steadiest(latency.si()) : std::nullopt;
}

}  // namespace meshwright
