// SPDX-License-Identifier: Apache-2.0
// The Cluster: groups of identical hosts, with the rates of their devices and the costs of their links. Presets by
// name, or a JSON file.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/base/units.h"
#include "core/graph/graph.h"
#include "core/mesh/expert_load.h"
#include "core/mesh/network_spec.h"

namespace meshwright {

// The device of the preset cpu:N: a thread of whatever processor this is. What is measured of one stands for it.
inline constexpr const char* kAnyProcessor = "cpu-thread";

struct DeviceKind {
  std::string name;                            // "V100-SXM2-16GB"
  std::map<std::string, FlopsPerSecond> peak;  // by dtype name: dense matrix peak
  BytesPerSecond memory_bandwidth{0.0};
  Bytes memory{0.0};
  double usable_memory = 0.92;     // share of `memory` left to a plan (context, fragmentation, communication buffers)
  double matmul_efficiency = 0.6;  // share of peak that large products reach in training with the vendor's library
  double memory_efficiency = 0.8;  // of memory_bandwidth, for element-wise passes
  Seconds launch{5e-6};            // floor of one kernel
  // No cost depends on these two: they are what the user says. nullopt: not said, as in all presets.
  std::optional<double> price_per_device_hour = std::nullopt;  // in any currency
  std::optional<double> watts = std::nullopt;                  // drawn in training, its share of the host's included
  // Where optimizer state, activations and weights may be kept: the device's share of its host's memory, and the rate
  // between the two in either direction. 0: not known.
  Bytes host_memory{0.0};
  BytesPerSecond host_bandwidth{0.0};
};

// Time of a message = alpha + beta * bytes.
struct LinkCost {
  Seconds alpha{0.0};
  SecondsPerByte beta{0.0};
};

// Identical hosts.
struct HostGroup {
  int hosts = 1;
  int devices_per_host = 1;
  DeviceKind device;
  LinkCost within_host;    // one device to another on the same host
  LinkCost between_hosts;  // one host to another: the whole host's network, shared by its devices
  // Into how many adapters that network is divided, each for as many devices; nullopt: one for each device. One device
  // that sends alone has the rate of one. Cluster::network, where it is given, says it instead.
  std::optional<int> adapters = std::nullopt;

  [[nodiscard]] int devices() const { return hosts * devices_per_host; }
  [[nodiscard]] Bytes usable_memory() const { return device.usable_memory * device.memory; }
};

// Hosts are numbered group by group, devices host by host. A message between hosts of different groups takes the slower
// of the two networks.
struct Cluster {
  std::string name;                                   // "p3.16xlarge:8"
  std::vector<HostGroup> groups = {{}};               // at least one
  std::optional<NetworkSpec> network = std::nullopt;  // what core/mesh/topology.h knows beyond the groups' LinkCosts
  // A condition of the predicted step, as slower links would be; in no file. Programs that are run have an even load.
  ExpertLoad expert_load = {};

  [[nodiscard]] bool uniform() const { return groups.size() == 1; }
  // The only group. REQUIRES: uniform().
  [[nodiscard]] const HostGroup& only() const;
  [[nodiscard]] HostGroup& only();

  [[nodiscard]] const HostGroup& group(int number) const { return groups[static_cast<std::size_t>(number)]; }
  [[nodiscard]] int hosts() const;
  [[nodiscard]] int devices() const;
  [[nodiscard]] int first_host(int group) const;
  [[nodiscard]] int first_device(int group) const;
  // REQUIRES: 0 <= host < hosts(), 0 <= device < devices().
  [[nodiscard]] int group_of_host(int host) const;
  [[nodiscard]] int group_of_device(int device) const;
  [[nodiscard]] int host_of_device(int device) const;
  [[nodiscard]] int adapters_of(int group) const;  // of each of its hosts
  [[nodiscard]] Bytes usable_memory_of(int device) const;
  [[nodiscard]] Bytes usable_memory() const { return only().usable_memory(); }  // REQUIRES: uniform()
};

constexpr int kMaxHosts = 4096;  // of all groups together

// "p3.16xlarge:8", "p5.48xlarge:N", "dgx-h100:N", "gb200-nvl72:N", ..., "cpu:N" (N threads of this machine); several of
// them joined, as in "dgx-a100:1+p3.16xlarge:2", each a group of hosts (one preset given twice is one group); or the
// path of a JSON file. Throws InputError with the nearest names, naming the part that is wrong; N must be 1..4096, as
// must all hosts together. cpu:N cannot be joined.
[[nodiscard]] Cluster find_cluster(const std::string& name);
struct ClusterPreset {
  std::string pattern, what;
};
[[nodiscard]] std::vector<ClusterPreset> cluster_presets();

// The first `nodes` hosts and `devices_per_node` devices of each (0 = all). Throws InputError when there are not as
// many on every host, and for a number of hosts of a cluster of several groups.
[[nodiscard]] Cluster take_part(Cluster cluster, int nodes, int devices_per_node);

// The cluster file: see cluster_json.cpp. Throws InputError naming the place for anything else.
[[nodiscard]] Json to_json(const Cluster& cluster);
[[nodiscard]] Cluster cluster_from_json(const Json& json, const std::string& place);

}  // namespace meshwright
