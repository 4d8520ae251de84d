// SPDX-License-Identifier: Apache-2.0
// Messages and collectives over the links of a network: alone as long as the cost model says, together as the links
// allow.
#include "simulator/program/flows.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "core/base/errors.h"
#include "core/base/random.h"
#include "costmodel/cost_models.h"
#include "tests/unit/network_fixture.h"

namespace meshwright::flows_test {
namespace {

std::vector<DeviceId> devices(int first, int count, int stride = 1) {
  std::vector<DeviceId> ids;
  for (int i = 0; i < count; ++i) ids.emplace_back(first + i * stride);
  return ids;
}

constexpr CollectiveKind kKinds[] = {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter,
                                     CollectiveKind::AllGather, CollectiveKind::AllToAll};

// Ends of flows that all begin at 0, each on a stream of its own, in seconds.
std::vector<double> ends_over(const LinkedFlows& linked) {
  TaskGraph graph;
  graph.devices = 1;
  graph.links = linked.links;
  for (const FlowOnLinks& flow : linked.flows) {
    const int number = static_cast<int>(graph.classes.size());
    TaskClass own{.kind = TaskKind::Message, .duration = flow.duration, .route = flow.route, .latency = flow.latency};
    graph.classes.push_back(own);
    graph.streams.push_back({Stream::Kind::Channel, DeviceId(0), DeviceId(0)});
    graph.add(TaskClassId(number), StreamId(number), MicrobatchId(0), {});
  }
  check_task_graph(graph);
  std::vector<double> ends;
  for (const SimTime end : run_by_events(graph).end) ends.push_back(to_seconds(end).si());
  return ends;
}

std::vector<double> ends_together(const Topology& topology, const std::vector<Flow>& flows) {
  std::vector<int> streams(flows.size());
  std::iota(streams.begin(), streams.end(), 0);
  return ends_over(link_flows(topology, flows, streams));
}

double last(const std::vector<double>& ends) { return *std::max_element(ends.begin(), ends.end()); }

// --- alone ---

TEST(MessageFlow, AloneTakesWhatItsRouteSays) {
  const Topology topology(slow_cluster(2, 2));
  Routes routes(topology);
  EXPECT_DOUBLE_EQ(message_flow(routes, {DeviceId(0), DeviceId(1), Bytes(200)}).duration().si(), 1 + 200.0 / 100);
  EXPECT_DOUBLE_EQ(message_flow(routes, {DeviceId(1), DeviceId(2), Bytes(200)}).duration().si(), 3 + 200.0 / 20);
}

TEST(RingFlow, AloneTakesWhatTheCostModelSaysOfItsCollective) {
  const Cluster cluster = slow_cluster(4, 6);
  const Topology topology(cluster);
  Routes routes(topology);
  const auto costs = make_analytic_cost_model(cluster);
  for (const CollectiveKind kind : kKinds)
    for (const int n : {1, 2, 3, 6}) {
      const double cost = costs->collective(kind, Bytes(1e4), {n, 1, cluster.only().within_host, {}}).time.si();
      const Flow flow = ring_flow(routes, kind, devices(6, n), Bytes(1e4));
      EXPECT_NEAR(flow.duration().si(), cost, 1e-9 * cost) << name_of(kind) << " " << n;
      EXPECT_EQ(flow.links.size(), n == 1 ? 0u : 2u * static_cast<std::size_t>(n));  // out and in of each device
    }
  // One device on each of n hosts, which has the host's network to itself.
  for (const CollectiveKind kind : kKinds)
    for (const int n : {2, 3, 4}) {
      const double cost = costs->collective(kind, Bytes(1e4), {1, n, {}, cluster.only().between_hosts}).time.si();
      EXPECT_NEAR(ring_flow(routes, kind, devices(0, n, 6), Bytes(1e4)).duration().si(), cost, 1e-9 * cost);
    }
}

TEST(RingFlow, EntersEachHostOnceWhateverTheOrderOfTheDevices) {
  const Topology topology(slow_cluster(2, 2));
  Routes routes(topology);
  const Flow in_order = ring_flow(routes, CollectiveKind::AllReduce, devices(0, 4), Bytes(400));
  const std::vector<DeviceId> zigzag = {DeviceId(0), DeviceId(2), DeviceId(1), DeviceId(3)};
  EXPECT_EQ(ring_flow(routes, CollectiveKind::AllReduce, zigzag, Bytes(400)).links, in_order.links);
  // 2 * 3 steps of 100 bytes, as fast as between hosts.
  EXPECT_DOUBLE_EQ(in_order.duration().si(), 6 * (3 + 100.0 / 20));
}

TEST(RingFlow, OfAnAllToAllTakesAsLongAsTheNicThatAllDevicesShare) {
  const Topology topology(slow_cluster(2, 2));
  Routes routes(topology);
  // 3 steps; of each of a host's 2 devices 2 parts of 100 bytes leave it.
  EXPECT_DOUBLE_EQ(ring_flow(routes, CollectiveKind::AllToAll, devices(0, 4), Bytes(400)).duration().si(),
                   3 * 3 + 2 * 2 * 100.0 / 20);
}

TEST(RingFlow, OfAnAllToAllTakesAsLongAsTheUplinkThatIsBusierThanTheNarrowerNics) {
  const Topology topology(slow_cluster(4, 1, R"({"leaves": {"hosts_per_leaf": 2, "oversubscription": 1.6}})"));
  Routes routes(topology);
  // NICs: 3 parts at 20 byte/s; uplinks: 2 hosts' 2 parts for the other leaf at 2 * 20 / 1.6 = 25.
  const Flow flow = ring_flow(routes, CollectiveKind::AllToAll, devices(0, 4), Bytes(400));
  EXPECT_DOUBLE_EQ(flow.duration().si(), 3 * 3 + 4 * 100.0 / 25);
  EXPECT_DOUBLE_EQ(flow.beta.si(), 1.0 / 20);
}

TEST(HierarchicalFlows, AloneTakeWhatTheCostModelSaysOfTheAxis) {
  const Cluster cluster = slow_cluster(3, 4);
  const Topology topology(cluster);
  Routes routes(topology);
  const auto costs = make_analytic_cost_model(cluster);
  const LogicalMesh mesh = make_logical_mesh(cluster, {3, 4}, {12});
  for (const CollectiveKind kind : kKinds) {
    const double cost = costs->collective(kind, Bytes(1.2e4), mesh.axes[0]).time.si();
    double simulated = 0;
    for (const std::vector<Flow>& phase : hierarchical_flows(routes, kind, devices(0, 12), Bytes(1.2e4)))
      simulated += last(ends_together(topology, phase));
    EXPECT_NEAR(simulated, cost, 1e-9 * cost) << name_of(kind);
  }
}

TEST(HierarchicalFlows, OfOneHostOrOneDevicePerHostAreOneRing) {
  const Topology topology(slow_cluster(3, 4));
  Routes routes(topology);
  for (const CollectiveKind kind : kKinds)
    for (const auto& group : {devices(4, 4), devices(1, 3, 4)}) {
      const auto phases = hierarchical_flows(routes, kind, group, Bytes(1200));
      ASSERT_EQ(phases.size(), 1u);
      ASSERT_EQ(phases[0].size(), 1u);
      EXPECT_EQ(phases[0][0].duration(), ring_flow(routes, kind, group, Bytes(1200)).duration());
    }
}

// [step] -> the message that each device sends in it, devices in order. In a ring the message of step k from device i
// waits for that of step k - 1 to device i; an all-to-all sends in step k to the (k + 1)-th device after it.
std::vector<std::vector<Message>> messages_of(CollectiveKind kind, const std::vector<DeviceId>& group, Bytes bytes) {
  const std::size_t n = group.size();
  std::vector<std::vector<Message>> steps((kind == CollectiveKind::AllReduce ? 2 : 1) * (n - 1));
  for (std::size_t k = 0; k < steps.size(); ++k) {
    const std::size_t ahead = kind == CollectiveKind::AllToAll ? k + 1 : 1;
    for (std::size_t i = 0; i < n; ++i)
      steps[k].push_back({group[i], group[(i + ahead) % n], bytes / static_cast<double>(n)});
  }
  return steps;
}

TEST(RingFlow, TakesAsLongAsItsMessagesStepByStep) {
  const Topology topology(slow_cluster(2, 5));
  Routes routes(topology);
  for (const CollectiveKind kind : kKinds)
    for (const auto& group : {devices(0, 5), devices(3, 2, 5)}) {
      double steps = 0;
      for (const std::vector<Message>& step : messages_of(kind, group, Bytes(1000))) {
        std::vector<Flow> flows;
        for (const Message& message : step) flows.push_back(message_flow(routes, message));
        EXPECT_EQ(flows.size(), group.size());
        steps += last(ends_together(topology, flows));
      }
      const double ring = ring_flow(routes, kind, group, Bytes(1000)).duration().si();
      EXPECT_NEAR(steps, ring, 1e-9 * ring) << name_of(kind);
    }
}

// --- which links are kept ---

TEST(LinkFlows, KeepsOnlyLinksThatSeveralStreamsCanFill) {
  const Topology topology(slow_cluster(2, 4));
  Routes routes(topology);
  const auto message = [&](int a, int b) { return message_flow(routes, {DeviceId(a), DeviceId(b), Bytes(100)}); };
  // Inside the hosts: each device sends to one other.
  const std::vector<Flow> apart = {message(0, 1), message(1, 2), message(4, 5)};
  EXPECT_TRUE(link_flows(topology, apart, std::vector<int>{0, 1, 2}).links.capacity.empty());
  // Out of host 0 two at once: its NIC, and that of host 1.
  const std::vector<Flow> out = {message(0, 4), message(1, 5), message(2, 3)};
  const LinkedFlows linked = link_flows(topology, out, std::vector<int>{0, 1, 2});
  ASSERT_EQ(linked.link_of.size(), 2u);
  EXPECT_EQ(to_text(topology.link(linked.link_of[0]).from), "NIC 0 of host 0");
  EXPECT_EQ(to_text(topology.link(linked.link_of[1]).to), "NIC 0 of host 1");
  EXPECT_DOUBLE_EQ(linked.links.capacity[0].si(), 20);
  EXPECT_EQ(linked.flows[0].route, linked.flows[1].route);
  EXPECT_EQ(linked.flows[2].route, TaskClass::kNoRoute);
  EXPECT_EQ(linked.flows[0].duration, to_sim_time(Seconds(3 + 100.0 / 20)));
  EXPECT_EQ(linked.flows[0].latency, to_sim_time(Seconds(3)));
  // On one channel they follow each other.
  EXPECT_TRUE(link_flows(topology, out, std::vector<int>{0, 0, 2}).links.capacity.empty());
}

TEST(LinkFlows, KeepsTheNarrowestLinkOfAFlowThatUsesASharedOne) {
  // Four NICs of 20 byte/s to an uplink of 60: three at once fit, four do not.
  const Topology topology(slow_cluster(2, 4, R"({"groups": [{"nics": {"per_host": 4, "bandwidth_bytes_per_s": 20}}],
                          "leaves": {"hosts_per_leaf": 1, "uplinks": 1, "uplink_bandwidth_bytes_per_s": 60}})"));
  Routes routes(topology);
  std::vector<Flow> flows;
  for (int d = 0; d < 3; ++d) flows.push_back(message_flow(routes, {DeviceId(d), DeviceId(4 + d), Bytes(120)}));
  EXPECT_TRUE(link_flows(topology, flows, std::vector<int>{0, 1, 2}).links.capacity.empty());
  flows.push_back(message_flow(routes, {DeviceId(3), DeviceId(7), Bytes(120)}));
  const LinkedFlows linked = link_flows(topology, flows, std::vector<int>{0, 1, 2, 3});
  EXPECT_EQ(linked.links.capacity.size(), 2u + 4u);  // up, down, and a NIC for each of four
  for (const std::vector<LinkId>& route : linked.links.routes) EXPECT_EQ(route.size(), 3u);
  for (const double end : ends_together(topology, flows)) EXPECT_NEAR(end, 3 + 120.0 / 15, 1e-9);
  flows.pop_back();
  for (const double end : ends_together(topology, flows)) EXPECT_NEAR(end, 3 + 120.0 / 20, 1e-9);
}

// Every link of the network, shared or not.
LinkedFlows all_links(const Topology& topology, const std::vector<Flow>& flows) {
  LinkedFlows linked;
  for (int l = 0; l < topology.links(); ++l) {
    const double beta = topology.link(NetworkLinkId(l)).cost.beta.si();
    linked.links.capacity.emplace_back(beta == 0 ? 1e12 : 1 / beta);
  }
  for (const Flow& flow : flows) {
    const int route = static_cast<int>(linked.links.routes.size());
    linked.flows.push_back({route, to_sim_time(flow.duration()), to_sim_time(flow.latency)});
    linked.links.routes.emplace_back();
    for (const NetworkLinkId link : flow.links) linked.links.routes.back().emplace_back(link.value);
  }
  return linked;
}

TEST(LinkFlows, LeavesOutOnlyLinksThatChangeNothing) {
  const Topology topology(slow_cluster(6, 4, R"({"groups": [{"nics": {"per_host": 2, "bandwidth_bytes_per_s": 12},
                                                "pcie": {"devices_per_switch": 2, "bandwidth_bytes_per_s": 18}}],
                                   "leaves": {"hosts_per_leaf": 2, "oversubscription": 2}, "hop_latency_s": 0.1})"));
  Routes routes(topology);
  Random random(7);
  int left_out = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<Flow> flows;
    const int messages = 2 + random.below(12);
    while (static_cast<int>(flows.size()) < messages) {
      const DeviceId a(random.below(24)), b(random.below(24));
      if (a != b) flows.push_back(message_flow(routes, {a, b, Bytes(1 + random.below(100))}));
    }
    flows.push_back(ring_flow(routes, CollectiveKind::AllReduce, devices(random.below(4), 6, 4), Bytes(60)));
    std::vector<int> streams(flows.size());
    std::iota(streams.begin(), streams.end(), 0);
    const LinkedFlows linked = link_flows(topology, flows, streams);
    std::set<NetworkLinkId> used;
    for (const Flow& flow : flows) used.insert(flow.links.begin(), flow.links.end());
    left_out += static_cast<int>(used.size() - linked.links.capacity.size());
    const std::vector<double> some = ends_over(linked), all = ends_over(all_links(topology, flows));
    for (std::size_t i = 0; i < flows.size(); ++i) ASSERT_NEAR(some[i], all[i], 1e-9) << round << " " << i;
    // Nothing ends before it would alone.
    for (std::size_t i = 0; i < flows.size(); ++i) EXPECT_GE(some[i], flows[i].duration().si() - 1e-9);
  }
  EXPECT_GT(left_out, 200 * 10);  // and they are most
}

