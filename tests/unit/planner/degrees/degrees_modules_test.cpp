// SPDX-License-Identifier: Apache-2.0
// Sets of modules in the place of blocks that are recomputed: which are tried, and that a search with them is never
// slower than one without.
#include "core/planner/degrees/degrees_modules.h"

#include <gtest/gtest.h>

#include "core/planner/given_plan.h"
#include "core/planner/make_plan.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::degrees_modules_test {
namespace {

using M = RecomputeModules;

std::vector<std::string> sets_of(M there) {
  std::vector<std::string> texts;
  for (const Degrees& degrees : with_modules_for_blocks({.tp = 2, .recompute = Recompute::Full}, there)) {
    EXPECT_EQ(degrees.tp, 2);
    EXPECT_EQ(degrees.recompute, Recompute::None);
    texts.push_back(recompute_text(degrees));
  }
  return texts;
}
using Texts = std::vector<std::string>;

TEST(ModulesForBlocks, AreThoseThatAreThereFromLittleToMuch) {
  EXPECT_EQ(sets_of(M::None), Texts{});
  EXPECT_EQ(sets_of(M::Attention), Texts{});
  EXPECT_EQ(sets_of(M::Attention | M::Norms | M::FeedForward), (Texts{"layernorm", "layernorm,mlp"}));
  EXPECT_EQ(sets_of(M::Norms | M::ExpertActivations | M::Mixture),
            (Texts{"layernorm", "layernorm,moe_act", "layernorm,moe_act,moe"}));
}

// Memory in which experts of two devices do not fit without recomputation.
TEST(ModulesForBlocks, NeverMakeTheSearchSlower) {
  for (const double memory : {2.5e6, 3e6, 4e6}) {
    PlanRequest request =
        ask("mixtral:layers=2,hidden=64,heads=4,kv_heads=4,intermediate=128,seq=32,vocab=128,experts=4,top_k=2",
            "cpu:2", "pipeshard", 8, Auto{});
    request.search.schedule = Auto{};
    request.search.recompute = Auto{};
    request.cluster.groups.front().device.memory = Bytes(memory);
    const auto costs = make_analytic_cost_model(request.cluster);
    SimulatedStep evaluator(*costs);
    Framework framework = find_framework("megatron");
    request.search.launch_for = &framework;
    const PlanningResult with = make_plan(request, *costs, evaluator);
    framework.recomputes_modules = false;
    const PlanningResult without = make_plan(request, *costs, evaluator);
    ASSERT_EQ(with.plan.has_value(), without.plan.has_value()) << memory;
    if (!with.plan) continue;
    EXPECT_LE(with.plan->predicted.step_time, without.plan->predicted.step_time) << memory;
    EXPECT_LE(with.plan->predicted.peak_memory, request.cluster.usable_memory()) << memory;
  }
}

}  // namespace
}  // namespace meshwright::degrees_modules_test
