// SPDX-License-Identifier: Apache-2.0
#include "simulator/program_flows.h"

#include <map>

#include "core/base/errors.h"
#include "simulator/flows.h"

namespace meshwright {

NetworkFlows program_flows(const Program& program, const std::vector<DeviceId>& in_cluster, const Topology& topology) {
  MW_CHECK(in_cluster.size() == program.devices.size(), "{} devices of a cluster for a program of {}",
           in_cluster.size(), program.devices.size());
  const Channels channels = find_channels(program);
  Routes routes(topology);
  // The messages of every microbatch are alike: each kind on a channel once.
  std::map<std::pair<int, double>, std::size_t> known;
  std::vector<Flow> flows;
  std::vector<int> streams;
  std::vector<std::size_t> flow_of;
  for (std::size_t t = 0; t < program.transfers.size(); ++t) {
    const Transfer& transfer = program.transfers[t];
    const auto [it, is_new] = known.try_emplace({channels.of_transfer[t], transfer.bytes.si()}, flows.size());
    flow_of.push_back(it->second);
    if (!is_new) continue;
    flows.push_back(message_flow(
        routes, {in_cluster[transfer.source.index()], in_cluster[transfer.destination.index()], transfer.bytes}));
    streams.push_back(channels.of_transfer[t]);
  }
  LinkedFlows linked = link_flows(topology, flows, streams);
  NetworkFlows network{{std::move(linked.links), {}}, std::move(linked.link_of)};
  for (const std::size_t flow : flow_of)
    network.flows.transfer.push_back(
        {linked.flows[flow].route, linked.flows[flow].latency, linked.flows[flow].duration});
  return network;
}

}  // namespace meshwright
