// SPDX-License-Identifier: Apache-2.0
// Resharding across meshes: the parts of tiles that devices send each other when a tensor goes from stage to stage.
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph/graph.h"
#include "core/sharding/sharding_spec.h"

namespace meshwright {

// Tile copies that move a tensor kept as `source_spec` on one mesh to `destination_spec` on another. Each destination
// tile is assembled from the source tiles it meets; of replicas, destination rank r takes number r modulo their count,
// or, where both meshes are of the same devices in the same order, its own if it has one. Padding is not copied.
struct TileCopy {
  int source_rank, destination_rank;
  std::vector<std::int64_t> source_offset, destination_offset, extent;
};
[[nodiscard]] std::vector<TileCopy> tile_copies(const std::vector<Dim>& dims, const ShardingSpec& source_spec,
                                                const LogicalMesh& source, const ShardingSpec& destination_spec,
                                                const LogicalMesh& destination, bool same_devices = false);

}  // namespace meshwright
