// SPDX-License-Identifier: Apache-2.0
// What bounds leave out of a search could not have won: over random small requests with everything open, the search
// against itself without them.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "core/base/random.h"
#include "core/planner/pipeline/pipeline_bound.h"
#include "core/planner/search/known_trials.h"
#include "costmodel/sheets/software_profile.h"
#include "simulator/what_if/evaluator.h"
#include "tests/draw.h"
#include "tests/sanitized.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::pruned_search_test {
namespace {

struct Found {
  PlanningResult result;
  std::string plan;                                          // its file; "": none fits
  std::optional<PlanEvaluator::SoftwareMemory> memory = {};  // of the software
};

Found search(const PlanRequest& request, const std::string& software) {
  std::optional<SoftwareProfile> profile;
  if (!software.empty()) profile = find_software_profile(software);
  const auto costs =
      profile ? make_physical_cost_model(request.cluster, *profile) : make_analytic_cost_model(request.cluster);
  SimulatedEvaluator evaluator(*costs, profile ? &*profile : nullptr);
  Found found{make_plan(request, *costs, evaluator), ""};
  if (!found.result.plan) return found;
  found.plan = json_text(to_json(*found.result.plan));
  found.memory = evaluator.software_memory(*found.result.plan, found.result.graph);
  return found;
}

class Requests : Draw {
 public:
  using Draw::Draw;

  // Everything open but what keeps the slow search short.
  PlanRequest next(const std::string& cluster) {
    // One after the other: the order in which arguments are made is the compiler's.
    const auto batch = any<std::int64_t>({8, 16, 24});
    PlanRequest request =
        ask(any<std::string>({"mlp:layers=4,hidden=64", "gpt:layers=3,hidden=64,heads=4,seq=32,vocab=32",
                              "gpt:layers=2,hidden=32,heads=4,seq=16,vocab=64"}),
            cluster, "pipeshard", batch, Auto{});
    request.search.layers = any<int>({3, 4, 6});
    request.search.recompute = Auto{};
    request.search.schedule = Auto{};
    HostGroup& hosts = request.cluster.only();
    const double slowness = any<double>({1, 10, 100});
    hosts.within_host.beta = SecondsPerByte(slowness * hosts.within_host.beta.si());
    return request;
  }
  // From too little to more than enough for the plan of a machine without limits.
  double share_of_memory() { return any<double>({0.4, 0.6, 0.8, 1.0, 2.0}); }
};

// The share of the programs that the search without bounds simulates.
void compare(PlanRequest request, const std::string& software, std::int64_t& pruned, std::int64_t& all) {
  const Found fast = search(request, software);
  request.search.prune = false;
  const Found slow = search(request, software);
  EXPECT_EQ(fast.plan, slow.plan) << to_json(request.model).dump() << " on " << request.cluster.devices()
                                  << " devices, batch " << request.training.batch;
  EXPECT_EQ(fast.result.reason, slow.result.reason);
  pruned += fast.result.log.simulations;
  all += slow.result.log.simulations;
}

TEST(PrunedSearch, FindsThePlanOfTheSearchWithoutBounds) {
  Requests requests(1);
  std::int64_t pruned = 0, all = 0;
  for (int k = 0; k < fewer(4); ++k) {
    PlanRequest request = requests.next(k % 2 == 0 ? "cpu:2" : "cpu:4");
    const double share = requests.share_of_memory();
    const Found free = search(request, "");
    request.cluster.only().device.memory = Bytes(share * free.result.plan->predicted.peak_memory.si());
    request.cluster.only().device.usable_memory = 1.0;
    compare(std::move(request), "", pruned, all);
  }
  EXPECT_LT(pruned, all);
}

TEST(PrunedSearch, FindsItWhereTheMemoryIsOfASoftware) {
  Requests requests(2);
  std::int64_t pruned = 0, all = 0;
  for (int k = 0; k < 1; ++k) {
    PlanRequest request = requests.next("p3.16xlarge:1");
    request.cluster.only().devices_per_host = 4;
    const double share = requests.share_of_memory();
    const Found free = search(request, "megatron");
    ASSERT_TRUE(free.memory.has_value());
    // What is usable grows with what is left beside the driver's memory.
    Bytes& memory = request.cluster.only().device.memory;
    const Bytes none = gibibytes(2.0);
    memory = none + share * (free.memory->needs / free.memory->usable) * (memory - none);
    compare(std::move(request), "megatron", pruned, all);
  }
  EXPECT_LT(pruned, all);
}

TEST(LeastBusyTime, AddsUpTheDevicesOfTheStagesThatFit) {
  StageTable table(2, {{{1}, Bytes(10)}, {{2}, Bytes(10)}}, 1);
  table.at(0, 0, 0, 0) = StageCost{.time = Seconds(3), .step = Seconds(1), .resident = Bytes(2)};
  EXPECT_EQ(least_busy_time(table, 10), std::nullopt);  // nothing holds layer 1
  table.at(1, 1, 0, 0) = StageCost{.time = Seconds(5), .resident = Bytes(2)};
  EXPECT_NEAR(least_busy_time(table, 10)->si(), 81, 1e-9);  // (10 x 3 + 1) + 10 x 5
  table.at(0, 1, 1, 0) = StageCost{.time = Seconds(4), .saved = Bytes(11)};
  EXPECT_NEAR(least_busy_time(table, 10)->si(), 81, 1e-9);  // too large
  table.at(0, 1, 1, 0)->saved = Bytes(10);
  EXPECT_NEAR(least_busy_time(table, 10)->si(), 80, 1e-9);  // 2 devices x 10 x 4
}

// Random tables of up to five layers: the least over all cuts into stages, one by one.
TEST(LeastLatencies, AreTheLeastOfAllPipelinesInALine) {
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    const int layers = 1 + random.below(5), devices = 1 + random.below(5);
    StageTable table(layers, {{{1}, Bytes(10)}, {{2}, Bytes(10)}}, 2);
    for (int first = 0; first < layers; ++first)
      for (int last = first; last < layers; ++last)
        for (int slice = 0; slice < 2; ++slice)
          for (int config = 0; config < 2; ++config)
            if (random.below(4) > 0)
              table.at(first, last, slice, config) = StageCost{.time = Seconds(1.0 + random.below(9)),
                                                               .resident = Bytes(random.below(9)),
                                                               .saved = Bytes(random.below(4))};
    std::vector<double> least(5, std::numeric_limits<double>::infinity());  // [stages - 1]
    const std::function<void(int, int, std::size_t, double)> visit = [&](int first, int left, std::size_t stages,
                                                                         double sum) {
      if (first == layers) {
        if (stages > 0) least[stages - 1] = std::min(least[stages - 1], sum);
        return;
      }
      for (int last = first; last < layers; ++last)
        for (int slice = 0; slice < 2 && slice < left; ++slice)
          for (int config = 0; config < 2; ++config)
            if (const auto& cost = table.at(first, last, slice, config);
                cost && cost->resident + cost->saved <= Bytes(10))
              visit(last + 1, left - slice - 1, stages + 1, sum + cost->time.si());
    };
    visit(0, devices, 0, 0.0);
    const std::vector<Seconds> found = least_latencies(table, devices, 5, [&](const TableStage& stage) {
      return table.at(stage.first, stage.last, stage.slice, stage.config)->time;
    });
    ASSERT_EQ(found.size(), 5u);
    for (std::size_t n = 0; n < 5; ++n)
      if (std::isfinite(least[n]))
        EXPECT_NEAR(found[n].si(), least[n], 1e-9) << n + 1 << " stages, round " << round;
      else
        EXPECT_EQ(found[n].si(), least[n]) << n + 1 << " stages, round " << round;
  }
}

