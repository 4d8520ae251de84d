// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <utility>

#include "core/plan/lowering/tile_grid.h"

namespace meshwright {

namespace {

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
  const TileGrid from(dims, source_spec, source), to(dims, destination_spec, destination);
  std::vector<TileCopy> copies;
  for (int rank = 0; rank < destination.devices(); ++rank) {
    const std::vector<TileRows> rows = rows_of(to, to.number[static_cast<std::size_t>(rank)]);
    if (is_empty(rows)) continue;
    const MeetingTiles meeting = tiles_that_meet(from, rows);
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
