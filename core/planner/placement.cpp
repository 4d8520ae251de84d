// SPDX-License-Identifier: Apache-2.0
#include "core/planner/placement.h"

#include <algorithm>
#include <numeric>

namespace meshwright {

namespace {

// First hosts with room for the submesh, or empty.
std::vector<int> take(const Submesh& submesh, int devices_per_host, std::vector<int>& used) {
  const int hosts = static_cast<int>(used.size());
  for (int first = 0; first + submesh.hosts <= hosts; ++first) {
    const auto fits = [&](int host) {
      return used[static_cast<std::size_t>(host)] + submesh.devices_per_host <= devices_per_host;
    };
    bool room = true;
    for (int host = first; host < first + submesh.hosts; ++host) room = room && fits(host);
    if (!room) continue;
    std::vector<int> devices;
    for (int host = first; host < first + submesh.hosts; ++host) {
      int& taken = used[static_cast<std::size_t>(host)];
      for (int d = 0; d < submesh.devices_per_host; ++d) devices.push_back(host * devices_per_host + taken + d);
      taken += submesh.devices_per_host;
    }
    return devices;
  }
  return {};
}

std::optional<std::vector<std::vector<int>>> place_in_order(const Cluster& cluster,
                                                            const std::vector<Submesh>& submeshes,
                                                            const std::vector<std::size_t>& order) {
  std::vector<int> used(static_cast<std::size_t>(cluster.hosts), 0);
  std::vector<std::vector<int>> placed(submeshes.size());
  for (const std::size_t s : order) {
    placed[s] = take(submeshes[s], cluster.devices_per_host, used);
    if (placed[s].empty()) return std::nullopt;
  }
  return placed;
}

}  // namespace

std::optional<std::vector<std::vector<int>>> place_submeshes(const Cluster& cluster,
                                                             const std::vector<Submesh>& submeshes) {
  std::vector<std::size_t> order(submeshes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (auto placed = place_in_order(cluster, submeshes, order)) return placed;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return submeshes[a].devices() > submeshes[b].devices(); });
  return place_in_order(cluster, submeshes, order);
}

}  // namespace meshwright
