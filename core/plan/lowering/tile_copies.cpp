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
  std::vector<std::vector<TileRows>> rows;   // [dimension][tile] without padding, ascending
  std::vector<std::vector<int>> number;      // [rank][dimension] the tile that a device holds
  std::vector<std::vector<int>> ranks_with;  // [tile, row-major] devices that hold it, ascending

  TileGrid(const std::vector<Dim>& dims, const ShardingSpec& spec, const LogicalMesh& mesh)
      : number(static_cast<std::size_t>(mesh.devices())) {
    MW_CHECK(dims.size() == spec.dims.size(), "spec {} for a tensor of {} dimensions", spec.to_text(), dims.size());
    std::size_t tiles = 1;
    for (const AxisMask mask : spec.dims) {
      counts.push_back(shards(mask, mesh));
      rows.emplace_back(static_cast<std::size_t>(counts.back()));
      tiles *= static_cast<std::size_t>(counts.back());
    }
    ranks_with.resize(tiles);
    for (int rank = 0; rank < mesh.devices(); ++rank) {
      const std::vector<int> coordinates = mesh.coordinates(rank);
      std::vector<int>& own = number[static_cast<std::size_t>(rank)];
      own.reserve(spec.dims.size());
      for (std::size_t d = 0; d < dims.size(); ++d) {
        own.push_back(tile_index(spec.dims[d], mesh, coordinates));
        rows[d][static_cast<std::size_t>(own[d])] = tile_rows(dims[d].size, spec.dims[d], mesh, coordinates);
      }
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

// The rows of one tile along each dimension.
std::vector<TileRows> rows_of(const TileGrid& grid, const std::vector<int>& tile) {
  std::vector<TileRows> rows;
  rows.reserve(tile.size());
  for (std::size_t d = 0; d < tile.size(); ++d) rows.push_back(grid.rows[d][static_cast<std::size_t>(tile[d])]);
  return rows;
}

bool is_empty(const std::vector<TileRows>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const TileRows& each) { return each.count == 0; });
}

// The last tile that begins at the row or before it: an empty one begins where the next one does.
int tile_with(const std::vector<TileRows>& tiles, std::int64_t row) {
  const auto after = std::upper_bound(tiles.begin(), tiles.end(), row,
                                      [](std::int64_t at, const TileRows& tile) { return at < tile.begin; });
  return static_cast<int>(after - tiles.begin()) - 1;
}

// The tiles of one grid that meet a tile of another, which is not empty: numbers `first` to `last` along each
// dimension. Empty ones may be among them.
struct Meeting {
  std::vector<int> first, last;
};
Meeting tiles_that_meet(const TileGrid& source, const std::vector<TileRows>& rows) {
  Meeting found;
  for (std::size_t d = 0; d < rows.size(); ++d) {
    found.first.push_back(tile_with(source.rows[d], rows[d].begin));
    found.last.push_back(tile_with(source.rows[d], rows[d].begin + rows[d].count - 1));
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

TileCopy copy_between(int source_rank, const std::vector<TileRows>& source, int rank,
                      const std::vector<TileRows>& destination) {
  TileCopy copy{source_rank, rank, {}, {}, {}};
  for (auto* each : {&copy.source_offset, &copy.destination_offset, &copy.extent}) each->reserve(source.size());
  for (std::size_t d = 0; d < source.size(); ++d) {
    const std::int64_t low = std::max(source[d].begin, destination[d].begin);
    const std::int64_t high = std::min(source[d].begin + source[d].count, destination[d].begin + destination[d].count);
    copy.source_offset.push_back(low - source[d].begin);
    copy.destination_offset.push_back(low - destination[d].begin);
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
    const std::vector<TileRows> rows = rows_of(to, to.number[static_cast<std::size_t>(rank)]);
    if (is_empty(rows)) continue;
    const Meeting meeting = tiles_that_meet(from, rows);
    // Source tiles come in ascending order, so that the copies are the same on every run.
    std::vector<int> source_tile = meeting.first;
    do {
      const std::vector<TileRows> source_rows = rows_of(from, source_tile);
      if (is_empty(source_rows)) continue;
      const std::vector<int>& ranks = from.ranks_with[from.position(source_tile)];
      // A device takes what it holds itself. Else the receivers are spread over the replicas.
      const bool has_own = same_devices && std::binary_search(ranks.begin(), ranks.end(), rank);
      const int source_rank = has_own ? rank : ranks[static_cast<std::size_t>(rank) % ranks.size()];
      copies.push_back(copy_between(source_rank, source_rows, rank, rows));
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
    for (const TileRows& tile : to.rows[d]) {
      Run& run = runs.emplace_back(Run{0, {}});
      if (tile.count == 0) continue;
      run.first = tile_with(from.rows[d], tile.begin);
      const int last = tile_with(from.rows[d], tile.begin + tile.count - 1);
      for (int source_tile = run.first; source_tile <= last; ++source_tile) {
        const TileRows& other = from.rows[d][static_cast<std::size_t>(source_tile)];
        const std::int64_t low = std::max(tile.begin, other.begin);
        const std::int64_t high = std::min(tile.begin + tile.count, other.begin + other.count);
        run.shared.push_back(std::max<std::int64_t>(0, high - low));
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
    shared.erase(0);  // of empty tiles
    for (const std::int64_t size : sizes)
      for (const std::int64_t more : shared) products.insert(size * more);
    sizes = std::move(products);
  }
  return {sizes.begin(), sizes.end()};
}

}  // namespace meshwright
