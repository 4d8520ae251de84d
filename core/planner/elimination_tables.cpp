// SPDX-License-Identifier: Apache-2.0
#include "core/planner/elimination_tables.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/base/random.h"

namespace meshwright::elimination {

namespace {

constexpr double kLargestTable = 67108864.0;      // 2^26 entries: 512 MiB
constexpr double kLargestTableSum = 134217728.0;  // tables are kept until the choice is read off them
constexpr double kCheap = 1e7;                    // additions for which no other order is tried
constexpr int kTries = 100;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

Domain domain_of(const ShardingProblem& problem) {
  Domain domain;
  for (const ShardingProblem::Node& node : problem.nodes) domain.push_back(node.cost.size());
  return domain;
}

// The node with the smallest resulting table first, ties by index; with `random`, sizes count up to four times as much
// or as little as they are. nullopt: the tables do not fit.
std::optional<Order> greedy_order(const ShardingProblem& problem, const std::vector<int>& kept, const Domain& domain,
                                  Random* random) {
  const int count = static_cast<int>(problem.nodes.size());
  std::vector<std::set<int>> neighbours(problem.nodes.size());
  for (const ShardingProblem::Edge& edge : problem.edges) {
    neighbours[at(edge.from)].insert(edge.to);
    neighbours[at(edge.to)].insert(edge.from);
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
  std::vector<double> key(problem.nodes.size());
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

// One table on its way into a sum: the eliminated node moved to the front, walked along the result's dimensions.
struct Operand {
  std::vector<double> moved;  // own copy when the node was not in front already
  const double* cost;
  std::size_t per_strategy;         // entries per strategy of the eliminated node
  std::vector<std::size_t> stride;  // per outer dimension of the result; 0: not in this table
  bool spans_inner;                 // the inner run of the result is in this table, contiguous
  std::size_t offset = 0;
};

Operand make_operand(const Domain& domain, const Table& table, int node, const Walk& walk) {
  const std::size_t strategies = domain[at(node)];
  Operand operand{{}, table.cost.data(), table.cost.size() / strategies, {}, false};
  const std::size_t below = stride_of(domain, table, node), above = table.cost.size() / (strategies * below);
  if (above > 1) {
    operand.moved.resize(table.cost.size());
    for (std::size_t a = 0; a < above; ++a)
      for (std::size_t p = 0; p < strategies; ++p)
        std::copy_n(table.cost.data() + (a * strategies + p) * below, below,
                    operand.moved.data() + (p * above + a) * below);
  }
  for (std::size_t d = 0; d < walk.outer.size(); ++d) {
    const int other = walk.scope[d];
    if (!contains(table.scope, other)) {
      operand.stride.push_back(0);
      continue;
    }
    // Moving the node to the front shortens the strides of the dimensions that were before it.
    const std::size_t stride = stride_of(domain, table, other);
    operand.stride.push_back(other < node ? stride / strategies : stride);
  }
  operand.spans_inner = !walk.scope.empty() && contains(table.scope, walk.scope.back());
  return operand;
}

std::vector<double> minimise(std::size_t strategies, const Walk& walk, std::vector<Operand>& operands) {
  for (Operand& operand : operands)
    if (!operand.moved.empty()) operand.cost = operand.moved.data();
  std::size_t outer_count = 1;
  for (std::size_t size : walk.outer) outer_count *= size;
  std::vector<double> result(outer_count * walk.inner, kForbidden), sum(walk.inner);
  std::vector<std::size_t> position(walk.outer.size(), 0);

  for (std::size_t outer = 0; outer < outer_count; ++outer) {
    double* best = result.data() + outer * walk.inner;
    for (std::size_t p = 0; p < strategies; ++p) {
      double constant = 0.0;
      for (const Operand& operand : operands)
        if (!operand.spans_inner) constant += operand.cost[operand.offset + p * operand.per_strategy];
      std::fill(sum.begin(), sum.end(), constant);
      for (const Operand& operand : operands) {
        if (!operand.spans_inner) continue;
        const double* row = operand.cost + operand.offset + p * operand.per_strategy;
        for (std::size_t j = 0; j < walk.inner; ++j) sum[j] += row[j];
      }
      for (std::size_t j = 0; j < walk.inner; ++j) best[j] = sum[j] < best[j] ? sum[j] : best[j];
    }
    for (std::size_t d = walk.outer.size(); d-- > 0;) {
      const bool wraps = ++position[d] == walk.outer[d];
      for (Operand& operand : operands)
        operand.offset =
            wraps ? operand.offset - operand.stride[d] * (walk.outer[d] - 1) : operand.offset + operand.stride[d];
      if (!wraps) break;
      position[d] = 0;
    }
  }
  return result;
}

}  // namespace

// The greedy order, or, where that is much work, the best of several near it (always the same ones).
std::optional<Order> find_order(const ShardingProblem& problem, const std::vector<int>& kept,
                                const std::vector<int>& single) {
  Domain domain = domain_of(problem);
  for (const int node : single) domain[at(node)] = 1;
  std::optional<Order> best = greedy_order(problem, kept, domain, nullptr);
  if (best && best->work < kCheap) return best;
  Random random(1);
  for (int i = 0; i < kTries; ++i) {
    std::optional<Order> other = greedy_order(problem, kept, domain, &random);
    if (other && (!best || other->work < best->work)) best = std::move(other);
  }
  return best;
}

bool contains(const std::vector<int>& scope, int node) { return std::binary_search(scope.begin(), scope.end(), node); }

std::size_t stride_of(const Domain& domain, const Table& table, int node) {
  std::size_t stride = 1;
  for (auto other = table.scope.rbegin(); other != table.scope.rend() && *other != node; ++other)
    stride *= domain[at(*other)];
  return stride;
}

Walk plan_walk(const Domain& domain, int node, const std::vector<const std::vector<int>*>& sources) {
  std::set<int> others;
  for (const auto* scope : sources) others.insert(scope->begin(), scope->end());
  others.erase(node);
  Walk walk{{others.begin(), others.end()}, {}, 1};
  if (walk.scope.empty()) return walk;

  // The inner run may take in further dimensions as long as every table has all of them or none: they are contiguous
  // then.
  const auto same_tables = [&](int a, int b) {
    return std::all_of(sources.begin(), sources.end(),
                       [&](const auto* scope) { return contains(*scope, a) == contains(*scope, b); });
  };
  std::size_t first_inner = walk.scope.size() - 1;
  while (first_inner > 0 && same_tables(walk.scope[first_inner - 1], walk.scope[first_inner])) --first_inner;
  for (std::size_t d = 0; d < walk.scope.size(); ++d) {
    if (d < first_inner)
      walk.outer.push_back(domain[at(walk.scope[d])]);
    else
      walk.inner *= domain[at(walk.scope[d])];
  }
  return walk;
}

Table eliminate(const Domain& domain, int node, const Walk& walk, const std::vector<const Table*>& sources) {
  std::vector<Operand> operands;
  for (const Table* table : sources) operands.push_back(make_operand(domain, *table, node, walk));
  return {walk.scope, minimise(domain[at(node)], walk, operands)};
}

int best_strategy(const Domain& domain, int node, const std::vector<const Table*>& sources,
                  const ShardingChoice& choice) {
  std::vector<double> cost(domain[at(node)], 0.0);
  for (const Table* table : sources) {
    std::size_t base = 0;
    for (const int other : table->scope)
      if (other != node) base += stride_of(domain, *table, other) * at(choice.strategy[at(other)]);
    const std::size_t stride = stride_of(domain, *table, node);
    for (std::size_t p = 0; p < cost.size(); ++p) cost[p] += table->cost[base + p * stride];
  }
  return static_cast<int>(std::min_element(cost.begin(), cost.end()) - cost.begin());
}

std::vector<Table> tables_of(const ShardingProblem& problem) {
  const Domain domain = domain_of(problem);
  std::vector<Table> tables;
  for (int i = 0; i < static_cast<int>(problem.nodes.size()); ++i) {
    std::vector<double> values;
    for (const auto& c : problem.nodes[at(i)].cost) values.push_back(c ? c->si() : kForbidden);
    tables.push_back({{i}, std::move(values)});
  }
  std::vector<std::pair<std::pair<int, int>, std::size_t>> by_ends;
  for (std::size_t k = 0; k < problem.edges.size(); ++k) {
    const auto [low, high] = std::minmax(problem.edges[k].from, problem.edges[k].to);
    by_ends.push_back({{low, high}, k});
  }
  std::sort(by_ends.begin(), by_ends.end());
  for (std::size_t n = 0; n < by_ends.size();) {
    const auto [low, high] = by_ends[n].first;
    Table table{{low, high}, std::vector<double>(domain[at(low)] * domain[at(high)], 0.0)};
    for (; n < by_ends.size() && by_ends[n].first == std::pair(low, high); ++n) {
      const ShardingProblem::Edge& edge = problem.edges[by_ends[n].second];
      for (std::size_t p = 0; p < domain[at(low)]; ++p)
        for (std::size_t q = 0; q < domain[at(high)]; ++q) {
          const auto& cost = edge.cost[edge.from == low ? p * domain[at(high)] + q : q * domain[at(low)] + p];
          table.cost[p * domain[at(high)] + q] += cost ? cost->si() : kForbidden;
        }
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace meshwright::elimination
