// SPDX-License-Identifier: Apache-2.0
#include "core/plan/lowering/tile_grid.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright {

TileGrid::TileGrid(const std::vector<Dim>& dims, const ShardingSpec& spec, const LogicalMesh& mesh)
    : number(static_cast<std::size_t>(mesh.devices())) {
  MW_CHECK(spec.partial == 0, "partial sums cannot travel: {}", spec.to_text());
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

std::size_t TileGrid::position(const std::vector<int>& tile) const {
  std::size_t at = 0;
  for (std::size_t d = 0; d < tile.size(); ++d)
    at = at * static_cast<std::size_t>(counts[d]) + static_cast<std::size_t>(tile[d]);
  return at;
}

std::vector<TileRows> rows_of(const TileGrid& grid, const std::vector<int>& tile) {
  std::vector<TileRows> rows;
  rows.reserve(tile.size());
  for (std::size_t d = 0; d < tile.size(); ++d) rows.push_back(grid.rows[d][static_cast<std::size_t>(tile[d])]);
  return rows;
}

bool is_empty(const std::vector<TileRows>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const TileRows& each) { return each.count == 0; });
}

int tile_with(const std::vector<TileRows>& tiles, std::int64_t row) {
  const auto after = std::upper_bound(tiles.begin(), tiles.end(), row,
                                      [](std::int64_t at, const TileRows& tile) { return at < tile.begin; });
  return static_cast<int>(after - tiles.begin()) - 1;
}

MeetingTiles tiles_that_meet(const TileGrid& source, const std::vector<TileRows>& rows) {
  MeetingTiles found;
  for (std::size_t d = 0; d < rows.size(); ++d) {
    found.first.push_back(tile_with(source.rows[d], rows[d].begin));
    found.last.push_back(tile_with(source.rows[d], rows[d].begin + rows[d].count - 1));
  }
  return found;
}

bool advance(std::vector<int>& tile, const MeetingTiles& within) {
  for (std::size_t d = tile.size(); d-- > 0;) {
    if (tile[d]++ < within.last[d]) return true;
    tile[d] = within.first[d];
  }
  return false;
}

}  // namespace meshwright