// The memory is 10 bytes. One stage takes 4 bytes and 2 for each micro-batch, the other takes 12.
TEST(FitAlike, HoldsWhereEveryStageFitsOrNone) {
  StageTable table(2, {{{1}, Bytes(10)}}, 1);
  table.at(0, 0, 0, 0) = StageCost{.resident = Bytes(3), .saved = Bytes(1), .working = Bytes(1), .held = Bytes(1)};
  table.at(1, 1, 0, 0) = StageCost{.resident = Bytes(12)};
  EXPECT_TRUE(fit_alike(table, 1.1, 3));
  EXPECT_FALSE(fit_alike(table, 1.1, 4));
  EXPECT_FALSE(fit_alike(table, 1.3, 3));
}

// Stages that are sharded alike are told apart by their numbers in the table, and lowered once.
TEST(KnownTrials, LowerEqualPlansOnce) {
  const PlanRequest request = ask("mlp:layers=2,hidden=64", "cpu:2", "data");
  const auto costs = make_analytic_cost_model(request.cluster);
  SimulatedStep evaluator(*costs);
  const PlanningResult found = make_plan(request, *costs, evaluator);
  ASSERT_TRUE(found.plan.has_value());
  const PlanOfGraph plan{*found.plan, std::make_shared<const Graph>(found.graph)};
  evaluator.calls = 0;
  KnownTrials trials;
  std::int64_t simulated = 0;
  const Seconds step = trials.trial(plan, evaluator, simulated)->step().step;
  PlanOfGraph eager = plan;  // one stage: the same order
  eager.plan.schedule = ScheduleKind::EagerOneFOneB;
  const auto again = trials.trial(eager, evaluator, simulated);
  EXPECT_EQ(again->step().step, step);
  EXPECT_EQ(again->peaks.front(), found.plan->stages.front().peak_memory);
  EXPECT_EQ(evaluator.calls, 1);
  EXPECT_EQ(simulated, 1);
  EXPECT_EQ(evaluator.trial(eager)->step().step, step);
  PlanOfGraph other = plan;
  other.plan.stages.front().parameters.begin()->second.eager = true;
  (void)trials.trial(other, evaluator, simulated)->step();
  EXPECT_EQ(evaluator.calls, 3);
  EXPECT_EQ(simulated, 2);
}

}  // namespace
}  // namespace meshwright::pruned_search_test
