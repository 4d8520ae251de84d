// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "core/base/errors.h"
#include "core/plan/lowering/lowering.h"

namespace meshwright {

namespace {

// The tile number along each dimension that a device holds.
std::vector<int> tile_of(const ShardingSpec& spec, const LogicalMesh& mesh, int rank) {
  const std::vector<int> coordinates = mesh.coordinates(rank);
  std::vector<int> tile;
  for (const AxisMask mask : spec.dims) tile.push_back(tile_index(mask, mesh, coordinates));
  return tile;
}

struct Overlap {
  std::vector<std::int64_t> source_offset, destination_offset, extent;
};

std::optional<Overlap> overlap(const std::vector<int>& source_tile, const std::vector<std::int64_t>& source_shape,
                               const std::vector<int>& tile, const std::vector<std::int64_t>& shape) {
  Overlap found;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t source_begin = source_tile[d] * source_shape[d];
    const std::int64_t begin = tile[d] * shape[d];
    const std::int64_t low = std::max(source_begin, begin);
    const std::int64_t high = std::min(source_begin + source_shape[d], begin + shape[d]);
    if (low >= high) return std::nullopt;
    found.source_offset.push_back(low - source_begin);
    found.destination_offset.push_back(low - begin);
    found.extent.push_back(high - low);
  }
  return found;
}

}  // namespace

std::vector<TileCopy> tile_copies(const std::vector<Dim>& dims, const ShardingSpec& source_spec,
                                  const LogicalMesh& source, const ShardingSpec& destination_spec,
                                  const LogicalMesh& destination, bool same_devices) {
  MW_CHECK(source_spec.partial == 0 && destination_spec.partial == 0, "partial sums cannot travel: {} to {}",
           source_spec.to_text(), destination_spec.to_text());
  std::map<std::vector<int>, std::vector<int>> replicas;  // tile -> ranks that hold it
  for (int rank = 0; rank < source.devices(); ++rank) replicas[tile_of(source_spec, source, rank)].push_back(rank);
  const auto source_shape = local_shape(dims, source_spec, source);
  const auto shape = local_shape(dims, destination_spec, destination);
  std::vector<TileCopy> copies;
  for (int rank = 0; rank < destination.devices(); ++rank) {
    const std::vector<int> tile = tile_of(destination_spec, destination, rank);
    // Source tiles come in ascending order, so that the copies are the same on every run.
    for (const auto& [source_tile, ranks] : replicas) {
      auto common = overlap(source_tile, source_shape, tile, shape);
      if (!common) continue;
      // A device takes what it holds itself. Else the receivers are spread over the replicas.
      const bool has_own = same_devices && std::binary_search(ranks.begin(), ranks.end(), rank);
      const int from = has_own ? rank : ranks[static_cast<std::size_t>(rank) % ranks.size()];
      copies.push_back({from, rank, std::move(common->source_offset), std::move(common->destination_offset),
                        std::move(common->extent)});
    }
  }
  return copies;
}

}  // namespace meshwright
