// SPDX-License-Identifier: Apache-2.0
// Partial sums that stay partial through linear ops: when the planner chooses them, what it saves, and what a plan may
// not say about them.
#include <gtest/gtest.h>

#include "core/base/errors.h"
#include "tests/refusal.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::partial_sums_test {
namespace {

// Routed and shared experts are each summed over the tensor-parallel devices, and then added.
const char* const kShared =
    "mixtral:layers=1,hidden=64,heads=4,kv_heads=4,intermediate=64,seq=32,vocab=32,experts=4,top_k=2,"
    "shared_intermediate=64";

Planned planned_with_shared_experts() {
  PlanRequest request = ask(kShared, "cpu:4", "megatron:tp=2", 8, 1);
  request.training.dtype = DType::F32;
  request.search.layers = 1;
  return planned(request);
}

int all_reduces(const Program& program) {
  int count = 0;
  for (const StageExecutable& executable : program.executables)
    for (const LocalOp& op : executable.ops) count += op.step && op.step->kind == ReshardStep::Kind::AllReduce ? 1 : 0;
  return count;
}

// The loaded plan's step, or what is wrong with it.
std::string complaint(const Plan& plan) {
  const auto costs = make_analytic_cost_model(plan.cluster);
  return refusal([&] { (void)load_plan(plan, *costs); });
}

TEST(PartialSums, AreAddedBeforeTheyAreReduced) {
  const Planned found = planned_with_shared_experts();
  ASSERT_TRUE(found.plan) << found.reason;
  const StagePlan& stage = found.plan->stages.at(0);
  EXPECT_EQ(stage.ops.at("blk0.moe.combine").result.to_text(), "S0RR+P1");
  EXPECT_EQ(stage.ops.at("blk0.moe.shared.down").result.to_text(), "S0RR+P1");
  EXPECT_EQ(stage.ops.at("blk0.moe.sum").partial, 2);
  EXPECT_EQ(stage.ops.at("blk0.moe.sum").result.to_text(), "S0RR+P1");
}

// The same plan with each of the two sums reduced where it is made: one all-reduce more, and a longer step.
TEST(PartialSums, SaveAnAllReduce) {
  const Planned found = planned_with_shared_experts();
  ASSERT_TRUE(found.plan) << found.reason;
  Plan early = *found.plan;
  auto& ops = early.stages.at(0).ops;
  for (const char* name : {"blk0.moe.combine", "blk0.moe.shared.down", "blk0.moe.sum"}) {
    ops.at(name).result.partial = 0;
    ops.at(name).partial = 0;
  }
  const auto costs = make_analytic_cost_model(early.cluster);
  const LoadedPlan loaded = load_plan(early, *costs);
  EXPECT_GT(all_reduces(loaded.program), all_reduces(found.program));
  SimulatedStep step(*costs);
  EXPECT_GT(step.step_of(loaded.program, loaded.check), found.plan->predicted.step_time);
}

TEST(PartialSums, OfAPlanComeBackFromItsFile) {
  const Planned found = planned_with_shared_experts();
  ASSERT_TRUE(found.plan) << found.reason;
  const Plan back = plan_from_json(parse_json(to_json(*found.plan).dump(), "plan.json"), "plan.json");
  EXPECT_EQ(back.stages.at(0).ops, found.plan->stages.at(0).ops);
  EXPECT_EQ(complaint(back), "not refused");
}

TEST(PartialSums, CannotBeReadWhereNoneAreMade) {
  const Planned found = planned_with_shared_experts();
  ASSERT_TRUE(found.plan) << found.reason;
  Plan wrong = *found.plan;
  // The first operand of the sum is whole now.
  wrong.stages.at(0).ops.at("blk0.moe.combine").result.partial = 0;
  EXPECT_EQ(complaint(wrong),
            "stage 0, op 'blk0.moe.sum': it reads 'blk0.moe.combine' as S0RR+P1, but no op of the stage gives it this "
            "sharding");
}

TEST(PartialSums, CannotStayWhereTheOpReadsThemAsWhole) {
  const Planned found = planned_with_shared_experts();
  ASSERT_TRUE(found.plan) << found.reason;
  Plan wrong = *found.plan;
  wrong.stages.at(0).ops.at("blk0.moe.sum").partial = 0;  // but its result is kept as partial sums
  EXPECT_EQ(complaint(wrong),
            "stage 0, op 'blk0.moe.sum': its result is produced as S0RR, so it cannot be stored as S0RR+P1");
}

}  // namespace
}  // namespace meshwright::partial_sums_test
