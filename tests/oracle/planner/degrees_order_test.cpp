// SPDX-License-Identifier: Apache-2.0
// The order of degrees against the work of each of them, and a search that has a step to beat against one that has
// none.
#include "core/planner/degrees/degrees_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "core/planner/degrees/degrees_search.h"
#include "simulator/what_if/evaluator.h"
#include "tests/sanitized.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::degrees_order_test {
namespace {

constexpr const char* kDense = "gpt:layers=4,hidden=64,heads=4,seq=32,vocab=128";
constexpr const char* kExperts =
    "mixtral:layers=4,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=32,vocab=128,experts=4,top_k=2";

PlanRequest request_for(const char* model, double memory) {
  PlanRequest request = ask(model, "cpu:4", "pipeshard", 64, Auto{});
  request.search.schedule = Auto{};
  request.search.recompute = Auto{};
  request.search.launch_for = &find_framework("megatron");
  request.cluster.only().device.memory = Bytes(memory);
  return request;
}

class DegreesOrderOf : public testing::TestWithParam<std::tuple<const char*, double>> {};

// What is left out because smaller micro-batches keep so much needs more than the memory by its own work, too.
TEST_P(DegreesOrderOf, LeavesOutOnlyWhatNeedsMoreThanTheMemory) {
  const auto& [model, memory] = GetParam();
  const PlanRequest request = request_for(model, memory);
  const auto costs = make_analytic_cost_model(request.cluster);
  SimulatedStep evaluator(*costs);
  DegreesPlans plans(request, *costs, evaluator, false);
  const std::vector<Degrees> all = all_degrees(*request.search.launch_for, request).legal;
  const DegreesOrder order = order_of_degrees(all, request, plans, [] { return false; });
  std::map<std::string, int> times;
  for (const auto* part : {&order.by_bound, &order.too_large})
    for (const OrderedDegrees& of : *part) ++times[text_of(of.degrees)];
  EXPECT_EQ(times.size(), all.size());
  for (const auto& [text, count] : times) EXPECT_EQ(count, 1) << text;
  EXPECT_TRUE(std::is_sorted(order.by_bound.begin(), order.by_bound.end(),
                             [](const auto& a, const auto& b) { return a.bound < b.bound; }));
  EXPECT_EQ(order.too_large.empty(), memory > 1e9);
  const std::int64_t blocks = shape_of(request.model).blocks;
  for (const OrderedDegrees& of : order.too_large) {
    plans.build_graphs({of.degrees});
    const auto work = plans.work_of(of.degrees);
    if (!work) continue;
    EXPECT_GE(of.needs, request.cluster.usable_memory()) << text_of(of.degrees);
    EXPECT_GE(least_memory_of_work(*work, of.degrees, blocks, 1.0), of.needs) << text_of(of.degrees);
  }
}

INSTANTIATE_TEST_SUITE_P(Memories, DegreesOrderOf,
                         testing::Combine(testing::Values(kDense, kExperts), testing::Values(16e9, 4e6, 1e6)));

// Only a plan that beats it is wanted: there is the fastest as long as it does, and none once it does not.
TEST(DegreesSearch, FindsTheFastestThatBeatsAStep) {
  for (const char* model : fewer_of<const char*>({kDense, kExperts}))
    for (const double memory : fewer_of<double>({4e6, 16e9})) {
      const PlanRequest request = request_for(model, memory);
      const auto costs = make_analytic_cost_model(request.cluster);
      SimulatedStep evaluator(*costs);
      const PlanningResult free = search_degrees(request, *costs, evaluator);
      ASSERT_TRUE(free.plan) << model << ", " << memory;
      const Seconds best = free.plan->predicted.step_time;
      for (const double above : {1.001, 1.05}) {
        const FoundDegrees found = find_degrees(request, *costs, evaluator, above * best);
        ASSERT_TRUE(found.result.plan) << model << ", " << memory << ", " << above;
        EXPECT_EQ(found.result.plan->predicted.step_time, best) << model << ", " << memory << ", " << above;
        EXPECT_LE(found.result.log.simulations, free.log.simulations);
      }
      EXPECT_FALSE(find_degrees(request, *costs, evaluator, best).result.plan) << model << ", " << memory;
    }
}

}  // namespace
}  // namespace meshwright::degrees_order_test
