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
  bool operator==(const TileCopy&) const = default;
};
[[nodiscard]] std::vector<TileCopy> tile_copies(const std::vector<Dim>& dims, const ShardingSpec& source_spec,
                                                const LogicalMesh& source, const ShardingSpec& destination_spec,
                                                const LogicalMesh& destination, bool same_devices = false);

// The same copies without a list of them: between two meshes of a thousand devices each there may be a million.
class TileMeetings {
 public:
  // REQUIRES: as tile_copies, between different devices.
  TileMeetings(const std::vector<Dim>& dims, const ShardingSpec& source_spec, const LogicalMesh& source,
               const ShardingSpec& destination_spec, const LogicalMesh& destination);

  // How many elements a copy may have: distinct. There is a copy of each of these sizes.
  [[nodiscard]] std::vector<std::int64_t> sizes() const;
  // visit(source rank, elements) for the copies to a destination rank, in the order of tile_copies.
  template <class Visit>
  void to(int destination_rank, const Visit& visit) const;

 private:
  // Along one dimension, the source tiles that a destination tile meets: `first` and those that follow it.
  struct Run {
    int first;
    std::vector<std::int64_t> shared;  // [source tile - first] elements, without padding; 0 where the source tile is
                                       // empty, and nothing where the destination tile is
  };
  std::vector<std::vector<Run>> runs_;          // [dimension][destination tile]
  std::vector<int> source_counts_;              // [dimension] source tiles
  std::vector<std::vector<int>> tile_;          // [destination rank][dimension]
  std::vector<std::vector<int>> source_ranks_;  // [source tile, row-major] those that hold it, ascending
};

template <class Visit>
void TileMeetings::to(int destination_rank, const Visit& visit) const {
  const auto rank = static_cast<std::size_t>(destination_rank);
  const std::size_t dims = runs_.size();
  std::vector<const Run*> met;
  for (std::size_t d = 0; d < dims; ++d) {
    met.push_back(&runs_[d][static_cast<std::size_t>(tile_[rank][d])]);
    if (met.back()->shared.empty()) return;
  }
  std::vector<std::size_t> at(dims, 0);  // in Run::shared
  while (true) {
    std::size_t tile = 0;
    std::int64_t elements = 1;
    for (std::size_t d = 0; d < dims; ++d) {
      tile = tile * static_cast<std::size_t>(source_counts_[d]) + static_cast<std::size_t>(met[d]->first) + at[d];
      elements *= met[d]->shared[at[d]];
    }
    const std::vector<int>& holders = source_ranks_[tile];
    if (elements > 0) visit(holders[rank % holders.size()], elements);
    std::size_t d = dims;
    for (; d > 0 && ++at[d - 1] == met[d - 1]->shared.size(); --d) at[d - 1] = 0;
    if (d == 0) return;
  }
}

}  // namespace meshwright
