// SPDX-License-Identifier: Apache-2.0
#include "core/planner/spans/recompute_levels.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright {

namespace {

constexpr int kPricesWithLevels = 3;
constexpr int kMixtures = 3;  // of the last two ways

}  // namespace

bool RecomputeLevels::has(int price) const {
  return !budget_.one_stage && price < kPricesWithLevels && layers_.has_variants();
}

std::vector<SpanOption> RecomputeLevels::options(int price) const {
  std::vector<SpanOption> found;
  if (!has(price)) return found;
  // Without a price the cheapest variants are those of the first way.
  for (int level = price == 0 ? 1 : ways_; level < ways_ + kMixtures; ++level) found.push_back({price, level});
  return found;
}

Seconds RecomputeLevels::min_time(int way) const {
  const int last = layers_.layers() - 1;
  SpanVariants all;
  for (int layer = 0; layer <= last; ++layer) all.push_back(layers_.variant_of(layer, way));
  return min_cost(solver_.paths(0, 0, last, SpanSolver::Entering::Free, all).end_costs());
}

// Bytes saved per second that the last way costs a layer beyond the one before it, between the border states that suit
// the latter best; nullopt where both are the same variant.
std::optional<double> RecomputeLevels::bytes_per_second(int price, int layer) {
  const std::pair key(price, layers_.class_of(layer));
  // Plans are read off by several threads, when all classes are known.
  if (const auto known = values_.find(key); known != values_.end()) return known->second;
  const int more = layers_.variant_of(layer, ways_ - 1), less = layers_.variant_of(layer, ways_ - 2);
  if (more == less) return values_.emplace(key, std::nullopt).first->second;
  const int best = cheapest_state(solver_.matrices().of_variant(price, layer, less));
  MW_CHECK(best >= 0, "layer {} has no sharding", layer);
  const int outs = static_cast<int>(layers_.out_states(layer));
  const InOutStates states{best / outs, best % outs};
  const StepCost& kept = solver_.solve(price, layer, states, less).cost;
  const StepCost& recomputed = solver_.solve(price, layer, states, more).cost;
  const Seconds extra = budget_.time_of(recomputed) - budget_.time_of(kept);
  const double value = (kept.saved - recomputed.saved) / Bytes(1.0) / std::max(extra.si(), 1e-12);
  return values_.emplace(key, value).first->second;
}

SpanVariants RecomputeLevels::variants(const SpanOption& option, int first, int last) {
  SpanVariants found;
  if (option.shared_price)
    for (int layer = first; layer <= last; ++layer) found.push_back(layers_.variant_of(layer, *option.way));
  if (!option.level) return found;
  // In a mixture: the way of the layers that it leaves alone.
  const int way = std::min(*option.level, is_mixture(option) ? ways_ - 2 : ways_ - 1);
  for (int layer = first; layer <= last; ++layer) found.push_back(layers_.variant_of(layer, way));
  if (!is_mixture(option)) return found;
  std::vector<std::pair<double, int>> order;
  for (int layer = first; layer <= last; ++layer)
    if (const auto value = bytes_per_second(option.price, layer)) order.emplace_back(-*value, layer);
  std::sort(order.begin(), order.end());
  const double share = static_cast<double>(*option.level - ways_ + 1) / (kMixtures + 1);
  order.resize(share * static_cast<double>(order.size()) + 0.5);
  for (const auto& [value, layer] : order) found[layer - first] = layers_.variant_of(layer, ways_ - 1);
  return found;
}

RecomputeLevels::SpansFrom RecomputeLevels::spans_from(const SpanOption& option, int first, int known,
                                                       const SpansFrom* twin, std::optional<int> wanted_end) {
  const int end = wanted_end.value_or(layers_.layers());
  if (first + known >= end) return {{}, BorderPaths(StateCosts()), {}};
  SpansFrom found{{}, twin != nullptr ? twin->paths : solver_.paths(option.price, first, first - 1), {}};
  auto& [costs, paths, before] = found;
  if (twin != nullptr) {
    MW_CHECK(static_cast<int>(paths.layers()) >= known, "the twin of the spans from layer {} is shorter", first);
    paths.shorten(static_cast<std::size_t>(known));
    if (!twin->variants.empty()) before.assign(twin->variants.begin(), twin->variants.begin() + known);
  }
  // Paths to all ends begin alike, until the layers that a mixture changes depend on the end.
  SpanTotals totals(solver_, option.price, first);
  for (int last = first + known; last < end; ++last) {
    SpanVariants chosen = variants(option, first, last);
    const auto apart = std::mismatch(before.begin(), before.end(), chosen.begin(), chosen.end()).first;
    if (!chosen.empty()) paths.shorten(static_cast<std::size_t>(apart - before.begin()));
    solver_.extend(paths, option.price, first, last, chosen);
    costs.push_back(totals.cost(paths.trace(paths.layers()), chosen));
    before = std::move(chosen);
  }
  return found;
}

}  // namespace meshwright
