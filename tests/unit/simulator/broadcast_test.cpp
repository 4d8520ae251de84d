// SPDX-License-Identifier: Apache-2.0
// One tile from a device to several others, along a chain of them.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "simulator/program/program_flows.h"
#include "simulator/report/step_report.h"
#include "tests/unit/network_fixture.h"
#include "tests/unit/planning_fixture.h"
#include "tests/unit/program_fixture.h"

namespace meshwright::broadcast_test {
namespace {

struct Scene {
  Program program;
  std::vector<DeviceId> in_cluster;
};

// Devices of the cluster that make a tile at once and send it, and to whom.
struct Sender {
  int from;
  std::vector<int> to;
  int bytes = 160;
};
Scene sending(const std::vector<Sender>& senders) {
  ProgramBuilder builder;
  std::vector<DeviceId> in_cluster;
  for (const Sender& sender : senders) {
    const StageId source = builder.stage();
    const int from = static_cast<int>(in_cluster.size());
    in_cluster.emplace_back(sender.from);
    const BufferId made = builder.buffer(source, "made", sender.bytes);
    const int makes = builder.executable(source, Phase::Forward, {}, {made});
    std::vector<int> sends;
    for (const int to : sender.to) {
      const StageId destination = builder.stage();
      const int device = static_cast<int>(in_cluster.size());
      in_cluster.emplace_back(to);
      const BufferId brought = builder.buffer(destination, "brought", sender.bytes);
      sends.push_back(builder.transfer(from, device, made, brought));
      const int reads = builder.executable(destination, Phase::Forward, {brought}, {});
      builder.on(device).exchange({}, {sends.back()}).run(reads).free({brought});
    }
    builder.on(from).run(makes).exchange(sends, {}).free({made});
  }
  return {std::move(builder.program), std::move(in_cluster)};
}

struct Mode {
  bool overlap;
  LinkDiscipline discipline;
};
constexpr Mode kModes[] = {{false, LinkDiscipline::Fluid},
                           {false, LinkDiscipline::Fifo},
                           {true, LinkDiscipline::Fluid},
                           {true, LinkDiscipline::Fifo}};

struct Ran {
  NetworkFlows network;
  ProgramGraph made;
  TaskTimes times;
  std::vector<double> arrivals;  // [transfer] seconds
};

// Computations take no time.
Ran ran(const Scene& scene, const Cluster& cluster, Broadcast broadcast, const Mode& mode) {
  Ran result;
  const Program& program = scene.program;
  const ProgramTimes times{std::vector<SimTime>(program.executables.size(), SimTime{0}),
                           std::vector<SimTime>(program.transfers.size(), SimTime{0})};
  std::vector<std::vector<Piece>> pieces;
  for (const StageExecutable& executable : program.executables) {
    Piece& piece = pieces.emplace_back().emplace_back();
    piece.kind = Piece::Kind::Compute;
    for (const StageExecutable::Slot& slot : executable.slots) {
      (slot.output ? piece.writes : piece.reads).push_back(*slot.buffer);
      if (slot.output) piece.memory_at_end += static_cast<std::int64_t>(slot.local.bytes().si());
    }
    piece.memory_at_begin = piece.memory_at_end;
  }
  result.network = program_flows(program, scene.in_cluster, Topology(cluster), &pieces, broadcast);
  ProgramGraphOptions options;
  options.flows = &result.network.flows;
  (mode.overlap ? options.overlap : options.in_order) = &pieces;
  options.name_tasks = true;
  result.made = program_graph(program, times, options);
  check_task_graph(result.made.graph);
  Conditions conditions;
  conditions.discipline = mode.discipline;
  result.times = run_tasks(result.made.graph, conditions).times;
  result.arrivals.resize(program.transfers.size());
  for (std::size_t t = 0; t < result.made.of.size(); ++t)
    if (result.made.of[t].transfer >= 0)
      result.arrivals[static_cast<std::size_t>(result.made.of[t].transfer)] = to_seconds(result.times.end[t]).si();
  return result;
}
std::vector<double> arrivals(const Scene& scene, const Cluster& cluster, Broadcast broadcast, const Mode& mode) {
  return ran(scene, cluster, broadcast, mode).arrivals;
}
using Times = std::vector<double>;

// 3 + 1 + 1 s of latency and 160 bytes at 20 byte/s, instead of 3 s and 480 bytes.
TEST(Broadcast, TakesATileOverTheSourcesNicOnce) {
  const Scene scene = sending({{0, {3, 4, 5}}});
  const Cluster cluster = slow_cluster(2, 3);
  for (const Mode& mode : kModes) {
    SCOPED_TRACE(
        fmt::format("overlap {}, {}", mode.overlap, mode.discipline == LinkDiscipline::Fifo ? "fifo" : "fluid"));
    EXPECT_EQ(arrivals(scene, cluster, Broadcast::Chain, mode), (Times{13, 13, 13}));
    const Times fair = {27, 27, 27}, in_turn = {11, 19, 27};
    EXPECT_EQ(arrivals(scene, cluster, Broadcast::None, mode),
              mode.discipline == LinkDiscipline::Fluid ? fair : in_turn);
  }
}

// The NIC is shared by two tiles, which it carries once each: 5 s of latency and 320 bytes.
TEST(Broadcast, LoadsSharedLinksOncePerTile) {
  const Scene scene = sending({{0, {3, 4, 5}}, {1, {3, 4, 5}}});
  const Cluster cluster = slow_cluster(2, 3);
  const auto most_carried = [&](const Ran& run) {
    Bytes most(0.0);
    for (const LinkUse& use : link_use(run.made.graph, run.times, LinkDiscipline::Fluid))
      most = std::max(most, use.carried);
    return most.si();
  };
  for (const bool overlap : {false, true}) {
    const Mode fluid{overlap, LinkDiscipline::Fluid}, fifo{overlap, LinkDiscipline::Fifo};
    const Ran once = ran(scene, cluster, Broadcast::Chain, fluid);
    EXPECT_EQ(once.arrivals, Times(6, 21));
    EXPECT_NEAR(most_carried(once), 2 * 160, 1e-6);
    EXPECT_NEAR(most_carried(ran(scene, cluster, Broadcast::None, fluid)), 6 * 160, 1e-6);
    EXPECT_EQ(arrivals(scene, cluster, Broadcast::Chain, fifo), (Times{13, 13, 13, 21, 21, 21}));
  }
}

// To device 1 of the source's host, then to 2 and 3, then to 4, in whatever order they are sent: 1 + 3 + 1 + 3 s.
TEST(Broadcast, GoesFromHostToHostOnce) {
  for (const std::vector<int>& to : {std::vector<int>{4, 1, 2, 3}, {1, 2, 3, 4}, {3, 4, 2, 1}})
    EXPECT_EQ(arrivals(sending({{0, to}}), slow_cluster(3, 2), Broadcast::Chain, kModes[0]), Times(4, 16));
}

// From host 3 to 4, and around to 0 and 2: the leaf of hosts 2 and 3 sends up (10 byte/s) once.
TEST(Broadcast, GoesFromLeafToLeafOnce) {
  const Cluster cluster = slow_cluster(6, 1, R"({"leaves": {"hosts_per_leaf": 2, "oversubscription": 4}})");
  EXPECT_EQ(arrivals(sending({{3, {0, 2, 4}}}), cluster, Broadcast::Chain, kModes[0]), Times(3, 9 + 16));
}

// From device 3 to 0, to 2 beside it, and to 4: what their PCIe switch sends up (50 byte/s) it sends for two hops.
TEST(Broadcast, CountsALinkForEachHopThatCrossesIt) {
  const Cluster cluster = slow_cluster(
      1, 6, R"({"groups": [{"nvlink": "none", "pcie": {"devices_per_switch": 2, "bandwidth_bytes_per_s": 50}}]})");
  EXPECT_EQ(arrivals(sending({{3, {0, 4}, 100}}), cluster, Broadcast::Chain, kModes[0]), Times(2, 2 + 2));
  EXPECT_EQ(arrivals(sending({{3, {0, 2, 4}, 100}}), cluster, Broadcast::Chain, kModes[0]), Times(3, 3 + 4));
}

TEST(Broadcast, ChangesNothingForASingleDestination) {
  const Scene scene = sending({{0, {3}}, {1, {4}}, {2, {5}}});
  for (const Mode& mode : kModes) {
    const Ran with = ran(scene, slow_cluster(2, 3), Broadcast::Chain, mode);
    const Ran without = ran(scene, slow_cluster(2, 3), Broadcast::None, mode);
    EXPECT_EQ(with.times.begin, without.times.begin);
    EXPECT_EQ(with.times.end, without.times.end);
    EXPECT_EQ(with.network.flows.along, (std::vector<int>{0, 1, 2}));
    EXPECT_TRUE(without.network.flows.along.empty());
  }
}

// What differs in one thing is another tile; the last two, and the copy on the device itself, differ in none that
// counts.
TEST(Broadcast, TellsTilesApart) {
  ProgramBuilder builder(2);
  const StageId source = builder.stage(), destination = builder.stage(2);
  const BufferId made = builder.buffer(source, "made", 80), other = builder.buffer(source, "other", 80);
  const BufferId copied = builder.buffer(source, "copied", 80);
  const BufferId brought = builder.buffer(destination, "brought", 80), more = builder.buffer(destination, "more", 80);
  const int tile = builder.transfer(0, 1, made, brought), of_other = builder.transfer(0, 2, other, brought);
  const int of_another_microbatch = builder.transfer(0, 2, made, brought, 1);
  const int part = builder.transfer(0, 2, made, brought), shifted = builder.transfer(0, 2, made, brought);
  const int copy = builder.transfer(0, 0, made, copied), later = builder.transfer(0, 2, made, brought);
  const int same = builder.transfer(0, 2, made, brought), again = builder.transfer(0, 1, made, more);
  Program& program = builder.program;
  const auto transfer = [&](int t) -> Transfer& { return program.transfers[static_cast<std::size_t>(t)]; };
  for (const int t : {part, shifted}) {
    transfer(t).extent = {10};
    transfer(t).bytes = Bytes(40);
  }
  transfer(shifted).source_offset = {10};
  builder.on(0).exchange({copy, tile, of_other, of_another_microbatch, part, shifted, same, again}, {copy});
  builder.on(0).exchange({later}, {});
  const std::vector<DeviceId> in_cluster = {DeviceId(0), DeviceId(2), DeviceId(3)};
  const NetworkFlows network =
      program_flows(program, in_cluster, Topology(slow_cluster(2, 2)), nullptr, Broadcast::Chain);
  std::vector<int> along(program.transfers.size());
  for (std::size_t t = 0; t < along.size(); ++t) along[t] = static_cast<int>(t);
  along[static_cast<std::size_t>(same)] = along[static_cast<std::size_t>(again)] = tile;
  EXPECT_EQ(network.flows.along, along);
  // 3 s to device 2, 1 s from there to 3, once each.
  const SharedFlow& carried = network.flows.transfer[static_cast<std::size_t>(tile)];
  EXPECT_EQ(to_seconds(carried.latency), Seconds(4));
  EXPECT_EQ(to_seconds(carried.duration), Seconds(4 + 4));
}

// Another tile, of 320 bytes, is on its way to device 4: alone from 3 to 4 s (20 bytes), at half the rate until the
// broadcast is over at 20 s (160 bytes), then for 7 s. What goes along on that channel comes behind it.
TEST(Broadcast, KeepsTheOrderOfAChannel) {
  ProgramBuilder builder;
  const StageId source = builder.stage();
  std::vector<StageId> to;
  for (int i = 0; i < 2; ++i) to.push_back(builder.stage());
  const BufferId large = builder.buffer(source, "large", 320), made = builder.buffer(source, "made", 160);
  const BufferId at_3 = builder.buffer(to[0], "brought", 160), at_4 = builder.buffer(to[1], "brought", 160);
  const BufferId large_at_4 = builder.buffer(to[1], "large", 320);
  const int makes = builder.executable(source, Phase::Forward, {}, {large, made});
  const int first = builder.transfer(0, 2, large, large_at_4);
  const int near = builder.transfer(0, 1, made, at_3), far = builder.transfer(0, 2, made, at_4);
  builder.on(0).run(makes).exchange({first, near, far}, {}).free({large, made});
  builder.on(1).exchange({}, {near}).free({at_3});
  builder.on(2).exchange({}, {first, far}).free({large_at_4, at_4});
  const Scene scene{std::move(builder.program), {DeviceId(0), DeviceId(3), DeviceId(4)}};
  for (const bool overlap : {false, true})
    EXPECT_EQ(arrivals(scene, slow_cluster(2, 3), Broadcast::Chain, {overlap, LinkDiscipline::Fluid}),
              (Times{27, 20, 27}));
}

// With overlap what is sent goes when it has been sent: at 13 s from the source. At the end nothing is left.
TEST(Broadcast, FreesASentTileAtTheEndOfItsChain) {
  const Scene scene = sending({{0, {3, 4, 5}}});
  const Ran run = ran(scene, slow_cluster(2, 3), Broadcast::Chain, {true, LinkDiscipline::Fluid});
  const auto points = memory_over_time(run.made.graph, run.times);
  ASSERT_EQ(points[0].size(), 2u);
  EXPECT_EQ(points[0][0].bytes, 160);
  EXPECT_EQ(points[0][1].bytes, 0);
  EXPECT_EQ(to_seconds(points[0][1].time), Seconds(13));
  EXPECT_EQ(run.times.peak_memory, (std::vector<std::int64_t>{160, 160, 160, 160}));
}

// Two devices that hold the same feed eight, on both hosts, which need all of it: four each. The gradients come back
// from one to one. In order memory is check_program's to the byte, whoever carries the tiles.
TEST(Broadcast, OfAPlanBringsATileToAllAtOnce) {
  const HandPlan made = by_hand("mlp:layers=2,hidden=4096", "p3.16xlarge:2", {.batch = 4096, .microbatches = 4},
                                {{"", {2, 1}, {}}, {"blk0.down", {8, 1}, {}}});
  const ProgramTimes times = program_costs(made.program, *made.costs).times;
  const Topology topology(made.plan.cluster);
  std::vector<DeviceId> in_cluster;
  for (int device = 6; device < 16; ++device) in_cluster.emplace_back(device);
  for (const bool overlap : {false, true}) {
    SCOPED_TRACE(overlap);
    const auto pieces =
        cut_executables(made.program, times, *made.costs, overlap ? CutOptions{} : CutOptions{Bytes(0.0), 0});
    ProgramGraphOptions options;
    (overlap ? options.overlap : options.in_order) = &pieces;
    options.steps = 2;
    options.name_tasks = true;
    std::vector<SimTime> steps;
    for (const Broadcast broadcast : {Broadcast::None, Broadcast::Chain}) {
      const NetworkFlows network = program_flows(made.program, in_cluster, topology, &pieces, broadcast);
      options.flows = &network.flows;
      const ProgramGraph graph = program_graph(made.program, times, options);
      check_task_graph(graph.graph);
      Conditions slow;
      slow.compute_slowdown = 2.0;
      for (const Conditions& conditions : {Conditions{}, Conditions{LinkDiscipline::Fifo}, slow}) {
        const TaskTimes run = run_tasks(graph.graph, conditions).times;
        steps.push_back(run.step);
        for (std::size_t d = 0; d < run.peak_memory.size() && !overlap; ++d)
          EXPECT_EQ(Bytes(static_cast<double>(run.peak_memory[d])) + made.program.persistent_bytes[d],
                    made.check.peak_memory[d]);
        if (broadcast == Broadcast::None) continue;
        int along = 0;
        std::map<std::pair<std::size_t, int>, std::set<std::int64_t>> ends_of;  // step, leader
        for (std::size_t t = 0; t < graph.of.size(); ++t) {
          const int transfer = graph.of[t].transfer;
          if (transfer < 0) continue;
          const std::size_t step = static_cast<std::int32_t>(t) >= graph.first_of_step[1] ? 1 : 0;
          const int leader = network.flows.along[static_cast<std::size_t>(transfer)];
          along += static_cast<int>(leader != transfer);
          ends_of[{step, leader}].insert(run.end[t].ps);
        }
        EXPECT_EQ(along, 2 * 4 * 6);
        for (const auto& [tile, moments] : ends_of) EXPECT_EQ(moments.size(), 1u);
      }
    }
    for (std::size_t i = 0; i < 3; ++i) EXPECT_LT(steps[3 + i], steps[i]);
  }
}

}  // namespace
}  // namespace meshwright::broadcast_test
