// SPDX-License-Identifier: Apache-2.0
// Optimizer state, activations and weights in the memory of the hosts: what it frees, what it costs, and when it does
// not fit there either.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/plan/program/peak_memory.h"
#include "core/planner/given_plan.h"
#include "simulator/program/program_graph.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::offload_test {
namespace {

constexpr double kHostRate = 1e9;

// Two replicas of a model of 16-bit weights, whose state is a master copy and two moments.
PlanRequest request_of(Offload offload, const std::string& method = "data") {
  PlanRequest request = ask("mlp:layers=4,hidden=256", "cpu:2", method, 16, std::int64_t{2});
  request.training.dtype = DType::F32;
  request.training.offload = offload;
  request.cluster.only().device.host_memory = Bytes(1e9);
  request.cluster.only().device.host_bandwidth = BytesPerSecond(kHostRate);
  return request;
}

Bytes state_of(const Graph& graph) {
  Bytes bytes(0.0);
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::OptimizerState) bytes += tensor.bytes();
  return bytes;
}

Planned planned_with(const PlanRequest& request) {
  Planned made = planned(request);
  EXPECT_TRUE(made.plan) << made.reason;
  return made;
}

TEST(Offload, FreesTheDevicesOfAllOptimizerState) {
  const Planned here = planned_with(request_of(Offload::None)), there = planned_with(request_of(Offload::Optimizer));
  const Bytes state = state_of(here.graph);
  EXPECT_GT(state.si(), 0.0);
  for (const std::size_t d : {0u, 1u}) {
    EXPECT_EQ(here.program.persistent_bytes[d] - there.program.persistent_bytes[d], state);
    EXPECT_EQ(here.check.peak_memory[d] - there.check.peak_memory[d], state);
    EXPECT_EQ(there.program.host_bytes[d], state);
  }
  EXPECT_TRUE(here.program.host_bytes.empty());
}

// What a dump says of the fullest device.
TEST(Offload, LeavesNothingOfItAtTheDevicesPeak) {
  const Planned there = planned_with(request_of(Offload::Optimizer));
  Bytes held(0.0);
  for (const MemoryPart& part : peak_memory(there.program, DeviceId(0)).parts) held += part.bytes_at_peak();
  EXPECT_EQ(held, there.check.peak_memory[0]);
}

// Split over the devices, each has half of it on its host.
TEST(Offload, IsSplitAsTheStateIs) {
  const Planned there = planned_with(request_of(Offload::Optimizer, "zero1"));
  for (const std::size_t d : {0u, 1u})
    EXPECT_NEAR(there.program.host_bytes[d].si(), 0.5 * state_of(there.graph).si(), 0.01 * state_of(there.graph).si());
}

// Fetched once and sent back once, and nothing goes on beside.
TEST(Offload, TakesTheStateThereAndBackInEveryUpdate) {
  const PlanRequest request = request_of(Offload::Optimizer);
  const auto costs = make_analytic_cost_model(request.cluster);
  const Planned here = planned_with(request_of(Offload::None)), there = planned_with(request);
  const auto update = [&](const Planned& made) {
    const std::optional<int> executable = made.program.stages[0].update;
    return to_seconds(program_costs(made.program, *costs).times.executable[static_cast<std::size_t>(*executable)]).si();
  };
  const double way = state_of(there.graph).si() / kHostRate;
  EXPECT_NEAR(update(there) - update(here), 2.0 * way, 1e-9);
  // The planner expects the same.
  EXPECT_NEAR((there.plan->stages[0].update - here.plan->stages[0].update).si(), 2.0 * way, 1e-9);
}

// The values of one microbatch that wait for the backward.
Bytes waiting(const Program& program) {
  Bytes bytes(0.0);
  for (const Buffer& buffer : program.buffers)
    if (!buffer.persistent && buffer.on_host) bytes += buffer.local.bytes();
  return bytes;
}
Bytes persistent(const Program& program, TensorKind kind, const Graph& graph) {
  Bytes bytes(0.0);
  for (const Buffer& buffer : program.buffers)
    if (buffer.persistent && graph.tensor(buffer.local.tensor).kind == kind) bytes += buffer.local.bytes();
  return bytes;
}
Seconds time_of(const Planned& made, const CostModel& costs, const std::optional<int>& executable) {
  return to_seconds(program_costs(made.program, costs).times.executable[static_cast<std::size_t>(*executable)]);
}

