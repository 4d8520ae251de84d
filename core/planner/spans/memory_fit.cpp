// SPDX-License-Identifier: Apache-2.0
// Bytes that stay have a price (Lagrangian relaxation of the memory limit). Working memory counts by its maximum over
// ops, which no price per byte expresses. So the search divides the shardings into working classes, by what their
// hungriest op needs, and splits the class with the smallest bound until that bound is near the best sharding found.
#include "core/planner/spans/memory_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace meshwright {

namespace {

constexpr int kTrials = 24;  // prices tried in one class
constexpr int kMaxClasses = 24;
constexpr double kClose = 1e-4;    // relative gap at which the search ends
constexpr double kEqual = 1e-10;   // relative difference of two costs that are the same
constexpr double kMaxPrice = 1e7;  // in units (below): bytes alone count
constexpr double kNear = 2e-4;     // first distance from the bound at which mixtures are searched, relative to it
constexpr double kWiden = 4.0;     // factor of the next distance

// All layers as one stage, solved at memory prices.
class Stage {
 public:
  Stage(const LayerClasses& layers, const SpanBudget& budget, SpanSolver& solver)
      : layers_(layers), budget_(budget), solver_(solver) {
    note_cost(0);
  }

  // The best sharding at a price.
  struct Trial {
    int price;
    Seconds time;
    Bytes bytes, working;
    Seconds weighted;  // the relaxed problem's cost: time, and bytes at their price, by the solver's weights
  };
  // nullopt: no sharding has ops of at most this working memory.
  std::optional<Trial> try_price(double memory_price, Bytes max_working) {
    const int price = solver_.add_price(memory_price, LayerMatrices::Variants::Cheapest, max_working);
    const StateCosts ends = solver_.paths(price, 0, last(), SpanSolver::Entering::Free).end_costs();
    if (cheapest_state(ends) < 0) {
      solver_.drop_last_price();
      return std::nullopt;
    }
    note_cost(price);
    const StepCost& found = cost(price);
    return Trial{price, budget_.time_of(found), budget_.bytes_of(found), found.working, min_cost(ends)};
  }
  std::optional<LayerMixture> mix(const MixRequest& request) { return mix_layers(layers_, budget_, solver_, request); }

  [[nodiscard]] const StepCost& cost(int price) const { return costs_[price]; }
  [[nodiscard]] double memory_price(int price) const { return solver_.memory_price(price); }
  [[nodiscard]] const SpanBudget& budget() const { return budget_; }
  [[nodiscard]] const LayerClasses& layers() const { return layers_; }
  void forget_problems() { solver_.forget_problems(); }
  [[nodiscard]] std::vector<StepCost> take_costs() && { return std::move(costs_).values(); }

 private:
  [[nodiscard]] int last() const { return layers_.layers() - 1; }
  void note_cost(int price) {
    costs_.push_back(budget_.with_recomputed_share(solver_.cost(solver_.sharding(price, 0, last()), 0)));
  }

  const LayerClasses& layers_;
  const SpanBudget& budget_;
  SpanSolver& solver_;
  IndexedVector<int, StepCost> costs_;  // [price]
};

// Shardings whose ops need at most `max` working memory, and not all of them less than `min`. Its bound is that of the
// Lagrangian dual, a concave function of the price that is maximal where the bytes of the best sharding pass the limit.
class WorkingClass {
 public:
  WorkingClass(Stage& stage, Bytes min, Bytes max)
      : stage_(&stage), max_(max), room_(stage.budget().usable_memory - min) {}

  // Tries prices until the bound is found; with `best`, until it is near that. The first one is `price`; `unit` is the
  // price at which filling the memory costs as much as the fastest sharding takes.
  void search(double unit, double price, const std::optional<Seconds>& best) {
    double step = 8.0;
    for (int trial = 0; trial < kTrials; ++trial) {
      const auto found = try_price(price);
      if (!found) break;
      const bool on_line = low_ && high_ && charged(*found, price) >= (1.0 - kEqual) * charged(*high_, price);
      (found->bytes <= room_ ? high_ : low_) = found;
      if (on_line || (high_ && price == 0.0) || (best && bound_ >= (1.0 - kClose) * *best)) return;
      if (low_ && high_) {
        price = (high_->time - low_->time).si() / (low_->bytes - high_->bytes).si();
      } else if (high_) {
        price = price < unit / 512 ? 0.0 : price / step;
      } else {
        if (price >= kMaxPrice * unit) break;
        price = std::min(price * step, kMaxPrice * unit);
        step *= 2.0;
      }
    }
    if (!high_) bound_ = Seconds(std::numeric_limits<double>::infinity());  // nothing of the class fits
  }

  [[nodiscard]] Seconds bound() const { return bound_; }
  // A bound of the shardings of the class whose hungriest op needs `working`.
  [[nodiscard]] Seconds bound_with(Bytes working) const {
    return bound_ + Seconds(guiding_price() * (working - (stage_->budget().usable_memory - room_)).si());
  }
  [[nodiscard]] double guiding_price() const { return stage_->memory_price(guide_); }
  [[nodiscard]] const std::optional<Stage::Trial>& smaller() const { return high_; }
  // The largest working memory of the shardings between which the memory's limit lies.
  [[nodiscard]] Bytes working() const { return low_ ? std::max(low_->working, high_->working) : high_->working; }

  // The guiding one, and those of the two shardings between which the limit lies.
  [[nodiscard]] std::vector<int> prices() const {
    std::vector<int> found = {guide_};
    for (const auto& end : {low_, high_})
      if (end && end->price != guide_) found.push_back(end->price);
    return found;
  }

