// SPDX-License-Identifier: Apache-2.0
// What a prediction says of a step, against sums over the step's own tasks and messages.
#include "simulator/what_if/prediction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "costmodel/occupancy.h"
#include "simulator/program/executable_pieces.h"
#include "simulator/report/step_report.h"
#include "simulator/what_if/simulate_step.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::prediction_test {
namespace {

constexpr const char* kModel = "gpt:layers=4,hidden=64,heads=4,seq=32,vocab=128";

struct Made {
  Plan plan;
  LoadedPlan loaded;
  std::unique_ptr<CostModel> costs;
};
Made made_by(const char* method, const char* cluster = "cpu:4") {
  const PlanRequest request = ask(kModel, cluster, method, 32, 4);
  Made made{{}, {}, make_analytic_cost_model(request.cluster)};
  SimulatedStep evaluator(*made.costs);
  PlanningResult result = make_plan(request, *made.costs, evaluator);
  MW_CHECK(result.plan.has_value(), "no plan: {}", result.reason);
  made.plan = *result.plan;
  made.loaded = load_plan(made.plan, *made.costs);
  return made;
}

StepSimulation simulated(const Made& made, const StepRequest& request) {
  const ProgramTimes times = program_costs(made.loaded.program, *made.costs).times;
  return simulate_step(made.plan, made.loaded, times, *made.costs, request, 1);
}

}  // namespace

TEST(Prediction, WhatDevicesWaitForAddsUpToTheirWaiting) {
  for (const char* method : {"megatron:pp=4", "megatron:tp=2,pp=2", "data"}) {
    const Made made = made_by(method);
    const Prediction found = predict(made.loaded.program, *made.costs);
    const StepSimulation step = simulate_plain_step(made.loaded.program, found.costs.times);
    double bubble = 0.0, idle = 0.0;
    for (const DeviceShares& device : device_shares(step.tasks.graph, step.times)) {
      bubble += to_seconds(device.bubble).si() / 4;
      idle += to_seconds(device.idle).si() / 4;
    }
    EXPECT_NEAR(found.waiting.bubble, bubble / found.step.si(), 1e-9) << method;
    EXPECT_NEAR(found.waiting.idle, idle / found.step.si(), 1e-9) << method;
    EXPECT_NEAR(found.waiting.total(), found.summary.waiting, 1e-9) << method;
    EXPECT_EQ(found.waiting.messages > 0.0, std::string(method) != "data") << method;
  }
}

TEST(Prediction, OfSeveralStepsIsThatOfOne) {
  const Made made = made_by("megatron:pp=2");
  StepRequest request;
  request.controller.emplace();
  request.controller->per_instruction = Seconds(1e-6);
  const StepSimulation step = simulated(made, request);
  ASSERT_GT(step.steps(), 1);
  const Prediction plain = predict(made.loaded.program, *made.costs);
  const Prediction found = prediction_of(made.loaded.program, program_costs(made.loaded.program, *made.costs), step);
  EXPECT_NEAR(found.summary.step.si() * step.steps(), to_seconds(step.times.step).si(), 1e-9);
  for (std::size_t d = 0; d < 4; ++d)
    EXPECT_NEAR(found.summary.compute[d].si(), plain.summary.compute[d].si(), 1e-9) << d;
  for (std::size_t s = 0; s < plain.stages.size(); ++s) {
    EXPECT_NEAR(found.stages[s].forward.si(), plain.stages[s].forward.si(), 1e-11) << s;
    EXPECT_NEAR(found.stages[s].backward.si(), plain.stages[s].backward.si(), 1e-11) << s;
    EXPECT_NEAR(found.stages[s].update.si(), plain.stages[s].update.si(), 1e-11) << s;
  }
}

TEST(Prediction, AStepThatNoClockCountsIsRefused) {
  // On one device the step is the sum of its Runs. The clock ends at 9e6 seconds: 5 % before it and 5 % beyond, though
  // no Run by itself comes near to it.
  PlanRequest request = ask("mlp:layers=2,hidden=32", "cpu:1", "data", 32, 4);
  const auto step_at = [&](double launch) {
    request.cluster.only().device.launch = Seconds(launch);
    return make_analytic_cost_model(request.cluster);
  };
  const auto costs = step_at(1.0);
  SimulatedStep evaluator(*costs);
  const Planned planned = with_program(make_plan(request, *costs, evaluator), *costs);
  const double seconds = predict(planned.program, *costs).step.si();
  const auto longest = program_costs(planned.program, *costs).times.executable;
  EXPECT_LT(to_seconds(*std::max_element(longest.begin(), longest.end())).si(), 0.7 * seconds);
  EXPECT_NEAR(predict(planned.program, *step_at(0.95 * 9e6 / seconds)).step.si(), 0.95 * 9e6, 1.0);
  EXPECT_THROW((void)predict(planned.program, *step_at(1.05 * 9e6 / seconds)), InputError);
}

