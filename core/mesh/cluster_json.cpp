// SPDX-License-Identifier: Apache-2.0
// The cluster file:
//
//   {"format": "meshwright-cluster", "version": 1, "name": "my cluster", "hosts": 2, "devices_per_host": 8,
//    "device": {"name": "V100", "peak_flops_per_s": {"f16": 125e12}, "memory_bandwidth_bytes_per_s": 900e9,
//               "memory_bytes": 17179869184, "usable_memory": 0.92, "matmul_efficiency": 0.55, "memory_efficiency":
//               0.8, "launch_s": 5e-6},
//    "within_host":   {"alpha_s": 8e-6, "bandwidth_bytes_per_s": 60e9},
//    "between_hosts": {"alpha_s": 30e-6, "bandwidth_bytes_per_s": 3.125e9}}
//
// With hosts that are not all alike, groups of like ones, each with the five members from "hosts" on:
//
//   {"format": "meshwright-cluster", "version": 1, "name": "my cluster", "groups": [{"hosts": 2, ...}, ...]}
//
// Either form is taken for one group; it is written in the first.
//
// All members are required and none other is taken: a misspelled one must not fall back to something else. A bandwidth
// of null is a link on which size costs nothing.
//
// These may be left out: "network" beside "name", in either form (see topology_json.cpp); "adapters_per_host" beside
// "hosts", where devices share adapters and "network" does not say how; and in "device" its
// "price_per_device_hour", in any currency, its "watts", its "host_memory_bytes" and "host_bandwidth_bytes_per_s".
#include <cstdlib>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/mesh/cluster.h"
#include "core/mesh/cluster_members.h"