TEST(OffloadOfActivations, FreesTheDevicesAndFillsTheHostsByThem) {
  const Planned here = planned_with(request_of(Offload::None)), there = planned_with(request_of(Offload::Activations));
  EXPECT_GT(waiting(there.program), Bytes(0.0));
  EXPECT_EQ(waiting(here.program), Bytes(0.0));
  EXPECT_EQ(there.program.host_bytes[0], waiting(there.program));  // one microbatch at a time
  EXPECT_LT(there.check.peak_memory[0], here.check.peak_memory[0]);
  EXPECT_EQ(there.program.persistent_bytes, here.program.persistent_bytes);
  Bytes held(0.0);
  for (const MemoryPart& part : peak_memory(there.program, DeviceId(0)).parts) held += part.bytes_at_peak();
  EXPECT_EQ(held, there.check.peak_memory[0]);
}
// GPipe has both microbatches' at once.
TEST(OffloadOfActivations, HasThoseOfAllMicrobatchesInFlightOnTheHost) {
  PlanRequest request = request_of(Offload::Activations, "megatron:pp=2");
  request.search.schedule = ScheduleKind::GPipe;
  const Planned there = planned_with(request);
  Bytes of_stage(0.0);
  for (const Buffer& buffer : there.program.buffers)
    if (!buffer.persistent && buffer.on_host && buffer.stage == StageId(0)) of_stage += buffer.local.bytes();
  EXPECT_EQ(there.program.host_bytes[0], 2.0 * of_stage);
}
TEST(OffloadOfActivations, TakesThemThereInTheForwardAndBackInTheBackward) {
  const PlanRequest request = request_of(Offload::Activations);
  const auto costs = make_analytic_cost_model(request.cluster);
  const Planned here = planned_with(request_of(Offload::None)), there = planned_with(request);
  const double way = waiting(there.program).si() / kHostRate;
  const ProgramStage &one = here.program.stages[0], &other = there.program.stages[0];
  EXPECT_NEAR((time_of(there, *costs, other.forward) - time_of(here, *costs, one.forward)).si(), way, 1e-9);
  EXPECT_NEAR((time_of(there, *costs, other.backward) - time_of(here, *costs, one.backward)).si(), way, 1e-9);
  // The planner expects the same.
  EXPECT_NEAR((there.plan->stages[0].forward - here.plan->stages[0].forward).si(), way, 1e-9);
  EXPECT_NEAR((there.plan->stages[0].backward - here.plan->stages[0].backward).si(), way, 1e-9);
}

TEST(OffloadOfWeights, LeavesOnTheDeviceWhatAPassReadsOfThem) {
  const Planned here = planned_with(request_of(Offload::None)), there = planned_with(request_of(Offload::Weights));
  const Bytes weights = persistent(here.program, TensorKind::Parameter, here.graph);
  EXPECT_EQ(here.program.persistent_bytes[0] - there.program.persistent_bytes[0], weights);
  EXPECT_EQ(there.program.host_bytes[0], weights);
  EXPECT_LT(there.check.peak_memory[0], here.check.peak_memory[0]);
}
// Every forward fetches all of them. The update reads and writes them where they lie.
TEST(OffloadOfWeights, FetchesThemInEveryPass) {
  const PlanRequest request = request_of(Offload::Weights);
  const auto costs = make_analytic_cost_model(request.cluster);
  const Planned here = planned_with(request_of(Offload::None)), there = planned_with(request);
  const double way = there.program.host_bytes[0].si() / kHostRate;
  const ProgramStage &one = here.program.stages[0], &other = there.program.stages[0];
  EXPECT_NEAR((time_of(there, *costs, other.forward) - time_of(here, *costs, one.forward)).si(), way, 1e-9);
  EXPECT_NEAR((time_of(there, *costs, other.update) - time_of(here, *costs, one.update)).si(), 2.0 * way, 1e-9);
  EXPECT_NEAR((there.plan->stages[0].forward - here.plan->stages[0].forward).si(), way, 1e-9);
  EXPECT_NEAR((there.plan->stages[0].update - here.plan->stages[0].update).si(), 2.0 * way, 1e-9);
}
// Without overlap every copy is waited for.
TEST(OffloadOfActivations, GoesOnBesideTheComputation) {
  PlanRequest request = request_of(Offload::Activations);
  const auto costs = make_analytic_cost_model(request.cluster);
  const Planned made = planned_with(request);
  const ProgramTimes times = program_costs(made.program, *costs).times;
  const auto pieces = cut_executables(made.program, times, *costs, {});
  ProgramGraphOptions beside;
  beside.overlap = &pieces;
  const auto step = [&](const ProgramGraphOptions& options) {
    const ProgramGraph graph = program_graph(made.program, times, options);
    const TaskTimes when = run_in_order(graph.graph);
    return *std::max_element(when.end.begin(), when.end.end());
  };
  EXPECT_LT(step(beside), step({}));
}

