// SPDX-License-Identifier: Apache-2.0
// Tile copies against the truth that compares every tile of the destination with every tile of the source.
#include "core/plan/lowering/tile_copies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "tests/unit/sharding_fixture.h"

namespace meshwright::tile_copies_test {
namespace {

std::vector<int> tile_of(const ShardingSpec& spec, const LogicalMesh& mesh, int rank) {
  std::vector<int> tile;
  for (const AxisMask mask : spec.dims) tile.push_back(tile_index(mask, mesh, mesh.coordinates(rank)));
  return tile;
}

// The rows of a tile along one dimension, cut axis by axis from the outermost in; each cut rounds up.
struct Range {
  std::int64_t low, high;
};
Range rows_of(std::int64_t size, AxisMask mask, const LogicalMesh& mesh, int rank) {
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < size; ++row) rows.push_back(row);
  for (int axis = 0; axis < mesh.rank(); ++axis) {
    if (!(mask >> axis & 1)) continue;
    const std::int64_t parts = mesh.shape()[static_cast<std::size_t>(axis)];
    while (static_cast<std::int64_t>(rows.size()) % parts != 0) rows.push_back(-1);
    const auto each = static_cast<std::ptrdiff_t>(static_cast<std::int64_t>(rows.size()) / parts);
    const auto begin = rows.begin() + mesh.coordinates(rank)[static_cast<std::size_t>(axis)] * each;
    rows = {begin, begin + each};
  }
  std::erase(rows, -1);
  return rows.empty() ? Range{0, 0} : Range{rows.front(), rows.back() + 1};
}

std::vector<TileCopy> copies_between_all_tiles(const std::vector<Dim>& dims, const ShardingSpec& from,
                                               const LogicalMesh& source, const ShardingSpec& to,
                                               const LogicalMesh& destination, bool same_devices) {
  std::map<std::vector<int>, std::vector<int>> replicas;  // tile -> ranks that hold it
  for (int rank = 0; rank < source.devices(); ++rank) replicas[tile_of(from, source, rank)].push_back(rank);
  std::vector<TileCopy> copies;
  for (int rank = 0; rank < destination.devices(); ++rank) {
    for (const auto& [source_tile, ranks] : replicas) {
      const bool has_own = same_devices && std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
      TileCopy copy{has_own ? rank : ranks[static_cast<std::size_t>(rank) % ranks.size()], rank, {}, {}, {}};
      bool meet = true;
      for (std::size_t d = 0; d < dims.size(); ++d) {
        const Range here = rows_of(dims[d].size, from.dims[d], source, ranks.front());
        const Range there = rows_of(dims[d].size, to.dims[d], destination, rank);
        const std::int64_t low = std::max(here.low, there.low), high = std::min(here.high, there.high);
        meet = meet && low < high;
        copy.source_offset.push_back(low - here.low);
        copy.destination_offset.push_back(low - there.low);
        copy.extent.push_back(high - low);
      }
      if (meet) copies.push_back(std::move(copy));
    }
  }
  return copies;
}

auto fields(const TileCopy& copy) {
  return std::tie(copy.source_rank, copy.destination_rank, copy.source_offset, copy.destination_offset, copy.extent);
}

// The copies to each rank and their sizes, without the list.
void expect_same_meetings(const TileMeetings& meetings, const std::vector<TileCopy>& truth, int destinations) {
  std::vector<std::tuple<int, int, std::int64_t>> expected, found;  // source, destination, elements
  std::set<std::int64_t> sizes;
  for (const TileCopy& copy : truth) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : copy.extent) elements *= extent;
    expected.emplace_back(copy.source_rank, copy.destination_rank, elements);
    sizes.insert(elements);
  }
  for (int rank = 0; rank < destinations; ++rank)
    meetings.to(rank, [&](int source, std::int64_t elements) { found.emplace_back(source, rank, elements); });
  EXPECT_EQ(found, expected);
  EXPECT_EQ(meetings.sizes(), std::vector<std::int64_t>(sizes.begin(), sizes.end()));
}

// `split`: what the specs divide. Where that is not `dims`, there is padding.
void expect_all_pairs(const std::vector<Dim>& dims, const std::vector<Dim>& split) {
  const std::vector<std::vector<int>> shapes = {{1}, {4}, {2, 3}, {6, 1}, {2, 2, 2}, {3, 2, 2}};
  std::mt19937 random(3);
  for (const auto& source : shapes)
    for (const auto& destination : shapes) {
      const LogicalMesh a = mesh_of(source), b = mesh_of(destination);
      const auto from_specs = enumerate_specs(split, a), to_specs = enumerate_specs(split, b);
      const bool same = a.devices() == b.devices();
      for (int i = 0; i < 40; ++i) {
        const ShardingSpec &from = from_specs[random() % from_specs.size()], &to = to_specs[random() % to_specs.size()];
        const auto found = tile_copies(dims, from, a, to, b, same);
        const auto truth = copies_between_all_tiles(dims, from, a, to, b, same);
        ASSERT_TRUE(std::equal(found.begin(), found.end(), truth.begin(), truth.end(),
                               [](const auto& x, const auto& y) { return fields(x) == fields(y); }))
            << from.to_text() << " on " << a.to_text() << " to " << to.to_text() << " on " << b.to_text();
        expect_same_meetings(TileMeetings(dims, from, a, to, b), copies_between_all_tiles(dims, from, a, to, b, false),
                             b.devices());
      }
    }
}

TEST(TileCopies, AreThoseOfAllPairsOfTilesInTheSameOrder) {
  for (const std::vector<Dim>& dims :
       std::vector<std::vector<Dim>>{{}, {{"a", 12}}, {{"a", 12}, {"b", 24}}, {{"a", 24}, {"b", 6}, {"c", 12}}})
    expect_all_pairs(dims, dims);
}

TEST(TileCopies, OfPaddedTilesLeaveThePaddingOut) {
  const std::vector<Dim> split = {{"a", 144}, {"b", 144}};
  for (const std::int64_t rows : {1, 5, 9, 13, 23})
    for (const std::int64_t columns : {2, 7, 24}) expect_all_pairs({{"a", rows}, {"b", columns}}, split);
}

}  // namespace
}  // namespace meshwright::tile_copies_test