// The products keep a quarter of the GPU busy, every other op all of it; a Run as much as its ops on the average of
// their time. Two devices that run the same at once are slowed by twice that.
TEST(PredictShared, SlowsRunsByTheMeanOfWhatTheirOpsKeepBusy) {
  const Made made = made_by("data", "cpu:2");
  const Program& program = made.loaded.program;
  const StageExecutable& forward = program.executables.front();
  ASSERT_EQ(forward.phase, Phase::Forward);
  const LogicalMesh& mesh = program.stages[forward.stage.index()].mesh;
  const auto is_product = [](const LocalOp& op) {
    return op.kind == LocalOp::Kind::Compute && op.work.kind == OpKind::Contract;
  };
  // Four times the rate of the fastest of them; they differ, so that others keep less than a quarter busy.
  OpProfile full{"", 1, 0.0, 1.0, {Seconds(1.0), Seconds(0.0), 7}};
  for (const LocalOp& op : forward.ops)
    if (is_product(op)) {
      const double rate = op.work.flops.si() / op_cost(forward, op, mesh, *made.costs).time.si();
      if (4.0 * rate > full.flops) full.flops = 4.0 * rate;
      full.signature = op.work.signature;
    }
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "occupancy_of_runs.db";
  std::filesystem::remove(path);
  ProfileDb db(path, ProfileDb::Mode::ReadWrite);
  db.put(db.add_session({"GPU", "host", "", "2026-11-28T01:00:00Z", "", find_cluster("dgx-h100:1")}), full);
  const Occupancy occupancy(db);
  std::filesystem::remove(path);

  Seconds busy(0.0), all(0.0);
  for (const LocalOp& op : forward.ops) {
    const Seconds time = op_cost(forward, op, mesh, *made.costs).time;
    all += time;
    busy += (is_product(op) ? op.work.flops.si() / full.flops : time.si()) * Seconds(1.0);
  }
  ASSERT_LT(busy, 0.95 * all);
  ASSERT_GT(busy, 0.55 * all);  // two of half a GPU or less go on side by side

  const auto first_forward = [&](const Occupancy* of) {
    const Timeline timeline = predict_shared(program, *made.costs, {0, 0}, of).timeline;
    const auto span = std::find_if(timeline.spans.begin(), timeline.spans.end(),
                                   [](const Span& found) { return found.kind == Span::Kind::Forward; });
    return to_seconds(span->end - span->begin).si();
  };
  const double whole = to_seconds(program_costs(program, *made.costs, {0, 0}).times.executable.front()).si();
  EXPECT_NEAR(first_forward(nullptr), 2.0 * whole, 1e-9 * whole);
  EXPECT_NEAR(first_forward(&occupancy), 2.0 * whole * (busy / all), 1e-9 * whole);
}

TEST(Replicas, AddTheirGradientsUpBetweenHostsBeforeTheUpdate) {
  const Made made = made_by("shard", "cpu:2");
  StepRequest request;
  const SimTime alone = simulated(made, request).step;
  request.replicas = 4;
  const SimTime together = simulated(made, request).step;
  // Both devices of the host sum half of the gradients each, and share its network.
  Bytes parameters(0.0);
  for (const Buffer& buffer : made.loaded.program.buffers)
    if (made.loaded.graph->tensor(buffer.local.tensor).kind == TensorKind::Parameter)
      parameters += made.loaded.graph->tensor(buffer.local.tensor).bytes();
  LinkCost link = made.plan.cluster.only().between_hosts;
  link.beta = 2.0 * link.beta;
  const Seconds sum = made.costs->collective(CollectiveKind::AllReduce, parameters / 2, {1, 4, link, link}).time;
  EXPECT_NEAR(to_seconds(together - alone).si(), sum.si(), 1e-11);
}

}  // namespace meshwright::prediction_test
