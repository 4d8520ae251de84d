// SPDX-License-Identifier: Apache-2.0
// What an executor holds beside tensors has to fit into a device with them.
#include <gtest/gtest.h>

#include "simulator/what_if/evaluator.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::memory_beside_test {
namespace {

PlanRequest request_of(const std::string& method = "pipeshard") {
  PlanRequest request = ask("mlp:layers=4,hidden=64", "cpu:4", method, 64, std::int64_t{4});
  request.search.layers = 4;
  return request;
}

// So much on the devices of plans with so many stages; 0: of all plans.
MemoryBesideTensors beside_of(Bytes bytes, std::size_t stages) {
  return [bytes, stages](const Plan& plan, const Graph&, const Program& program, const FoldedDevices*) {
    const bool has = stages == 0 || plan.stages.size() == stages;
    return std::vector<Bytes>(program.stages.size(), has ? bytes : Bytes(0.0));
  };
}

PlanningResult planned_with(const PlanRequest& request, MemoryBesideTensors beside) {
  const auto costs = make_analytic_cost_model(request.cluster);
  SimulatedEvaluator evaluator(*costs, nullptr, {}, std::move(beside));
  return make_plan(request, *costs, evaluator);
}

TEST(MemoryBeside, LeavesTheFastestOfThePlansThatHaveRoomForIt) {
  const PlanRequest request = request_of();
  const Bytes all = request.cluster.only().device.memory;
  const PlanningResult free = planned_with(request, {});
  ASSERT_TRUE(free.plan) << free.reason;
  const std::size_t stages = free.plan->stages.size();
  const PlanningResult other = planned_with(request, beside_of(all, stages));
  ASSERT_TRUE(other.plan) << other.reason;
  EXPECT_NE(other.plan->stages.size(), stages);
  EXPECT_GE(other.plan->predicted.step_time, free.plan->predicted.step_time);
  // Where only the other plans lack room, nothing changes.
  const PlanningResult same = planned_with(request, beside_of(all, other.plan->stages.size()));
  ASSERT_TRUE(same.plan) << same.reason;
  EXPECT_EQ(same.plan->predicted.step_time, free.plan->predicted.step_time);
}

TEST(MemoryBeside, ThatNoPlanHasRoomForIsNamed) {
  for (const char* method : {"pipeshard", "data", "zero3", "megatron:tp=2,pp=2"}) {
    const PlanRequest request = request_of(method);
    const Bytes all = request.cluster.only().usable_memory();
    const PlanningResult none = planned_with(request, beside_of(all, 0));
    ASSERT_FALSE(none.plan) << method;
    ASSERT_TRUE(none.too_large) << method << ": " << none.reason;
    EXPECT_EQ(none.too_large->beside, all) << method;
    EXPECT_GT(none.too_large->needs, all) << method;
    EXPECT_NE(none.too_large->text().find(" beside its tensors) of "), std::string::npos) << none.too_large->text();
  }
}

TEST(MemoryBeside, IsPartOfWhatAPlanNeeds) {
  const PlanRequest request = request_of();
  const PlanningResult made = planned_with(request, {});
  ASSERT_TRUE(made.plan) << made.reason;
  const PlanOfGraph plan{*made.plan, std::make_shared<const Graph>(made.graph)};
  const auto costs = make_analytic_cost_model(request.cluster);
  const SimulatedEvaluator bare(*costs), full(*costs, nullptr, {}, beside_of(Bytes(1e6), 0));
  EXPECT_EQ(full.outcome(plan).peak, bare.outcome(plan).peak + Bytes(1e6));
  EXPECT_EQ(full.outcome(plan).step, bare.outcome(plan).step);
}

// Whether a device lacks memory or something lies in it, tensors have the same room: the search finds plans as fast.
TEST(MemoryBeside, IsLikeMemoryThatIsNotThere) {
  int slower = 0;  // than with all of the memory
  for (const double share : {0.3, 0.6, 0.8}) {
    PlanRequest request = ask("mlp:layers=4,hidden=16", "cpu:4", "pipeshard", 256, std::int64_t{4});
    request.search.recompute = Auto{};
    HostGroup& hosts = request.cluster.groups.front();
    hosts.device.usable_memory = 1.0;
    const PlanningResult free = planned_with(request, {});
    ASSERT_TRUE(free.plan) << free.reason;
    // All but `share` of it hold something else; what is left is less than the plan has.
    const Bytes left = 0.9 * free.plan->predicted.peak_memory;
    hosts.device.memory = left / share;
    const PlanningResult full = planned_with(request, beside_of((1.0 - share) * hosts.device.memory, 0));
    hosts.device.memory = left;
    const PlanningResult small = planned_with(request, {});
    ASSERT_TRUE(small.plan) << share << ": " << small.reason;
    ASSERT_TRUE(full.plan) << share << ": " << full.reason;
    EXPECT_EQ(full.plan->predicted.step_time, small.plan->predicted.step_time) << share;
    slower += small.plan->predicted.step_time > free.plan->predicted.step_time ? 1 : 0;
  }
  EXPECT_EQ(slower, 3);
}

}  // namespace
}  // namespace meshwright::memory_beside_test
