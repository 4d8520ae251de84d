// SPDX-License-Identifier: Apache-2.0
// Spans at memory prices: prices that were dropped, layers that a mixture recomputes, and one stage in little memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>

#include "core/planner/spans/memory_fit.h"
#include "core/planner/spans/recompute_levels.h"
#include "tests/oracle/planner/recompute_ways.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::span_prices_test {
namespace {

constexpr std::int64_t kMicrobatches = 4;

// A GPT on a mesh, and the ways to recompute that its layers choose from.
struct Setting : RecomputeWays {
  explicit Setting(int layers)
      : RecomputeWays(find_model("gpt:layers=3,hidden=32,heads=4,seq=16,vocab=96"), kMicrobatches,
                      [layers](const Graph& graph) { return make_layers(graph, layers); }) {}
  Setting(const Setting&) = delete;

  Cluster cluster = find_cluster("cpu:2");
  std::unique_ptr<CostModel> costs = make_analytic_cost_model(cluster);
  LogicalMesh mesh = make_logical_mesh(cluster, {1, 2}, {1, 2});
};

struct Spans {
  const Setting& of;
  const SpanBudget budget;
  LayerClasses layers = LayerClasses::make(of.structure(), of.mesh, *of.costs, {}, of.variants);
  SpanSolver solver{
      of.structure(), of.mesh, *of.costs, false, layers, budget, std::make_shared<elimination::KnownSteps>()};

  Spans(const Setting& wanted, const SpanBudget& with) : of(wanted), budget(with) {}
  Spans(const Spans&) = delete;

