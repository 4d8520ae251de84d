// SPDX-License-Identifier: Apache-2.0
// The stage search with branches against enumeration of all pipelines, each priced from the definition.
#include "core/planner/pipeline/stage_dp_branches.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iostream>

#include "core/base/errors.h"
#include "tests/oracle/stage_dp_truth.h"

namespace meshwright::stage_dp_branches_test {
namespace {

LayerBranches line_of_layers(int layers) { return {{{{0, layers - 1}}}}; }

using Slices = std::vector<std::vector<int>>;
const Slices kOneKind{{1}, {2}, {4}};
const Slices kTwoKinds{{1, 0}, {0, 1}, {2, 0}, {0, 2}, {1, 1}};

// Whether layer b comes after layer a: later in its branch, or in a later segment.
bool comes_after(const LayerBranches& branches, int a, int b) {
  const auto place = [&](int layer) {
    for (std::size_t g = 0; g < branches.segments.size(); ++g)
      for (std::size_t r = 0; r < branches.segments[g].size(); ++r)
        if (layer <= branches.segments[g][r].last) return std::pair(g, r);
    throw InternalError("no such layer");
  };
  const auto [ga, ra] = place(a);
  const auto [gb, rb] = place(b);
  return ga < gb || (ga == gb && ra == rb && a < b);
}

// From the definition alone: Q waits for P when a layer of Q comes after one of P.
struct Truth {
  double sum = 0.0, slowest = 0.0;
  int longest = 0;  // stages on the longest path
};
std::optional<Truth> price(const StageTable& prices, const StageDpRequest& request, const LayerBranches& branches,
                           const std::vector<TableStage>& stages) {
  Truth truth;
  std::vector<double> path(stages.size());
  std::vector<int> after(stages.size(), 0);
  for (std::size_t p = stages.size(); p-- > 0;) {
    double rest = 0.0;
    for (std::size_t q = p + 1; q < stages.size(); ++q) {
      bool waits = false;
      for (int a = stages[p].first; a <= stages[p].last; ++a)
        for (int b = stages[q].first; b <= stages[q].last; ++b) waits = waits || comes_after(branches, a, b);
      if (!waits) continue;
      rest = std::max(rest, path[q]);
      after[p] = std::max(after[p], after[q] + 1);
    }
    const auto time = stage_time(prices, request, stages[p], request.in_flight(after[p], request.microbatches));
    if (!time) return std::nullopt;
    path[p] = rest + *time;
    truth.sum = std::max(truth.sum, path[p]);
    truth.slowest = std::max(truth.slowest, *time);
    truth.longest = std::max(truth.longest, after[p] + 1);
  }
  return truth;
}

// All ways to cut the layers and to choose slices and configurations, priced.
struct Enumerated {
  std::vector<TableStage> stages;
  Truth truth;
  double cost;
};
std::vector<Enumerated> all_pipelines(const StageTable& prices, const StageDpRequest& request,
                                      const LayerBranches& branches) {
  std::vector<Enumerated> found;
  std::vector<TableStage> stages;
  std::vector<int> left = request.devices;
  const std::function<void(int)> extend = [&](int first) {
    if (first == prices.layers()) {
      if (request.stages && static_cast<int>(stages.size()) != *request.stages) return;
      if (request.all_devices && std::any_of(left.begin(), left.end(), [](int n) { return n > 0; })) return;
      if (const auto truth = price(prices, request, branches, stages))
        found.push_back({stages, *truth, truth->sum + static_cast<double>(request.microbatches - 1) * truth->slowest});
      return;
    }
    for (int last = first; last < prices.layers(); ++last)
      for (int s = 0; s < static_cast<int>(prices.slices().size()); ++s) {
        const std::vector<int>& used = prices.slices()[static_cast<std::size_t>(s)].devices;
        bool enough = true;
        for (std::size_t k = 0; k < left.size(); ++k) enough = (left[k] -= used[k]) >= 0 && enough;
        for (int c = 0; enough && c < prices.configs(); ++c) {
          stages.push_back({first, last, s, c});
          if (prices.at(first, last, s, c)) extend(last + 1);
          stages.pop_back();
        }
        for (std::size_t k = 0; k < left.size(); ++k) left[k] += used[k];
      }
  };
  extend(0);
  return found;
}

// 1F1B that starts early to hide transfers keeps more than the schedules do.
InFlight in_flight_of_eager_1f1b() {
  return [](int from_end, std::int64_t microbatches) {
    return std::min<std::int64_t>(2 * static_cast<std::int64_t>(from_end) + 1, microbatches);
  };
}

// Of a line the pipeline of the search without branches, which is exact to the last bit.
std::optional<TablePipeline> fastest_with_branches(const StageTable& prices, const StageDpRequest& request,
                                                   const LayerBranches& branches) {
  require_branches_of(branches, prices.layers());
  if (branches.is_line()) return fastest_training(prices, request);
  std::vector<TablePipeline> best = pipelines_with_branches(prices, request, branches, 1);
  return best.empty() ? std::nullopt : std::optional(std::move(best.front()));
}

InFlight drawn_in_flight(int which) {
  switch (which) {
    case 0:
      return in_flight_of(ScheduleKind::GPipe);
    case 1:
      return in_flight_of(ScheduleKind::Inference);
    case 2:
      return in_flight_of_eager_1f1b();
    case 3:  // neither growing nor falling
      return [](int from_end, std::int64_t microbatches) {
        return std::min<std::int64_t>(5 - from_end % 3, microbatches);
      };
    default:
      return in_flight_of(ScheduleKind::OneFOneB);
  }
}

struct Case {
  StageTable prices;
  StageDpRequest request;
  LayerBranches branches;
  DrawnTimes times;
};

// Stems, towers, tails, and segments of several branches next to each other; at most `most_layers` layers.
LayerBranches draw_branches(const std::function<int(int, int)>& draw, int most_layers) {
  LayerBranches branches;
  int next = 0;
  const int segments = draw(1, 3), wide = draw(0, segments - 1);
  for (int g = 0; g < segments && next < most_layers; ++g) {
    branches.segments.emplace_back();
    const int runs = g == wide ? draw(2, 3) : draw(0, 4) == 0 ? 2 : 1;
    for (int r = 0; r < runs && next < most_layers; ++r) {
      const int length = std::min(draw(1, 3), most_layers - next);
      branches.segments.back().push_back({next, next + length - 1});
      next += length;
    }
  }
  return branches;
}

Case draw_case(std::mt19937& random, const Slices& slices, const std::vector<int>& most_devices, int n,
               int most_layers) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const DrawnTimes times = n % 3 == 0   ? DrawnTimes::Integers
                           : n % 3 == 1 ? DrawnTimes::Reals
                                        : DrawnTimes::Proportional;
  LayerBranches branches = draw_branches(draw, most_layers);
  const int configs = draw(1, 2);
  Case drawn{random_prices(random, branches.layers(), slices, configs, n % 4 == 0 ? 0.5 : 0.1, times),
             {},
             std::move(branches),
             times};
  for (const int most : most_devices) drawn.request.devices.push_back(draw(most_devices.size() > 1 ? 0 : 1, most));
  drawn.request.devices.front() = std::max(1, drawn.request.devices.front());
  drawn.request.all_devices = draw(0, 3) > 0;
  drawn.request.microbatches = draw(0, 2) == 0 ? 1 : draw(0, 9) == 0 ? 1000000 : draw(2, 40);
  drawn.request.in_flight = drawn_in_flight(draw(0, 7));
  if (draw(0, 5) == 0) drawn.request.stages = draw(1, 5);
  return drawn;
}

// Sums of integers are exact; others are added up in another order.
void expect_cost(DrawnTimes times, double found, double truth) {
  if (times == DrawnTimes::Integers)
    EXPECT_EQ(found, truth);
  else
    EXPECT_NEAR(found, truth, 1e-12 * truth);
}

void expect_equal_to_enumeration(unsigned seed, const Slices& slices, const std::vector<int>& devices, int cases,
                                 int most_layers) {
  std::mt19937 random(seed);
  int none = 0, better_than_line = 0, memory_binds = 0;
  for (int n = 0; n < cases; ++n) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", table " << n);
    const Case drawn = draw_case(random, slices, devices, n, most_layers);
    const std::vector<Enumerated> all = all_pipelines(drawn.prices, drawn.request, drawn.branches);
    const auto found = fastest_with_branches(drawn.prices, drawn.request, drawn.branches);
    ASSERT_EQ(found.has_value(), !all.empty());
    none += all.empty();
    if (all.empty()) continue;
    const auto least =
        std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.cost < b.cost; });
    expect_cost(drawn.times, found->cost.si(), least->cost);
    // It is one of them, priced as it is there.
    const auto same = std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.stages == found->stages; });
    ASSERT_NE(same, all.end());
    EXPECT_EQ(found->sum.si(), same->truth.sum);
    EXPECT_EQ(found->slowest.si(), same->truth.slowest);
    EXPECT_EQ(found->cost.si(), same->cost);

    const auto as_line = fastest_training(drawn.prices, drawn.request);
    better_than_line += !as_line || found->cost.si() < as_line->cost.si() * (1 - 1e-9);
    StageTable roomy = drawn.prices;
    for (int first = 0; first < roomy.layers(); ++first)
      for (int last = first; last < roomy.layers(); ++last)
        for (int s = 0; s < static_cast<int>(slices.size()); ++s)
          for (int c = 0; c < roomy.configs(); ++c)
            if (auto& price = roomy.at(first, last, s, c)) price->resident = price->saved = price->working = Bytes(0);
    const auto unlimited = fastest_with_branches(roomy, drawn.request, drawn.branches);
    memory_binds += unlimited->cost.si() < found->cost.si() * (1 - 1e-9);
  }
  std::cout << "seed " << seed << ": " << cases << " tables, " << none << " without a pipeline, better than a line in "
            << better_than_line << ", memory binds in " << memory_binds << "\n";
  EXPECT_GT(none, cases / 50);
  EXPECT_GT(better_than_line, cases / 10);
  EXPECT_GT(memory_binds, cases / 20);
}