TEST(LinkFlows, LeavesOutWhatHasNoBytes) {
  const Topology topology(slow_cluster(2, 2));
  Routes routes(topology);
  const std::vector<Flow> flows = {message_flow(routes, {DeviceId(0), DeviceId(2), Bytes(0)}),
                                   message_flow(routes, {DeviceId(1), DeviceId(3), Bytes(20)})};
  const LinkedFlows linked = link_flows(topology, flows, std::vector<int>{0, 1});
  EXPECT_EQ(linked.flows[0].route, TaskClass::kNoRoute);
  EXPECT_EQ(linked.flows[0].duration, to_sim_time(Seconds(3)));
  EXPECT_EQ(linked.flows[1].route, TaskClass::kNoRoute);
}

// --- together ---

TEST(FlowsTogether, OutOfAHostTakeWhatTheCostModelSaysOfConcurrentMessages) {
  const Cluster cluster = slow_cluster(2, 8);
  const Topology topology(cluster);
  Routes routes(topology);
  const auto costs = make_analytic_cost_model(cluster);
  for (const int k : {1, 2, 5, 8}) {
    std::vector<Flow> flows;
    for (int d = 0; d < k; ++d) flows.push_back(message_flow(routes, {DeviceId(d), DeviceId(15 - d), Bytes(100)}));
    const double cost = costs->transfer(Bytes(100), true, k).time.si();
    for (const double end : ends_together(topology, flows)) EXPECT_NEAR(end, cost, 1e-9 * cost);
  }
}