TEST(Offload, DoesNotFitASmallHost) {
  PlanRequest request = request_of(Offload::Optimizer);
  request.cluster.only().device.host_memory = Bytes(1e5);
  const Planned made = planned(request);
  EXPECT_FALSE(made.plan);
  EXPECT_NE(made.reason.find("of its host's memory per device"), std::string::npos) << made.reason;
  ASSERT_TRUE(made.too_large);
  EXPECT_TRUE(made.too_large->of_host);
}

TEST(Offload, IsReadFromWhatItWrites) {
  EXPECT_EQ(offload_from_name("optimizer"), Offload::Optimizer);
  EXPECT_EQ(offload_from_name(name_of(Offload::None)), Offload::None);
  EXPECT_EQ(offload_from_name("weights,activations"), Offload::Activations | Offload::Weights);
  EXPECT_EQ(name_of(Offload::Weights | Offload::Activations), "activations,weights");
  for (const char* wrong : {"gradients", "", "none,weights", "weights,weights"})
    EXPECT_THROW((void)offload_from_name(wrong), InputError) << wrong;
  const Planned made = planned_with(request_of(Offload::Optimizer));
  const Plan again = plan_from_json(to_json(*made.plan), "plan.json");
  EXPECT_EQ(again.training.offload, Offload::Optimizer);
  EXPECT_EQ(again.cluster.only().device.host_memory, Bytes(1e9));
  EXPECT_EQ(again.cluster.only().device.host_bandwidth, BytesPerSecond(kHostRate));
  EXPECT_NE(fingerprint_of(made.graph), fingerprint_of(planned_with(request_of(Offload::None)).graph));
}

// Without the optimizer's state on the hosts nothing fits; with less than all three parts there the plan is faster.
TEST(Offload, LeftOpenIsAsGoodAsEachChoiceAlone) {
  const Bytes whole = planned_with(request_of(Offload::None, "pipeshard")).plan->predicted.peak_memory;
  for (const double share : {2.0, 0.7, 0.4}) {
    PlanRequest open = request_of(Offload::None, "pipeshard");
    open.cluster.only().device.memory = Bytes(share * whole.si());
    open.cluster.only().device.usable_memory = 1.0;
    open.search.any_offload = true;
    const Planned best = planned(open);
    int plans = 0;
    for (int parts = 0; parts < 8; ++parts) {
      PlanRequest one = open;
      one.search.any_offload = false;
      one.training.offload = static_cast<Offload>(parts);
      const Planned found = planned(one);
      if (!found.plan) continue;
      ++plans;
      ASSERT_TRUE(best.plan) << best.reason;
      EXPECT_LE(best.plan->predicted.step_time, found.plan->predicted.step_time) << name_of(one.training.offload);
      EXPECT_LE(best.plan->predicted.lower_bound, found.plan->predicted.step_time);
    }
    EXPECT_GT(plans, 0) << share;
    if (share == 2.0) {
      EXPECT_EQ(best.plan->training.offload, Offload::None);
    } else if (share == 0.4) {
      EXPECT_NE(best.plan->training.offload, Offload::None);
    }
  }
}

}  // namespace
}  // namespace meshwright::offload_test
