// SPDX-License-Identifier: Apache-2.0
#include "simulator/program/flows.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/errors.h"

namespace meshwright {

namespace {

// Collects what a collective has on each link.
class WideFlow {
 public:
  explicit WideFlow(Routes& routes) : routes_(routes) {}

  void send(DeviceId source, DeviceId destination, Bytes bytes) {
    const Route& route = routes_.between(source, destination);
    for (const NetworkLinkId link : route.links) load_.emplace(link, Bytes(0.0)).first->second += bytes;
    alpha_ = std::max(alpha_, route.cost.alpha);
  }

  // With `steps` latencies, each the largest of all messages.
  [[nodiscard]] Flow finish(int steps) const {
    Flow flow;
    flow.latency = steps * alpha_;
    // Links of different rates become one flow: it has the largest beta of all, and as many bytes as that takes to be
    // as long as the busiest link.
    Seconds longest(0.0);
    Bytes most(0.0);
    for (const auto& [link, bytes] : load_) {
      const SecondsPerByte beta = routes_.topology().link(link).cost.beta;
      flow.links.push_back(link);
      flow.beta = std::max(flow.beta, beta);
      longest = std::max(longest, beta * bytes);
      most = std::max(most, bytes);
    }
    // Where the narrowest link is the busiest, its bytes as they are: not rounded by a quotient.
    const bool narrowest_is_busiest = flow.beta * most <= longest;
    flow.bytes = narrowest_is_busiest ? most : Bytes(longest.si() / flow.beta.si());
    return flow;
  }

 private:
  Routes& routes_;
  std::map<NetworkLinkId, Bytes> load_;
  Seconds alpha_{0.0};
};

std::vector<DeviceId> in_order(std::vector<DeviceId> devices) {
  std::sort(devices.begin(), devices.end());
  MW_CHECK(!devices.empty() && std::adjacent_find(devices.begin(), devices.end()) == devices.end(),
           "a collective of {} devices, some of them twice", devices.size());
  return devices;
}

// Steps of n - 1 each in which the whole tensor goes once around.
int rounds(CollectiveKind kind) { return kind == CollectiveKind::AllReduce ? 2 : 1; }

// [host] -> its devices among `devices`, which are in order.
std::vector<std::vector<DeviceId>> by_host(const Cluster& cluster, const std::vector<DeviceId>& devices) {
  std::vector<std::vector<DeviceId>> hosts;
  int last = -1;
  for (const DeviceId device : devices) {
    const int host = cluster.host_of_device(device.value);
    // Devices are in order, and with them their hosts.
    if (host != last) hosts.emplace_back();
    hosts.back().push_back(device);
    last = host;
  }
  return hosts;
}

double rate_of(SecondsPerByte beta) { return 1.0 / beta.si(); }

}  // namespace

Flow message_flow(Routes& routes, const Message& message) {
  const Route& route = routes.between(message.source, message.destination);
  return {route.links, route.cost.alpha, message.bytes, route.cost.beta};
}

Flow ring_flow(Routes& routes, CollectiveKind kind, std::vector<DeviceId> devices, Bytes bytes) {
  devices = in_order(std::move(devices));
  const int n = static_cast<int>(devices.size());
  WideFlow flow(routes);
  for (std::size_t i = 0; n > 1 && i < devices.size(); ++i) {
    if (kind == CollectiveKind::AllToAll) {
      for (const DeviceId other : devices)
        if (other != devices[i]) flow.send(devices[i], other, bytes / n);
    } else {
      // In each round n - 1 steps pass 1 / n of the tensor to the next device of the ring.
      flow.send(devices[i], devices[(i + 1) % devices.size()], rounds(kind) * (n - 1) * (bytes / n));
    }
  }
  return flow.finish(rounds(kind) * (n - 1));
}

std::vector<std::vector<Flow>> hierarchical_flows(Routes& routes, CollectiveKind kind, std::vector<DeviceId> devices,
                                                  Bytes bytes) {
  const auto hosts = by_host(routes.topology().cluster(), in_order(std::move(devices)));
  const std::size_t inner = hosts.front().size();
  for (const std::vector<DeviceId>& host : hosts)
    MW_CHECK(host.size() == inner, "{} devices of a collective on one host and {} on another", inner, host.size());
  std::vector<std::vector<Flow>> phases;
  const auto inside = [&](CollectiveKind part) {
    if (inner == 1) return;
    phases.emplace_back();
    for (const std::vector<DeviceId>& host : hosts) phases.back().push_back(ring_flow(routes, part, host, bytes));
  };
  const auto across = [&](CollectiveKind part, Bytes size) {
    if (hosts.size() == 1) return;
    phases.emplace_back();
    for (std::size_t column = 0; column < inner; ++column) {
      std::vector<DeviceId> ring;
      for (const std::vector<DeviceId>& host : hosts) ring.push_back(host[column]);
      phases.back().push_back(ring_flow(routes, part, std::move(ring), size));
    }
  };
  const Bytes share = bytes / static_cast<double>(inner);
  switch (kind) {
    case CollectiveKind::AllReduce:
      // Where there is nothing to do across hosts, the ring's two halves are one phase.
      if (hosts.size() == 1) {
        inside(CollectiveKind::AllReduce);
        return phases;
      }
      inside(CollectiveKind::ReduceScatter);
      across(CollectiveKind::AllReduce, share);
      inside(CollectiveKind::AllGather);
      return phases;
    case CollectiveKind::ReduceScatter:
      inside(kind);
      across(kind, share);
      return phases;
    case CollectiveKind::AllGather:
      across(kind, share);
      inside(kind);
      return phases;
    case CollectiveKind::AllToAll:
      inside(kind);
      across(kind, bytes);
      return phases;
  }
  throw InternalError(fmt::format("collective kind {} has no flows", static_cast<int>(kind)));
}

namespace {

// What link_flows knows of a link that flows use.
struct UsedLink {
  SecondsPerByte beta;
  std::map<int, double> fastest = {};  // [stream] the highest rate of its flows, in bytes per second
  // Whether its flows can fill it: rates that just do are told from more by far more than they are rounded.
  [[nodiscard]] bool can_be_full() const {
    if (beta.si() == 0) return false;
    // The flows of one stream come one after the other: the fastest stands for all of them.
    double together = 0.0;
    for (const auto& [stream, rate] : fastest) together += rate;
    return together > rate_of(beta) * (1 + 1e-9);
  }
};

class Linker {
 public:
  Linker(const Topology& topology, std::span<const Flow> flows, std::span<const int> streams) : flows_(flows) {
    for (std::size_t i = 0; i < flows.size(); ++i) {
      if (flows[i].beta.si() == 0 || flows[i].bytes.si() == 0) continue;
      for (const NetworkLinkId id : flows[i].links) {
        UsedLink& link = used_.try_emplace(id, UsedLink{topology.link(id).cost.beta}).first->second;
        double& rate = link.fastest.try_emplace(streams[i], 0.0).first->second;
        rate = std::max(rate, rate_of(flows[i].beta));
      }
    }
    for (const auto& [id, link] : used_)
      if (link.can_be_full()) shared_.insert(id);
  }