TEST(FlowsTogether, BothWaysDoNotHinderEachOther) {
  const Topology topology(slow_cluster(2, 1));
  Routes routes(topology);
  const std::vector<Flow> flows = {message_flow(routes, {DeviceId(0), DeviceId(1), Bytes(100)}),
                                   message_flow(routes, {DeviceId(1), DeviceId(0), Bytes(100)})};
  EXPECT_EQ(ends_together(topology, flows), (std::vector<double>{8, 8}));
}

TEST(FlowsTogether, ACollectiveAndATransferOnOneNicSlowEachOther) {
  const Topology topology(slow_cluster(2, 2));
  Routes routes(topology);
  // Alone: the ring 2 * 3 s of latency, then 80 bytes at 20 byte/s until 10; the message 3 s, then 160 bytes until 11.
  const Flow ring = ring_flow(routes, CollectiveKind::AllReduce, devices(0, 2, 2), Bytes(80));
  const Flow message = message_flow(routes, {DeviceId(1), DeviceId(3), Bytes(160)});
  EXPECT_DOUBLE_EQ(ring.duration().si(), 6 + 80.0 / 20);
  EXPECT_DOUBLE_EQ(message.duration().si(), 3 + 160.0 / 20);
  // The message alone from 3 to 6 (60 bytes), both at 10 byte/s until the ring's 80 bytes are over at 14 (140 bytes),
  // the rest of the message at 20 byte/s.
  const std::vector<double> ends = ends_together(topology, {ring, message});
  EXPECT_NEAR(ends[0], 14, 1e-9);
  EXPECT_NEAR(ends[1], 15, 1e-9);
}

