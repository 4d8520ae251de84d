// SPDX-License-Identifier: Apache-2.0
// The messages of a Program as flows over the links of its cluster's network.
#pragma once

#include <vector>

#include "core/mesh/topology.h"
#include "simulator/program_graph.h"

namespace meshwright {

struct NetworkFlows {
  ProgramFlows flows;
  std::vector<NetworkLinkId> link_of;  // [link of flows.links] what it is in the topology
};

// A message takes alpha + beta * bytes of its route alone; messages of one channel (ordered pair of devices) come one
// after the other. `in_cluster` [device of the Program]: its number in the cluster. Throws InputError where no route
// leads from one device to another. REQUIRES: a number of the topology's cluster for every device.
[[nodiscard]] NetworkFlows program_flows(const Program& program, const std::vector<DeviceId>& in_cluster,
                                         const Topology& topology);

}  // namespace meshwright
