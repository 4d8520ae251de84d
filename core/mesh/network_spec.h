// SPDX-License-Identifier: Apache-2.0
// The optional description of a cluster's network beyond the two LinkCosts of each host group (core/mesh/cluster.h).
// Whatever it omits is derived from them; core/mesh/topology.h says how.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/base/units.h"

namespace meshwright {

struct HostGroup;

// How the devices of a host are connected.
enum class NvLink {
  Switch,  // each device has one port to a switch, of the rate of within_host
  Pairs,   // a link of that rate for every two devices; kMaxInPairs devices at most
  None,    // over their PCIe switches
};

constexpr int kMaxInPairs = 64;

// Rates are those of one direction; both can be used at once.
struct PcieSwitches {
  int devices = 1;                // on each, in the order of their numbers
  BytesPerSecond bandwidth{0.0};  // of each device's link to it and of its own links to adapters and to the host
};

struct NetworkAdapters {
  int count = 1;                  // of a host; its devices share them evenly, each uses one
  BytesPerSecond bandwidth{0.0};  // of each
};

struct HostNetwork {
  NvLink nvlink = NvLink::Switch;
  std::optional<PcieSwitches> pcie = std::nullopt;     // absent: the path from a device to its adapter costs nothing
  std::optional<NetworkAdapters> nics = std::nullopt;  // absent: one, of the rate of between_hosts
};

// Switches that connect hosts in the order of their numbers, with links to a spine that connects them all. Several
// spine switches with evenly spread traffic count as one.
struct LeafSwitches {
  int hosts = 1;  // on each; the last may have fewer
  // Bandwidth of its hosts over bandwidth of its uplinks; or the number of uplinks, 0 for unconnected leaves.
  std::optional<double> oversubscription = 1.0;
  int uplinks = 0;
  BytesPerSecond uplink_bandwidth{0.0};  // of each
};

struct NetworkSpec {
  std::vector<HostNetwork> groups;     // [group], or empty: {} for each
  std::optional<LeafSwitches> leaves;  // absent: one switch with all hosts
  Seconds hop_latency{0.0};            // of each link between an adapter and a switch and between switches, on top of
                                       // between_hosts.alpha
  std::string place = "network";       // where it stands, for errors: "my.json: network"
};

// The member `network` of a cluster file, with the place of the file; see topology_json.cpp. Throws InputError naming
// the place of what is wrong.
[[nodiscard]] NetworkSpec network_from_json(const Json& json, const std::vector<HostGroup>& groups,
                                            const std::string& place);
[[nodiscard]] Json to_json(const NetworkSpec& network);

}  // namespace meshwright
