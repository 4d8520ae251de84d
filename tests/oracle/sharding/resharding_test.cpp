// SPDX-License-Identifier: Apache-2.0
// Reshardings against two slow truths: every sequence of up to four steps, and the steps carried out on data.
#include "core/sharding/resharding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>

#include "tests/unit/sharding_fixture.h"

namespace meshwright::resharding_test {
namespace {

using Kind = ReshardStep::Kind;

// --- against every short sequence ---

// Everything that one step may do to a spec, written from the header's sentences; `price` is that of the larger side.
struct Move {
  Kind kind;
  int axis;
  int from_dim, to_dim;
};
std::optional<ShardingSpec> moved(const std::vector<Dim>& dims, const ShardingSpec& before, const Move& move,
                                  const std::vector<int>& shape) {
  const AxisMask bit = static_cast<AxisMask>(1 << move.axis);
  ShardingSpec after = before;
  const bool sums = move.kind == Kind::AllReduce || move.kind == Kind::ReduceScatter;
  const bool joins = move.kind == Kind::AllGather || move.kind == Kind::AllToAll;
  if (sums) {
    if ((before.partial & bit) == 0) return std::nullopt;
    after.partial = static_cast<AxisMask>(after.partial & ~bit);
  } else if (joins) {
    AxisMask& mask = after.dims[static_cast<std::size_t>(move.from_dim)];
    if ((mask & bit) == 0 || mask >= 2 * bit) return std::nullopt;  // innermost: no higher axis in the mask
    mask = static_cast<AxisMask>(mask & ~bit);
  } else if ((before.used() & bit) != 0) {
    return std::nullopt;
  }
  if (move.to_dim >= 0) {
    AxisMask& mask = after.dims[static_cast<std::size_t>(move.to_dim)];
    if (move.from_dim == move.to_dim || mask >= bit) return std::nullopt;  // inside of every cut there is
    mask = static_cast<AxisMask>(mask | bit);
    std::int64_t parts = 1;
    for (std::size_t a = 0; a < shape.size(); ++a)
      if (mask >> a & 1) parts *= shape[a];
    if (dims[static_cast<std::size_t>(move.to_dim)].size % parts != 0) return std::nullopt;
  }
  return after;
}

std::vector<Move> all_moves(int axes, int dims) {
  std::vector<Move> moves;
  for (int axis = 0; axis < axes; ++axis) {
    moves.push_back({Kind::AllReduce, axis, -1, -1});
    for (int d = 0; d < dims; ++d) {
      moves.push_back({Kind::ReduceScatter, axis, -1, d});
      moves.push_back({Kind::AllGather, axis, d, -1});
      moves.push_back({Kind::Slice, axis, -1, d});
      for (int to = 0; to < dims; ++to) moves.push_back({Kind::AllToAll, axis, d, to});
    }
  }
  return moves;
}

double tile_bytes(const std::vector<Dim>& dims, const ShardingSpec& of, const std::vector<int>& shape) {
  double bytes = 4;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    bytes *= static_cast<double>(dims[d].size);
    for (std::size_t a = 0; a < shape.size(); ++a)
      if (of.dims[d] >> a & 1) bytes /= shape[a];
  }
  return bytes;
}

double price(const std::vector<Dim>& dims, Kind kind, int axis, const ShardingSpec& before, const ShardingSpec& after,
             const LogicalMesh& mesh, const CostModel& costs) {
  if (kind == Kind::Slice) return 0;
  const CollectiveKind of = kind == Kind::AllReduce       ? CollectiveKind::AllReduce
                            : kind == Kind::ReduceScatter ? CollectiveKind::ReduceScatter
                            : kind == Kind::AllGather     ? CollectiveKind::AllGather
                                                          : CollectiveKind::AllToAll;
  const double bytes = std::max(tile_bytes(dims, before, mesh.shape()), tile_bytes(dims, after, mesh.shape()));
  return costs.collective(of, Bytes(bytes), mesh.axes[static_cast<std::size_t>(axis)]).time.si();
}

constexpr int kLongest = 4;
struct Search {
  const std::vector<Dim>& dims;
  const LogicalMesh& mesh;
  const CostModel& costs;
  std::vector<Move> moves = all_moves(mesh.rank(), static_cast<int>(dims.size()));
  std::map<ShardingSpec, double> best = {};

