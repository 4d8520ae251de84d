// SPDX-License-Identifier: Apache-2.0
// One stage in little memory: the sharding found and its bound against every sharding there is, and near each other
// from the least memory in which a model fits to as much as it likes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>

#include "core/graph/models/models.h"
#include "core/planner/spans/stage_search.h"
#include "core/solver/elimination/solve_by_elimination.h"
#include "costmodel/cost_models.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::memory_fit_test {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

struct Case {
  const char* model;
  const char* cluster;
  std::vector<int> shape;
  std::int64_t batch, microbatches;
  Recompute recompute;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
};

PlanRequest request_of(const Case& of) {
  PlanRequest request = ask(of.model, of.cluster, "shard", of.batch, of.microbatches);
  if (request.cluster.only().device.peak.contains("f16")) request.training.dtype = request.model.default_dtype;
  request.search.recompute = of.recompute;
  request.search.logical_mesh = of.shape;
  request.search.schedule = of.schedule;
  return request;
}

// A model whose layers are its blocks, and what fits into how much memory.
struct Setting {
  const Case& of;
  PlanRequest request = request_of(of);
  Graph graph = build_training_graph(request.model, request.training_with(of.microbatches));
  Layers layers = layers_of_blocks(graph);
  StepStructure structure{graph, layers};
  LogicalMesh mesh = make_logical_mesh(
      request.cluster, {request.cluster.only().hosts, of.shape[0] * of.shape[1] / request.cluster.only().hosts},
      of.shape);
  std::unique_ptr<CostModel> costs = make_analytic_cost_model(request.cluster);

  explicit Setting(const Case& wanted) : of(wanted) {}
  Setting(const Setting&) = delete;

  [[nodiscard]] double time(const StepCost& cost) const {
    return (cost.forward + cost.backward + cost.step / static_cast<double>(of.microbatches)).si();
  }
  [[nodiscard]] double bytes(const StepCost& cost) const {
    const double in_flight = of.schedule == ScheduleKind::GPipe ? static_cast<double>(of.microbatches) : 1.0;
    int blocks = 0;
    for (int layer = 0; layer < layers.count; ++layer) blocks += structure.blocks_in(layer);
    return (cost.resident + in_flight * cost.saved + cost.working + cost.recomputed / blocks).si();
  }

  struct Fitted {
    double time = kNone, bytes = 0, bound = 0;
    double least_bytes = kNone;  // of all options, whether they fit or not
  };
  [[nodiscard]] Fitted fit(double memory) const {
    const MeshSpans spans(structure, mesh, *costs,
                          {.microbatches = of.microbatches,
                           .schedule = of.schedule,
                           .usable_memory = Bytes(memory),
                           .one_stage = true,
                           .hosts_apart = request.cluster.only().hosts > 1});
    Fitted fitted;
    for (int option = 0; option < spans.options(); ++option) {
      const StepCost& cost = spans.cost(0, layers.count - 1, option);
      fitted.least_bytes = std::min(fitted.least_bytes, bytes(cost));
      if (bytes(cost) > memory || time(cost) >= fitted.time) continue;
      fitted.time = time(cost);
      fitted.bytes = bytes(cost);
    }
    fitted.bound = spans.bound().si();
    return fitted;
  }
};

// --- against enumeration ---

// Every choice of a one-layer model, (time, bytes): its ops' strategies one by one, its parameters' added to them.
std::vector<std::pair<double, double>> all_shardings(const Setting& setting) {
  ReshardingCosts prices(setting.mesh, *setting.costs);
  const LayerModel model(setting.structure, 0, setting.mesh, *setting.costs, prices, {});
  const ShardingProblem problem = model.problem({static_cast<double>(setting.of.microbatches), 0, 1});
  ShardingChoice choice{std::vector<int>(problem.nodes.size(), 0)};
  std::vector<bool> is_parameter(problem.nodes.size(), false);
  for (const auto& parameter : model.parts(choice).parameters)
    is_parameter[static_cast<std::size_t>(parameter.node)] = true;
  const auto is_allowed = [&] {
    return std::all_of(problem.edges.begin(), problem.edges.end(), [&](const ShardingProblem::Edge& edge) {
      const auto from = static_cast<std::size_t>(edge.from), to = static_cast<std::size_t>(edge.to);
      return is_parameter[from] ||
             edge.cost[static_cast<std::size_t>(choice.strategy[from]) * problem.nodes[to].cost.size() +
                       static_cast<std::size_t>(choice.strategy[to])];
    });
  };
  std::vector<std::pair<double, double>> found;
  for (;;) {
    if (is_allowed()) {
      const LayerModel::Parts parts = model.parts(choice);
      std::vector<StepCost> costs = {parts.ops};
      for (const auto& parameter : parts.parameters) {
        std::vector<StepCost> longer;
        for (const StepCost& so_far : costs)
          for (const auto& cost : parameter.costs)
            if (cost) (longer.push_back(so_far), longer.back() += *cost);
        costs = std::move(longer);
      }
      for (const StepCost& cost : costs) found.emplace_back(setting.time(cost), setting.bytes(cost));
    }
    std::size_t i = 0;
    for (; i < choice.strategy.size(); ++i) {
      if (is_parameter[i]) continue;
      if (++choice.strategy[i] < static_cast<int>(problem.nodes[i].cost.size())) break;
      choice.strategy[i] = 0;
    }
    if (i == choice.strategy.size()) return found;
  }
}