namespace meshwright {

namespace {

constexpr const char* kFormat = "meshwright-cluster";
constexpr int kVersion = 1;

DeviceKind device_from_json(const Json& json, const std::string& place) {
  require_only(json,
               {"name", "peak_flops_per_s", "memory_bandwidth_bytes_per_s", "memory_bytes", "usable_memory",
                "matmul_efficiency", "memory_efficiency", "launch_s", "price_per_device_hour", "watts",
                "host_memory_bytes", "host_bandwidth_bytes_per_s"},
               place);
  DeviceKind device;
  device.name = get<std::string>(json, "name", place);
  require_printable(device.name, place);
  const Json& peaks = member(json, "peak_flops_per_s", place);
  const std::string peaks_place = place + ".peak_flops_per_s";
  require(peaks.is_object() && !peaks.empty(), "{}: an object of dtype to flop/s was expected.", peaks_place);
  for (const auto& [dtype, value] : peaks.items()) {
    try {
      static_cast<void>(dtype_from_name(dtype));
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", peaks_place, error.what()));
    }
    device.peak.emplace(dtype, FlopsPerSecond(rate(peaks, dtype, peaks_place)));
  }
  device.memory_bandwidth = BytesPerSecond(rate(json, "memory_bandwidth_bytes_per_s", place));
  device.memory = Bytes(positive(json, "memory_bytes", place));
  device.usable_memory = share(json, "usable_memory", place);
  device.matmul_efficiency = share(json, "matmul_efficiency", place);
  device.memory_efficiency = share(json, "memory_efficiency", place);
  device.launch = Seconds(seconds(json, "launch_s", place));
  if (json.contains("price_per_device_hour"))
    device.price_per_device_hour = positive(json, "price_per_device_hour", place);
  if (json.contains("watts")) device.watts = positive(json, "watts", place);
  if (json.contains("host_memory_bytes")) device.host_memory = Bytes(positive(json, "host_memory_bytes", place));
  if (json.contains("host_bandwidth_bytes_per_s"))
    device.host_bandwidth = BytesPerSecond(rate(json, "host_bandwidth_bytes_per_s", place));
  return device;
}

LinkCost link_from_json(const Json& json, const std::string& place) {
  require_only(json, {"alpha_s", "bandwidth_bytes_per_s"}, place);
  LinkCost link;
  link.alpha = Seconds(seconds(json, "alpha_s", place));
  if (!member(json, "bandwidth_bytes_per_s", place).is_null())
    link.beta = inverse(BytesPerSecond(rate(json, "bandwidth_bytes_per_s", place)));
  return link;
}

// A rate survives being inverted to beta and back only up to its last bit; twelve digits make write(read(text)) ==
// text.
Json link_to_json(const LinkCost& link) {
  Json json;
  json["alpha_s"] = link.alpha.si();
  if (link.beta.si() == 0)
    json["bandwidth_bytes_per_s"] = nullptr;
  else
    json["bandwidth_bytes_per_s"] = std::strtod(fmt::format("{:.12g}", 1.0 / link.beta.si()).c_str(), nullptr);
  return json;
}

std::vector<std::string> group_members() {
  return {"hosts", "devices_per_host", "adapters_per_host", "device", "within_host", "between_hosts"};
}

// Adds the members of a group to `json`.
void write_group(Json& json, const HostGroup& group) {
  Json peaks = Json::object();
  for (const auto& [dtype, rate] : group.device.peak) peaks[dtype] = rate.si();
  Json device;
  device["name"] = group.device.name;
  device["peak_flops_per_s"] = std::move(peaks);
  device["memory_bandwidth_bytes_per_s"] = group.device.memory_bandwidth.si();
  device["memory_bytes"] = group.device.memory.si();
  device["usable_memory"] = group.device.usable_memory;
  device["matmul_efficiency"] = group.device.matmul_efficiency;
  device["memory_efficiency"] = group.device.memory_efficiency;
  device["launch_s"] = group.device.launch.si();
  // What a file may leave out is written only where it is known.
  if (group.device.price_per_device_hour) device["price_per_device_hour"] = *group.device.price_per_device_hour;
  if (group.device.watts) device["watts"] = *group.device.watts;
  if (group.device.host_memory.si() > 0) device["host_memory_bytes"] = group.device.host_memory.si();
  if (group.device.host_bandwidth.si() > 0) device["host_bandwidth_bytes_per_s"] = group.device.host_bandwidth.si();

  json["hosts"] = group.hosts;
  json["devices_per_host"] = group.devices_per_host;
  if (group.adapters) json["adapters_per_host"] = *group.adapters;
  json["device"] = std::move(device);
  json["within_host"] = link_to_json(group.within_host);
  json["between_hosts"] = link_to_json(group.between_hosts);
}

HostGroup read_group(const Json& json, const std::string& place) {
  HostGroup group;
  group.hosts = count(json, "hosts", place, kMaxHosts);
  group.devices_per_host = count(json, "devices_per_host", place, 1024);
  if (json.contains("adapters_per_host")) group.adapters = count(json, "adapters_per_host", place, 1024);
  group.device = device_from_json(member(json, "device", place), place + ": device");
  group.within_host = link_from_json(member(json, "within_host", place), place + ": within_host");
  group.between_hosts = link_from_json(member(json, "between_hosts", place), place + ": between_hosts");
  return group;
}

std::vector<HostGroup> read_groups(const Json& json, const std::string& place) {
  for (const std::string& key : group_members())
    require(!json.contains(key), "{}: '{}' is given beside 'groups'; give it in each group instead.", place, key);
  require_only(json, {"format", "version", "name", "groups", "network"}, place);
  const Json& list = member(json, "groups", place);
  require(list.is_array() && !list.empty(), "{}: 'groups' must be a list of at least one group of hosts.", place);
  std::vector<HostGroup> groups;
  int hosts = 0;
  for (std::size_t g = 0; g < list.size(); ++g) {
    const std::string where = fmt::format("{}: groups[{}]", place, g);
    require_only(list[g], group_members(), where);
    groups.push_back(read_group(list[g], where));
    hosts += groups.back().hosts;
    require(hosts <= kMaxHosts, "{}: up to here there are {} hosts; at most {} are supported.", where, hosts,
            kMaxHosts);
  }
  return groups;
}

}  // namespace

Json to_json(const Cluster& cluster) {
  Json json;
  json["format"] = kFormat;
  json["version"] = kVersion;
  json["name"] = cluster.name;
  if (cluster.uniform()) {
    write_group(json, cluster.only());
  } else {
    Json& groups = json["groups"] = Json::array();
    for (const HostGroup& group : cluster.groups) write_group(groups.emplace_back(), group);
  }
  if (cluster.network) json["network"] = to_json(*cluster.network);
  return json;
}

Cluster cluster_from_json(const Json& json, const std::string& place) {
  const auto format = get<std::string>(json, "format", place);
  require(format == kFormat, "{}: the format is '{}'; '{}' was expected. Is it another kind of file?", place, format,
          kFormat);
  const int version = get<int>(json, "version", place);
  require(version <= kVersion,
          "{}: version {} was written by a newer meshwright; this one reads version {}. Use the newer program.", place,
          version, kVersion);
  require(version >= 1, "{}: version {} does not exist; this program reads version {}.", place, version, kVersion);
  Cluster cluster;
  if (json.contains("groups")) {
    cluster.groups = read_groups(json, place);
    cluster.name = get<std::string>(json, "name", place);
  } else {
    std::vector<std::string> known = group_members();
    known.insert(known.end(), {"format", "version", "name", "groups", "network"});
    require_only(json, known, place);
    cluster.name = get<std::string>(json, "name", place);
    cluster.only() = read_group(json, place);
  }
  require_printable(cluster.name, place);
  if (json.contains("network"))
    cluster.network = network_from_json(json["network"], cluster.groups, place + ": network");
  return cluster;
}

}  // namespace meshwright
