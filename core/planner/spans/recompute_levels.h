// SPDX-License-Identifier: Apache-2.0
// The shardings of a span that a search chooses from, beside those in which each layer's variant is the cheapest.
//
// A memory price makes equal layers choose alike: at one price all of a span's layers change from keeping much to
// recomputing much. So there are recompute levels as well: without a price each way to recompute for all layers, and at
// the lower prices mixtures of the last two ways, in which a share of the span's layers takes the last one, first those
// that save the most bytes per second. Higher prices have none: they hardly change a sharding but to make it the
// smallest. Each way alone has prices of its own (SpanOption::way), so that a search over several ways knows the
// shardings of a search over one.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/planner/spans/span_solver.h"

namespace meshwright {

// One sharding of every span: at a memory price, with a recompute level or with the cheapest variants.
struct SpanOption {
  int price;
  std::optional<int> level = std::nullopt;
  std::optional<int> way = std::nullopt;  // the price is of this way alone (LayerMatrices::add_way)
  bool shared_price = false;              // `way`: the price is one of all ways (LayerMatrices::know_way)
};

class RecomputeLevels {
 public:
  // `ways`: the ways to recompute of StageSearchOptions. REQUIRES: all outlive this.
  RecomputeLevels(const LayerClasses& layers, const SpanBudget& budget, int ways, SpanSolver& solver)
      : layers_(layers), budget_(budget), ways_(ways), solver_(solver) {}

  // Whether the price of this number has levels.
  [[nodiscard]] bool has(int price) const;
  // The levels of a price, none where it has none.
  [[nodiscard]] std::vector<SpanOption> options(int price) const;
  // The way that all layers of a level take; nullopt: it is no such level.
  [[nodiscard]] std::optional<int> way(const SpanOption& option) const {
    return option.level && !is_mixture(option) ? option.level : std::nullopt;
  }
  // The least time of all layers, each recomputed in this way, where neither memory nor receiving what enters has a
  // cost. REQUIRES: price 0 was added with all variants.
  [[nodiscard]] Seconds min_time(int way) const;
  [[nodiscard]] SpanVariants variants(const SpanOption& option, int first, int last);
  // The spans that begin with one layer and end with each of the others.
  struct SpansFrom {
    std::vector<StepCost> costs;  // [length - 1]; those of up to `known` layers left out
    BorderPaths paths;            // through all layers of the longest, and its variants of these
    SpanVariants variants;
  };
  // `twin`: of spans that equal these, of up to `known` layers. `end`: the longest ends before this layer; nullopt:
  // with the last layer.
  [[nodiscard]] SpansFrom spans_from(const SpanOption& option, int first, int known = 0,
                                     const SpansFrom* twin = nullptr, std::optional<int> end = std::nullopt);

 private:
  [[nodiscard]] std::optional<double> bytes_per_second(int price, int layer);
  [[nodiscard]] bool is_mixture(const SpanOption& option) const { return option.level && *option.level >= ways_; }

  const LayerClasses& layers_;
  const SpanBudget& budget_;
  int ways_;
  SpanSolver& solver_;
  std::map<std::pair<int, int>, std::optional<double>> values_;  // bytes_per_second by price and class
};

}  // namespace meshwright
