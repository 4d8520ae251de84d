// SPDX-License-Identifier: Apache-2.0
// The bound that holds whatever the plan, against the steps of plans that were lowered, counted to the byte and
// simulated: all that searches of everything look at, on random models and clusters with little memory and links of any
// speed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "core/planner/bounds/work_bound.h"
#include "tests/draw.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::work_bound_test {
namespace {

constexpr int kRequests = 12;
constexpr double kSlow = 1e-3;  // of the devices, so that what ops take outweighs what launching them does

PlanRequest draw_request(Draw& draw) {
  // One after the other: the order in which arguments are made is the compiler's.
  const auto batch = draw.any<std::int64_t>({4, 6, 8, 16});
  PlanRequest request =
      ask(draw.any<std::string>({"mlp:layers=2,hidden=64", "mlp:layers=4,hidden=256",
                                 "gpt:layers=1,hidden=32,heads=4,seq=8,vocab=32",
                                 "gpt:layers=2,hidden=64,heads=4,seq=16,vocab=64",
                                 "llama:layers=2,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=16,"
                                 "vocab=64",
                                 "moe:layers=2,hidden=32,heads=4,seq=8,vocab=32,experts=4"}),
          "p3.16xlarge:1", "pipeshard", batch, Auto{});
  request.training.dtype = draw.any<DType>({DType::F32, DType::F16});
  request.training.optimizer.kind = draw.any<Optimizer::Kind>({Optimizer::Kind::Adam, Optimizer::Kind::Sgd});
  HostGroup& hosts = request.cluster.only();
  hosts.hosts = draw.any<int>({1, 1, 2});
  hosts.devices_per_host = draw.any<int>({2, 2, 3, 4});
  for (auto& [dtype, peak] : hosts.device.peak) peak = kSlow * peak;
  hosts.device.memory_bandwidth = kSlow * hosts.device.memory_bandwidth;
  hosts.within_host.beta = draw.any<double>({0.1, 100.0, 1000.0}) * hosts.within_host.beta;
  hosts.within_host.alpha = draw.any<double>({0.0, 1.0}) * hosts.within_host.alpha;
  request.search.layers = draw.any<LayerCount>({Auto{}, 3, 6});
  request.search.schedule = Auto{};
  request.search.recompute = draw.any<OrAuto<Recompute>>({Auto{}, Auto{}, Recompute::None, Recompute::Full});
  request.search.logical_mesh_space = draw.any<LogicalMeshSpace>(
      {LogicalMeshSpace::SingleNodeModelParallel, LogicalMeshSpace::All, LogicalMeshSpace::ThreeDimensional});
  return request;
}

// Keeps what fits.
struct Steps : SearchRecord {
  std::vector<Seconds> found;
  Bytes most{0.0};
  std::set<std::tuple<ScheduleKind, int, std::int64_t>> kinds;
  void add(ConsideredPlan of) override {
    if (of.needs) most = std::max(most, *of.needs);
    if (!of.simulated || of.fate == ConsideredPlan::Fate::TooLarge) return;
    found.push_back(*of.simulated);
    kinds.insert({of.schedule, of.chunks, of.microbatches});
  }
};

TEST(WorkBound, IsBelowEveryPlanThatSearchesOfEverythingSimulate) {
  Draw draw(20261127);
  std::size_t plans = 0, tight = 0, limited = 0;
  double nearest = 0.0;
  std::set<ScheduleKind> schedules;
  for (int r = 0; r < kRequests; ++r) {
    SCOPED_TRACE(r);
    PlanRequest request = draw_request(draw);
    const auto costs = make_analytic_cost_model(request.cluster);
    for (const double share : {1.0, 0.7, 0.5}) {
      Steps steps;
      request.record = &steps;
      SimulatedStep evaluator(*costs);
      const PlanningResult result = make_plan(request, *costs, evaluator);
      const Seconds bound = work_bound(request, *costs);
      for (const Seconds step : steps.found) {
        ASSERT_GE(step, bound);
        nearest = std::max(nearest, bound / step);
      }
      plans += steps.found.size();
      for (const auto& [schedule, chunks, microbatches] : steps.kinds) schedules.insert(schedule);
      if (result.plan && bound > 0.8 * result.plan->predicted.step_time) ++tight;
      if (share < 1.0 && result.plan) ++limited;
      // Less than what the plan needs that has the most.
      if (steps.most > Bytes(0.0)) {
        DeviceKind& device = request.cluster.only().device;
        device.memory = share / device.usable_memory * steps.most;
      }
    }
  }
  std::printf("%zu plans, bound at most %.1f %% of a step; %zu of the best within 20 %% of it, %zu limited by memory\n",
              plans, 100.0 * nearest, tight, limited);
  EXPECT_GT(plans, 2000u);
  EXPECT_GT(tight, 5u);
  EXPECT_GT(limited, 15u);
  EXPECT_GE(schedules.size(), 6u);
}

// A chain of products on one device is busy all the time: nothing but what moves at the ends is left out.
TEST(WorkBound, IsNearlyTheStepOfOneDevice) {
  PlanRequest request = ask("mlp:layers=4,hidden=4096", "p3.16xlarge:1", "pipeshard", 64, std::int64_t{4});
  request.cluster.only().devices_per_host = 1;
  const auto costs = make_analytic_cost_model(request.cluster);
  SimulatedStep evaluator(*costs);
  const PlanningResult result = make_plan(request, *costs, evaluator);
  ASSERT_TRUE(result.plan) << result.reason;
  const Seconds bound = work_bound(request, *costs);
  EXPECT_LE(bound, result.plan->predicted.step_time);
  EXPECT_GE(bound, 0.98 * result.plan->predicted.step_time);
}

// What waits in memory: with half of the room for it a bound may only grow, and with little it does.
TEST(WorkBound, GrowsAsTheRoomForWhatWaitsShrinks) {
  PlanRequest request =
      ask("gpt:layers=8,hidden=512,heads=8,seq=512,vocab=512", "p3.16xlarge:1", "pipeshard", 64, Auto{});
  request.training.dtype = DType::F16;
  request.search.recompute = Auto{};
  DeviceKind& device = request.cluster.only().device;
  std::vector<Seconds> bounds;
  for (const double mib : {16384.0, 1024.0, 256.0, 128.0, 96.0}) {
    device.memory = Bytes(mib * 1024 * 1024);
    bounds.push_back(work_bound(request, *make_analytic_cost_model(request.cluster)));
  }
  for (std::size_t b = 1; b < bounds.size(); ++b) EXPECT_GE(bounds[b], bounds[b - 1]) << b;
  EXPECT_GT(bounds.back(), 1.02 * bounds.front());
}

// From the fewest micro-batches that may fit on: where none may, that of one sample in each is left.
TEST(WorkBound, IsTheLeastOfTheNumbersThatMayFit) {
  PlanRequest request = ask("llama:layers=2,hidden=32,heads=4,kv_heads=4,intermediate=64,seq=256,vocab=32",
                            "p3.16xlarge:1", "pipeshard", 32, Auto{});
  request.cluster.only().devices_per_host = 2;
  request.search.recompute = Recompute::None;
  std::set<std::size_t> first;
  for (const double mib : {1000.0, 16.0, 8.0, 4.0, 2.0, 1.0, 0.5, 0.3, 0.001}) {
    DeviceKind& device = request.cluster.only().device;
    device.memory = Bytes(mib * 1024 * 1024);
    const auto costs = make_analytic_cost_model(request.cluster);
    request.search.microbatches = Auto{};
    const Seconds bound = work_bound(request, *costs);
    std::vector<Seconds> of_number;
    for (const std::int64_t number : {1, 2, 4, 8, 16, 32}) {
      request.search.microbatches = number;
      of_number.push_back(work_bound(request, *costs));
    }
    // [the first that may fit]
    std::vector<Seconds> least(of_number.size(), of_number.back());
    for (std::size_t i = of_number.size() - 1; i-- > 0;) least[i] = std::min(least[i + 1], of_number[i]);
    const auto same = [&](Seconds of) { return std::abs(bound / of - 1.0) < 1e-9; };
    const auto at = std::find_if(least.begin(), least.end(), same);
    ASSERT_NE(at, least.end()) << mib;
    first.insert(static_cast<std::size_t>(at - least.begin()));
  }
  EXPECT_GE(first.size(), 5u);
}

// Conditions may hide communication: then it counts for nothing.
TEST(WorkBound, CountsNoCollectivesUnderConditions) {
  PlanRequest request = ask("mlp:layers=4,hidden=1024", "p3.16xlarge:1", "pipeshard", 8, std::int64_t{8});
  request.cluster.only().device.memory = Bytes(48.0 * 1024 * 1024);
  const auto costs = make_analytic_cost_model(request.cluster);
  const Seconds plain = work_bound(request, *costs);
  request.conditions["overlap"] = "true";
  EXPECT_LE(work_bound(request, *costs), plain);
}

}  // namespace
}  // namespace meshwright::work_bound_test