TEST(OneStage, AndItsBoundEncloseTheOptimumByEnumerationAtEveryLimit) {
  for (const auto& [schedule, recompute] :
       {std::pair{ScheduleKind::OneFOneB, Recompute::Full}, std::pair{ScheduleKind::GPipe, Recompute::None}}) {
    const Case of{"mlp:layers=1,hidden=64", "cpu:2", {1, 2}, 64, 4, recompute, schedule};
    const Setting setting(of);
    ASSERT_EQ(setting.layers.count, 1);
    auto shardings = all_shardings(setting);
    EXPECT_EQ(shardings.size(), 10716300u);
    const auto less_bytes = [](const auto& a, const auto& b) { return a.second < b.second; };
    const double least = std::min_element(shardings.begin(), shardings.end(), less_bytes)->second;
    const double free = std::min_element(shardings.begin(), shardings.end())->second;
    EXPECT_EQ(setting.fit(0.999 * least).time, kNone);
    for (int step = 0; step <= 12; ++step) {
      const double memory = (1 + 1e-9) * (least + (free - least) * step / 12);
      double optimum = kNone;
      for (const auto& [time, bytes] : shardings)
        if (bytes <= memory) optimum = std::min(optimum, time);
      const auto fitted = setting.fit(memory);
      EXPECT_LE(fitted.bound, optimum * (1 + 1e-12)) << step;
      EXPECT_GE(fitted.time, optimum * (1 - 1e-12)) << step;
      EXPECT_LE(fitted.time, optimum * 1.01) << step << " " << fitted.bytes << " of " << memory;
      EXPECT_LE(fitted.bytes, memory);
    }
  }
}

// --- whole models ---

const Case kWhole[] = {{"gpt-2.6b", "dgx-a100:1", {1, 8}, 128, 16, Recompute::None},
                       {"gpt-2.6b", "p3.16xlarge:1", {8, 1}, 128, 16, Recompute::None},
                       {"llama-7b", "dgx-a100:1", {2, 4}, 32, 8, Recompute::None},
                       {"gpt3-175b", "dgx-a100:8", {8, 8}, 256, 16, Recompute::None},
                       {"gpt3-175b", "dgx-a100:8", {8, 8}, 512, 64, Recompute::Full}};
struct WholeModel : testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Models, WholeModel, testing::ValuesIn(kWhole));

TEST_P(WholeModel, IsWithinAThousandthOfItsBoundFromTheLeastMemoryToTheMost) {
  const Setting setting(GetParam());
  const double free = setting.fit(1e15).bytes, least = setting.fit(1e6).least_bytes;
  ASSERT_LT(1.2 * least, free);
  double slower = kNone;
  for (const double share : {0.0005, 0.04, 0.25, 0.7, 0.95}) {
    const double memory = least * std::pow(free / least, share);
    const auto fitted = setting.fit(memory);
    ASSERT_LT(fitted.time, kNone) << share;
    EXPECT_LE(fitted.bytes, memory);
    EXPECT_LE(fitted.bound, fitted.time);
    EXPECT_GE(fitted.bound, (1 - 1e-3) * fitted.time) << share;
    EXPECT_LT(fitted.time, slower) << share;
    slower = fitted.time;
  }
}

