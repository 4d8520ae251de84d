// SPDX-License-Identifier: Apache-2.0
// Spans that repeat against spans that are solved one by one.
#include "core/planner/spans/equal_spans.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <tuple>

#include "core/planner/pipeline/stage_dp_ranking.h"
#include "core/planner/spans/mesh_spans.h"
#include "core/planner/spans/recompute_levels.h"
#include "tests/oracle/planner/recompute_ways.h"
#include "tests/oracle/stage_dp_truth.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::equal_spans_test {
namespace {

// A GPT cut into layers, and the ways to recompute that these choose from.
struct Setting : RecomputeWays {
  static constexpr std::int64_t kMicrobatches = 4;
  static constexpr int kBlocks = 6;  // of the model

  explicit Setting(int layers)
      : RecomputeWays(find_model("gpt:layers=6,hidden=64,heads=4,seq=32,vocab=96"), kMicrobatches,
                      [layers](const Graph& graph) {
                        return layers == kBlocks ? layers_of_blocks(graph) : make_layers(graph, layers);
                      }) {}

  Cluster cluster = find_cluster("cpu:4");
  std::unique_ptr<CostModel> costs = make_analytic_cost_model(cluster);

  [[nodiscard]] LogicalMesh mesh() const { return make_logical_mesh(cluster, {1, 4}, {2, 2}); }
};

auto fields(const StepCost& c) {
  return std::tuple(c.forward.si(), c.backward.si(), c.weights.si(), c.step.si(), c.resident.si(), c.saved.si(),
                    c.recomputed.si(), c.recomputed_at_once.si(), c.held.si(), c.working.si());
}

TEST(EqualSpans, AreTheRepeatedOnesBetweenTheEnds) {
  const Setting of(Setting::kBlocks);
  const LogicalMesh mesh = of.mesh();
  const LayerClasses layers = LayerClasses::make(of.structure(), mesh, *of.costs, {}, of.variants);
  const EqualSpans equal(layers);
  // Layers A B B B B C: those of 2 to 4 equal what begins at 1, up to the last, which ends in the loss.
  ASSERT_EQ(layers.classes(), 3);
  EXPECT_EQ(equal.twin_of(0).length, 0);
  EXPECT_EQ(equal.twin_of(1).length, 0);
  EXPECT_EQ(std::pair(equal.twin_of(2).first, equal.twin_of(2).length), std::pair(1, 3));
  EXPECT_EQ(std::pair(equal.twin_of(3).first, equal.twin_of(3).length), std::pair(1, 2));
  EXPECT_EQ(std::pair(equal.twin_of(4).first, equal.twin_of(4).length), std::pair(1, 1));
  EXPECT_EQ(equal.twin_of(5).length, 0);
}

TEST(EqualSpans, CostTheSameInEveryOption) {
  for (const int count : {6, 12, 17}) {
    const Setting of(count);
    const LogicalMesh mesh = of.mesh();
    const LayerClasses layers = LayerClasses::make(of.structure(), mesh, *of.costs, {}, of.variants);
    const SpanBudget budget{false, Setting::kMicrobatches, 2.0, 0.2, Bytes(1e6)};
    SpanSolver solver(of.structure(), mesh, *of.costs, false, layers, budget,
                      std::make_shared<elimination::KnownSteps>());
    RecomputeLevels levels(layers, budget, 3, solver);
    std::vector<SpanOption> options;
    for (const double price : {0.0, 1e-9, 1e-8}) {
      options.push_back({solver.add_price(price, LayerMatrices::Variants::All)});
      for (const SpanOption& level : levels.options(options.back().price)) options.push_back(level);
    }
    const std::vector<int> marks = EqualSpans(layers).marks();
    int shared = 0;
    for (const SpanOption& option : options) {
      std::map<int, StepCost> known;  // by mark
      std::size_t span = 0;
      for (int first = 0; first < layers.layers(); ++first)
        for (const StepCost& cost : levels.spans_from(option, first).costs) {
          const auto [of_mark, is_new] = known.emplace(marks[span++], cost);
          EXPECT_EQ(fields(of_mark->second), fields(cost)) << count << " layers, span " << span - 1;
          shared += is_new ? 0 : 1;
        }
    }
    EXPECT_GT(shared, 50) << count;
  }
}

// Spans that begin with one layer share their paths and sums as far as they are alike.
TEST(RecomputeLevels, CostEverySpanAsIfItWereTheOnlyOne) {
  for (const int count : {6, 17}) {
    const Setting of(count);
    const LogicalMesh mesh = of.mesh();
    const LayerClasses layers = LayerClasses::make(of.structure(), mesh, *of.costs, {}, of.variants);
    const SpanBudget budget{false, Setting::kMicrobatches, 2.0, 0.2, Bytes(1e6)};
    SpanSolver solver(of.structure(), mesh, *of.costs, false, layers, budget,
                      std::make_shared<elimination::KnownSteps>());
    RecomputeLevels levels(layers, budget, 3, solver);
    std::vector<SpanOption> options;
    for (const double price : {0.0, 1e-9, 1e-8}) {
      options.push_back({solver.add_price(price, LayerMatrices::Variants::All)});
      for (const SpanOption& level : levels.options(options.back().price)) options.push_back(level);
    }
    bool mixed = false;  // some span takes other variants than a shorter one
    for (const SpanOption& option : options)
      for (int first = 0; first < layers.layers(); ++first) {
        const std::vector<StepCost> costs = levels.spans_from(option, first).costs;
        SpanVariants before;
        for (int last = first; last < layers.layers(); ++last) {
          const SpanVariants variants = levels.variants(option, first, last);
          mixed = mixed || !std::equal(before.begin(), before.end(), variants.begin());
          const StepCost alone = solver.cost(solver.sharding(option.price, first, last, variants), first);
          EXPECT_EQ(fields(costs[static_cast<std::size_t>(last - first)]), fields(alone)) << first << ".." << last;
          before = variants;
        }
      }
    EXPECT_TRUE(mixed) << count;
  }
}

// Spans that equal others to a length go on from their paths.
TEST(RecomputeLevels, CostSpansLikeTheirTwinAsIfTheyHadNone) {
  for (const int count : {6, 12, 17}) {
    const Setting of(count);
    const LogicalMesh mesh = of.mesh();
    const LayerClasses layers = LayerClasses::make(of.structure(), mesh, *of.costs, {}, of.variants);
    const SpanBudget budget{false, Setting::kMicrobatches, 2.0, 0.2, Bytes(1e6)};
    SpanSolver solver(of.structure(), mesh, *of.costs, false, layers, budget,
                      std::make_shared<elimination::KnownSteps>());
    RecomputeLevels levels(layers, budget, 3, solver);
    const EqualSpans equal(layers);
    int longer = 0;  // spans than those of the twin
    for (const double price : {0.0, 1e-9, 1e-8}) {
      std::vector<SpanOption> options = {{solver.add_price(price, LayerMatrices::Variants::All)}};
      for (const SpanOption& level : levels.options(options.front().price)) options.push_back(level);
      for (const SpanOption& option : options) {
        std::vector<RecomputeLevels::SpansFrom> from;
        for (int first = 0; first < layers.layers(); ++first) {
          const auto [twin, length] = equal.twin_of(first);
          from.push_back(levels.spans_from(option, first, length, length > 0 ? &from[twin] : nullptr));
          const std::vector<StepCost> alone = levels.spans_from(option, first).costs;
          const std::vector<StepCost>& costs = from.back().costs;
          ASSERT_EQ(costs.size() + length, alone.size());
          for (std::size_t l = 0; l < costs.size(); ++l)
            EXPECT_EQ(fields(costs[l]), fields(alone[l + length])) << count << " layers, from " << first;
          longer += length > 0 ? static_cast<int>(costs.size()) : 0;
        }
      }
    }
    EXPECT_GT(longer, 40) << count;
  }
}

// The prices of the first way are those of all ways together, whose problems it shares.
TEST(RecomputeLevels, GiveAWayTheCostsOfASearchWithoutTheOthers) {
  const Setting of(12);
  StageSearchOptions options{.microbatches = Setting::kMicrobatches, .usable_memory = Bytes(1e6)};
  options.variants = of.variants;
  const MeshSpans all(of.structure(), of.mesh(), *of.costs, options);
  for (int way = 0; way < 3; ++way) {
    options.variants = {of.variants[static_cast<std::size_t>(way)]};
    const MeshSpans alone(of.structure(), of.mesh(), *of.costs, options);
    int same = 0;
    for (int option = 0; option < all.options(); ++option) {
      if (all.way(option) != way) continue;
      // Without a price there is the fastest; at the prices of the way itself the others.
      const int own = same++;
      ASSERT_LT(own, alone.options()) << way;
      for (int first = 0; first < 12; ++first)
        for (int last = first; last < 12; ++last)
          EXPECT_EQ(fields(all.cost(first, last, option)), fields(alone.cost(first, last, own)))
              << "way " << way << ", option " << option << ", " << first << ".." << last;
    }
    EXPECT_GE(same, alone.options()) << way;
  }
}

TEST(EqualSpans, GiveAMeshTheCostsOfSpansThatAreSolvedAlone) {
  const Setting of(12);
  StageSearchOptions options{.microbatches = Setting::kMicrobatches, .usable_memory = Bytes(1e9)};
  const MeshSpans all(of.structure(), of.mesh(), *of.costs, options);
  for (int first = 0; first < 12; ++first) {
    options.only_from = {first};
    const MeshSpans alone(of.structure(), of.mesh(), *of.costs, options);
    for (int last = first; last < 12; ++last)
      EXPECT_EQ(fields(all.cost(first, last, 0)), fields(alone.cost(first, last, 0))) << first << ".." << last;
  }
}

TEST(MeshSpans, CostSpansWithinATimeAsIfAllHadCosts) {
  for (const int count : {6, 12, 17}) {
    const Setting of(count);
    StageSearchOptions options{.microbatches = Setting::kMicrobatches, .usable_memory = Bytes(1e6)};
    options.variants = of.variants;
    const MeshSpans all(of.structure(), of.mesh(), *of.costs, options);
    options.max_time = 0.4 * all.min_time(0, count - 1);
    const MeshSpans some(of.structure(), of.mesh(), *of.costs, options);
    ASSERT_EQ(some.options(), all.options());
    std::int64_t spans = 0;
    for (int first = 0; first < count; ++first)
      for (int last = first; last < count; ++last) {
        EXPECT_EQ(some.has_costs(first, last), all.min_time(first, last) <= *options.max_time) << first << ".." << last;
        if (!some.has_costs(first, last)) continue;
        ++spans;
        for (int option = 0; option < all.options(); ++option)
          EXPECT_EQ(fields(some.cost(first, last, option)), fields(all.cost(first, last, option)))
              << count << " layers, option " << option << ", " << first << ".." << last;
      }
    EXPECT_EQ(spans, some.spans_with_costs());
    EXPECT_GT(spans, count) << "some of several layers";
    EXPECT_LT(spans, all.spans_with_costs());
  }
}

TEST(MeshSpans, OfAllDevicesCostOnlyTheWhole) {
  const Setting of(12);
  StageSearchOptions options{.microbatches = Setting::kMicrobatches, .usable_memory = Bytes(1e6)};
  options.variants = of.variants;
  const MeshSpans all(of.structure(), of.mesh(), *of.costs, options);
  options.only_whole = true;
  const MeshSpans whole(of.structure(), of.mesh(), *of.costs, options);
  ASSERT_EQ(whole.options(), all.options());
  EXPECT_EQ(whole.spans_with_costs(), 1);
  EXPECT_FALSE(whole.has_costs(0, 10));
  EXPECT_FALSE(whole.has_costs(1, 11));
  for (int option = 0; option < all.options(); ++option)
    EXPECT_EQ(fields(whole.cost(0, 11, option)), fields(all.cost(0, 11, option))) << option;
  // A stage that takes too long has a time but no costs.
  options.max_time = 0.5 * all.min_time(0, 11);
  const MeshSpans none(of.structure(), of.mesh(), *of.costs, options);
  EXPECT_EQ(none.spans_with_costs(), 0);
  EXPECT_EQ(none.min_time(0, 11), all.min_time(0, 11));
}

// Tables that share the costs of spans against the same tables stored for each span.
TEST(SpanNumbers, ChangeNoPipeline) {
  std::mt19937 random(1);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int n = 0; n < 60; ++n) {
    const int layers = draw(2, 7);
    const StageTable drawn = random_prices(random, layers, {{1}, {2}, {3}}, 3, 0.1,
                                           n % 2 == 0 ? DrawnTimes::Integers : DrawnTimes::Proportional);
    SpanNumbers numbers = SpanNumbers::all_alike(layers);
    std::vector<int> marks;
    for (int span = 0; span < layers * (layers + 1) / 2; ++span) marks.push_back(draw(0, 4));
    numbers.tell_apart(marks);
    StageTable shared(layers, drawn.slices(), drawn.configs(), numbers);
    for (int first = 0; first < layers; ++first)
      for (int last = first; last < layers; ++last)
        for (int s = 0; numbers.is_first(first, last) && s < 3; ++s)
          for (int c = 0; c < drawn.configs(); ++c) shared.at(first, last, s, c) = drawn.at(first, last, s, c);
    const StageTable apart = shared.apart();
    const StageDpRequest request{.devices = {draw(1, 6)}, .all_devices = n % 3 > 0, .microbatches = draw(1, 9)};
    const auto one = fastest_training(shared, request), other = fastest_training(apart, request);
    ASSERT_EQ(one.has_value(), other.has_value()) << n;
    if (!one) continue;
    EXPECT_EQ(one->stages, other->stages) << n;
    EXPECT_EQ(one->cost, other->cost) << n;
    if (request.all_devices) {
      EXPECT_EQ(one->cost.si(), least_training_by_recurrence(shared, request)) << n;
    }
    PipelineRanking ranking = PipelineRanking::by_training_time(shared, request);
    PipelineRanking ranking_apart = PipelineRanking::by_training_time(apart, request);
    for (int k = 0; k < 30; ++k) {
      const auto next = ranking.next(), next_apart = ranking_apart.next();
      ASSERT_EQ(next.has_value(), next_apart.has_value()) << n << " " << k;
      if (!next) break;
      EXPECT_EQ(next->stages, next_apart->stages) << n << " " << k;
    }
  }
}

}  // namespace
}  // namespace meshwright::equal_spans_test
