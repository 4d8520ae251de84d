// SPDX-License-Identifier: Apache-2.0
// Fitting one stage into the memory. Bytes that stay are priced (Lagrangian relaxation). What an op needs beside them
// for a moment counts by its maximum, so the search runs in classes of shardings whose hungriest op needs at least so
// much and at most so much: the class with the least bound is split until its bound is near the best sharding found.
#include <algorithm>
#include <cmath>

#include "core/planner/spans/mesh_spans_state.h"

namespace meshwright {

namespace {

constexpr int kTrials = 24;  // prices tried in one class
constexpr int kMostClasses = 24;
constexpr double kClose = 1e-4;   // relative gap at which the search ends
constexpr double kEqual = 1e-10;  // relative difference of two costs that are the same
constexpr double kHighest = 1e7;  // price, in units, at which bytes alone count

}  // namespace

// Shardings whose ops need at most `most` working memory, and not all of them less than `least`.
class MeshSpans::State::WorkingClass {
 public:
  // Of the best sharding at a price.
  struct Trial {
    int price;
    Seconds time;
    Bytes bytes, working;
  };

  WorkingClass(State& state, Bytes least, Bytes most)
      : state_(&state), most_(most), room_(state.search.usable_memory - least) {}

  // Adds options until the bound is found; with `best`, until it is near that. The first price tried is `price`.
  void search(double unit, double price, const std::optional<Seconds>& best) {
    double step = 8.0;
    for (int trial = 0; trial < kTrials; ++trial) {
      const auto found = try_price(price);
      if (!found) break;
      const bool on_line = low_ && high_ && price_of(*found, price) >= (1.0 - kEqual) * price_of(*high_, price);
      (found->bytes <= room_ ? high_ : low_) = found;
      if (on_line || (high_ && price == 0.0) || (best && bound_ >= (1.0 - kClose) * *best)) return;
      if (low_ && high_) {
        price = (high_->time - low_->time).si() / (low_->bytes - high_->bytes).si();
      } else if (high_) {
        price = price < unit / 512 ? 0.0 : price / step;
      } else {
        if (price >= kHighest * unit) break;
        price = std::min(price * step, kHighest * unit);
        step *= 2.0;
      }
    }
    if (!high_) bound_ = Seconds(std::numeric_limits<double>::infinity());  // nothing of the class fits
  }

  [[nodiscard]] Seconds bound() const { return bound_; }
  // Of shardings of the class whose hungriest op needs `working`.
  [[nodiscard]] Seconds bound_with(Bytes working) const {
    return bound_ + Seconds(guiding_price() * (working - (state_->search.usable_memory - room_)).si());
  }
  [[nodiscard]] double guiding_price() const { return state_->weights[static_cast<std::size_t>(guide_)].memory_price; }
  [[nodiscard]] const std::optional<Trial>& smaller() const { return high_; }
  // The most working memory of the shardings between which the memory's limit lies.
  [[nodiscard]] Bytes working() const { return low_ ? std::max(low_->working, high_->working) : high_->working; }

  // The guiding one, and those of the two shardings between which the limit lies.
  [[nodiscard]] std::vector<int> prices() const {
    std::vector<int> found = {guide_};
    for (const auto& end : {low_, high_})
      if (end && end->price != guide_) found.push_back(end->price);
    return found;
  }

 private:
  [[nodiscard]] static Seconds price_of(const Trial& trial, double price) {
    return trial.time + Seconds(price * trial.bytes.si());
  }

  // nullopt: the class is empty.
  std::optional<Trial> try_price(double price) {
    state_->add_price(price, most_);
    const std::size_t number = state_->weights.size() - 1;
    const auto ends = state_->paths(number, 0, state_->layers - 1, Entering::Free).best.back();
    if (cheapest(ends) < 0) {
      state_->drop_price();
      return std::nullopt;
    }
    state_->cost_spans(number);
    const StepCost& cost = state_->whole_cost(number);
    const Seconds bound = best_of(ends) - Seconds(price * room_.si());
    if (guide_ < 0 || bound > bound_) {
      bound_ = bound;
      guide_ = static_cast<int>(number);
    }
    return Trial{static_cast<int>(number), state_->time_of(cost), state_->bytes_of(cost), cost.working};
  }