// The layer models count the memory a little differently than the lowered program takes it.
void expect_used_up(const Case& of, double gibibytes) {
  PlanRequest request = request_of(of);
  request.cluster.only().device.memory = Bytes(gibibytes * (1 << 30) / request.cluster.only().device.usable_memory);
  const Planned result = planned(request);
  ASSERT_TRUE(result.plan) << of.model << " " << gibibytes << " " << result.reason;
  const Bytes usable = request.cluster.usable_memory();
  EXPECT_LE(result.check.largest_peak(), usable) << of.model << " " << gibibytes;
  EXPECT_GE(result.check.largest_peak(), 0.998 * usable) << of.model << " " << gibibytes;
}
TEST(Plan, UsesTheMemoryThatItsProgramHas) {
  for (const double gibibytes : {8.1, 9.4, 12.8}) expect_used_up(kWhole[0], gibibytes);
  for (const double gibibytes : {24.7, 29.3, 34.6}) expect_used_up(kWhole[2], gibibytes);
}

// --- what a layer model tells of its parts ---

TEST(Parts, OfAChoiceAddUpToItsCost) {
  const Case of{"gpt:layers=1,hidden=64,heads=4,seq=16,vocab=128", "cpu:4", {2, 2}, 64, 4, Recompute::Full};
  const Setting setting(of);
  ReshardingCosts prices(setting.mesh, *setting.costs);
  const LayerModel model(setting.structure, 0, setting.mesh, *setting.costs, prices, {});
  std::mt19937 random(5);
  const auto solution = solve_by_elimination(model.problem({4, 3e-9, 2}));
  ASSERT_TRUE(solution);
  for (int trial = 0; trial < 50; ++trial) {
    ShardingChoice choice = solution->choice;
    StepCost sum = model.parts(choice).ops;
    for (const auto& parameter : model.parts(choice).parameters) {
      const std::size_t drawn = random() % parameter.costs.size();
      if (!parameter.costs[drawn]) continue;
      choice.strategy[static_cast<std::size_t>(parameter.node)] = static_cast<int>(drawn);
    }
    for (const auto& parameter : model.parts(choice).parameters)
      sum += *parameter.costs[static_cast<std::size_t>(choice.strategy[static_cast<std::size_t>(parameter.node)])];
    const StepCost whole = model.cost(choice);
    EXPECT_NEAR(setting.time(sum), setting.time(whole), 1e-12 * setting.time(whole));
    EXPECT_NEAR(setting.bytes(sum), setting.bytes(whole), 1e-12 * setting.bytes(whole));
    EXPECT_EQ(sum.working, whole.working);
  }
}

TEST(PriceOfRecomputedBytes, IsAddedToTheProblem) {
  const Case of{"gpt:layers=1,hidden=64,heads=4,seq=16,vocab=128", "cpu:4", {2, 2}, 64, 4, Recompute::Full};
  const Setting setting(of);
  ReshardingCosts prices(setting.mesh, *setting.costs);
  const LayerModel model(setting.structure, 0, setting.mesh, *setting.costs, prices, {});
  const ShardingProblem free = model.problem({4, 0, 1});
  ShardingProblem priced = free;
  model.charge_recomputed(priced, 1e-6);
  const auto solution = solve_by_elimination(free);
  ASSERT_TRUE(solution);
  const double recomputed = model.cost(solution->choice).recomputed.si();
  EXPECT_GT(recomputed, 0);
  EXPECT_NEAR((evaluate(priced, solution->choice).total() - evaluate(free, solution->choice).total()).si(),
              1e-6 * recomputed, 1e-9 * recomputed * 1e-6);
}

TEST(WorkingValues, AreDistinctAndAscendAndContainTheLeastNeed) {
  const Case of{"gpt:layers=1,hidden=64,heads=4,seq=16,vocab=128", "cpu:4", {2, 2}, 64, 4, Recompute::None};
  const Setting setting(of);
  ReshardingCosts prices(setting.mesh, *setting.costs);
  const LayerModel model(setting.structure, 0, setting.mesh, *setting.costs, prices, {});
  const std::vector<Bytes> values = model.working_values();
  EXPECT_GT(values.size(), 3u);
  for (std::size_t i = 1; i < values.size(); ++i) EXPECT_LT(values[i - 1], values[i]);
  EXPECT_TRUE(std::find(values.begin(), values.end(), model.min_working()) != values.end());
}

}  // namespace
}  // namespace meshwright::memory_fit_test