TEST(StageDpBranches, EqualEnumerationWithOneKindOfDevice) {
  expect_equal_to_enumeration(4242, kOneKind, {6}, 3000, 6);
}
TEST(StageDpBranches, EqualEnumerationWithTwoKindsOfDevices) {
  expect_equal_to_enumeration(2424, kTwoKinds, {3, 2}, 1500, 5);
}
TEST(StageDpBranches, EqualEnumerationOnMoreLayersThanDevices) {
  expect_equal_to_enumeration(606, {{1}, {2}}, {5}, 1000, 8);
}

// Of a line the longest path is all stages.
TEST(StageDpBranches, OfALineEqualTheStageSearchBitForBit) {
  std::mt19937 random(55);
  int found_some = 0;
  for (int n = 0; n < 300; ++n) {
    SCOPED_TRACE(testing::Message() << "seed 55, table " << n);
    Case drawn = draw_case(random, n % 2 == 0 ? kOneKind : kTwoKinds,
                           n % 2 == 0 ? std::vector<int>{8} : std::vector<int>{4, 3}, n, 7);
    const int layers = drawn.prices.layers();
    const auto truth = fastest_training(drawn.prices, drawn.request);
    // One segment, or several of one branch each.
    LayerBranches cut = line_of_layers(layers);
    if (layers > 1) cut = {{{{0, layers / 2 - 1}}, {{layers / 2, layers - 1}}}};
    for (const LayerBranches& branches : {line_of_layers(layers), cut}) {
      const auto one = fastest_with_branches(drawn.prices, drawn.request, branches);
      const auto several = pipelines_with_branches(drawn.prices, drawn.request, branches, 3);
      ASSERT_EQ(one.has_value(), truth.has_value());
      ASSERT_EQ(!several.empty(), truth.has_value());
      if (!truth) continue;
      EXPECT_EQ(one->cost, truth->cost);
      EXPECT_EQ(several.front().cost, truth->cost);
    }
    found_some += truth.has_value();
  }
  EXPECT_GT(found_some, 200);
}