 private:
  [[nodiscard]] static Seconds charged(const Stage::Trial& trial, double price) {
    return trial.time + Seconds(price * trial.bytes.si());
  }

  // nullopt: the class is empty.
  std::optional<Stage::Trial> try_price(double price) {
    const auto found = stage_->try_price(price, max_);
    if (!found) return std::nullopt;
    const Seconds bound = found->weighted - Seconds(price * room_.si());
    if (guide_ < 0 || bound > bound_) {
      bound_ = bound;
      guide_ = found->price;
    }
    return found;
  }

  Stage* stage_;
  Bytes max_, room_;
  Seconds bound_{0.0};
  int guide_ = -1;  // the price of the greatest bound
  // The nearest trials on both sides of the limit: at too low a price, with more bytes than fit, and at a high enough.
  std::optional<Stage::Trial> low_, high_;
};

// Best first over classes of working memory.
class MemorySearch {
 public:
  MemorySearch(Stage& stage, double unit, Seconds bound)
      : stage_(stage), unit_(unit), values_(stage.layers().working_values()), bound_(bound) {}

  void run() {
    open(0, values_.size() - 1, bound_, unit_);
    for (int classes = 1; !open_.empty(); classes += 2) {
      const auto loosest =
          std::min_element(open_.begin(), open_.end(), [](const Open& a, const Open& b) { return a.bound < b.bound; });
      improve(*loosest);
      if (is_close(loosest->bound) || classes >= kMaxClasses) break;
      if (loosest->split == loosest->last) break;  // nothing more raises the smallest bound
      const Open of = *loosest;
      open_.erase(loosest);
      open(of.first, of.split, of.bound, of.found.guiding_price());
      open(of.split + 1, of.last, of.bound, of.found.guiding_price());
    }
    for (Open& of : open_) improve(of);
    std::optional<Seconds> bound;
    for (const Open& of : open_) bound = std::min(bound.value_or(of.bound), of.bound);
    if (bound) bound_ = std::max(bound_, *bound);
    // When nothing fits, the smallest shardings are still wanted: they say how much is missing.
    if (!best_) WorkingClass(stage_, values_.front(), values_.front()).search(unit_, kMaxPrice * unit_, best_);
    stage_.forget_problems();
  }

  [[nodiscard]] Seconds bound() const { return bound_; }
  [[nodiscard]] std::optional<LayerMixture> take_mixture() && { return std::move(mixture_); }

 private:
  struct Open {
    std::size_t first, last, split;  // of values_; split == last: not to be split
    Seconds bound;
    WorkingClass found;
    bool improved = false;
  };

  [[nodiscard]] bool is_close(Seconds bound) const { return best_ && bound >= (1.0 - kClose) * *best_; }

  // A class of values_[first] to values_[last] within one of bound `parent`, unless nothing of it fits.
  void open(std::size_t first, std::size_t last, Seconds parent, double price) {
    WorkingClass found(stage_, values_[first], values_[last]);
    found.search(unit_, price, best_);
    stage_.forget_problems();
    if (!std::isfinite(found.bound().si())) return;
    Open of{first, last, last, std::max(parent, found.bound()), found};
    if (const auto& smaller = found.smaller()) {
      if (stage_.budget().fits(stage_.cost(smaller->price)))
        best_ = std::min(best_.value_or(smaller->time), smaller->time);
      if (found.working() > values_[first]) of.split = between(first, found.working());
    }
    open_.push_back(std::move(of));
  }

  // The last value up to the middle of values_[first] and a working memory above it.
  std::size_t between(std::size_t first, Bytes used) const {
    const Bytes middle = 0.5 * (values_[first] + used);
    std::size_t at = first;
    while (values_[at + 1] <= middle) ++at;
    return at;
  }

  void improve(Open& of) {
    if (of.improved || is_close(of.bound) || !of.found.smaller()) return;
    of.improved = true;
    improve(of.found, of.found.working());
    if (of.found.smaller()->working < of.found.working()) improve(of.found, of.found.smaller()->working);
    stage_.forget_problems();
  }
  // The nearer to the bound, the fewer are the ways to look at, and the finer they can be told apart.
  void improve(const WorkingClass& of, Bytes working) {
    const Bytes room = stage_.budget().usable_memory - working;
    for (double gap = kNear; gap < 1.0; gap *= kWiden) {
      Seconds below = (1.0 + gap) * of.bound_with(working);
      const bool is_last = best_ && *best_ <= below;
      if (best_) below = std::min(below, *best_);
      bool better = false;
      while (auto mixture = stage_.mix({of.prices(), working, room, below})) {
        below = stage_.budget().time_of(mixture->cost);
        best_ = below;
        mixture_ = std::move(mixture);
        if (better) return;
        better = true;  // once more, finer
      }
      if (better || is_last) return;
    }
  }

  Stage& stage_;
  const double unit_;
  const std::vector<Bytes> values_;  // of working memory, ascending
  Seconds bound_;
  std::vector<Open> open_;
  std::optional<Seconds> best_;  // time of the fastest that fits
  std::optional<LayerMixture> mixture_;
};

}  // namespace

MemoryFit fit_memory(const LayerClasses& layers, const SpanBudget& budget, SpanSolver& solver, Seconds fastest) {
  Stage stage(layers, budget, solver);
  MemoryFit fit{{}, {}, fastest};
  if (!budget.fits(stage.cost(0))) {
    MemorySearch search(stage, fastest.si() / budget.usable_memory.si(), fastest);
    search.run();
    fit.bound = search.bound();
    fit.mixture = std::move(search).take_mixture();
  }
  fit.costs = std::move(stage).take_costs();
  return fit;
}

}  // namespace meshwright