  LinkedFlows link() {
    LinkedFlows linked;
    for (const Flow& flow : flows_) {
      FlowOnLinks on{TaskClass::kNoRoute, to_sim_time(flow.duration()), to_sim_time(flow.latency)};
      // A link that cannot be full delays nobody.
      const std::vector<NetworkLinkId> kept = links_kept(flow);
      if (!kept.empty()) on.route = route_over(kept, linked);
      linked.flows.push_back(on);
    }
    return linked;
  }

 private:
  [[nodiscard]] std::vector<NetworkLinkId> links_kept(const Flow& flow) const {
    std::vector<NetworkLinkId> kept;
    if (flow.beta.si() == 0 || flow.bytes.si() == 0) return kept;
    std::copy_if(flow.links.begin(), flow.links.end(), std::back_inserter(kept),
                 [&](NetworkLinkId id) { return shared_.contains(id); });
    const auto narrowest = [&](NetworkLinkId id) { return used_.at(id).beta == flow.beta; };
    // The flow's narrowest link bounds its rate and has to stay.
    if (!kept.empty() && std::none_of(kept.begin(), kept.end(), narrowest))
      kept.push_back(*std::find_if(flow.links.begin(), flow.links.end(), narrowest));
    return kept;
  }

  int route_over(const std::vector<NetworkLinkId>& kept, LinkedFlows& linked) {
    std::vector<LinkId> route;
    for (const NetworkLinkId id : kept) {
      const int next = static_cast<int>(linked.link_of.size());
      const auto [number, is_new] = number_of_.emplace(id, next);
      route.emplace_back(number->second);
      if (!is_new) continue;
      linked.link_of.push_back(id);
      linked.links.capacity.emplace_back(rate_of(used_.at(id).beta));
    }
    const auto [number, is_new] = routes_.emplace(route, static_cast<int>(linked.links.routes.size()));
    if (is_new) linked.links.routes.push_back(std::move(route));
    return number->second;
  }

  std::span<const Flow> flows_;
  std::map<NetworkLinkId, UsedLink> used_;
  std::set<NetworkLinkId> shared_;
  std::map<NetworkLinkId, int> number_of_;  // of those that a route has
  std::map<std::vector<LinkId>, int> routes_;
};

}  // namespace

LinkedFlows link_flows(const Topology& topology, std::span<const Flow> flows, std::span<const int> streams) {
  MW_CHECK(flows.size() == streams.size(), "{} flows on {} streams", flows.size(), streams.size());
  return Linker(topology, flows, streams).link();
}

}  // namespace meshwright
