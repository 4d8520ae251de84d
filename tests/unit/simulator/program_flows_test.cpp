// SPDX-License-Identifier: Apache-2.0
// Collectives and messages of a Program on the links of a network: alone as long as they cost, together as the links
// allow.
#include "simulator/program/program_flows.h"

#include <gtest/gtest.h>

#include "tests/unit/network_fixture.h"
#include "tests/unit/planning_fixture.h"
#include "tests/unit/program_fixture.h"

namespace meshwright::program_flows_test {
namespace {

constexpr std::int64_t kSecond = 1000000000000;  // in ps

Piece piece_of(const Program& program, int executable, SimTime duration) {
  const StageExecutable& own = program.executables[static_cast<std::size_t>(executable)];
  Piece piece;
  piece.kind = own.ops.empty() ? Piece::Kind::Compute : Piece::Kind::Collective;
  if (!own.ops.empty()) piece.ops = {0};
  piece.duration = duration;
  for (const StageExecutable::Slot& slot : own.slots)
    (slot.output ? piece.writes : piece.reads).push_back(*slot.buffer);
  return piece;
}

// Devices 0 and 2 of the cluster, on two hosts, sum 80 bytes (as a ring 6 s of latency, 4 s of bytes); device 1 sends
// 160 bytes to device 3 (3 s of latency, 8 s of bytes).
struct OnOneNic {
  Program program;
  ProgramTimes times;
  std::vector<std::vector<Piece>> pieces;
  std::vector<DeviceId> in_cluster = {DeviceId(0), DeviceId(2), DeviceId(1), DeviceId(3)};
};
OnOneNic on_one_nic(std::int64_t collective_seconds) {
  ProgramBuilder builder;
  const StageId ring = builder.stage(2), source = builder.stage(), destination = builder.stage();
  const BufferId summed = builder.buffer(ring, "summed", 80, Kept::Always);
  const BufferId made = builder.buffer(source, "made", 160), brought = builder.buffer(destination, "brought", 160);
  const int sums = builder.executable(ring, Phase::Forward, {summed}, {}, Collectives::Some);
  const int makes = builder.executable(source, Phase::Forward, {}, {made});
  const int reads = builder.executable(destination, Phase::Forward, {brought}, {});
  const int message = builder.transfer(2, 3, made, brought);
  for (const int device : {0, 1}) builder.on(device).run(sums);
  builder.on(2).run(makes).exchange({message}, {}).free({made});
  builder.on(3).exchange({}, {message}).run(reads).free({brought});
  OnOneNic scene{std::move(builder.program), {{{collective_seconds * kSecond}, {0}, {0}}, {{11 * kSecond}}}, {}};
  for (int e = 0; e < 3; ++e)
    scene.pieces.push_back({piece_of(scene.program, e, scene.times.executable[static_cast<std::size_t>(e)])});
  return scene;
}

// When the sum and the message end, in seconds.
struct Ends {
  double sum, message;
  bool operator==(const Ends&) const = default;
};
Ends ends_of(const OnOneNic& scene, bool overlap, LinkDiscipline discipline) {
  const Topology topology(slow_cluster(2, 2));
  const NetworkFlows network = program_flows(scene.program, scene.in_cluster, topology, &scene.pieces);
  ProgramGraphOptions options;
  options.flows = &network.flows;
  (overlap ? options.overlap : options.in_order) = &scene.pieces;
  options.name_tasks = true;
  const ProgramGraph made = program_graph(scene.program, scene.times, options);
  check_task_graph(made.graph);
  Conditions conditions;
  conditions.discipline = discipline;
  const TaskTimes times = run_tasks(made.graph, conditions).times;
  std::vector<SimTime> of_device(4, SimTime{0});
  for (std::size_t t = 0; t < made.of.size(); ++t)
    of_device[static_cast<std::size_t>(made.of[t].device)] =
        std::max(of_device[static_cast<std::size_t>(made.of[t].device)], times.end[t]);
  EXPECT_EQ(of_device[0], of_device[1]);
  return {to_seconds(of_device[0]).si(), to_seconds(of_device[2]).si()};
}

// The message alone from 3 to 6 (60 bytes), both at 10 byte/s until the ring's 80 bytes are over at 14 (140 bytes), the
// rest of the message at 20 byte/s. First come, first served: the ring comes at 6 and waits until 11.
TEST(ProgramFlows, ASumAndAMessageOnOneNicSlowEachOther) {
  for (const bool overlap : {false, true}) {
    SCOPED_TRACE(overlap);
    EXPECT_EQ(ends_of(on_one_nic(10), overlap, LinkDiscipline::Fluid), (Ends{14, 15}));
    EXPECT_EQ(ends_of(on_one_nic(10), overlap, LinkDiscipline::Fifo), (Ends{15, 11}));
  }
}

// TimeEstimate at 15 s the sum has its bytes on the NIC from 11 on, when the message is over; priced at 2 s it is on
// the NIC throughout, for as many bytes as 2 s are.
TEST(ProgramFlows, LeaveACollectiveTheTimeItIsPricedAt) {
  for (const bool overlap : {false, true}) {
    SCOPED_TRACE(overlap);
    EXPECT_EQ(ends_of(on_one_nic(15), overlap, LinkDiscipline::Fluid), (Ends{15, 11}));
    EXPECT_EQ(ends_of(on_one_nic(2), overlap, LinkDiscipline::Fluid), (Ends{2, 11}));
    EXPECT_EQ(ends_of(on_one_nic(4), overlap, LinkDiscipline::Fluid), (Ends{5, 12}));
  }
}

struct Lowered {
  const char *model, *cluster, *method;
};
class ProgramFlowsOfPlans : public testing::TestWithParam<Lowered> {};

// Where links are as wide as they need to be, flows change no time and no byte.
TEST_P(ProgramFlowsOfPlans, ChangeNothingWhereNothingIsShared) {
  const auto& [model, cluster, method] = GetParam();
  PlanRequest request = ask(model, cluster, method, 64, 4);
  request.search.layers = 4;
  const Planned result = planned(request);
  ASSERT_TRUE(result.plan) << result.reason;
  const auto costs = make_analytic_cost_model(request.cluster);
  ProgramTimes times = program_costs(result.program, *costs).times;
  std::vector<DeviceId> in_cluster(result.program.devices.size(), DeviceId(0));
  for (std::size_t d = 0; d < in_cluster.size(); ++d) in_cluster[d] = DeviceId(static_cast<int>(d));
  const Topology topology(request.cluster);
  for (const bool overlap : {false, true}) {
    SCOPED_TRACE(overlap);
    const auto pieces =
        cut_executables(result.program, times, *costs, overlap ? CutOptions{} : CutOptions{Bytes(0.0), 0});
    const NetworkFlows network = program_flows(result.program, in_cluster, topology, &pieces);
    for (std::size_t t = 0; t < times.transfer.size(); ++t) times.transfer[t] = network.flows.transfer[t].duration;
    ProgramGraphOptions options;
    if (overlap) options.overlap = &pieces;
    options.steps = 2;
    const TaskTimes alone = run_in_order(program_graph(result.program, times, options).graph);
    options.flows = &network.flows;
    if (!overlap) options.in_order = &pieces;
    const ProgramGraph made = program_graph(result.program, times, options);
    check_task_graph(made.graph);
    const TaskTimes wide = run_in_order(made.graph);
    EXPECT_EQ(wide.step, alone.step);
    EXPECT_EQ(wide.peak_memory, alone.peak_memory);
    const TaskTimes shared = run_by_events(made.graph);
    EXPECT_GE(shared.step, wide.step);
    EXPECT_TRUE(shared.step == wide.step || find_meeting(made.graph, wide, LinkDiscipline::Fluid));
    // Without messages, and one after the other, collectives meet nobody: not their like on the same host either.
    if (overlap || !result.program.transfers.empty()) continue;
    for (const LinkDiscipline discipline : {LinkDiscipline::Fluid, LinkDiscipline::Fifo})
      EXPECT_FALSE(find_meeting(made.graph, wide, discipline));
  }
}
constexpr const char* kGpt = "gpt:layers=4,hidden=256,heads=8,seq=64,vocab=512";
INSTANTIATE_TEST_SUITE_P(All, ProgramFlowsOfPlans,
                         testing::Values(Lowered{kGpt, "p3.16xlarge:2", "data"},
                                         Lowered{kGpt, "p3.16xlarge:2", "zero3"},
                                         Lowered{kGpt, "p3.16xlarge:2", "megatron:tp=8,pp=1"},
                                         Lowered{kGpt, "p3.16xlarge:2", "megatron:tp=4,pp=2"},
                                         Lowered{kGpt, "p3.16xlarge:4", "megatron:tp=4,pp=2"},
                                         Lowered{kGpt, "p3.16xlarge:2", "pipeshard"}),
                         [](const auto& of) { return fmt::format("Case{}", of.index); });

}  // namespace
}  // namespace meshwright::program_flows_test
