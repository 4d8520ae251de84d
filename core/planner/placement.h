// SPDX-License-Identifier: Apache-2.0
// Which physical devices each stage gets.
#pragma once

#include <optional>
#include <vector>

#include "core/mesh/submesh.h"

namespace meshwright {

// Device numbers (host-major) of each submesh, in pipeline order: neighbours in the pipeline lie next to each other
// whenever packing in that order leaves no hole; else the largest submeshes are placed first (always possible for
// power-of-two sizes that fill the cluster). nullopt: the submeshes do not fit.
[[nodiscard]] std::optional<std::vector<std::vector<int>>> place_submeshes(const Cluster& cluster,
                                                                           const std::vector<Submesh>& submeshes);

}  // namespace meshwright
