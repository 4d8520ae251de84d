// SPDX-License-Identifier: Apache-2.0
// Fields shaped like the training graph of a model, with a memory limit that binds: too large to enumerate.
#pragma once

#include <algorithm>
#include <random>

#include "core/solver/problem/field.h"

namespace meshwright::portfolio {

// Forward nodes 0..n/2-1 keep their memory until their backward node n-1-i has run. `tightness`: the limit's place
// between the least peak memory (0) and that of the labels of least cost (1).
inline Field training_field(int count, unsigned seed, double tightness) {
  std::mt19937 random(seed);
  const auto between = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  Field field;
  for (int i = 0; i < count; ++i) {
    Field::Node node;
    const int size = 1 << between(2, 7);
    for (int x = between(3, 8); x > 0; --x) {
      const int shards = 1 << between(0, 3);
      node.cost.push_back(size * (shards - 1) * between(1, 5));
      node.memory.push_back(16.0 * size / shards);
    }
    node.begin = i;
    node.end = i < count / 2 ? count - i : std::min(count, i + 2);
    field.nodes.push_back(std::move(node));
  }
  const auto join = [&](int u, int v) {
    Field::Edge edge{u, v, {}};
    for (int n = field.labels(u) * field.labels(v); n > 0; --n) edge.cost.push_back(between(-20, 80));
    field.edges.push_back(std::move(edge));
  };
  for (int i = 0; i + 1 < count; ++i) join(i, i + 1);
  for (int i = 0; i + 3 < count; i += 4) join(i, i + 3);
  for (int i = 0; i + 1 < count / 2; i += 5) join(i, count - 1 - i);
  Labels cheapest, smallest;
  for (const Field::Node& node : field.nodes) {
    cheapest.push_back(static_cast<int>(std::min_element(node.cost.begin(), node.cost.end()) - node.cost.begin()));
    smallest.push_back(
        static_cast<int>(std::min_element(node.memory.begin(), node.memory.end()) - node.memory.begin()));
  }
  const double least = evaluate(field, smallest).peak, most = evaluate(field, cheapest).peak;
  field.limit = least + tightness * (most - least);
  return field;
}

}  // namespace meshwright::portfolio