  void extend(const ShardingSpec& at, double spent, int length) {
    const auto [known, is_new] = best.emplace(at, spent);
    if (!is_new) known->second = std::min(known->second, spent);
    if (length == kLongest) return;
    for (const Move& move : moves)
      if (const auto after = moved(dims, at, move, mesh.shape()))
        extend(*after, spent + price(dims, move.kind, move.axis, at, *after, mesh, costs), length + 1);
  }
};

TEST(AgainstEverySequenceOfFourSteps, NoneIsCheaperAndNoneAsShortIsMissed) {
  const std::vector<Dim> dims = {{"a", 12}, {"b", 12}};
  for (const auto& shape : {std::vector<int>{2, 2}, {2, 3}, {1, 4}})
    for (const HandPrices& costs : many_prices()) {
      const LogicalMesh mesh = mesh_of(shape);
      for (const ShardingSpec& from : with_partial_sums(dims, mesh)) {
        Search search{dims, mesh, costs};
        search.extend(from, 0.0, 0);
        for (const ShardingSpec& to : enumerate_specs(dims, mesh)) {
          const Resharding found = find_resharding(dims, DType::F32, from, to, mesh, costs);
          ASSERT_EQ(search.best.count(to), 1u) << from.to_text() << " to " << to.to_text();
          EXPECT_LE(found.time.si(), search.best.at(to) + 1e-9) << from.to_text() << " to " << to.to_text();
          if (found.steps.size() <= kLongest) {
            EXPECT_NEAR(found.time.si(), search.best.at(to), 1e-9);
          }
        }
      }
    }
}

// --- against a search that goes on to the end ---

// A search ends with its last target. With every spec among the targets, none is left out.
TEST(AgainstTheCompleteSearch, OneTargetGivesTheSameSteps) {
  std::mt19937 random(11);
  const std::vector<std::vector<int>> shapes = {{4}, {2, 2}, {2, 4}, {4, 1, 2}, {2, 2, 2}};
  const std::vector<std::vector<Dim>> tensors = {{{"a", 16}}, {{"a", 16}, {"b", 8}}, {{"a", 8}, {"b", 3}, {"c", 16}}};
  for (const std::vector<Dim>& dims : tensors)
    for (const auto& shape : shapes)
      for (const HandPrices& costs : many_prices()) {
        const LogicalMesh mesh = mesh_of(shape);
        const std::vector<ShardingSpec> specs = with_partial_sums(dims, mesh);
        for (int i = 0; i < 4; ++i) {
          const ShardingSpec& from = specs[random() % specs.size()];
          std::vector<ShardingSpec> targets = specs;
          std::erase_if(targets, [&](const ShardingSpec& to) { return (to.partial & ~from.partial) != 0; });
          const auto all = find_reshardings(dims, DType::F32, from, targets, mesh, costs);
          for (std::size_t t = 0; t < targets.size(); ++t) {
            const Resharding alone = find_resharding(dims, DType::F32, from, targets[t], mesh, costs);
            ASSERT_EQ(alone.steps, all[t].steps) << from.to_text() << " to " << targets[t].to_text();
            EXPECT_EQ(alone.time, all[t].time);
            EXPECT_EQ(resharding_times(dims, DType::F32, from, {targets[t]}, mesh, costs), std::vector{all[t].time});
          }
        }
      }
}

// --- carried out on data ---

struct Tile {
  std::vector<std::int64_t> shape;
  std::vector<int> data;  // row-major
  bool operator==(const Tile&) const = default;
};

// Elements before and after dimension `dim` of a row-major block.
std::int64_t product(const std::vector<std::int64_t>& sizes, std::size_t begin, std::size_t end) {
  std::int64_t total = 1;
  for (std::size_t i = begin; i < end; ++i) total *= sizes[i];
  return total;
}

// Rounded up; what is beyond the end of the tile is zero.
Tile part_of(const Tile& tile, int dim, int number, int parts) {
  const auto d = static_cast<std::size_t>(dim);
  Tile part{tile.shape, {}};
  part.shape[d] = (tile.shape[d] + parts - 1) / parts;
  const std::int64_t inner = product(tile.shape, d + 1, tile.shape.size());
  for (std::int64_t outer = 0; outer < product(tile.shape, 0, d); ++outer)
    for (std::int64_t row = number * part.shape[d]; row < (number + 1) * part.shape[d]; ++row)
      for (std::int64_t i = 0; i < inner; ++i)
        part.data.push_back(
            row < tile.shape[d] ? tile.data[static_cast<std::size_t>((outer * tile.shape[d] + row) * inner + i)] : 0);
  return part;
}

// The first `length` rows of the parts, which have no more rows than that but for padding.
Tile joined(const std::vector<Tile>& parts, int dim, std::int64_t length) {
  const auto d = static_cast<std::size_t>(dim);
  Tile whole{parts[0].shape, {}};
  whole.shape[d] = length;
  const std::int64_t inner = product(parts[0].shape, d + 1, parts[0].shape.size()), rows = parts[0].shape[d];
  for (std::int64_t outer = 0; outer < product(parts[0].shape, 0, d); ++outer)
    for (std::int64_t row = 0; row < length; ++row) {
      const Tile& part = parts[static_cast<std::size_t>(row / rows)];
      const auto begin = part.data.begin() + (outer * rows + row % rows) * inner;
      whole.data.insert(whole.data.end(), begin, begin + inner);
    }
  return whole;
}

Tile summed(const std::vector<Tile>& parts) {
  Tile sum = parts[0];
  for (std::size_t p = 1; p < parts.size(); ++p)
    for (std::size_t i = 0; i < sum.data.size(); ++i) sum.data[i] += parts[p].data[i];
  return sum;
}

// A rows x columns grid of devices, row-major.
struct Grid {
  int rows, columns;
  [[nodiscard]] int size(int axis) const { return axis == 0 ? rows : columns; }
  [[nodiscard]] int coordinate(int device, int axis) const { return axis == 0 ? device / columns : device % columns; }
  [[nodiscard]] int peer(int device, int axis, int coordinate_there) const {
    return axis == 0 ? coordinate_there * columns + device % columns : device / columns * columns + coordinate_there;
  }
};

// One step as every device carries it out; of the specs only the length of what is gathered is known.
std::vector<Tile> carried_out(const ReshardStep& step, const std::vector<Tile>& before, const Grid& grid,
                              const std::vector<Dim>& dims) {
  std::vector<Tile> after;
  const auto gathered = [&] {
    std::int64_t length = dims[static_cast<std::size_t>(step.from_dim)].size;
    for (int axis = 0; axis < 2; ++axis)
      if (step.after.dims[static_cast<std::size_t>(step.from_dim)] >> axis & 1)
        length = (length + grid.size(axis) - 1) / grid.size(axis);
    return length;
  };
  const int peers = grid.size(step.axis);
  for (int device = 0; device < static_cast<int>(before.size()); ++device) {
    const int own = grid.coordinate(device, step.axis);
    std::vector<Tile> group;
    for (int c = 0; c < peers; ++c) group.push_back(before[static_cast<std::size_t>(grid.peer(device, step.axis, c))]);
    switch (step.kind) {
      case Kind::AllReduce:
        after.push_back(summed(group));
        break;
      case Kind::ReduceScatter:
        after.push_back(part_of(summed(group), step.to_dim, own, peers));
        break;
      case Kind::AllGather:
        after.push_back(joined(group, step.from_dim, gathered()));
        break;
      case Kind::AllToAll:
        for (Tile& tile : group) tile = part_of(tile, step.to_dim, own, peers);
        after.push_back(joined(group, step.from_dim, gathered()));
        break;
      case Kind::Slice:
        after.push_back(part_of(group[static_cast<std::size_t>(own)], step.to_dim, own, peers));
        break;
    }
  }
  return after;
}

// The tiles of a tensor whose element i is (7 i + 3 r) % 16 on the devices numbered r along the partial axes (their sum
// where nothing is partial any more). `summed_axes`: already summed.
std::vector<Tile> laid_out(const std::vector<Dim>& dims, const ShardingSpec& as, AxisMask summed_axes,
                           const Grid& grid) {
  std::vector<Tile> tiles;
  Tile numbers;  // of the elements
  for (const Dim& dim : dims) numbers.shape.push_back(dim.size);
  // From 1 on: 0 is padding.
  for (std::int64_t i = 0; i < product(numbers.shape, 0, dims.size()); ++i)
    numbers.data.push_back(static_cast<int>(i) + 1);
  for (int device = 0; device < grid.rows * grid.columns; ++device) {
    Tile tile = numbers;
    for (int axis = 0; axis < 2; ++axis)  // the outermost cut first
      for (std::size_t d = 0; d < dims.size(); ++d)
        if (as.dims[d] >> axis & 1)
          tile = part_of(tile, static_cast<int>(d), grid.coordinate(device, axis), grid.size(axis));
    const auto ranks_along = [&](int axis) {
      const int here = as.partial >> axis & 1 ? grid.coordinate(device, axis) : 0;
      return summed_axes >> axis & 1 ? std::pair{0, grid.size(axis)} : std::pair{here, here + 1};
    };
    for (int& element : tile.data) {
      const int number = element;
      if (number == 0) continue;
      element = 0;
      for (int r0 = ranks_along(0).first; r0 < ranks_along(0).second; ++r0)
        for (int r1 = ranks_along(1).first; r1 < ranks_along(1).second; ++r1)
          element += (7 * number + 3 * (r0 * grid.columns + r1)) % 16;
    }
    tiles.push_back(std::move(tile));
  }
  return tiles;
}

void expect_reached(const std::vector<Dim>& dims, const ShardingSpec& from, const ShardingSpec& to, const Grid& grid,
                    const CostModel& costs) {
  const LogicalMesh mesh = mesh_of({grid.rows, grid.columns});
  const Resharding found = find_resharding(dims, DType::F32, from, to, mesh, costs);
  std::vector<Tile> tiles = laid_out(dims, from, 0, grid);
  for (const ReshardStep& step : found.steps) {
    tiles = carried_out(step, tiles, grid, dims);
    const AxisMask done = static_cast<AxisMask>(from.partial & ~step.after.partial);
    ASSERT_EQ(tiles, laid_out(dims, step.after, done, grid)) << found.steps.size() << " steps of " << from.to_text();
  }
  const AxisMask done = static_cast<AxisMask>(from.partial & ~to.partial);
  ASSERT_EQ(tiles, laid_out(dims, to, done, grid)) << from.to_text() << " to " << to.to_text();
}

void expect_every_pair_is_reached(const std::vector<Dim>& dims, const Grid& grid, const CostModel& costs) {
  const LogicalMesh mesh = mesh_of({grid.rows, grid.columns});
  for (const ShardingSpec& from : with_partial_sums(dims, mesh))
    for (const ShardingSpec& to : with_partial_sums(dims, mesh))
      if ((to.partial & ~from.partial) == 0)  // nothing becomes a partial sum
        expect_reached(dims, from, to, grid, costs);
}

// From everything to every spec, also where it leaves padding, and back.
void expect_padding_is_reached(const std::vector<Dim>& dims, const Grid& grid, const CostModel& costs) {
  const LogicalMesh mesh = mesh_of({grid.rows, grid.columns});
  std::vector<Dim> divisible = dims;
  for (Dim& dim : divisible) dim.size = 36;
  for (const ShardingSpec& padded : enumerate_specs(divisible, mesh)) {
    for (const ShardingSpec& from : with_partial_sums(divisible, mesh)) {
      if (!divides(dims, from, mesh)) continue;
      expect_reached(dims, from, padded, grid, costs);
      if (from.partial == 0) expect_reached(dims, padded, from, grid, costs);
    }
    for (const ShardingSpec& other : enumerate_specs(divisible, mesh)) expect_reached(dims, padded, other, grid, costs);
  }
}

TEST(CarriedOut, EveryMatrixReachesItsTiles) {
  for (const HandPrices& costs : many_prices()) {
    expect_every_pair_is_reached({{"a", 4}, {"b", 8}}, {2, 2}, costs);
    expect_every_pair_is_reached({{"a", 6}, {"b", 12}}, {2, 3}, costs);
    expect_every_pair_is_reached({{"a", 4}, {"b", 3}}, {2, 3}, costs);  // not everything divides
  }
}
TEST(CarriedOut, EveryCubeReachesItsTiles) {
  for (const HandPrices& costs : many_prices()) {
    expect_every_pair_is_reached({{"a", 4}, {"b", 2}, {"c", 4}}, {2, 2}, costs);
    expect_every_pair_is_reached({{"a", 6}, {"b", 2}, {"c", 3}}, {2, 3}, costs);
  }
}
TEST(CarriedOut, PaddedTilesAreReachedAndLeft) {
  for (const HandPrices& costs : many_prices()) {
    expect_padding_is_reached({{"a", 5}, {"b", 8}}, {2, 2}, costs);
    expect_padding_is_reached({{"a", 7}, {"b", 3}}, {2, 3}, costs);
    expect_padding_is_reached({{"a", 1}, {"b", 10}}, {3, 2}, costs);
    expect_padding_is_reached({{"a", 2}, {"b", 3}, {"c", 4}}, {3, 2}, costs);
  }
}
// The interpreter above tells right from wrong: a gather along the wrong dimension is seen.
TEST(CarriedOut, AWrongStepLeavesWrongTiles) {
  const std::vector<Dim> dims = {{"a", 4}, {"b", 8}};
  const Grid grid{2, 2};
  ReshardStep step{Kind::AllGather, 0, 1, -1, spec("RR")};
  EXPECT_NE(carried_out(step, laid_out(dims, spec("S0R"), 0, grid), grid, dims), laid_out(dims, spec("RR"), 0, grid));
  step.from_dim = 0;
  EXPECT_EQ(carried_out(step, laid_out(dims, spec("S0R"), 0, grid), grid, dims), laid_out(dims, spec("RR"), 0, grid));
}

}  // namespace
}  // namespace meshwright::resharding_test
