// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/base/random.h"
#include "core/solver/elimination/elimination_tables.h"

namespace meshwright::elimination {

namespace {

constexpr double kLargestTable = 67108864.0;      // 2^26 entries: 512 MiB
constexpr double kLargestTableSum = 134217728.0;  // tables are kept until the choice is read off them
constexpr double kCheap = 1e7;                    // additions for which no other order is tried
constexpr int kTries = 100;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// The node with the smallest resulting table first, ties by index; with `random`, sizes count up to four times as much
// or as little as they are. nullopt: the tables do not fit.
std::optional<Order> greedy_order(const std::vector<Table>& given, const std::vector<int>& kept, const Domain& domain,
                                  Random* random) {
  const int count = static_cast<int>(domain.size());
  std::vector<std::set<int>> neighbours(domain.size());
  for (const Table& table : given) {
    if (table.shape->scope.size() < 2) continue;
    neighbours[at(table.shape->scope.front())].insert(table.shape->scope.back());
    neighbours[at(table.shape->scope.back())].insert(table.shape->scope.front());
  }
  const auto table_size = [&](int node) {
    double size = 1.0;
    for (int other : neighbours[at(node)]) size *= static_cast<double>(domain[at(other)]);
    return size;
  };
  const auto key_of = [&](int node) {
    const double size = table_size(node);
    return random == nullptr ? size : std::exp2(4.0 * random->unit() - 2.0) * size;
  };
  std::vector<double> key(domain.size());
  std::set<std::pair<double, int>> waiting;
  for (int i = 0; i < count; ++i)
    if (std::find(kept.begin(), kept.end(), i) == kept.end()) waiting.emplace(key[at(i)] = key_of(i), i);

  Order order;
  double total = 0.0;
  while (!waiting.empty()) {
    const int node = waiting.begin()->second;
    const double size = table_size(node);
    total += size;
    if (size > kLargestTable || total > kLargestTableSum) return std::nullopt;
    waiting.erase(waiting.begin());
    order.nodes.push_back(node);
    order.work += size * static_cast<double>(domain[at(node)]);
    const std::set<int> around = std::move(neighbours[at(node)]);
    for (int a : around) {
      neighbours[at(a)].erase(node);
      for (int b : around)
        if (a != b) neighbours[at(a)].insert(b);
    }
    for (int a : around) {
      if (waiting.erase({key[at(a)], a}) == 0) continue;  // kept
      waiting.emplace(key[at(a)] = key_of(a), a);
    }
  }
  return order;
}

}  // namespace

// The greedy order, or, where that is much work, the best of several near it (always the same ones).
std::optional<Order> find_order(const std::vector<Table>& given, const std::vector<int>& kept,
                                const std::vector<int>& single) {
  Domain domain = domain_of(given);
  for (const int node : single) domain[at(node)] = 1;
  std::optional<Order> best = greedy_order(given, kept, domain, nullptr);
  if (best && best->work < kCheap) return best;
  Random random(1);
  for (int i = 0; i < kTries; ++i) {
    std::optional<Order> other = greedy_order(given, kept, domain, &random);
    if (other && (!best || other->work < best->work)) best = std::move(other);
  }
  return best;
}

}  // namespace meshwright::elimination
