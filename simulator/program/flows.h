// SPDX-License-Identifier: Apache-2.0
// Messages and collectives as flows over the links of a Topology, and which of these links a TaskGraph has to know.
//
// A collective of B bytes over n devices can be
//   one cost      fixed_flow: a time from a CostModel, on no link
//   a ring        ring_flow: one flow over all links of the ring at once. An all-reduce has 2 (n-1)/n B on each link
//                 and 2 (n-1) latencies, the others half of both. Patarasuk, Yuan: Bandwidth optimal all-reduce
//                 algorithms for clusters of workstations (J. Parallel Distrib. Comput. 69, 2009)
//   two trees     tree_flow: an all-reduce up and down two binary trees of hosts, half of B over each, with chains
//                 inside the hosts; at most 2 B on each device's links, 2 (devices per host - 1 + log2 hosts)
//                 latencies. Sanders, Speck, Träff: Two-tree algorithms for full bandwidth broadcast, reduction and
//                 scan (Parallel Computing 35, 2009); NCCL's tree algorithm
//   hierarchical  hierarchical_flows: phases of rings that run at the same time, inside the hosts and across them, as
//                 hierarchical_collective (costmodel/collectives.cpp) counts them
//   messages      messages_of: step by step
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
  std::vector<NetworkLinkId> links;  // without repetition
  Seconds latency{0.0};              // before the first byte is on a link
  Bytes bytes{0.0};                  // on each link
  SecondsPerByte beta{0.0};          // of the narrowest link
  // Alone.
  [[nodiscard]] Seconds duration() const { return latency + beta * bytes; }
};

[[nodiscard]] Flow fixed_flow(Seconds duration);
[[nodiscard]] Flow message_flow(Routes& routes, const Message& message);

// `bytes` of a collective is what CostModel::collective takes: the whole tensor of the group. Devices are different
// ones, at least one, in any order: rings and trees go by their numbers, so that they enter and leave each host, and
// each leaf, once.
//
// As the devices of one step send at the same time, its latency is the largest among them. An all-to-all sends to each
// other device directly, and loads links between switches more than a ring does: ring_flow takes as long as the busiest
// link does, and counts on all links what it has on the narrowest. That is exact where the narrowest is the busiest.
[[nodiscard]] Flow ring_flow(Routes& routes, CollectiveKind kind, std::vector<DeviceId> devices, Bytes bytes);
[[nodiscard]] Flow tree_flow(Routes& routes, std::vector<DeviceId> devices, Bytes bytes);  // of an all-reduce
// [phase] -> what runs at the same time in it; each phase begins when all of the one before have ended. Of one phase
// where all devices are on one host, or each on another. REQUIRES: as many devices on each of the hosts.
[[nodiscard]] std::vector<std::vector<Flow>> hierarchical_flows(Routes& routes, CollectiveKind kind,
                                                                std::vector<DeviceId> devices, Bytes bytes);
// [step] -> the message that each device sends, devices in order. Ring: the message of step k from device i waits for
// that of step k - 1 to device i. An all-to-all sends what it had from the start: in step k to the (k + 1)-th device
// after it.
[[nodiscard]] std::vector<std::vector<Message>> messages_of(CollectiveKind kind, std::vector<DeviceId> devices,
                                                            Bytes bytes);

// What flows take that begin together and share links fairly. REQUIRES: they are alike, as those of one phase are: of
// one latency and as many bytes, and none waits for links that others leave free.
[[nodiscard]] Seconds duration_together(const Topology& topology, std::span<const Flow> flows);

// What a TaskClass of the flow has: see there.
struct FlowOnLinks {
  int route = TaskClass::kNoRoute;
  SimTime duration{0}, latency{0};
};
struct LinkedFlows {
  SharedLinks links;
  std::vector<NetworkLinkId> link_of;  // [link of `links`] what it is in the topology
  std::vector<FlowOnLinks> flows;      // [flow]
};
// `streams[i]` tells which flows never run at the same time: those with the same number (a channel; a device's
// communication). Kept are the links on which flows of several streams would together be faster than the link is; a
// flow that uses one keeps its own narrowest link, too, as that bounds its rate. All others only tell how long a flow
// takes alone, and it has no route where none is left. Under LinkDiscipline::Fluid this changes no time; under Fifo
// flows do not queue for links that they cannot fill.
[[nodiscard]] LinkedFlows link_flows(const Topology& topology, std::span<const Flow> flows,
                                     std::span<const int> streams);

}  // namespace meshwright
