// SPDX-License-Identifier: Apache-2.0
// What is read in several places: a parameter by two ops of a stage, each as a copy of its own, however the copies and
// the state lie; a gradient on a stage that only passes it on.
#include <gtest/gtest.h>

#include "executor/check/run_reference.h"
#include "executor/executor.h"
#include "tests/run_on_host.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::tied_parameters_test {
namespace {

const RunOptions kTwoSteps{.steps = 2, .seed = 3, .precision = DType::F64};

// Rows of the table are words: whole, by word over the only mesh axis that has devices, or by column.
const ShardingSpec kWhole{{0, 0}, 0}, kByWord{{2, 0}, 0}, kByColumn{{0, 2}, 0};

struct Copies {
  ShardingSpec owner, state, other;
};
class TiedParameter : public testing::TestWithParam<Copies> {};

TEST_P(TiedParameter, TrainsLikeOneDevice) {
  const TrainingOptions training{.batch = 8, .microbatches = 2, .optimizer = {.kind = Optimizer::Kind::Momentum}};
  HandPlan made = by_hand("gpt:layers=1,hidden=16,heads=4,seq=8,vocab=32", "cpu:2", training, {{"", {1, 2}, {}}});
  auto& parameters = made.plan.stages.front().parameters;
  ASSERT_EQ(parameters.count("embed/wte") + parameters.count("head.logits/wte"), 2u);
  parameters.at("embed/wte") = {GetParam().owner, GetParam().state, false};
  parameters.at("head.logits/wte") = {GetParam().other, GetParam().other, false};
  ASSERT_EQ(check_plan(made.plan, made.graph), std::vector<std::string>{});
  const Program program = lower(made.plan, made.graph, *made.costs);
  const ProgramCheck check = check_program(program);
  ASSERT_EQ(check.violations, std::vector<std::string>{});
  const RunResult run = run_program(made.graph, program, check, kTwoSteps);
  const RunResult truth = run_reference(made.graph, kTwoSteps);
  EXPECT_EQ(run.peak_memory, check.peak_memory);
  for (const auto& [name, values] : truth.weights)
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(run.weights.at(name)[i], values[i], 1e-12) << name;
}

std::vector<Copies> all_copies() {
  std::vector<Copies> all;
  for (const ShardingSpec& owner : {kWhole, kByWord, kByColumn})
    for (const ShardingSpec& other : {kWhole, kByWord, kByColumn}) {
      all.push_back({owner, owner, other});
      if (owner == kWhole) all.push_back({owner, kByWord, other});
    }
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, TiedParameter, testing::ValuesIn(all_copies()), [](const auto& of) {
  const Copies& c = of.param;
  return c.owner.to_text() + "_" + c.state.to_text() + "_" + c.other.to_text();
});

// Narrow stages: a gradient that only passes through one is read there by a sum whose forward op lies on another.
TEST(PassingGradient, OfNarrowStagesTrainsLikeOneDevice) {
  PlanRequest request =
      ask("t5:layers=2,hidden=64,heads=4,intermediate=128,seq=32,vocab=128", "cpu:4", "pipeshard", 32, 1);
  request.training.dtype = DType::F32;
  request.training.optimizer = {.kind = Optimizer::Kind::Momentum};
  request.search.layers = 16;
  const Planned result = planned(request);
  ASSERT_TRUE(result.plan) << result.reason;
  const RunResult run = run_program(result.graph, result.program, result.check, kTwoSteps);
  const RunResult truth = run_reference(result.graph, kTwoSteps);
  for (const auto& [name, values] : truth.weights)
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(run.weights.at(name)[i], values[i], 1e-11) << name;
}

}  // namespace
}  // namespace meshwright::tied_parameters_test