TEST(FlowsTogether, OversubscriptionHalvesWhatLeavesALeafWhenAllItsHostsSend) {
  const auto all_out = [](const char* network) {
    const Topology topology(slow_cluster(8, 2, network));
    Routes routes(topology);
    std::vector<Flow> flows;  // each host of leaf 0 to one of leaf 1
    for (int host = 0; host < 4; ++host)
      flows.push_back(message_flow(routes, {DeviceId(2 * host), DeviceId(2 * (host + 4)), Bytes(100)}));
    return ends_together(topology, flows);
  };
  for (const double end : all_out(R"({"leaves": {"hosts_per_leaf": 4}})")) EXPECT_NEAR(end, 3 + 100.0 / 20, 1e-9);
  for (const double end : all_out(R"({"leaves": {"hosts_per_leaf": 4, "oversubscription": 2}})"))
    EXPECT_NEAR(end, 3 + 100.0 / (20 / 2), 1e-9);
  for (const double end : all_out(R"({"leaves": {"hosts_per_leaf": 4, "oversubscription": 8}})"))
    EXPECT_NEAR(end, 3 + 100.0 / (20.0 / 8), 1e-9);
}

TEST(FlowsTogether, InsideALeafDoNotFeelItsOversubscription) {
  const Topology topology(slow_cluster(8, 1, R"({"leaves": {"hosts_per_leaf": 4, "oversubscription": 8}})"));
  Routes routes(topology);
  std::vector<Flow> flows;
  for (int host = 0; host < 4; ++host)
    flows.push_back(message_flow(routes, {DeviceId(host), DeviceId((host + 1) % 4), Bytes(100)}));
  for (const double end : ends_together(topology, flows)) EXPECT_NEAR(end, 3 + 100.0 / 20, 1e-9);
}

TEST(FlowsTogether, OfDevicesWithNicsOfTheirOwnDoNotShare) {
  const Topology topology(
      slow_cluster(2, 2, R"({"groups": [{"nics": {"per_host": 2, "bandwidth_bytes_per_s": 10}}]})"));
  Routes routes(topology);
  const std::vector<Flow> flows = {message_flow(routes, {DeviceId(0), DeviceId(2), Bytes(100)}),
                                   message_flow(routes, {DeviceId(1), DeviceId(3), Bytes(100)})};
  EXPECT_EQ(ends_together(topology, flows), (std::vector<double>{13, 13}));
}

}  // namespace
}  // namespace meshwright::flows_test
