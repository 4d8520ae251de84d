// SPDX-License-Identifier: Apache-2.0
// Clusters whose times on links are easy to compute in the head.
#pragma once

#include "core/mesh/topology.h"

namespace meshwright {

// Within a host 1 s and 100 byte/s.
inline HostGroup slow_hosts(int hosts, int devices_per_host, LinkCost between_hosts) {
  HostGroup group;
  group.hosts = hosts;
  group.devices_per_host = devices_per_host;
  group.device.name = "device";
  group.device.peak = {{"f32", FlopsPerSecond(1e12)}};
  group.device.memory_bandwidth = BytesPerSecond(1e12);
  group.device.memory = Bytes(1e9);
  group.within_host = {Seconds(1), SecondsPerByte(1.0 / 100)};
  group.between_hosts = between_hosts;
  return group;
}

// Between hosts 3 s and 20 byte/s; one NIC per host unless `network`, as in a cluster file, says otherwise.
inline Cluster slow_cluster(int hosts, int devices_per_host, const char* network = "{}") {
  Cluster cluster{"cluster", {slow_hosts(hosts, devices_per_host, {Seconds(3), SecondsPerByte(1.0 / 20)})}};
  cluster.network = network_from_json(parse_json(network, "here"), cluster.groups, "here: network");
  return cluster;
}

}  // namespace meshwright
