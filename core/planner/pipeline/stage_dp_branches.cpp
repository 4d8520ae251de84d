// SPDX-License-Identifier: Apache-2.0
// Which bounds m on the stage times are looked at: the argument of stage_dp.cpp, with the longest path for the sum,
// over the times of the table in ascending order. BranchSolver takes longer than the bound by the same solver with one
// class, so that the bound is asked first. It takes longest where it has no limit: the pipeline of fastest_training,
// which as a rule fits with branches too, gives one from the start.
#include "core/planner/pipeline/stage_dp_branches.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/plan/stage_graph.h"
#include "core/planner/pipeline/stage_dp_branch_solver.h"
#include "core/planner/pipeline/stage_dp_solver.h"

namespace meshwright {

using stage_dp::BranchSolver;
using stage_dp::BranchSpace;
using stage_dp::Classes;
using stage_dp::kNever;
using stage_dp::kRounding;

namespace {

constexpr double kMaxCost = 1.25;  // of the least

// Largest stage times, as places in the list of times, that may hold a better pipeline; the sum of those up to the last
// is at least `sum`.
struct BranchInterval {
  std::size_t low, high;
  double sum;
};

class BranchSearch {
 public:
  BranchSearch(const StageTable& table, const StageDpRequest& request, const LayerBranches& branches, std::size_t count)
      : table_(table),
        request_(request),
        branches_(branches),
        count_(count),
        space_(table, request, branches, Classes::All),
        bound_space_(table, request, branches, Classes::Bound),
        solver_(space_),
        bound_solver_(bound_space_),
        times_(space_.distinct_times()) {}

  std::vector<TablePipeline> best();

 private:
  // Looks at m = the time at interval.high: keeps winners, returns what is left of the interval.
  std::optional<BranchInterval> examine(const BranchInterval& interval);
  void keep(TablePipeline found);
  double bound_sum(double slowest);
  // The place of the least time that the bound allows; times_.size(): none.
  std::size_t min_slowest();
  void look_everywhere();
  // A pipeline of this cost or more is not wanted.
  [[nodiscard]] double cost() const {
    return best_.size() < wanted_ ? max_cost_ : std::min(max_cost_, best_.back().cost.si());
  }

