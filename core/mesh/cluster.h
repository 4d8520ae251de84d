// SPDX-License-Identifier: Apache-2.0
// The Cluster: hosts x devices with what each device can do and what each link costs. Presets by name, or a JSON file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/base/units.h"
#include "core/graph/graph.h"

namespace meshwright {

struct DeviceKind {
  std::string name;                            // "V100-SXM2-16GB"
  std::map<std::string, FlopsPerSecond> peak;  // by dtype name: dense matrix peak
  BytesPerSecond memory_bandwidth{0.0};
  Bytes memory{0.0};
  double usable_memory = 0.92;     // share of `memory` left to a plan (context, fragmentation, communication buffers)
  double matmul_efficiency = 0.6;  // of peak, for large products; bench of what the vendor library reaches in training
  double memory_efficiency = 0.8;  // of memory_bandwidth, for element-wise passes
  Seconds launch{5e-6};            // floor of one kernel
};

// Time of a message = alpha + beta * bytes.
struct LinkCost {
  Seconds alpha{0.0};
  SecondsPerByte beta{0.0};
};

struct Cluster {
  std::string name;  // "p3.16xlarge:8"
  int hosts = 1;
  int devices_per_host = 1;
  DeviceKind device;
  LinkCost within_host;    // one device to another on the same host
  LinkCost between_hosts;  // one host to another: the whole host's network, shared by its devices

  [[nodiscard]] int devices() const { return hosts * devices_per_host; }
  [[nodiscard]] Bytes usable_memory() const { return device.usable_memory * device.memory; }
};

// "p3.16xlarge:8", "dgx-a100:N", "dgx-h100:N", "dgx-h200:N", "cpu:N" (N threads of this machine), or the path of a JSON
// file. Throws InputError with the nearest names; N must be 1..4096.
[[nodiscard]] Cluster find_cluster(const std::string& name);
struct ClusterPreset {
  std::string pattern, what;
};
[[nodiscard]] std::vector<ClusterPreset> cluster_presets();

// The first `nodes` hosts and `devices_per_node` devices of each (0 = all). Throws InputError when there are not as
// many.
[[nodiscard]] Cluster take_part(Cluster cluster, int nodes, int devices_per_node);

[[nodiscard]] Json to_json(const Cluster& cluster);
[[nodiscard]] Cluster cluster_from_json(const Json& json, const std::string& place);

}  // namespace meshwright
