// SPDX-License-Identifier: Apache-2.0
// Internal to lower(): the tiles that a spec cuts a tensor into, and which of them meet.
#pragma once

#include <cstddef>
#include <vector>

#include "core/plan/lowering/tile_copies.h"

namespace meshwright {

// A grid: no mesh axis cuts two dimensions, so each combination of tile numbers along the dimensions is held by as many
// devices.
struct TileGrid {
  std::vector<int> counts;                   // [dimension] tiles along it
  std::vector<std::vector<TileRows>> rows;   // [dimension][tile] without padding, ascending
  std::vector<std::vector<int>> number;      // [rank][dimension] the tile that a device holds
  std::vector<std::vector<int>> ranks_with;  // [tile, row-major] devices that hold it, ascending

  TileGrid(const std::vector<Dim>& dims, const ShardingSpec& spec, const LogicalMesh& mesh);
  [[nodiscard]] std::size_t position(const std::vector<int>& tile) const;
};

// The rows of one tile along each dimension.
[[nodiscard]] std::vector<TileRows> rows_of(const TileGrid& grid, const std::vector<int>& tile);
[[nodiscard]] bool is_empty(const std::vector<TileRows>& rows);
// The last tile that begins at the row or before it: an empty one begins where the next one does.
[[nodiscard]] int tile_with(const std::vector<TileRows>& tiles, std::int64_t row);

// The tiles of one grid that meet a part of the tensor, which is not empty: numbers `first` to `last` along each
// dimension. Empty ones may be among them.
struct MeetingTiles {
  std::vector<int> first, last;
};
[[nodiscard]] MeetingTiles tiles_that_meet(const TileGrid& source, const std::vector<TileRows>& rows);
// The next tile in row-major order; false: that was the last.
[[nodiscard]] bool advance(std::vector<int>& tile, const MeetingTiles& within);

}  // namespace meshwright