  const StageTable& table_;
  const StageDpRequest& request_;
  const LayerBranches& branches_;
  std::size_t count_, wanted_ = 1;
  double max_cost_ = kNever;
  BranchSpace space_, bound_space_;
  BranchSolver solver_, bound_solver_;
  std::vector<double> times_;
  std::vector<TablePipeline> best_;  // ascending by cost, at most wanted_
};

double BranchSearch::bound_sum(double slowest) {
  bound_solver_.solve(slowest, kNever);
  return bound_solver_.sum(0) * (1.0 - kRounding);
}

std::size_t BranchSearch::min_slowest() {
  std::size_t begin = 0, end = times_.size();
  while (begin < end) {
    const std::size_t middle = begin + (end - begin) / 2;
    if (bound_sum(times_[middle]) < kNever)
      end = middle;
    else
      begin = middle + 1;
  }
  return begin;
}

void BranchSearch::keep(TablePipeline found) {
  if (found.cost.si() >= cost()) return;
  for (const TablePipeline& known : best_)
    if (known.stages == found.stages) return;
  const auto place =
      std::upper_bound(best_.begin(), best_.end(), found, [](const auto& a, const auto& b) { return a.cost < b.cost; });
  best_.insert(place, std::move(found));
  if (best_.size() > wanted_) best_.pop_back();
}

std::optional<BranchInterval> BranchSearch::examine(const BranchInterval& interval) {
  const double waiting = space_.weight() * times_[interval.low], slowest = times_[interval.high];
  const double limit = cost() == kNever ? kNever : cost() * (1.0 + kRounding) - waiting;
  const double bound = std::max(interval.sum, bound_sum(slowest));
  if (bound >= limit || bound == kNever) return std::nullopt;
  solver_.solve(slowest, limit);
  double sum = kNever, next = times_[interval.low];
  for (int c = 0; c < space_.classes(); ++c) {
    const double of_class = solver_.sum(c);
    if (of_class >= limit) continue;
    auto found = evaluate_with_branches(table_, request_, branches_, solver_.stages(c));
    MW_CHECK(found && found->slowest.si() <= slowest, "a pipeline of {} does not fit", of_class);
    // Down to the largest stage time of the least sum the winner is the same; of all winners, when others count too.
    if (wanted_ > 1)
      next = std::max(next, found->slowest.si());
    else if (of_class < sum)
      next = found->slowest.si();
    sum = std::min(sum, of_class);
    keep(std::move(*found));
  }
  if (sum == kNever || next <= times_[interval.low]) return std::nullopt;
  const auto place = std::lower_bound(times_.begin(), times_.end(), next) - times_.begin();
  return BranchInterval{interval.low, static_cast<std::size_t>(place) - 1, sum * (1.0 - kRounding)};
}

// Leaves the `wanted_` best in best_.
void BranchSearch::look_everywhere() {
  const std::size_t first = min_slowest();
  if (first == times_.size()) return;
  std::vector<BranchInterval> open = {{first, times_.size() - 1, bound_sum(times_.back())}};
  while (!open.empty()) {
    BranchInterval interval = open.back();
    open.pop_back();
    const double most = space_.weight() == 0.0
                            ? kNever
                            : (cost() * (1.0 + kRounding) - interval.sum) / space_.weight() * (1.0 + kRounding);
    while (interval.high > interval.low && times_[interval.high] > most) --interval.high;
    if (times_[interval.low] > most) continue;
    // Half of the range of times; from above where it is narrow, or where only the sum counts.
    const double low = times_[interval.low], high = times_[interval.high];
    std::size_t middle = interval.high;
    if (space_.weight() > 0.0 && high - low > 1e-4 * high) {
      const auto beyond = std::upper_bound(times_.begin(), times_.end(), low + (high - low) / 2);
      middle = std::min(interval.high, static_cast<std::size_t>(beyond - times_.begin()) - 1);
    }
    if (middle < interval.high) open.push_back({middle + 1, interval.high, interval.sum});
    if (const auto rest = examine({interval.low, middle, interval.sum})) open.push_back(*rest);
  }
}

std::vector<TablePipeline> BranchSearch::best() {
  if (const auto line = fastest_training(table_, request_))
    if (auto found = evaluate_with_branches(table_, request_, branches_, line->stages)) keep(std::move(*found));
  look_everywhere();
  if (count_ == 1 || best_.empty()) return std::move(best_);
  // The least cost is known: now the winners near it.
  wanted_ = count_;
  max_cost_ = kMaxCost * best_.front().cost.si();
  look_everywhere();
  return std::move(best_);
}

}  // namespace

std::optional<TablePipeline> evaluate_with_branches(const StageTable& table, const StageDpRequest& request,
                                                    const LayerBranches& branches,
                                                    const std::vector<TableStage>& stages) {
  std::vector<LayerRun> runs;
  for (const TableStage& stage : stages) runs.push_back({stage.first, stage.last});
  const std::vector<std::vector<int>> following = following_stages(branches, runs);
  const std::vector<int> after = stages_after(following);
  std::vector<double> path(stages.size());
  double sum = 0.0, slowest = 0.0;
  for (std::size_t s = stages.size(); s-- > 0;) {
    const double time =
        stage_dp::time_where_it_fits(table, request, stages[s], request.in_flight(after[s], request.microbatches));
    if (time == kNever) return std::nullopt;
    double rest = 0.0;
    for (const int next : following[s]) rest = std::max(rest, path[next]);
    path[s] = rest + time;
    sum = std::max(sum, path[s]);
    slowest = std::max(slowest, time);
  }
  const double weight = static_cast<double>(request.microbatches - 1);
  return TablePipeline{stages, Seconds(sum + weight * slowest), Seconds(sum), Seconds(slowest)};
}

std::vector<TablePipeline> pipelines_with_branches(const StageTable& table, const StageDpRequest& request,
                                                   const LayerBranches& branches, int count) {
  require(count >= 1, "stage search: {} pipelines are asked for; ask for at least one.", count);
  // Reads the whole table, and says what is wrong with it.
  const stage_dp::Space sound(table, request, stage_dp::Keep::Fastest);
  if (!sound.can_be_used()) return {};
  return BranchSearch(table, request, branches, static_cast<std::size_t>(count)).best();
}

}  // namespace meshwright
