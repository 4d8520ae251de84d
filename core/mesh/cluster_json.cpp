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
// All members are required and none other is taken: a misspelled one must not fall back to something else. A bandwidth
// of null is a link on which size costs nothing.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/mesh/cluster.h"

namespace meshwright {

namespace {

constexpr const char* kFormat = "meshwright-cluster";
constexpr int kVersion = 1;

void require_only(const Json& object, const std::vector<std::string>& known, const std::string& place) {
  require(object.is_object(), "{}: an object was expected.", place);
  for (const auto& [key, value] : object.items())
    require(std::find(known.begin(), known.end(), key) != known.end(),
            "{}: unknown member '{}'; the nearest known are {}.", place, key, join(nearest_names(key, known), ", "));
}

double positive(const Json& object, std::string_view key, const std::string& place) {
  const auto value = get<double>(object, key, place);
  require(std::isfinite(value) && value > 0, "{}: '{}' is {}; a positive number was expected.", place, key, value);
  return value;
}

// Beyond these, products with the sizes of a model could leave the range of a double.
constexpr double kLongestTime = 1e6, kLowestRate = 1e-6;

double seconds(const Json& object, std::string_view key, const std::string& place) {
  const auto value = get<double>(object, key, place);
  require(value >= 0 && value <= kLongestTime, "{}: '{}' is {}; a number of seconds from 0 to {} was expected.", place,
          key, value, kLongestTime);
  return value;
}

double rate(const Json& object, std::string_view key, const std::string& place) {
  const double value = positive(object, key, place);
  require(value >= kLowestRate, "{}: '{}' is {}; a number from {} upwards was expected.", place, key, value,
          kLowestRate);
  return value;
}

double share(const Json& object, std::string_view key, const std::string& place) {
  const double value = positive(object, key, place);
  require(value <= 1, "{}: '{}' is {}; a share from 0 to 1 was expected.", place, key, value);
  return value;
}

int count(const Json& object, std::string_view key, const std::string& place, int limit) {
  const int value = get<int>(object, key, place);
  require(value >= 1 && value <= limit, "{}: '{}' is {}; a number from 1 to {} was expected.", place, key, value,
          limit);
  return value;
}

DeviceKind device_from_json(const Json& json, const std::string& place) {
  require_only(json,
               {"name", "peak_flops_per_s", "memory_bandwidth_bytes_per_s", "memory_bytes", "usable_memory",
                "matmul_efficiency", "memory_efficiency", "launch_s"},
               place);
  DeviceKind device;
  device.name = get<std::string>(json, "name", place);
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

}  // namespace

Json to_json(const Cluster& cluster) {
  Json peaks = Json::object();
  for (const auto& [dtype, rate] : cluster.device.peak) peaks[dtype] = rate.si();
  Json device;
  device["name"] = cluster.device.name;
  device["peak_flops_per_s"] = std::move(peaks);
  device["memory_bandwidth_bytes_per_s"] = cluster.device.memory_bandwidth.si();
  device["memory_bytes"] = cluster.device.memory.si();
  device["usable_memory"] = cluster.device.usable_memory;
  device["matmul_efficiency"] = cluster.device.matmul_efficiency;
  device["memory_efficiency"] = cluster.device.memory_efficiency;
  device["launch_s"] = cluster.device.launch.si();

  Json json;
  json["format"] = kFormat;
  json["version"] = kVersion;
  json["name"] = cluster.name;
  json["hosts"] = cluster.hosts;
  json["devices_per_host"] = cluster.devices_per_host;
  json["device"] = std::move(device);
  json["within_host"] = link_to_json(cluster.within_host);
  json["between_hosts"] = link_to_json(cluster.between_hosts);
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
  require_only(json,
               {"format", "version", "name", "hosts", "devices_per_host", "device", "within_host", "between_hosts"},
               place);
  Cluster cluster;
  cluster.name = get<std::string>(json, "name", place);
  cluster.hosts = count(json, "hosts", place, 4096);
  cluster.devices_per_host = count(json, "devices_per_host", place, 1024);
  cluster.device = device_from_json(member(json, "device", place), place + ": device");
  cluster.within_host = link_from_json(member(json, "within_host", place), place + ": within_host");
  cluster.between_hosts = link_from_json(member(json, "between_hosts", place), place + ": between_hosts");
  return cluster;
}

}  // namespace meshwright
