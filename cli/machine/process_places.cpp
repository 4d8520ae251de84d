// SPDX-License-Identifier: Apache-2.0
#include "cli/machine/process_places.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/errors.h"
#include "executor/peers/peers_backend.h"

namespace meshwright {

namespace {

// "4", "4-7"
std::string range_text(int first, int count) {
  return count == 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, first + count - 1);
}

// [host of the plan] the hosts here that its devices are on.
std::map<int, std::set<int>> hosts_of_plan_hosts(const std::vector<ProcessPlace>& places) {
  std::map<int, std::set<int>> hosts;
  for (const ProcessPlace& place : places)
    for (const int host : place.plan_hosts) hosts[host].insert(place.host);
  return hosts;
}

}  // namespace

std::vector<ProcessPlace> process_places(const Cluster& cluster, const Peers& peers) {
  std::vector<ProcessPlace> places;
  const std::vector<Peers::Place> hosts = peers.places();
  for (int rank = 0; rank < peers.size(); ++rank) {
    const Peers::Place& host = hosts[static_cast<std::size_t>(rank)];
    ProcessPlace& place = places.emplace_back(ProcessPlace{host.host_name, host.host, 0, 0, {}});
    place.first_device = PeersBackend::first_device(rank, peers.size(), cluster.devices());
    place.devices = PeersBackend::first_device(rank + 1, peers.size(), cluster.devices()) - place.first_device;
    for (int device = place.first_device; device < place.first_device + place.devices; ++device) {
      const int of = cluster.host_of_device(device);
      if (place.plan_hosts.empty() || place.plan_hosts.back() != of) place.plan_hosts.push_back(of);
    }
  }
  return places;
}

void expect_hosts_of_plan(const Cluster& cluster, const std::vector<ProcessPlace>& places, const std::string& path) {
  for (const auto& [of, hosts] : hosts_of_plan_hosts(places)) {
    if (hosts.size() < 2) continue;
    std::vector<int> ranks;  // the first two of different hosts
    for (std::size_t rank = 0; rank < places.size() && ranks.size() < 2; ++rank) {
      const ProcessPlace& place = places[rank];
      if (std::find(place.plan_hosts.begin(), place.plan_hosts.end(), of) == place.plan_hosts.end()) continue;
      if (ranks.empty() || places[static_cast<std::size_t>(ranks.front())].host != place.host)
        ranks.push_back(static_cast<int>(rank));
    }
    const ProcessPlace &one = places[static_cast<std::size_t>(ranks[0])],
                       &other = places[static_cast<std::size_t>(ranks[1])];
    throw InputError(fmt::format(
        "{}: the plan has the devices of its host {} together, but process {} (devices {}) is on {} and process {} "
        "(devices {}) on {}; {}.",
        path, of, ranks[0], range_text(one.first_device, one.devices), one.host_name, ranks[1],
        range_text(other.first_device, other.devices), other.host_name,
        cluster.hosts() > 1 ? "start the processes host by host (mpirun --map-by slot, srun -m block)"
                            : "plan for a cluster with as many hosts, or start all processes on one"));
  }
}

bool has_hosts_of_plan(const Cluster& cluster, const std::vector<ProcessPlace>& places) {
  std::set<int> hosts;
  for (const ProcessPlace& place : places) hosts.insert(place.host);
  return static_cast<int>(hosts.size()) == cluster.hosts();
}

std::string places_text(const std::vector<ProcessPlace>& places) {
  std::string text;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const ProcessPlace& place = places[rank];
    const int first = place.plan_hosts.front(), last = place.plan_hosts.back();
    text += fmt::format("# process {} on {}: device{} {}, of the plan's host{} {}\n", rank, place.host_name,
                        place.devices == 1 ? "" : "s", range_text(place.first_device, place.devices),
                        first == last ? "" : "s", range_text(first, last - first + 1));
  }
  return text;
}

Json places_json(const std::vector<ProcessPlace>& places) {
  Json list = Json::array();
  for (const ProcessPlace& place : places)
    list.push_back({{"host", place.host_name},
                    {"host_number", place.host},
                    {"first_device", place.first_device},
                    {"devices", place.devices},
                    {"plan_hosts", place.plan_hosts}});
  return list;
}

}  // namespace meshwright
