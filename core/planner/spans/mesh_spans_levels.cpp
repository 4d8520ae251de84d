// SPDX-License-Identifier: Apache-2.0
// A price for bytes makes equal layers choose alike: all of a span's layers change at one price from keeping much to
// making much again. So at the lower prices there are levels as well: each variant for all layers, and between the last
// two of them mixtures in which a share of the span's layers takes the last one, first those that save the most bytes
// per second. (Higher prices hardly change a sharding any more, but to make it the smallest.)
#include <algorithm>

#include "core/planner/spans/mesh_spans_state.h"

namespace meshwright {

namespace {

constexpr std::size_t kPricesWithLevels = 3;

}  // namespace

bool MeshSpans::State::has_levels(std::size_t price) const {
  return !search.one_stage && price < kPricesWithLevels &&
         std::any_of(classes.begin(), classes.end(), [](const LayerClass& of) { return of.models.size() > 1; });
}

std::optional<double> MeshSpans::State::worth(std::size_t price, int layer) {
  const LayerClass& of = classes[model_class(layer)];
  const std::size_t most = of.variant_of.back(), less = of.variant_of[of.variant_of.size() - 2];
  if (most == less) return std::nullopt;
  const int best = cheapest(variant_matrices.at({price, model_class(layer), less}));
  MW_CHECK(best >= 0, "layer {} has no sharding", layer);
  const int in = best / static_cast<int>(outs(layer)), out = best % static_cast<int>(outs(layer));
  const StepCost& kept = solve_between(static_cast<int>(price), layer, in, out, less).cost;
  const StepCost& repeated = solve_between(static_cast<int>(price), layer, in, out, most).cost;
  return (kept.saved - repeated.saved) / Bytes(1.0) / std::max((time_of(repeated) - time_of(kept)).si(), 1e-12);
}

MeshSpans::State::Variants MeshSpans::State::variants_of(const Option& option, int first, int last) {
  Variants found;
  if (option.level == kFree) return found;
  const int count = static_cast<int>(search.variants.size());
  const int whole = std::min(option.level, count - 2);  // of a mixture: the variant of the layers it leaves alone
  const auto variant_of = [&](int layer, int variant) {
    return classes[model_class(layer)].variant_of[static_cast<std::size_t>(variant)];
  };
  if (option.level < count) {
    for (int layer = first; layer <= last; ++layer) found.push_back(variant_of(layer, option.level));
    return found;
  }
  std::vector<std::pair<double, int>> order;
  for (int layer = first; layer <= last; ++layer) {
    found.push_back(variant_of(layer, whole));
    if (const auto value = worth(option.price, layer)) order.emplace_back(-*value, layer);
  }
  std::sort(order.begin(), order.end());
  const double share = static_cast<double>(option.level - count + 1) / (kMixedLevels + 1);
  order.resize(static_cast<std::size_t>(share * static_cast<double>(order.size()) + 0.5));
  for (const auto& [value, layer] : order)
    found[static_cast<std::size_t>(layer - first)] = variant_of(layer, count - 1);
  return found;
}

MeshSpans::State::Path MeshSpans::State::path(const Option& option, int first, int last) {
  const Variants variants = variants_of(option, first, last);
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  Path found;
  found.states = trace(paths(option.price, first, last, Entering::Paid, variants), at(last - first + 1));
  for (int layer = first; layer <= last; ++layer) {
    const auto [in, out] = found.states[at(layer - first)];
    const int price = static_cast<int>(option.price);
    found.layers.push_back(variants.empty() ? &solve_between(price, layer, in, out)
                                            : &solve_between(price, layer, in, out, variants[at(layer - first)]));
  }
  return found;
}

void MeshSpans::State::cost_levels(std::size_t price) {
  if (!has_levels(price)) return;
  const int count = static_cast<int>(search.variants.size());
  for (int level = price == 0 ? 1 : 0; level < count + kMixedLevels; ++level) {
    const Option option{price, level};
    std::vector<StepCost> costs(static_cast<std::size_t>(layers * layers));
    for (int first = 0; first < layers; ++first) {
      std::optional<Paths> shared;  // layers choose by themselves: paths begin alike
      if (level < count)
        shared = paths(price, first, layers - 1, Entering::Paid, variants_of(option, first, layers - 1));
      for (int last = first; last < layers; ++last) {
        const Variants variants = variants_of(option, first, last);
        costs[static_cast<std::size_t>(first * layers + last)] = cost_along(
            price, shared ? *shared : paths(price, first, last, Entering::Paid, variants), first, last, variants);
      }
    }
    levels.push_back(option);
    level_costs.push_back(std::move(costs));
  }
  forget_problems();  // what plans need of them is solved now
}

}  // namespace meshwright
