// SPDX-License-Identifier: Apache-2.0
// The member `network` of a cluster file:
//
//   {"groups": [{"nvlink": "switch",
//                "pcie": {"devices_per_switch": 2, "bandwidth_bytes_per_s": 25e9},
//                "nics": {"per_host": 8, "bandwidth_bytes_per_s": 22.5e9}}],
//    "leaves": {"hosts_per_leaf": 4, "oversubscription": 2},
//    "hop_latency_s": 3e-7}
//
// Every member may be left out, down to {}. `groups` has an entry per group of hosts; `nvlink` is "switch", "pairs" or
// "none" (then `pcie` is needed). Instead of `oversubscription` leaves may have "uplinks": 4,
// "uplink_bandwidth_bytes_per_s": 25e9 each; 0 uplinks connect nothing and need no bandwidth.
#include "core/base/errors.h"
#include "core/mesh/cluster.h"
#include "core/mesh/cluster_members.h"

namespace meshwright {

namespace {

constexpr int kMaxOnHost = 1024;  // devices, adapters

constexpr std::pair<NvLink, const char*> kNvLinks[] = {
    {NvLink::Switch, "switch"}, {NvLink::Pairs, "pairs"}, {NvLink::None, "none"}};

NvLink nvlink_from_name(const std::string& name, const std::string& place) {
  std::vector<std::string> known;
  for (const auto& [kind, text] : kNvLinks) {
    if (text == name) return kind;
    known.emplace_back(text);
  }
  throw InputError(place + ": " + unknown_name("nvlink", name, known, fmt::format("All are {}.", join(known, ", "))));
}

const char* name_of(NvLink kind) {
  for (const auto& [known, text] : kNvLinks)
    if (known == kind) return text;
  throw InternalError("a kind of NVLink without a name");
}

BytesPerSecond bandwidth(const Json& json, std::string_view key, const std::string& place) {
  return BytesPerSecond(rate(json, key, place));
}

HostNetwork host_from_json(const Json& json, const HostGroup& group, const std::string& place) {
  require_only(json, {"nvlink", "pcie", "nics"}, place);
  HostNetwork network;
  if (json.contains("nvlink")) network.nvlink = nvlink_from_name(get<std::string>(json, "nvlink", place), place);
  if (json.contains("pcie")) {
    const std::string where = place + ": pcie";
    const Json& pcie = json["pcie"];
    require_only(pcie, {"devices_per_switch", "bandwidth_bytes_per_s"}, where);
    network.pcie = {count(pcie, "devices_per_switch", where, kMaxOnHost),
                    bandwidth(pcie, "bandwidth_bytes_per_s", where)};
  }
  if (json.contains("nics")) {
    const std::string where = place + ": nics";
    const Json& nics = json["nics"];
    require_only(nics, {"per_host", "bandwidth_bytes_per_s"}, where);
    network.nics = {count(nics, "per_host", where, kMaxOnHost), bandwidth(nics, "bandwidth_bytes_per_s", where)};
  }
  require(network.nvlink != NvLink::None || network.pcie,
          "{}: with 'nvlink' \"none\" the devices of a host are connected by 'pcie' only, which is missing; add it.",
          place);
  require(network.nvlink != NvLink::Pairs || group.devices_per_host <= kMaxInPairs,
          "{}: {} devices per host are too many for 'nvlink' \"pairs\"; give {} at most or \"switch\".", place,
          group.devices_per_host, kMaxInPairs);
  return network;
}

LeafSwitches leaves_from_json(const Json& json, const std::string& place) {
  require_only(json, {"hosts_per_leaf", "oversubscription", "uplinks", "uplink_bandwidth_bytes_per_s"}, place);
  LeafSwitches leaves;
  leaves.hosts = count(json, "hosts_per_leaf", place, kMaxHosts);
  require(!json.contains("oversubscription") || !json.contains("uplinks"),
          "{}: 'oversubscription' and 'uplinks' both fix a leaf's upward bandwidth; give one of them.", place);
  if (json.contains("uplinks")) {
    leaves.oversubscription.reset();
    leaves.uplinks = get<int>(json, "uplinks", place);
    require(0 <= leaves.uplinks && leaves.uplinks <= kMaxOnHost,
            "{}: 'uplinks' is {}; a number from 0 to {} was expected.", place, leaves.uplinks, kMaxOnHost);
  }
  if (json.contains("oversubscription")) {
    leaves.oversubscription = rate(json, "oversubscription", place);
    require(*leaves.oversubscription >= 1, "{}: 'oversubscription' is {}; a number from 1 upwards was expected.", place,
            *leaves.oversubscription);
  }
  if (leaves.uplinks > 0) leaves.uplink_bandwidth = bandwidth(json, "uplink_bandwidth_bytes_per_s", place);
  require(leaves.uplinks > 0 || !json.contains("uplink_bandwidth_bytes_per_s"),
          "{}: 'uplink_bandwidth_bytes_per_s' is given without 'uplinks'; give their number too.", place);
  return leaves;
}

}  // namespace

NetworkSpec network_from_json(const Json& json, const std::vector<HostGroup>& groups, const std::string& place) {
  require_only(json, {"groups", "leaves", "hop_latency_s"}, place);
  NetworkSpec network;
  network.place = place;
  if (json.contains("groups")) {
    const Json& list = json["groups"];
    require(list.is_array() && list.size() == groups.size(),
            "{}: 'groups' must be a list with one entry for each group of hosts, {} in all.", place, groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g)
      network.groups.push_back(host_from_json(list[g], groups[g], fmt::format("{}: groups[{}]", place, g)));
  }
  if (json.contains("leaves")) network.leaves = leaves_from_json(json["leaves"], place + ": leaves");
  if (json.contains("hop_latency_s")) network.hop_latency = Seconds(seconds(json, "hop_latency_s", place));
  return network;
}

Json to_json(const NetworkSpec& network) {
  Json json = Json::object();
  for (const HostNetwork& group : network.groups) {
    Json entry;
    entry["nvlink"] = name_of(group.nvlink);
    if (group.pcie)
      entry["pcie"] = {{"devices_per_switch", group.pcie->devices},
                       {"bandwidth_bytes_per_s", group.pcie->bandwidth.si()}};
    if (group.nics)
      entry["nics"] = {{"per_host", group.nics->count}, {"bandwidth_bytes_per_s", group.nics->bandwidth.si()}};
    json["groups"].push_back(std::move(entry));
  }
  if (network.leaves) {
    Json& leaves = json["leaves"];
    leaves["hosts_per_leaf"] = network.leaves->hosts;
    if (network.leaves->oversubscription)
      leaves["oversubscription"] = *network.leaves->oversubscription;
    else
      leaves["uplinks"] = network.leaves->uplinks;
    if (network.leaves->uplinks > 0) leaves["uplink_bandwidth_bytes_per_s"] = network.leaves->uplink_bandwidth.si();
  }
  json["hop_latency_s"] = network.hop_latency.si();
  return json;
}

}  // namespace meshwright
