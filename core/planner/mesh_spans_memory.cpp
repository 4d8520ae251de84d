// SPDX-License-Identifier: Apache-2.0
// Fitting one stage into the memory. Bytes that stay are priced (Lagrangian relaxation); what an op needs beside them
// for a moment counts by its maximum, so the search runs once per class of shardings whose ops need at most so much.
#include <algorithm>
#include <cmath>

#include "core/planner/mesh_spans_state.h"

namespace meshwright {

namespace {

constexpr int kBisections = 11;       // between a memory price that fits and one that does not
constexpr double kClassShare = 4e-3;  // of the usable memory: width of a class of working memory
constexpr int kMostClasses = 8;
constexpr double kClose = 2e-4;  // relative gap at which a class is done

}  // namespace

Bytes MeshSpans::State::temporary(const StepCost& cost) const {
  int blocks = 0;
  for (int layer = 0; layer < layers; ++layer) blocks += structure.blocks_in(layer);
  return cost.working + cost.recomputed / static_cast<double>(std::max(1, blocks));
}

// Shardings whose ops need at most `most` working memory, and not all of them at most `least`.
class MeshSpans::State::WorkingClass {
 public:
  WorkingClass(State& state, Bytes least, std::optional<Bytes> most) : state_(state), least_(least), most_(most) {}

  // Adds options; the bound of the class, infinite when it is empty.
  Seconds search(double unit, std::optional<Seconds>& best) {
    double low = 0.0, high = unit;
    std::size_t small = 0, large = 0;
    for (double price = 0.0;; price = price == 0.0 ? unit : 8 * price) {
      const auto good = try_price(price, best);
      if (!good) return Seconds(std::numeric_limits<double>::infinity());
      if (*good && price == 0.0) return bound_;
      (*good ? high : low) = price;
      (*good ? small : large) = state_.options.size() - 1;
      if (*good) break;
      if (price > 1e6 * unit) return Seconds(std::numeric_limits<double>::infinity());  // nothing of the class fits
    }
    for (int i = 0; i < kBisections && !done(best); ++i) {
      const double middle = low == 0.0 ? high / 8 : std::sqrt(low * high);
      const bool good = *try_price(middle, best);
      (good ? high : low) = middle;
      (good ? small : large) = state_.options.size() - 1;
    }
    if (!done(best)) mix(small, large, best);
    return bound_;
  }

 private:
  [[nodiscard]] bool done(const std::optional<Seconds>& best) const { return best && bound_ >= (1.0 - kClose) * *best; }

  // Whether the best sharding at this price fits; nullopt: the class is empty.
  std::optional<bool> try_price(double price, std::optional<Seconds>& best) {
    state_.add_price(price, most_);
    const auto ends = state_.paths(state_.options.back(), 0, state_.layers - 1, Entering::Free).best.back();
    if (cheapest(ends) < 0) {
      state_.options.pop_back();
      return std::nullopt;
    }
    bound_ = std::max(bound_, best_of(ends) - Seconds(price * (state_.search.usable_memory - least_).si()));
    state_.cost_spans(state_.options.back());
    return note(best);
  }

  // Of the option made last.
  bool note(std::optional<Seconds>& best) const {
    const StepCost& cost = state_.whole_cost(state_.options.size() - 1);
    if (!state_.fits(cost)) return false;
    best = std::min(best.value_or(state_.time_of(cost)), state_.time_of(cost));
    return true;
  }

  // Between the price at which the best sharding fits and the one at which it does not, some layers take the one and
  // the rest the other.
  void mix(std::size_t small, std::size_t large, std::optional<Seconds>& best) {
    std::optional<Seconds> least;
    std::vector<int> mixed;
    for (const bool small_first : {true, false})
      for (int cut = 1; cut < state_.layers; ++cut) {
        std::vector<int> prices;
        for (int layer = 0; layer < state_.layers; ++layer)
          prices.push_back(
              state_.options[(layer < cut) == small_first ? small : large][static_cast<std::size_t>(layer)]);
        const StepCost cost = state_.cost_of(prices, 0, state_.layers - 1);
        if (!state_.fits(cost) || (least && *least <= state_.time_of(cost))) continue;
        least = state_.time_of(cost);
        mixed = std::move(prices);
      }
    if (!least) return;
    state_.options.push_back(std::move(mixed));
    state_.cost_spans(state_.options.back());
    note(best);
  }

  State& state_;
  const Bytes least_;
  const std::optional<Bytes> most_;
  Seconds bound_{0.0};
};

void MeshSpans::State::fit_memory(double unit) {
  dual = least[static_cast<std::size_t>(layers) - 1];
  if (fits(whole_cost(0))) return;
  Bytes from(0);
  for (const LayerModel& of : models) from = std::max(from, of.least_working());
  const Bytes to = std::max(from, whole_cost(0).working);
  const int classes =
      std::clamp(static_cast<int>(std::ceil((to - from) / (kClassShare * search.usable_memory))), 1, kMostClasses);
  std::optional<Seconds> best;
  std::optional<Seconds> bound;
  for (int k = 1; k <= classes + 1; ++k) {
    const Bytes low = from + static_cast<double>(k - 1) / classes * (to - from);
    const std::optional<Bytes> high =
        k > classes ? std::nullopt : std::optional(from + static_cast<double>(k) / classes * (to - from));
    const Seconds of_class = WorkingClass(*this, low, high).search(unit, best);
    bound = std::min(bound.value_or(of_class), of_class);
  }
  if (std::isfinite(bound->si())) dual = std::max(*dual, *bound);
  polish();
}

// Whole layers are too coarse a coin for the last bytes: equal layers change sides one by one. Their parameters are
// not.
void MeshSpans::State::polish() {
  int best = -1;
  for (std::size_t option = 0; option < options.size(); ++option)
    if (fits(whole_cost(option)) &&
        (best < 0 || time_of(whole_cost(option)) < time_of(whole_cost(static_cast<std::size_t>(best)))))
      best = static_cast<int>(option);
  if (best < 0) return;
  const std::vector<int> prices = options[static_cast<std::size_t>(best)];
  StepCost total = whole_cost(static_cast<std::size_t>(best));
  const auto states = trace(paths(prices, 0, layers - 1), static_cast<std::size_t>(layers));
  Bytes spare = search.usable_memory - bytes_of(total) - temporary(total);
  StepCost after;
  for (int layer = 0; layer < layers; ++layer) {
    const auto [in, out] = states[static_cast<std::size_t>(layer)];
    const Solved& now = solve_between(static_cast<int>(price_in(prices, layer)), layer, in, out);
    Solved better{model(layer).spend(now.choice, weights[0], spare, in_flight, total.working), {}};
    better.cost = model(layer).cost(better.choice);
    spare -= bytes_of(better.cost) - bytes_of(now.cost);
    after += better.cost;
    if (!(better.choice == now.choice)) polished.emplace(layer, std::move(better));
  }
  if (polished.empty()) return;
  options.push_back(prices);
  span_costs.emplace_back(static_cast<std::size_t>(layers * layers));
  span_costs.back()[static_cast<std::size_t>(layers) - 1] = after;
}

}  // namespace meshwright
