// SPDX-License-Identifier: Apache-2.0
// Messages and collectives as flows over the links of a Topology, and which of these links a TaskGraph has to know.
//
// A collective of B bytes over n devices can be
//   a ring        ring_flow: one flow over all links of the ring at once. An all-reduce has 2 (n-1)/n B on each link
//                 and 2 (n-1) latencies, the other kinds half of both. Patarasuk, Yuan: Bandwidth optimal all-reduce
//                 algorithms for clusters of workstations (J. Parallel Distrib. Comput. 69, 2009)
//   hierarchical  hierarchical_flows: phases of rings that run at the same time, inside the hosts and across them, as
//                 hierarchical_collective (costmodel/collectives.cpp) counts them
#pragma once

#include <span>
#include <vector>

#include "core/mesh/topology.h"
#include "core/sharding/cost_model.h"
#include "simulator/engine/task_graph.h"

namespace meshwright {

struct Message {
  DeviceId source, destination;
  Bytes bytes;
};

// Bytes that are on several links at the same time, at one rate.
struct Flow {
  std::vector<NetworkLinkId> links;  // each once
  Seconds latency{0.0};              // before the first byte is on a link
  Bytes bytes{0.0};                  // on each link
  SecondsPerByte beta{0.0};          // of the narrowest link
  // While no other flow uses the links.
  [[nodiscard]] Seconds duration() const { return latency + beta * bytes; }
};

[[nodiscard]] Flow message_flow(Routes& routes, const Message& message);

// `bytes` of a collective is what CostModel::collective takes: the whole tensor of the group. REQUIRES: at least one
// device, and none twice. Their order does not matter: a ring goes by device number, so that it enters and leaves each
// host, and each leaf switch, once.
//
// The devices of one step send at the same time, so the step's latency is the largest of theirs. In an all-to-all each
// device sends to every other one directly, which loads links between switches more than a ring does: ring_flow takes
// as long as the busiest link, and counts the bytes of the narrowest link on all of them. That is exact where the
// narrowest link is the busiest.
[[nodiscard]] Flow ring_flow(Routes& routes, CollectiveKind kind, std::vector<DeviceId> devices, Bytes bytes);
// [phase] -> the flows that run at the same time; a phase begins when all flows of the phase before have ended. There
// is one phase where all devices are on one host, or each is on another host. REQUIRES: each host has as many of the
// devices.
[[nodiscard]] std::vector<std::vector<Flow>> hierarchical_flows(Routes& routes, CollectiveKind kind,
                                                                std::vector<DeviceId> devices, Bytes bytes);

// The members of a TaskClass that a flow sets.
struct FlowOnLinks {
  int route = TaskClass::kNoRoute;
  SimTime duration{0}, latency{0};
};
struct LinkedFlows {
  SharedLinks links;
  std::vector<NetworkLinkId> link_of;  // [link of `links`] what it is in the topology
  std::vector<FlowOnLinks> flows;      // [flow]
};
// Flows with the same number in `streams` never run at the same time (a channel; a device's communication). A link is
// kept if flows of several streams together could exceed its rate. A flow that uses such a link also keeps its own
// narrowest link, which bounds its rate. The other links matter only for how long a flow takes alone; a flow with no
// kept link has no route. Under LinkDiscipline::Fluid leaving links out changes no time; under Fifo flows do not queue
// for links that they cannot fill.
[[nodiscard]] LinkedFlows link_flows(const Topology& topology, std::span<const Flow> flows,
                                     std::span<const int> streams);

}  // namespace meshwright
