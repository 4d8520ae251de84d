// SPDX-License-Identifier: Apache-2.0
// The bound that holds whatever the plan, against the steps of plans that were lowered, counted to the byte and
// simulated: all that searches of everything look at, on random models and clusters with little memory and links of any
// speed.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <set>

#include "core/planner/bounds/work_bound.h"
#include "tests/draw.h"
#include "tests/sanitized.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::work_bound_test {
namespace {

constexpr int kRequests = fewer(12);
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
  EXPECT_GT(plans, fewer(2000u));
  if (kSanitized) return;  // the first request alone is not of every kind
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

// Bounds of single numbers of micro-batches.
std::vector<Seconds> bounds_of_numbers(PlanRequest request, const CostModel& costs,
                                       const std::vector<std::int64_t>& numbers) {
  std::vector<Seconds> found;
  for (const std::int64_t number : numbers) {
    request.search.microbatches = number;
    found.push_back(work_bound(request, costs));
  }
  return found;
}

bool same(Seconds a, Seconds b) { return std::abs(a / b - 1.0) < 1e-9; }

// The positions, among `numbers`, of the first that may fit with each memory: the bound of all is the least from there
// on.
std::set<std::size_t> first_that_may_fit(PlanRequest request, const std::vector<std::int64_t>& numbers,
                                         const std::vector<double>& memories_mib) {
  request.cluster.only().devices_per_host = 2;
  request.search.recompute = Recompute::None;
  std::set<std::size_t> first;
  for (const double mib : memories_mib) {
    request.cluster.only().device.memory = Bytes(mib * 1024 * 1024);
    const auto costs = make_analytic_cost_model(request.cluster);
    const Seconds bound = work_bound(request, *costs);
    std::vector<Seconds> least = bounds_of_numbers(request, *costs, numbers);
    for (std::size_t i = least.size() - 1; i-- > 0;) least[i] = std::min(least[i + 1], least[i]);
    const auto at = std::find_if(least.begin(), least.end(), [&](Seconds of) { return same(of, bound); });
    EXPECT_NE(at, least.end()) << mib;
    first.insert(static_cast<std::size_t>(at - least.begin()));
  }
  return first;
}

// Where none may fit, that of one sample in each is left.
TEST(WorkBound, IsTheLeastOfTheNumbersThatMayFit) {
  const PlanRequest request = ask("llama:layers=1,hidden=32,heads=4,kv_heads=4,intermediate=64,seq=256,vocab=32",
                                  "p3.16xlarge:1", "pipeshard", 16, Auto{});
  EXPECT_EQ(first_that_may_fit(request, {1, 2, 4, 8, 16}, {1000.0, 4.0, 2.0, 1.0, 0.5, 0.3, 0.001}).size(), 5u);
}

// Experts have room for tokens that is no multiple of the samples. From a certain number on less waits in memory, so
// that the bound of one micro-batch is not the least.
TEST(WorkBound, OfExpertsIsTheLeastOfTheNumbersThatMayFit) {
  PlanRequest request =
      ask("moe:layers=1,hidden=64,heads=4,seq=16,vocab=32,experts=4", "p3.16xlarge:1", "pipeshard", 16, Auto{});
  DeviceKind& device = request.cluster.only().device;
  for (auto& [dtype, peak] : device.peak) peak = 0.1 * kSlow * peak;
  device.memory_bandwidth = 0.1 * kSlow * device.memory_bandwidth;
  EXPECT_GE(first_that_may_fit(request, {1, 2, 4, 8, 16}, {1000.0, 2.6, 2.4, 1.88, 1.81, 1.0}).size(), 4u);
}

// All weights and optimizer state, and of the forward what products made and the backward reads: with as much memory
// one micro-batch may fit, with less it may not.
TEST(WorkBound, IsOfOneMicrobatchWhereItsResultsOfProductsFit) {
  PlanRequest request = ask("llama:layers=1,hidden=32,heads=4,kv_heads=4,intermediate=64,seq=256,vocab=32",
                            "p3.16xlarge:1", "pipeshard", 16, std::int64_t{1});
  HostGroup& hosts = request.cluster.only();
  hosts.devices_per_host = 2;
  request.search.recompute = Recompute::None;
  const Graph graph = build_step_graph(request.model, request.training_with(1), request.first_schedule());
  std::set<TensorId> held;
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::Parameter || tensor.kind == TensorKind::OptimizerState) held.insert(tensor.id);
  for (const Op& op : graph.ops())
    if (op.phase == Phase::Backward)
      for (const TensorId input : op.inputs) {
        const auto maker = graph.tensor(input).producer;
        if (maker && graph.op(*maker).phase == Phase::Forward && graph.op(*maker).kind == OpKind::Contract)
          held.insert(input);
      }
  Bytes bytes(0.0);
  for (const TensorId tensor : held) bytes += graph.tensor(tensor).bytes();
  const double usable_share = hosts.usable_memory() / hosts.device.memory;
  for (const double share : {1.001, 0.999}) {
    hosts.device.memory = share / (2.0 * usable_share) * bytes;
    const auto costs = make_analytic_cost_model(request.cluster);
    const std::vector<Seconds> of_number = bounds_of_numbers(request, *costs, {1, 2, 4, 8, 16});
    ASSERT_LT(of_number[0], 0.99 * *std::min_element(of_number.begin() + 1, of_number.end()));
    request.search.microbatches = Auto{};
    EXPECT_EQ(same(work_bound(request, *costs), of_number[0]), share > 1.0) << share;
  }
}

