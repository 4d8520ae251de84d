// SPDX-License-Identifier: Apache-2.0
#include "costmodel/terms/products.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace meshwright {

namespace {

// Results per tile, as the vendors' libraries have them.
struct Tile {
  int rows, columns;
};
constexpr std::array<Tile, 9> kTiles = {
    {{256, 128}, {128, 256}, {128, 128}, {64, 256}, {256, 64}, {128, 64}, {64, 128}, {64, 64}, {32, 64}}};
constexpr std::array kSplitsOfDepth = {1, 2, 4, 8};
// A partly filled last wave takes this share of a full one: tiles of the next kernel, and tiles that ended early, fill
// the rest.
constexpr double kLastWave = 0.6;
constexpr double kDroopFrom = 32.0 * 1048576.0;  // bytes that fit the caches of all generations

double ceil_divide(std::int64_t a, std::int64_t b) { return static_cast<double>((a + b - 1) / b); }
double fourth_power(double x) { return (x * x) * (x * x); }

}  // namespace

Flops ProductShape::flops() const {
  return Flops(2.0 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) *
               static_cast<double>(k));
}

Bytes ProductShape::bytes() const {
  const auto rows = static_cast<double>(m), columns = static_cast<double>(n), depth = static_cast<double>(k);
  return static_cast<double>(batch) * ((rows + columns) * depth * operand_element + rows * columns * result_element);
}

Seconds product_time(const ProductShape& shape, const ProductUnit& unit, const ProductConstants& constants) {
  const double bytes = shape.bytes().si();
  const double clock = 1.0 + constants.droop * std::max(0.0, std::log2(bytes / kDroopFrom));
  const double per_flop = clock * unit.multiprocessors / (constants.peak_share * unit.peak.si());
  const double read_once = bytes / (constants.memory_share * unit.memory_bandwidth.si());
  const double results = static_cast<double>(shape.batch) * static_cast<double>(shape.m) * static_cast<double>(shape.n);
  double shortest = std::numeric_limits<double>::infinity();
  for (const int split : kSplitsOfDepth) {
    const double depth = ceil_divide(shape.k, split);
    const double memory = read_once + (split > 1 ? 8.0 * split * results / constants.cache.si() + 1e-6 : 0.0);
    for (const Tile& tile : kTiles) {
      const double tiles = static_cast<double>(shape.batch) * split * ceil_divide(shape.m, tile.rows) *
                           ceil_divide(shape.n, tile.columns);
      const double per_processor = tiles / unit.multiprocessors;
      const double waves = (1 - kLastWave) * std::max(per_processor, 1.0) + kLastWave * std::ceil(per_processor);
      const double arithmetic = waves * 2.0 * tile.rows * tile.columns * (depth + constants.depth_overhead) * per_flop;
      const double cache =
          tiles * (tile.rows + tile.columns) * depth * shape.operand_element.si() / constants.cache.si();
      // Powers compare as their roots do, so that one root is taken in all.
      shortest = std::min(shortest, fourth_power(arithmetic) + fourth_power(cache) + fourth_power(memory));
    }
  }
  return constants.start + Seconds(std::sqrt(std::sqrt(shortest)));
}

}  // namespace meshwright