  [[nodiscard]] int last() const { return layers.layers() - 1; }
  [[nodiscard]] Seconds least(int price) const {
    return min_cost(solver.paths(price, 0, last(), SpanSolver::Entering::Free).end_costs());
  }
};

// A price at which no op has the working memory it needs is dropped: those after it cost what they do without it.
TEST(SpanSolver, KnowsNothingOfPricesThatWereDropped) {
  const Setting of(4);
  const SpanBudget budget{true, kMicrobatches, 1.0, 0.3, Bytes(1e6)};
  for (const auto variants : {LayerMatrices::Variants::All, LayerMatrices::Variants::Cheapest}) {
    Spans plain(of, budget), dropped(of, budget);
    int drops = 0;
    for (const double price : {0.0, 1e-10, 1e-9, 1e-8}) {
      dropped.solver.add_price(price, variants, Bytes(1.0));
      EXPECT_LT(cheapest_state(dropped.solver.paths(drops++, 0, dropped.last()).end_costs()), 0);
      dropped.solver.drop_last_price();
      const int number = dropped.solver.add_price(price, variants);
      ASSERT_EQ(number, plain.solver.add_price(price, variants));
      EXPECT_EQ(dropped.least(number), plain.least(number)) << price;
      const auto cost = [&](Spans& spans) {
        return spans.budget.bytes_of(spans.solver.cost(spans.solver.sharding(number, 0, spans.last()), 0));
      };
      EXPECT_EQ(cost(dropped), cost(plain)) << price;
    }
  }
}

// Of n layers that the last way changes, mixtures recompute n/4, n/2 and 3n/4 by it: those that save the most bytes for
// each second that it costs them beyond the way before, and the layers that a shorter mixture recomputes.
TEST(RecomputeLevels, MixturesRecomputeFirstWhatSavesTheMostBytesPerSecond) {
  for (const int count : {6, 13}) {
    const Setting of(count);
    const SpanBudget budget{false, kMicrobatches, 2.0, 0.2, Bytes(1e6)};
    Spans spans(of, budget);
    const LayerClasses& layers = spans.layers;
    RecomputeLevels levels(layers, budget, 3, spans.solver);
    int told_apart = 0;
    for (const double at : {0.0, 1e-9}) {
      const int price = spans.solver.add_price(at, LayerMatrices::Variants::All);
      std::vector<std::pair<double, int>> by_value;  // bytes per second, layer
      for (int layer = 0; layer < count; ++layer) {
        const int before = layers.variant_of(layer, 1), last = layers.variant_of(layer, 2);
        if (before == last) continue;
        const CostMatrix& matrix = spans.solver.matrices().of_variant(price, layer, before);
        std::size_t best = matrix.size();
        for (std::size_t i = 0; i < matrix.size(); ++i)
          if (matrix[i] && (best == matrix.size() || *matrix[i] < *matrix[best])) best = i;
        const int outs = static_cast<int>(layers.out_states(layer));
        const InOutStates states{static_cast<int>(best) / outs, static_cast<int>(best) % outs};
        const StepCost &one = spans.solver.solve(price, layer, states, before).cost,
                       &other = spans.solver.solve(price, layer, states, last).cost;
        const Seconds extra = budget.time_of(other) - budget.time_of(one);
        by_value.emplace_back((one.saved - other.saved).si() / std::max(extra.si(), 1e-12), layer);
      }
      std::set<int> before;
      for (const SpanOption& option : levels.options(price)) {
        const int level = *option.level;
        if (level < 3) continue;
        const SpanVariants found = levels.variants(option, 0, count - 1);
        std::set<int> recomputed;
        double least = 1e300, most_left = -1e300;
        for (const auto& [value, layer] : by_value) {
          if (found[layer] == layers.variant_of(layer, 2)) {
            recomputed.insert(layer);
            least = std::min(least, value);
          } else {
            EXPECT_EQ(found[layer], layers.variant_of(layer, 1));
            most_left = std::max(most_left, value);
          }
        }
        EXPECT_EQ(recomputed.size(), static_cast<std::size_t>(0.25 * (level - 2) * by_value.size() + 0.5));
        EXPECT_GE(least, most_left) << count << " layers, level " << level;
        told_apart += least > most_left ? 1 : 0;
        EXPECT_TRUE(std::includes(recomputed.begin(), recomputed.end(), before.begin(), before.end()));
        before = recomputed;
      }
    }
    EXPECT_GT(told_apart, 0) << count;
  }
}

// From hardly more memory than the smallest sharding takes to nearly as much as the fastest likes.
TEST(OneStage, IsNearItsBoundAndFitsAtEveryLimitBetweenTheSmallestAndTheFastest) {
  const Setting of(3);
  const auto budget_of = [](double memory) { return SpanBudget{true, kMicrobatches, 1.0, 0.25, Bytes(memory)}; };
  const auto fitted = [&](double memory, const auto& visit) {
    Spans spans(of, budget_of(memory));
    const int price = spans.solver.add_price(0.0, LayerMatrices::Variants::Cheapest);
    const Seconds fastest = spans.least(price);
    const MemoryFit fit = fit_memory(spans.layers, spans.budget, spans.solver, fastest);
    visit(spans, fit, fastest);
  };
  const auto needs = [](const SpanBudget& budget, const StepCost& cost) {
    return (budget.bytes_of(cost) + cost.working).si();
  };
  double least = 0, most = 0;
  fitted(1.0, [&](const Spans& spans, const MemoryFit& fit, Seconds) {
    most = needs(spans.budget, fit.costs.front());
    least = needs(spans.budget, fit.costs.back());
    EXPECT_FALSE(fit.mixture);
  });
  ASSERT_LT(least, 0.9 * most);
  int mixed = 0;
  for (int step = 1; step <= 8; ++step) {
    fitted(least + (most - least) * step / 9, [&](const Spans& spans, const MemoryFit& fit, Seconds fastest) {
      EXPECT_GE(fit.bound, fastest);
      // The last price tried is where the line between the shardings on both sides of the limit ends.
      EXPECT_LE(fit.costs.size(), 6u) << step;
      std::optional<Seconds> best;  // of single prices
      for (const StepCost& cost : fit.costs)
        if (spans.budget.fits(cost))
          best = std::min(best.value_or(spans.budget.time_of(cost)), spans.budget.time_of(cost));
      if (fit.mixture) {
        ++mixed;
        EXPECT_TRUE(spans.budget.fits(fit.mixture->cost));
        const Seconds time = spans.budget.time_of(fit.mixture->cost);
        EXPECT_TRUE(!best || time < *best) << step;
        best = time;
        // Layer by layer, each on in the state in which the one before it ends.
        StepCost sum;
        for (int layer = 0; layer <= spans.last(); ++layer) {
          const auto l = static_cast<std::size_t>(layer);
          sum += spans.layers.model(layer, fit.mixture->variants[l]).cost(fit.mixture->choices[l]);
          EXPECT_TRUE(layer == 0 || fit.mixture->states[l - 1].second == fit.mixture->states[l].first);
        }
        EXPECT_NEAR(spans.budget.time_of(sum) / time, 1.0, 1e-12);
      }
      ASSERT_TRUE(best) << step;
      EXPECT_GE(*best, (1 - 1e-9) * fit.bound) << step;
      // In the least memory there are few shardings to mix.
      EXPECT_LE(*best, (step == 1 ? 1.035 : 1.01) * fit.bound) << step;
    });
  }
  EXPECT_GT(mixed, 3);
}

}  // namespace
}  // namespace meshwright::span_prices_test
