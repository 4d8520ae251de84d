// SPDX-License-Identifier: Apache-2.0
#include "launch/setup/maxtext_mesh.h"

#include <algorithm>
#include <numeric>

namespace meshwright {

std::vector<MaxtextAxis> maxtext_axes(const LaunchSetup& setup) {
  const Degrees& d = setup.degrees;
  const int replicas = std::max(1, d.dp / d.ep);
  const int fsdp = d.zero == 3 ? setup.shard.value_or(replicas) : 1;
  const std::vector<std::pair<const char*, int>> axes = {{"tensor", d.tp},          {"context", d.cp},
                                                         {"expert", d.ep},          {"fsdp", fsdp},
                                                         {"data", replicas / fsdp}, {"pipeline", d.pp}};
  int left = setup.devices_per_host;
  std::vector<MaxtextAxis> found;
  for (const auto& [name, size] : axes) {
    const int inside = std::gcd(left, size);
    left /= inside;
    found.push_back({name, inside, size / inside});
  }
  return found;
}

}  // namespace meshwright