TEST(StageDpBranches, GiveTheWinnerOfEveryBoundBestFirst) {
  std::mt19937 random(777);
  std::size_t given = 0;
  for (int n = 0; n < 1500; ++n) {
    SCOPED_TRACE(testing::Message() << "seed 777, table " << n);
    const Case drawn = draw_case(random, kOneKind, {6}, n, 6);
    const std::vector<Enumerated> all = all_pipelines(drawn.prices, drawn.request, drawn.branches);
    const auto found = pipelines_with_branches(drawn.prices, drawn.request, drawn.branches, 1000);
    const auto few = pipelines_with_branches(drawn.prices, drawn.request, drawn.branches, 2);
    ASSERT_EQ(found.empty(), all.empty());
    ASSERT_EQ(few.size(), std::min<std::size_t>(2, found.size()));
    given += found.size();
    for (std::size_t f = 0; f < found.size(); ++f) {
      const auto same =
          std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.stages == found[f].stages; });
      ASSERT_NE(same, all.end());
      EXPECT_EQ(found[f].cost.si(), same->cost);
      if (f < few.size()) expect_cost(drawn.times, few[f].cost.si(), found[f].cost.si());
      EXPECT_LE(found[f].cost.si(), 1.25 * found.front().cost.si());
      for (std::size_t before = 0; before < f; ++before) {
        EXPECT_LE(found[before].cost, found[f].cost);
        EXPECT_NE(found[before].stages, found[f].stages);
      }
    }
    // For every bound one of the least sum, where it costs so little.
    for (const Enumerated& bound : all) {
      double least = std::numeric_limits<double>::infinity();
      for (const Enumerated& other : all)
        if (other.truth.slowest <= bound.truth.slowest) least = std::min(least, other.truth.sum);
      const double weight = static_cast<double>(drawn.request.microbatches - 1);
      if (least + weight * bound.truth.slowest >= 1.249 * found.front().cost.si()) continue;
      EXPECT_TRUE(std::any_of(found.begin(), found.end(),
                              [&](const TablePipeline& p) {
                                return p.slowest.si() <= bound.truth.slowest && p.sum.si() <= least * (1 + 1e-12);
                              }))
          << "slowest " << bound.truth.slowest << ", sum " << least;
    }
  }
  EXPECT_GT(given, 1500U);
}

