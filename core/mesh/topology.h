// SPDX-License-Identifier: Apache-2.0
// The Topology: the network of a Cluster as a graph of links, and the routes of messages in it.
//
//                      spine                      uplink        leaf <-> spine, as NetworkSpec says
//                    /       \                    port          NIC <-> leaf, rate of the NIC
//                leaf         leaf                pcie          NIC <-> PCIe switch <-> device, or NIC <-> device
//              /   |  \                           nvlink        device <-> NVSwitch, or device <-> device
//           NIC   NIC  NIC ...
//            |   /
//   PCIe switch -- host bridge
//    /      \                                     Every link is two independent ones, one in each direction.
//  device  device ... NVSwitch
//
// Without a NetworkSpec each host has one NIC with the rate of between_hosts, devices reach it at no cost, all NICs are
// on one leaf, and a device has one port with the rate of within_host to its host's NVSwitch. A single message then
// takes exactly alpha + beta * bytes of within_host or between_hosts, and k messages that leave a host at once take the
// time of CostModel::transfer with k concurrent ones. Between host groups the larger alpha and the larger beta count.
//
// Hosts of a group are identical, so nothing is stored per host: a Topology of thousands of hosts is small, and link
// numbers are computed.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/mesh/cluster.h"

namespace meshwright {

using NetworkLinkId = Id<struct NetworkLinkTag>;

enum class NodeKind { Device, NvSwitch, PcieSwitch, HostBridge, Nic, Leaf, Spine };

struct NetworkNode {
  NodeKind kind;
  int host = 0;    // of a leaf or spine: 0
  int number = 0;  // of a device: in the cluster; of a NIC or PCIe switch: on its host; of a leaf: in the cluster
  auto operator<=>(const NetworkNode&) const = default;
};
[[nodiscard]] std::string to_text(const NetworkNode& node);  // "device 3", "NIC 0 of host 2", "leaf 1", "the spine"

struct NetworkLink {
  NetworkNode from, to;
  LinkCost cost;  // of one direction: its latency, and seconds per byte (0: it never limits)
};

// The path of a message, which takes cost.alpha + cost.beta * bytes when it is alone.
struct Route {
  std::vector<NetworkLinkId> links;  // in order; empty from a device to itself
  LinkCost cost;                     // alpha: overhead and latencies of the links; beta: of the narrowest link
};

class Topology {
 public:
  // REQUIRES: a network of the cluster that network_from_json would take.
  explicit Topology(const Cluster& cluster);

  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  [[nodiscard]] int links() const { return links_; }  // numbered from 0
  // REQUIRES: 0 <= link < links().
  [[nodiscard]] NetworkLink link(NetworkLinkId link) const;
  // The opposite direction of the link.
  [[nodiscard]] static NetworkLinkId reverse(NetworkLinkId link) { return NetworkLinkId(link.value ^ 1); }

  // The path with the fewest links; among those the smallest latency, then the lowest link numbers seen from the lower
  // of the two devices. The path back is its reverse. A device reaches other hosts through its share of a NIC. Throws
  // InputError naming both devices and the place when there is no path. REQUIRES: both exist.
  [[nodiscard]] Route route(DeviceId source, DeviceId destination) const;

 private:
  // Both directions of a link of a host, or from it to its leaf.
  struct HostLink {
    NetworkNode a, b;  // as of host 0 and leaf 0 of a cluster of this group alone
    LinkCost cost;
  };
  struct GroupLayout {
    int first_host, first_device, first_link;
    HostNetwork network;
    std::vector<HostLink> links;  // of each host
    BytesPerSecond host_rate;     // of all its NICs together
  };
  [[nodiscard]] static GroupLayout lay_out_host(const HostGroup& group, const HostNetwork& network,
                                                Seconds hop_latency);
  void lay_out_leaves();
  [[nodiscard]] const GroupLayout& layout_of_host(int host) const;
  [[nodiscard]] int leaf_of_host(int host) const;
  [[nodiscard]] NetworkNode placed(const GroupLayout& layout, NetworkNode node, int host) const;
  [[nodiscard]] std::vector<NetworkLinkId> links_around(DeviceId source, DeviceId destination) const;
  [[nodiscard]] std::vector<NetworkLinkId> shortest_way(DeviceId source, DeviceId destination) const;

  Cluster cluster_;
  NetworkSpec spec_;
  std::vector<GroupLayout> groups_;
  std::vector<LinkCost> uplinks_;  // [leaf] to the spine; empty: there is none
  int leaves_ = 1;
  int first_uplink_ = 0;  // its number
  int links_ = 0;
};

// Routes found once each. REQUIRES: the topology outlives it.
class Routes {
 public:
  explicit Routes(const Topology& topology) : topology_(&topology) {}
  [[nodiscard]] const Topology& topology() const { return *topology_; }
  // Same as Topology::route; the reference stays valid.
  [[nodiscard]] const Route& between(DeviceId source, DeviceId destination);

 private:
  const Topology* topology_;
  std::map<std::pair<DeviceId, DeviceId>, Route> found_;
};

}  // namespace meshwright