  State* state_;
  Bytes most_, room_;
  Seconds bound_{0.0};
  int guide_ = -1;                   // the price of the greatest bound
  std::optional<Trial> low_, high_;  // cheapest at a price too low and at one high enough: more bytes than fit, fewer
};

// Best first over classes.
class MeshSpans::State::MemorySearch {
 public:
  MemorySearch(State& state, double unit) : state_(state), unit_(unit) {
    for (const LayerClass& of : state.classes)
      for (const LayerModel& model : of.models)
        for (const Bytes value : model.working_values()) values_.push_back(value);
    std::sort(values_.begin(), values_.end());
    values_.erase(std::unique(values_.begin(), values_.end()), values_.end());
    Bytes least(0);
    for (const LayerClass& of : state.classes) {
      Bytes of_class = of.models.front().least_working();
      for (const LayerModel& model : of.models) of_class = std::min(of_class, model.least_working());
      least = std::max(least, of_class);
    }
    std::erase_if(values_, [&](Bytes value) { return value < least; });
  }

  void run() {
    open(0, values_.size() - 1, *state_.dual, unit_);
    for (int classes = 1; !open_.empty(); classes += 2) {
      const auto least =
          std::min_element(open_.begin(), open_.end(), [](const Open& a, const Open& b) { return a.bound < b.bound; });
      improve(*least);
      if (is_close(least->bound) || classes >= kMostClasses) break;
      if (least->split == least->last) break;  // nothing more raises the least bound
      const Open of = *least;
      open_.erase(least);
      open(of.first, of.split, of.bound, of.found.guiding_price());
      open(of.split + 1, of.last, of.bound, of.found.guiding_price());
    }
    for (Open& of : open_) improve(of);
    std::optional<Seconds> bound;
    for (const Open& of : open_) bound = std::min(bound.value_or(of.bound), of.bound);
    if (bound) state_.dual = std::max(*state_.dual, *bound);
    // Should nothing fit, the smallest shardings are wanted nevertheless.
    if (!best_) WorkingClass(state_, values_.front(), values_.front()).search(unit_, kHighest * unit_, best_);
    state_.forget_problems();
  }

 private:
  struct Open {
    std::size_t first, last, split;  // of values_; split == last: not to be split
    Seconds bound;
    WorkingClass found;
    bool improved = false;
  };

  [[nodiscard]] bool is_close(Seconds bound) const { return best_ && bound >= (1.0 - kClose) * *best_; }

  // A class of values_[first] to values_[last] that lies in one of bound `parent`, unless nothing of it fits.
  void open(std::size_t first, std::size_t last, Seconds parent, double price) {
    WorkingClass found(state_, values_[first], values_[last]);
    found.search(unit_, price, best_);
    state_.forget_problems();
    if (!std::isfinite(found.bound().si())) return;
    Open of{first, last, last, std::max(parent, found.bound()), found};
    if (const auto& smaller = found.smaller()) {
      if (state_.fits(state_.whole_cost(static_cast<std::size_t>(smaller->price))))
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
    state_.forget_problems();
  }
  // The nearer to the bound, the fewer are the ways to look at, and the finer they can be told apart.
  void improve(const WorkingClass& of, Bytes working) {
    const Bytes room = state_.search.usable_memory - working;
    for (double gap = kNear; gap < 1.0; gap *= kWiden) {
      Seconds below = (1.0 + gap) * of.bound_with(working);
      const bool is_last = best_ && *best_ <= below;
      if (best_) below = std::min(below, *best_);
      bool better = false;
      while (auto mixture = state_.mix({of.prices(), working, room, below})) {
        below = state_.time_of(mixture->cost);
        best_ = below;
        state_.mixture = std::move(mixture);
        if (better) return;
        better = true;  // once more, finer
      }
      if (better || is_last) return;
    }
  }

  static constexpr double kNear = 2e-4;  // relative to the bound
  static constexpr double kWiden = 4.0;

  State& state_;
  const double unit_;
  std::vector<Bytes> values_;  // of working memory, ascending
  std::vector<Open> open_;
  std::optional<Seconds> best_;
};

void MeshSpans::State::fit_memory(double unit) {
  dual = least[static_cast<std::size_t>(layers) - 1];
  if (fits(whole_cost(0))) return;
  MemorySearch(*this, unit).run();
  if (mixture) span_costs.push_back(std::vector<StepCost>(static_cast<std::size_t>(layers), mixture->cost));
}

}  // namespace meshwright