// Two towers of two layers and a tail; everything takes 1 on a device.
struct Towers {
  LayerBranches branches{{{{0, 1}, {2, 3}}, {{4, 4}}}};
  StageTable prices{5, {{{1}, Bytes(10)}}, 1};
  Towers() {
    for (int first = 0; first < 5; ++first)
      for (int last = first; last < 5; ++last) prices.at(first, last, 0, 0) = price(last - first + 1);
  }
  // Holds 2 bytes a layer and 2 for each of its microbatches.
  static StageCost price(int layers) { return {Seconds(layers), Seconds(0), Bytes(2.0 * layers), Bytes(2), Bytes(0)}; }
};

TEST(StageDpBranches, CountTheLongestTowerAlone) {
  const Towers towers;
  const StageDpRequest request{.devices = {3}, .microbatches = 5};
  const auto found = fastest_with_branches(towers.prices, request, towers.branches);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->stages, (std::vector<TableStage>{{0, 1, 0, 0}, {2, 3, 0, 0}, {4, 4, 0, 0}}));
  EXPECT_EQ(found->sum, Seconds(2 + 1));
  EXPECT_EQ(found->cost, Seconds(3 + 4 * 2));
  EXPECT_EQ(fastest_training(towers.prices, request)->cost, Seconds(5 + 4 * 2));  // one after the other
}

TEST(StageDpBranches, KeepMicrobatchesByTheStagesOnTheLongestPath) {
  // Each tower keeps 2: 2 * 2 + 2 * 2 of 10 bytes; as a line the first would keep 3, and 10.
  Towers towers;
  const StageDpRequest request{.devices = {3}, .microbatches = 5};
  const std::vector<TableStage> stages = {{0, 1, 0, 0}, {2, 3, 0, 0}, {4, 4, 0, 0}};
  EXPECT_TRUE(evaluate_with_branches(towers.prices, request, towers.branches, stages).has_value());
  EXPECT_TRUE(evaluate_with_branches(towers.prices, request, line_of_layers(5), stages).has_value());
  for (int layer : {0, 2}) towers.prices.at(layer, layer + 1, 0, 0)->saved = Bytes(3);  // 4 + 2 * 3 = 10
  EXPECT_TRUE(evaluate_with_branches(towers.prices, request, towers.branches, stages).has_value());
  EXPECT_FALSE(evaluate_with_branches(towers.prices, request, line_of_layers(5), stages).has_value());
  EXPECT_EQ(fastest_with_branches(towers.prices, request, towers.branches)->stages, stages);
}

TEST(StageDpBranches, MayRunOverTheEndOfATower) {
  // Two devices: the second tower's last layer works with the tail, or the towers' middle is shared.
  const Towers towers;
  const StageDpRequest request{.devices = {2}, .microbatches = 2};
  const auto found = fastest_with_branches(towers.prices, request, towers.branches);
  EXPECT_EQ(found->stages, (std::vector<TableStage>{{0, 1, 0, 0}, {2, 4, 0, 0}}));
  EXPECT_EQ(found->cost, Seconds(5 + 3));
  const std::vector<TableStage> over = {{0, 0, 0, 0}, {1, 2, 0, 0}, {3, 3, 0, 0}, {4, 4, 0, 0}};
  EXPECT_EQ(evaluate_with_branches(towers.prices, request, towers.branches, over)->sum, Seconds(1 + 2 + 1 + 1));
}

TEST(StageDpBranches, RefuseBranchesThatAreNotTheLayers) {
  const Towers towers;
  const StageDpRequest request{.devices = {3}};
  const auto refuse = [&](const LayerBranches& branches) {
    EXPECT_THROW((void)fastest_with_branches(towers.prices, request, branches), InputError);
    EXPECT_THROW((void)pipelines_with_branches(towers.prices, request, branches, 2), InputError);
  };
  refuse({});
  refuse({{{{0, 1}, {2, 3}}}});
  refuse({{{{0, 1}, {3, 3}}, {{4, 4}}}});
  refuse({{{{0, 3}}, {}, {{4, 4}}}});
  EXPECT_THROW((void)pipelines_with_branches(towers.prices, request, towers.branches, 0), InputError);
}

}  // namespace
}  // namespace meshwright::stage_dp_branches_test
