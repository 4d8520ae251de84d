// SPDX-License-Identifier: Apache-2.0
#include "costmodel/terms/attention.h"

#include <algorithm>
#include <cmath>

namespace meshwright {

namespace {

constexpr std::int64_t kBlock = 128;
constexpr double kProductsOfBackward = 2.5;  // five products in the place of two

double blocks_of(std::int64_t length) { return static_cast<double>((length + kBlock - 1) / kBlock); }

// Pairs of a query block and a key block. The queries are the last of the sequence, as when a cache holds the first
// keys.
double block_pairs(double queries, double keys, bool causal) {
  if (!causal) return queries * keys;
  const double before = std::max(keys - queries, 0.0);
  return keys * (keys + 1) / 2 - before * (before + 1) / 2;
}

}  // namespace

Flops AttentionShape::flops() const {
  const auto q = static_cast<double>(queries), k = static_cast<double>(keys);
  const double pairs = causal ? q * k - q * (q - 1) / 2 : q * k;
  const double products =
      2.0 * static_cast<double>(batch * heads) * pairs * static_cast<double>(key_width + value_width);
  return Flops((backward ? kProductsOfBackward : 1.0) * products);
}

Bytes AttentionShape::bytes() const {
  const auto width = static_cast<double>(key_width + value_width);
  const double elements = static_cast<double>(batch) * width *
                          (static_cast<double>(heads * queries) + static_cast<double>(kv_heads * keys));
  return (backward ? 2.0 : 1.0) * elements * element;
}

Seconds attention_time(const AttentionShape& shape, const ProductUnit& unit, const AttentionConstants& constants) {
  const double queries = blocks_of(shape.queries), keys = blocks_of(shape.keys);
  const auto groups = static_cast<double>(shape.batch * shape.heads);
  const auto width = static_cast<double>(shape.key_width + shape.value_width);
  const double pair = 2.0 * kBlock * kBlock *
                      (width + constants.softmax_width + constants.wide_heads * std::max(0.0, width - 2 * kBlock)) *
                      (shape.backward ? constants.backward : 1.0);
  const double all =
      groups * (block_pairs(queries, keys, shape.causal) + constants.prologue * queries) * pair / unit.multiprocessors;
  const double longest = (keys + constants.prologue) * pair;
  const double waves = std::ceil(groups * queries / unit.multiprocessors);
  const double work =
      std::max(longest, shape.causal ? all + constants.last_wave * longest / 2
                                     : (1 - constants.last_wave) * all + constants.last_wave * waves * longest);
  const double arithmetic = work * unit.multiprocessors / (constants.peak_share * unit.peak.si());
  const double memory = shape.bytes().si() / (constants.memory_share * unit.memory_bandwidth.si());
  return constants.start + Seconds(std::pow(std::pow(arithmetic, 4) + std::pow(memory, 4), 0.25));
}

}  // namespace meshwright
