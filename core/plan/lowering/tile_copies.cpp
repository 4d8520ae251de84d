// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <utility>

#include "core/base/errors.h"
#include "core/plan/lowering/lowering.h"

namespace meshwright {

namespace {

// The tiles that a spec cuts a tensor into, as a grid: no mesh axis cuts two dimensions, so each combination of tile
// numbers along the dimensions is held by as many devices.
struct TileGrid {
  std::vector<int> counts;                   // [dimension] tiles along it
  std::vector<std::int64_t> shape;           // of a tile
  std::vector<std::vector<int>> number;      // [rank][dimension] the tile that a device holds
  std::vector<std::vector<int>> ranks_with;  // [tile, row-major] devices that hold it, ascending

  TileGrid(const std::vector<Dim>& dims, const ShardingSpec& spec, const LogicalMesh& mesh)
      : shape(local_shape(dims, spec, mesh)), number(static_cast<std::size_t>(mesh.devices())) {
    std::size_t tiles = 1;
    for (const AxisMask mask : spec.dims) {
      counts.push_back(shards(mask, mesh));
      tiles *= static_cast<std::size_t>(counts.back());
    }
    ranks_with.resize(tiles);
    for (int rank = 0; rank < mesh.devices(); ++rank) {
      const std::vector<int> coordinates = mesh.coordinates(rank);
      std::vector<int>& own = number[static_cast<std::size_t>(rank)];
      own.reserve(spec.dims.size());
      for (const AxisMask mask : spec.dims) own.push_back(tile_index(mask, mesh, coordinates));
      ranks_with[position(own)].push_back(rank);
    }
  }
  [[nodiscard]] std::size_t position(const std::vector<int>& tile) const {
    std::size_t at = 0;
    for (std::size_t d = 0; d < tile.size(); ++d)
      at = at * static_cast<std::size_t>(counts[d]) + static_cast<std::size_t>(tile[d]);
    return at;
  }
};

// The tiles of one grid that meet a tile of another: numbers `first` to `last` along each dimension.
struct Meeting {
  std::vector<int> first, last;
};
Meeting tiles_that_meet(const TileGrid& source, const std::vector<int>& tile, const std::vector<std::int64_t>& shape) {
  Meeting found;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t begin = tile[d] * shape[d];
    found.first.push_back(static_cast<int>(begin / source.shape[d]));
    found.last.push_back(static_cast<int>((begin + shape[d] - 1) / source.shape[d]));
  }
  return found;
}

// The next tile in row-major order; false: that was the last.
bool advance(std::vector<int>& tile, const Meeting& within) {
  for (std::size_t d = tile.size(); d-- > 0;) {
    if (tile[d]++ < within.last[d]) return true;
    tile[d] = within.first[d];
  }
  return false;
}

TileCopy copy_between(int source_rank, const std::vector<int>& source_tile,
                      const std::vector<std::int64_t>& source_shape, int rank, const std::vector<int>& tile,
                      const std::vector<std::int64_t>& shape) {
  TileCopy copy{source_rank, rank, {}, {}, {}};
  for (auto* each : {&copy.source_offset, &copy.destination_offset, &copy.extent}) each->reserve(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t source_begin = source_tile[d] * source_shape[d];
    const std::int64_t begin = tile[d] * shape[d];
    const std::int64_t low = std::max(source_begin, begin);
    const std::int64_t high = std::min(source_begin + source_shape[d], begin + shape[d]);
    copy.source_offset.push_back(low - source_begin);
    copy.destination_offset.push_back(low - begin);
    copy.extent.push_back(high - low);
  }
  return copy;
}

}  // namespace

std::vector<TileCopy> tile_copies(const std::vector<Dim>& dims, const ShardingSpec& source_spec,
                                  const LogicalMesh& source, const ShardingSpec& destination_spec,
                                  const LogicalMesh& destination, bool same_devices) {
  MW_CHECK(source_spec.partial == 0 && destination_spec.partial == 0, "partial sums cannot travel: {} to {}",
           source_spec.to_text(), destination_spec.to_text());
  const TileGrid from(dims, source_spec, source), to(dims, destination_spec, destination);
  std::vector<TileCopy> copies;
  for (int rank = 0; rank < destination.devices(); ++rank) {
    const std::vector<int>& tile = to.number[static_cast<std::size_t>(rank)];
    const Meeting meeting = tiles_that_meet(from, tile, to.shape);
    // Source tiles come in ascending order, so that the copies are the same on every run.
    std::vector<int> source_tile = meeting.first;
    do {
      const std::vector<int>& ranks = from.ranks_with[from.position(source_tile)];
      // A device takes what it holds itself. Else the receivers are spread over the replicas.
      const bool has_own = same_devices && std::binary_search(ranks.begin(), ranks.end(), rank);
      const int source_rank = has_own ? rank : ranks[static_cast<std::size_t>(rank) % ranks.size()];
      copies.push_back(copy_between(source_rank, source_tile, from.shape, rank, tile, to.shape));
    } while (advance(source_tile, meeting));
  }
  return copies;
}

TileMeetings::TileMeetings(const std::vector<Dim>& dims, const ShardingSpec& source_spec, const LogicalMesh& source,
                           const ShardingSpec& destination_spec, const LogicalMesh& destination) {
  MW_CHECK(source_spec.partial == 0 && destination_spec.partial == 0, "partial sums cannot travel: {} to {}",
           source_spec.to_text(), destination_spec.to_text());
  TileGrid from(dims, source_spec, source), to(dims, destination_spec, destination);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    std::vector<Run>& runs = runs_.emplace_back();
    for (int tile = 0; tile < to.counts[d]; ++tile) {
      const std::int64_t begin = tile * to.shape[d], end = begin + to.shape[d];
      Run& run = runs.emplace_back(Run{static_cast<int>(begin / from.shape[d]), {}});
      for (std::int64_t low = begin; low < end;) {
        const std::int64_t high = std::min(end, (low / from.shape[d] + 1) * from.shape[d]);
        run.shared.push_back(high - low);
        low = high;
      }
    }
  }
  source_counts_ = std::move(from.counts);
  tile_ = std::move(to.number);
  source_ranks_ = std::move(from.ranks_with);
}

// Every tile of a grid is held by some device, so every combination of what dimensions share occurs.
std::vector<std::int64_t> TileMeetings::sizes() const {
  std::set<std::int64_t> sizes = {1};
  for (const std::vector<Run>& runs : runs_) {
    std::set<std::int64_t> shared, products;
    for (const Run& run : runs) shared.insert(run.shared.begin(), run.shared.end());
    for (const std::int64_t size : sizes)
      for (const std::int64_t more : shared) products.insert(size * more);
    sizes = std::move(products);
  }
  return {sizes.begin(), sizes.end()};
}

}  // namespace meshwright
