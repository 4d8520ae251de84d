// SPDX-License-Identifier: Apache-2.0
// The messages and collectives of a Program as flows over the links of its cluster's network.
//
// Collectives. What one takes alone stays what the cost model says; the network tells which links it uses and for how
// much of that time. Along a mesh axis it is, for each group of devices, a ring (simulator/program/flows.h); where the
// group is several devices on each of several hosts, the rings across hosts of its hierarchical form. Groups of one
// axis that use a common link are one flow, and begin together, as their cost counts them: each at its share of the
// link. The flow is on the links that carry at least half as many bytes as the one that takes longest, all at the rate
// of the narrowest of them; the bytes come last, and all time before them (latencies, phases inside hosts, what a
// measured collective takes longer) is its latency. One whose cost is below what its bytes take is on its links
// throughout.
//
// Broadcasts. A tile that one Exchange of a device sends to several others can go once along a chain of them, each
// passing on what has come so far in pieces too small to count (Zhuang et al.: On optimizing the communication of model
// parallelism, MLSys 2023): all have it after the latencies of all hops and the bytes over the narrowest link. The
// chain visits the devices of the source's host first, then host by host from there on and around, so that it leaves
// no host and no leaf twice; those of one host in the order of their numbers. One flow is on the links of all hops and
// takes as long as the busiest of them does, where a link that two hops cross in one direction carries the bytes twice;
// all its links then count the bytes that take so long on the narrowest, as those of ring_flow do. It is a message of
// the first transfer's two devices: shares of devices and slow-downs (Conditions) do not see that others pass it on.
#pragma once

#include <vector>

#include "core/mesh/topology.h"
#include "simulator/program/program_graph.h"

namespace meshwright {

struct NetworkFlows {
  ProgramFlows flows;
  std::vector<NetworkLinkId> link_of;  // [link of flows.links] what it is in the topology
};

// For transfers from one device in one Exchange that read the same part of the same buffer and microbatch.
enum class Broadcast {
  None,   // each is a message of its own
  Chain,  // the first is the message that carries the tile to all their devices, the others go along (ProgramFlows)
};

// A message takes alpha + beta * bytes of its route alone; messages of one channel (ordered pair of devices) come one
// after the other. `in_cluster` [device of the Program]: its number in the cluster. `pieces`: those of the options of
// the graph (overlap, or in_order) that the flows are for; null: collectives are on no link. Throws InputError where no
// route leads from one device to another. REQUIRES: a number of the topology's cluster for every device.
[[nodiscard]] NetworkFlows program_flows(const Program& program, const std::vector<DeviceId>& in_cluster,
                                         const Topology& topology,
                                         const std::vector<std::vector<Piece>>* pieces = nullptr,
                                         Broadcast broadcast = Broadcast::None);

}  // namespace meshwright
