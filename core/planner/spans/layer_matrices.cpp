// SPDX-License-Identifier: Apache-2.0
#include "core/planner/spans/layer_matrices.h"

#include <algorithm>
#include <numeric>

namespace meshwright {

// The variants of a class that may be the cheapest somewhere. Comparing models term by term is far cheaper than
// solving them. Later variants recompute more, so the search for beaten ones begins with them.
std::vector<int> LayerMatrices::useful_variants(int price, int of_class) {
  const int count = layers_.models(of_class).count();
  std::vector<int> useful(count);
  std::iota(useful.begin(), useful.end(), 0);
  for (int v = count; v-- > 0 && count > 1;) {
    const bool beaten = std::any_of(useful.begin(), useful.end(), [&](int other) {
      return other != v && solver_.min_excess(price, of_class, v, other) >= 0.0;
    });
    if (beaten) std::erase(useful, v);
  }
  return useful;
}

LayerMatrices::Cheapest LayerMatrices::find_cheapest(int price, int of_class, Variants variants) {
  Cheapest best;
  std::vector<int> wanted(layers_.models(of_class).size());
  std::iota(wanted.begin(), wanted.end(), 0);
  if (variants == Variants::Cheapest) wanted = useful_variants(price, of_class);
  for (const int variant : wanted) {
    const CostMatrix costs = solver_.costs(price, of_class, variant);
    variant_matrices_[{price, of_class, variant}] = costs;
    best.costs.resize(costs.size());
    best.variant.resize(costs.size());
    for (std::size_t i = 0; i < costs.size(); ++i) {
      if (!costs[i] || (best.costs[i] && *best.costs[i] <= *costs[i])) continue;
      best.costs[i] = costs[i];
      best.variant[i] = static_cast<std::uint8_t>(variant);
    }
  }
  return best;
}

void LayerMatrices::add(int price, Variants variants) {
  IndexedVector<int, Cheapest>& of_classes = matrices_.emplace_back();
  for (int of_class = 0; of_class < layers_.classes(); ++of_class) {
    const Cheapest& best = of_classes.emplace_back(find_cheapest(price, of_class, variants));
    if (variants == Variants::All) continue;
    // Variants that are nowhere the cheapest are not solved again.
    for (int variant = 0; variant < layers_.models(of_class).count(); ++variant)
      if (std::find(best.variant.begin(), best.variant.end(), variant) == best.variant.end())
        solver_.forget_problem(price, of_class, variant);
  }
}

void LayerMatrices::add_way(int price, int way) {
  IndexedVector<int, Cheapest>& of_classes = matrices_.emplace_back();
  for (int of_class = 0; of_class < layers_.classes(); ++of_class) {
    const int variant = layers_.variant_of_class(of_class, way);
    Cheapest& only = of_classes.emplace_back();
    only.costs = solver_.costs(price, of_class, variant);
    only.variant.assign(only.costs.size(), static_cast<std::uint8_t>(variant));
  }
}

void LayerMatrices::know_way(int price, int way) {
  for (int of_class = 0; of_class < layers_.classes(); ++of_class) {
    const int variant = layers_.variant_of_class(of_class, way);
    const auto [known, is_new] = variant_matrices_.try_emplace({price, of_class, variant});
    if (is_new) known->second = solver_.costs(price, of_class, variant);
  }
}

void LayerMatrices::drop_last() {
  matrices_.pop_back();
  // The next price gets the same number.
  std::erase_if(variant_matrices_, [&](const auto& known) { return known.first[0] == matrices_.count(); });
}

}  // namespace meshwright
