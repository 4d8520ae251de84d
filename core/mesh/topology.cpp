// SPDX-License-Identifier: Apache-2.0
#include "core/mesh/topology.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <cstdint>
#include <limits>

#include "core/base/errors.h"

namespace meshwright {

namespace {

constexpr LinkCost kFree{Seconds(0.0), SecondsPerByte(0.0)};

NetworkNode device_node(int number) { return {NodeKind::Device, 0, number}; }

// The NIC, on its host, of a device numbered on its host: as many neighbours share each, but for a remainder.
int nic_of(int device, int devices, const HostNetwork& network) {
  return network.nics ? static_cast<int>(static_cast<std::int64_t>(device) * network.nics->count / devices) : 0;
}

// Fewest links, then the least latency.
struct Distance {
  int hops;
  std::int64_t latency_ps;
  auto operator<=>(const Distance&) const = default;
  friend Distance operator+(Distance a, Distance b) { return {a.hops + b.hops, a.latency_ps + b.latency_ps}; }
};

Distance length_of(const NetworkLink& link) { return {1, to_sim_time(link.cost.alpha).ps}; }

}  // namespace

std::string to_text(const NetworkNode& node) {
  switch (node.kind) {
    case NodeKind::Device:
      return fmt::format("device {}", node.number);
    case NodeKind::NvSwitch:
      return fmt::format("NVSwitch of host {}", node.host);
    case NodeKind::PcieSwitch:
      return fmt::format("PCIe switch {} of host {}", node.number, node.host);
    case NodeKind::HostBridge:
      return fmt::format("bridge of host {}", node.host);
    case NodeKind::Nic:
      return fmt::format("NIC {} of host {}", node.number, node.host);
    case NodeKind::Leaf:
      return fmt::format("leaf {}", node.number);
    case NodeKind::Spine:
      return "the spine";
  }
  throw InternalError("a kind of network node without a name");
}

Topology::Topology(const Cluster& cluster) : cluster_(cluster), spec_(cluster.network.value_or(NetworkSpec{})) {
  const std::size_t groups = cluster.groups.size();
  MW_CHECK(spec_.groups.empty() || spec_.groups.size() == groups, "networks of {} groups of hosts for {}",
           spec_.groups.size(), groups);
  for (std::size_t g = 0; g < groups; ++g) {
    const HostGroup& group = cluster.groups[g];
    GroupLayout layout = lay_out_host(group, spec_.groups.empty() ? HostNetwork{} : spec_.groups[g], spec_.hop_latency);
    layout.first_host = cluster.first_host(static_cast<int>(g));
    layout.first_device = cluster.first_device(static_cast<int>(g));
    layout.first_link = links_;
    links_ += 2 * group.hosts * static_cast<int>(layout.links.size());
    groups_.push_back(std::move(layout));
  }
  lay_out_leaves();
}

Topology::GroupLayout Topology::lay_out_host(const HostGroup& group, const HostNetwork& network, Seconds hop_latency) {
  const int devices = group.devices_per_host;
  MW_CHECK(network.nvlink != NvLink::None || network.pcie, "devices that are linked neither by NVLink nor by PCIe");
  MW_CHECK(network.nvlink != NvLink::Pairs || devices <= kMaxInPairs, "{} devices in pairs", devices);
  const LinkCost nvlink{Seconds(0.0), group.within_host.beta};
  const LinkCost port{hop_latency, network.nics ? inverse(network.nics->bandwidth) : group.between_hosts.beta};
  const int nics = network.nics ? network.nics->count : 1;
  GroupLayout layout{0, 0, 0, network, {}, BytesPerSecond(nics / port.beta.si())};

  const auto add = [&](NetworkNode a, NetworkNode b, LinkCost cost) { layout.links.push_back({a, b, cost}); };
  for (int d = 0; d < devices; ++d) {
    if (network.nvlink == NvLink::Switch) add(device_node(d), {NodeKind::NvSwitch}, nvlink);
    for (int other = d + 1; network.nvlink == NvLink::Pairs && other < devices; ++other)
      add(device_node(d), device_node(other), nvlink);
  }
  if (network.pcie) {
    const LinkCost pcie{Seconds(0.0), inverse(network.pcie->bandwidth)};
    int last_nic = -1;  // linked to the switch of the device before
    for (int d = 0; d < devices; ++d) {
      const NetworkNode pcie_switch{NodeKind::PcieSwitch, 0, d / network.pcie->devices};
      const bool first_on_switch = d % network.pcie->devices == 0;
      add(device_node(d), pcie_switch, pcie);
      if (first_on_switch) add(pcie_switch, {NodeKind::HostBridge}, pcie);
      const int nic = nic_of(d, devices, network);
      if (first_on_switch || nic != last_nic) add(pcie_switch, {NodeKind::Nic, 0, nic}, pcie);
      last_nic = nic;
    }
  } else {
    for (int d = 0; d < devices; ++d) add(device_node(d), {NodeKind::Nic, 0, nic_of(d, devices, network)}, kFree);
  }
  for (int nic = 0; nic < nics; ++nic) add({NodeKind::Nic, 0, nic}, {NodeKind::Leaf}, port);
  return layout;
}

void Topology::lay_out_leaves() {
  first_uplink_ = links_;
  if (!spec_.leaves) return;
  const LeafSwitches& leaves = *spec_.leaves;
  const int hosts = cluster_.hosts();
  leaves_ = (hosts + leaves.hosts - 1) / leaves.hosts;
  if (leaves_ == 1 || (!leaves.oversubscription && leaves.uplinks == 0)) return;
  for (int leaf = 0; leaf < leaves_; ++leaf) {
    BytesPerSecond up = leaves.uplinks * leaves.uplink_bandwidth;
    if (leaves.oversubscription) {
      // A leaf that is not full has the uplinks of a full one.
      const int first = leaf * leaves.hosts, last = std::min(hosts, first + leaves.hosts);
      BytesPerSecond present(0.0);
      for (int host = first; host < last; ++host) present += layout_of_host(host).host_rate;
      up = present * leaves.hosts / (last - first) / *leaves.oversubscription;
    }
    uplinks_.push_back({spec_.hop_latency, inverse(up)});
  }
  links_ += 2 * leaves_;
}

const Topology::GroupLayout& Topology::layout_of_host(int host) const {
  return groups_[static_cast<std::size_t>(cluster_.group_of_host(host))];
}

int Topology::leaf_of_host(int host) const { return spec_.leaves ? host / spec_.leaves->hosts : 0; }

NetworkNode Topology::placed(const GroupLayout& layout, NetworkNode node, int host) const {
  switch (node.kind) {
    case NodeKind::Device: {
      const int of_group = cluster_.groups[static_cast<std::size_t>(&layout - groups_.data())].devices_per_host;
      node.number += layout.first_device + (host - layout.first_host) * of_group;
      break;
    }
    case NodeKind::Leaf:
      node.number = leaf_of_host(host);
      return node;
    default:
      break;
  }
  node.host = host;
  return node;
}

NetworkLink Topology::link(NetworkLinkId link) const {
  MW_CHECK(0 <= link.value && link.value < links_, "link {} of a network of {}", link.value, links_);
  const bool back = link.value % 2 == 1;
  if (link.value >= first_uplink_) {
    const int leaf = (link.value - first_uplink_) / 2;
    const NetworkNode low{NodeKind::Leaf, 0, leaf}, high{NodeKind::Spine};
    const LinkCost cost = uplinks_[static_cast<std::size_t>(leaf)];
    return back ? NetworkLink{high, low, cost} : NetworkLink{low, high, cost};
  }
  const auto after = std::upper_bound(groups_.begin(), groups_.end(), link.value,
                                      [](int number, const GroupLayout& g) { return number < g.first_link; });
  const GroupLayout& layout = *std::prev(after);
  const int of_host = static_cast<int>(layout.links.size());
  const int pair = (link.value - layout.first_link) / 2;
  const int host = layout.first_host + pair / of_host;
  const HostLink& own = layout.links[static_cast<std::size_t>(pair % of_host)];
  const NetworkNode a = placed(layout, own.a, host), b = placed(layout, own.b, host);
  return back ? NetworkLink{b, a, own.cost} : NetworkLink{a, b, own.cost};
}

// The links that can be on a path between the two devices, one direction of each: other devices pass nothing on, and
// other hosts only offer detours.
std::vector<NetworkLinkId> Topology::links_around(DeviceId source, DeviceId destination) const {
  std::vector<NetworkLinkId> around;
  std::vector<int> leaves;
  for (const DeviceId end : {source, destination}) {
    const int host = cluster_.host_of_device(end.value);
    const GroupLayout& layout = layout_of_host(host);
    const int devices = cluster_.group(cluster_.group_of_device(end.value)).devices_per_host;
    const int first_device = layout.first_device + (host - layout.first_host) * devices;
    const auto may_use = [&](const NetworkNode& node) {
      const auto is_of = [&](DeviceId device) {
        const int on_host = device.value - first_device;
        return node.kind == NodeKind::Device
                   ? node.number == on_host
                   : on_host >= 0 && on_host < devices && node.number == nic_of(on_host, devices, layout.network);
      };
      return (node.kind != NodeKind::Device && node.kind != NodeKind::Nic) || is_of(source) || is_of(destination);
    };
    const int of_host = static_cast<int>(layout.links.size());
    for (int i = 0; i < of_host; ++i) {
      const HostLink& own = layout.links[static_cast<std::size_t>(i)];
      if (may_use(own.a) && may_use(own.b))
        around.emplace_back(layout.first_link + 2 * ((host - layout.first_host) * of_host + i));
    }
    if (!uplinks_.empty()) around.emplace_back(first_uplink_ + 2 * leaf_of_host(host));
  }
  std::sort(around.begin(), around.end());
  around.erase(std::unique(around.begin(), around.end()), around.end());
  return around;
}

// Distances to the destination by Dijkstra's algorithm; then from the source on, at each node the lowest link that
// comes nearer by its own length.
std::vector<NetworkLinkId> Topology::shortest_way(DeviceId source, DeviceId destination) const {
  using Network = boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS, boost::no_property,
                                        boost::property<boost::edge_weight_t, Distance>>;
  const auto node_of = [&](DeviceId device) {
    return NetworkNode{NodeKind::Device, cluster_.host_of_device(device.value), device.value};
  };
  std::map<NetworkNode, std::size_t> number_of;
  const auto vertex = [&](const NetworkNode& node) { return number_of.emplace(node, number_of.size()).first->second; };
  const std::size_t from = vertex(node_of(source)), to = vertex(node_of(destination));

  struct Step {
    NetworkLinkId link;
    std::size_t from, to;
    Distance length;
  };
  std::vector<Step> steps;  // both directions of every link, by number
  for (const NetworkLinkId id : links_around(source, destination)) {
    const NetworkLink there = link(id);
    const std::size_t a = vertex(there.from), b = vertex(there.to);
    steps.push_back({id, a, b, length_of(there)});
    steps.push_back({reverse(id), b, a, length_of(there)});
  }
  Network graph(number_of.size());
  for (std::size_t s = 0; s < steps.size(); s += 2) boost::add_edge(steps[s].from, steps[s].to, steps[s].length, graph);

  constexpr Distance kNone{std::numeric_limits<int>::max() / 2, 0};  // two of them can be added
  std::vector<Distance> left(number_of.size(), kNone);
  boost::dijkstra_shortest_paths(graph, to,
                                 boost::distance_map(left.data())
                                     .distance_compare(std::less<>())
                                     .distance_combine(std::plus<>())
                                     .distance_inf(kNone)
                                     .distance_zero(Distance{0, 0}));
  require(left[from] != kNone,
          "{}: no path leads from device {} (host {}) to device {} (host {}); give the leaves 'uplinks', or more hosts "
          "each.",
          spec_.place, source.value, cluster_.host_of_device(source.value), destination.value,
          cluster_.host_of_device(destination.value));
  std::vector<NetworkLinkId> way;
  for (std::size_t at = from; at != to;) {
    const auto next = std::find_if(steps.begin(), steps.end(), [&](const Step& step) {
      return step.from == at && left[step.to] != kNone && step.length + left[step.to] == left[at];
    });
    way.push_back(next->link);
    at = next->to;
  }
  return way;
}

Route Topology::route(DeviceId source, DeviceId destination) const {
  for (const DeviceId end : {source, destination})
    MW_CHECK(0 <= end.value && end.value < cluster_.devices(), "device {} of a cluster of {}", end.value,
             cluster_.devices());
  Route route{{}, kFree};
  if (source == destination) return route;
  route.links = shortest_way(std::min(source, destination), std::max(source, destination));
  if (destination < source) {
    std::reverse(route.links.begin(), route.links.end());
    for (NetworkLinkId& id : route.links) id = reverse(id);
  }
  const HostGroup& of_source = cluster_.group(cluster_.group_of_device(source.value));
  const HostGroup& of_destination = cluster_.group(cluster_.group_of_device(destination.value));
  const bool hosts_apart = cluster_.host_of_device(source.value) != cluster_.host_of_device(destination.value);
  route.cost.alpha = hosts_apart ? std::max(of_source.between_hosts.alpha, of_destination.between_hosts.alpha)
                                 : of_source.within_host.alpha;
  for (const NetworkLinkId id : route.links) {
    const LinkCost cost = link(id).cost;
    route.cost.alpha += cost.alpha;
    route.cost.beta = std::max(route.cost.beta, cost.beta);
  }
  return route;
}

const Route& Routes::between(DeviceId source, DeviceId destination) {
  const auto key = std::pair(source, destination);
  const auto known = found_.find(key);
  return known != found_.end() ? known->second
                               : found_.emplace(key, topology_->route(source, destination)).first->second;
}

}  // namespace meshwright
