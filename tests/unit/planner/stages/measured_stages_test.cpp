// SPDX-License-Identifier: Apache-2.0
#include "core/planner/stages/measured_stages.h"

#include <gtest/gtest.h>

#include "executor/executor.h"
#include "tests/run_on_host.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::measured_stages_test {
namespace {

constexpr auto F = Span::Kind::Forward, B = Span::Kind::Backward, U = Span::Kind::Update, S = Span::Kind::Send;

// Of device `device` (stage 0: devices 0 and 1, stage 1: 2 and 3), `length` seconds.
Span span(Span::Kind kind, int device, int microbatch, double length) {
  return {
      kind, DeviceId(device), StageId(device / 2), MicrobatchId(microbatch), SimTime{0}, to_sim_time(Seconds(length))};
}

// Two stages of two devices each, batches split between them.
HandPlan two_stages() {
  TrainingOptions training;
  training.batch = 8;
  training.microbatches = 2;
  return by_hand("mlp:layers=2,hidden=64", "cpu:4", training,
                 {{"", {2, 1}, {{"batch", 1}}}, {"blk1.up", {2, 1}, {{"batch", 1}}}});
}

const StageProfile& entry_of(const StageProfileTable& table, const StagePlan& stage) {
  return table.entries().at(
      {{stage.first_layer, stage.last_layer, stage.submesh, stage.logical_shape}, 0, sharding_fingerprint(stage)});
}

TEST(MeasuredStages, AreMediansOfTheSlowestDeviceOverMicrobatchesAndSteps) {
  const HandPlan made = two_stages();
  std::vector<Timeline> steps(2);
  // Stage 0: forwards 4 (device 1), 6 | 5, 100; backwards 10, 20 | 30, 40; a device's update is in two parts.
  steps[0].spans = {span(F, 0, 0, 3), span(F, 1, 0, 4), span(F, 0, 1, 6),  span(B, 0, 0, 10), span(B, 0, 1, 20),
                    span(U, 0, 0, 1), span(U, 0, 0, 2), span(U, 1, 0, 2),  span(S, 0, 0, 50), span(F, 2, 0, 7),
                    span(F, 2, 1, 7), span(B, 2, 0, 9), span(B, 3, 1, 11), span(U, 2, 0, 8)};
  steps[1].spans = {span(F, 1, 0, 5), span(F, 0, 1, 100), span(B, 1, 0, 30), span(B, 0, 1, 40), span(U, 1, 0, 5),
                    span(F, 3, 0, 7), span(F, 2, 1, 7),   span(B, 2, 0, 9),  span(B, 2, 1, 9),  span(U, 2, 0, 8)};
  const StageProfileTable table = measured_stages(made.plan, made.graph, steps);
  ASSERT_EQ(table.entries().size(), 2u);
  const StageProfile& first = entry_of(table, made.plan.stages[0]);
  EXPECT_NEAR(first.forward.si(), 5.5, 1e-9);    // of 4 5 6 100
  EXPECT_NEAR(first.backward.si(), 25.0, 1e-9);  // of 10 20 30 40
  EXPECT_NEAR(first.step.si(), 4.0, 1e-9);       // of 1 + 2, 5
  ASSERT_TRUE(first.measured.has_value());
  EXPECT_EQ(first.measured->samples, 4);
  EXPECT_NEAR(first.measured->forward_spread.si(), 1.0, 1e-9);    // of 1.5 0.5 0.5 94.5
  EXPECT_NEAR(first.measured->backward_spread.si(), 10.0, 1e-9);  // of 15 5 5 15
  EXPECT_NEAR(first.measured->step_spread.si(), 1.0, 1e-9);
  EXPECT_FALSE(first.memory.has_value());
  EXPECT_EQ(first.boundary_in, Bytes(0));
  const StageProfile& second = entry_of(table, made.plan.stages[1]);
  EXPECT_NEAR(second.backward.si(), 9.0, 1e-9);
  EXPECT_EQ(second.boundary_in, first.boundary_out);
  EXPECT_GT(second.boundary_in, Bytes(0));
  EXPECT_FALSE(table.key().numbering.has_value());
}

// 10 + 1 on one device, 4 + 9 on the other.
TEST(MeasuredStages, AddUpTheHalvesOfABackward) {
  const HandPlan made = two_stages();
  std::vector<Timeline> steps(1);
  constexpr auto I = Span::Kind::BackwardInput, W = Span::Kind::BackwardWeight;
  for (const int first : {0, 2})
    for (const int microbatch : {0, 1})
      for (const Span& of :
           {span(F, first, microbatch, 3), span(I, first, microbatch, 10), span(W, first, microbatch, 1),
            span(I, first + 1, microbatch, 4), span(W, first + 1, microbatch, 9)})
        steps[0].spans.push_back(of);
  const StageProfileTable table = measured_stages(made.plan, made.graph, steps);
  for (const StagePlan& stage : made.plan.stages) EXPECT_NEAR(entry_of(table, stage).backward.si(), 13.0, 1e-9);
}

TEST(MeasuredStages, ServeASearchOfTheSameModelAndCluster) {
  const HandPlan made = two_stages();
  const Plan& plan = made.plan;
  const RunResult run = run_program(made.graph, made.program, made.check, {.steps = 3, .recorded_steps = 2});
  ASSERT_EQ(run.timelines.size(), 2u);
  EXPECT_EQ(run.timelines.back().spans, run.timeline.spans);
  const StageProfileTable ran = measured_stages(plan, made.graph, run.timelines);
  for (const auto& [name, entry] : ran.entries()) {
    EXPECT_EQ(entry.measured->samples, 4);  // two microbatches of two steps
    EXPECT_GT(entry.forward, Seconds(0));
    EXPECT_GT(entry.backward, Seconds(0));
    EXPECT_GT(entry.step, Seconds(0));
  }
  StageProfileKey search = stage_profile_key(plan.model, made.graph, plan.training, plan.cluster,
                                             assign_layers(made.graph, plan.layer_starts));
  EXPECT_EQ(search, ran.key());
  search.numbering = StageProfileKey::Numbering{"pipeshard", "1f1b", 2, Bytes(1), "modelled"};
  const StageProfileTable found = StageProfileFile({ran}, "h.db").serving(search);
  const StagePlan& stage = plan.stages[0];
  StagePlace place{stage.first_layer, stage.last_layer, stage.submesh, stage.logical_shape};
  const StepCost cost = found.cost(
      place, 3, [&] { return sharding_fingerprint(stage); }, StepCost{}, StageProfileMode::Partly);
  EXPECT_EQ(cost.forward, entry_of(ran, stage).forward);
}

}  // namespace
}  // namespace meshwright::measured_stages_test