// There is no other number to look at where one micro-batch does not fit.
TEST(WorkBound, OfOneSampleThatFitsNowhereIsThatOfOneMicrobatch) {
  PlanRequest request = ask("llama:layers=1,hidden=32,heads=4,kv_heads=4,intermediate=64,seq=256,vocab=32",
                            "p3.16xlarge:1", "pipeshard", 1, Auto{});
  request.cluster.only().device.memory = Bytes(1024.0);
  request.search.recompute = Recompute::None;
  const auto costs = make_analytic_cost_model(request.cluster);
  EXPECT_TRUE(same(work_bound(request, *costs), bounds_of_numbers(request, *costs, {1}).front()));
}

// Layers that recompute keep little, whatever the others do: no number of micro-batches is ruled out.
TEST(WorkBound, IsOfAllNumbersWhereLayersRecompute) {
  PlanRequest request = ask("llama:layers=1,hidden=32,heads=4,kv_heads=4,intermediate=64,seq=256,vocab=32",
                            "p3.16xlarge:1", "pipeshard", 32, Auto{});
  request.cluster.only().devices_per_host = 2;
  request.cluster.only().device.memory = Bytes(1024.0 * 1024);
  request.search.recompute = Recompute::None;
  const auto costs = make_analytic_cost_model(request.cluster);
  const Seconds without = work_bound(request, *costs);
  request.search.recompute_layers = {{0, 0, Recompute::Full}};
  const std::vector<Seconds> of_number = bounds_of_numbers(request, *costs, {1, 2, 4, 8, 16, 32});
  const Seconds least = *std::min_element(of_number.begin(), of_number.end());
  EXPECT_TRUE(same(work_bound(request, *costs), least));
  EXPECT_GT(without, least);
}

// Counts what it is asked.
class CountingCosts : public CostModel {
 public:
  explicit CountingCosts(const CostModel& of) : of_(of) {}
  [[nodiscard]] TimeEstimate compute(const OpWork& work) const override {
    ++asked;
    return of_.compute(work);
  }
  [[nodiscard]] TimeEstimate collective(CollectiveKind kind, Bytes bytes, const MeshAxis& axis) const override {
    return of_.collective(kind, bytes, axis);
  }
  [[nodiscard]] TimeEstimate transfer(Bytes bytes, bool hosts_apart, int concurrent) const override {
    return of_.transfer(bytes, hosts_apart, concurrent);
  }
  [[nodiscard]] Seconds run_overhead() const override { return of_.run_overhead(); }
  mutable std::atomic<std::int64_t> asked = 0;

 private:
  const CostModel& of_;
};

// One graph stands for all numbers where they differ in samples alone.
TEST(WorkBound, PricesTheOpsOfOneNumberForAllThatDifferInSamplesAlone) {
  for (const char* cluster : {"p3.16xlarge:1", "p3.16xlarge:1+dgx-a100:1"}) {
    PlanRequest request = ask("mlp:layers=2,hidden=64", cluster, "pipeshard", 32, Auto{});
    const auto costs = make_analytic_cost_model(request.cluster);
    const CountingCosts all(*costs), one(*costs);
    (void)work_bound(request, all);
    request.search.microbatches = std::int64_t{1};
    (void)work_bound(request, one);
    EXPECT_EQ(all.asked, one.asked) << cluster;
  }
}

// It leaves out what values hold and what sums cost.
TEST(WorkBound, OfASearchThatIsToStopIsFoundSoonerAndSaysNoMore) {
  Draw draw(20261201);
  int less = 0;
  for (int r = 0; r < 20; ++r) {
    PlanRequest request = draw_request(draw);
    request.cluster.only().device.memory = draw.any<Bytes>({Bytes(3e5), Bytes(1e6), Bytes(3e6)});
    const auto costs = make_analytic_cost_model(request.cluster);
    const Seconds patient = work_bound(request, *costs);
    request.stop = [] { return true; };
    const Seconds hurried = work_bound(request, *costs);
    EXPECT_GT(hurried, Seconds(0.0)) << r;
    EXPECT_LE(hurried, (1.0 + 1e-9) * patient) << r;
    less += hurried < 0.999 * patient ? 1 : 0;
  }
  EXPECT_GT(less, 0);
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
