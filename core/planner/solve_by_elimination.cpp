// SPDX-License-Identifier: Apache-2.0
// Bucket elimination over (min, +): a node is eliminated by adding up all tables it occurs in and keeping, for every
// combination of its neighbours' strategies, the least over its own. A chain of n nodes with s strategies costs n s^3.
//
// Inside the tables a forbidden pair is an infinite cost; it becomes nullopt before it leaves this file.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "core/base/errors.h"
#include "core/base/random.h"
#include "core/planner/sharding_problem.h"

namespace meshwright {

namespace {

constexpr double kForbidden = std::numeric_limits<double>::infinity();
constexpr double kLargestTable = 67108864.0;      // 2^26 entries: 512 MiB
constexpr double kLargestTableSum = 134217728.0;  // tables are kept until the choice is read off them
constexpr double kCheap = 1e7;                    // additions for which no other order is tried
constexpr int kTries = 100;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

struct Order {
  std::vector<int> nodes;
  double work = 0.0;  // additions
};

// The node with the smallest resulting table first, ties by index; with `random`, sizes count up to four times as much
// or as little as they are. nullopt: the tables do not fit.
std::optional<Order> greedy_order(const ShardingProblem& problem, const std::vector<int>& kept, Random* random) {
  const int count = static_cast<int>(problem.nodes.size());
  std::vector<std::set<int>> neighbours(problem.nodes.size());
  for (const ShardingProblem::Edge& edge : problem.edges) {
    neighbours[at(edge.from)].insert(edge.to);
    neighbours[at(edge.to)].insert(edge.from);
  }
  const auto table_size = [&](int node) {
    double size = 1.0;
    for (int other : neighbours[at(node)]) size *= static_cast<double>(problem.nodes[at(other)].cost.size());
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
    order.work += size * static_cast<double>(problem.nodes[at(node)].cost.size());
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

// The greedy order, or, where that is much work, the best of several near it (always the same ones).
std::optional<Order> elimination_order(const ShardingProblem& problem, const std::vector<int>& kept) {
  std::optional<Order> best = greedy_order(problem, kept, nullptr);
  if (best && best->work < kCheap) return best;
  Random random(1);
  for (int i = 0; i < kTries; ++i) {
    std::optional<Order> other = greedy_order(problem, kept, &random);
    if (other && (!best || other->work < best->work)) best = std::move(other);
  }
  return best;
}

// A cost for every combination of strategies of the nodes in `scope` (ascending), row-major, the last node fastest.
struct Table {
  std::vector<int> scope;
  std::vector<double> cost;
};

// One table on its way into a sum: the eliminated node moved to the front, walked along the result's dimensions.
struct Operand {
  std::vector<double> moved;  // own copy when the node was not in front already
  const double* cost;
  std::size_t per_strategy;         // entries per strategy of the eliminated node
  std::vector<std::size_t> stride;  // per outer dimension of the result; 0: not in this table
  bool spans_inner;                 // the inner run of the result is in this table, contiguous
  std::size_t offset = 0;
};

// The result's dimensions: outer ones are counted through, the inner run is one vector loop.
struct Walk {
  std::vector<int> scope;
  std::vector<std::size_t> outer;  // sizes
  std::size_t inner = 1;
};

bool contains(const std::vector<int>& scope, int node) { return std::binary_search(scope.begin(), scope.end(), node); }

class Elimination {
 public:
  explicit Elimination(const ShardingProblem& problem) : touching_(problem.nodes.size()) {
    for (int i = 0; i < static_cast<int>(problem.nodes.size()); ++i) {
      const auto& cost = problem.nodes[at(i)].cost;
      domain_.push_back(cost.size());
      std::vector<double> values;
      for (const auto& c : cost) values.push_back(c ? c->si() : kForbidden);
      add({{i}, std::move(values)});
    }
    add_edges(problem);
  }

  void eliminate(const std::vector<int>& order) {
    for (int node : order) eliminate(node);
    order_ = order;
  }

  // Sum of what depends on no node any more; infinite: infeasible.
  [[nodiscard]] double constant() const { return constant_; }

  // A choice that attains constant(). REQUIRES: all nodes are eliminated and constant() is finite.
  [[nodiscard]] ShardingChoice choice() const;

  // Tables left over `a` and `b`, added up: [p * strategies(b) + q]. REQUIRES: all other nodes are eliminated.
  [[nodiscard]] std::vector<double> remaining(int a, int b) const;

 private:
  void add(Table table);
  void add_edges(const ShardingProblem& problem);
  void eliminate(int node);
  [[nodiscard]] Walk plan_walk(int node, const std::vector<int>& sources) const;
  [[nodiscard]] Operand make_operand(const Table& table, int node, const Walk& walk) const;
  [[nodiscard]] std::vector<double> minimise(std::size_t strategies, const Walk& walk,
                                             std::vector<Operand>& operands) const;
  [[nodiscard]] std::size_t stride_of(const Table& table, int node) const;

  std::vector<std::size_t> domain_;         // strategies per node
  std::vector<Table> tables_;               // kept after use: the choice is read off them
  std::vector<std::vector<int>> touching_;  // per node: the tables it occurs in that have not been used yet; after its
                                            // elimination: those that were added up for it
  std::vector<int> order_;
  double constant_ = 0.0;
};

void Elimination::add(Table table) {
  if (table.scope.empty()) {
    constant_ += table.cost.front();
    return;
  }
  for (int node : table.scope) touching_[at(node)].push_back(static_cast<int>(tables_.size()));
  tables_.push_back(std::move(table));
}

// Edges between the same two nodes, in either direction, become one table.
void Elimination::add_edges(const ShardingProblem& problem) {
  std::vector<std::pair<std::pair<int, int>, std::size_t>> by_ends;
  for (std::size_t k = 0; k < problem.edges.size(); ++k) {
    const auto [low, high] = std::minmax(problem.edges[k].from, problem.edges[k].to);
    by_ends.push_back({{low, high}, k});
  }
  std::sort(by_ends.begin(), by_ends.end());
  for (std::size_t n = 0; n < by_ends.size();) {
    const auto [low, high] = by_ends[n].first;
    Table table{{low, high}, std::vector<double>(domain_[at(low)] * domain_[at(high)], 0.0)};
    for (; n < by_ends.size() && by_ends[n].first == std::pair(low, high); ++n) {
      const ShardingProblem::Edge& edge = problem.edges[by_ends[n].second];
      for (std::size_t p = 0; p < domain_[at(low)]; ++p)
        for (std::size_t q = 0; q < domain_[at(high)]; ++q) {
          const auto& cost = edge.cost[edge.from == low ? p * domain_[at(high)] + q : q * domain_[at(low)] + p];
          table.cost[p * domain_[at(high)] + q] += cost ? cost->si() : kForbidden;
        }
    }
    add(std::move(table));
  }
}

std::size_t Elimination::stride_of(const Table& table, int node) const {
  std::size_t stride = 1;
  for (auto other = table.scope.rbegin(); other != table.scope.rend() && *other != node; ++other)
    stride *= domain_[at(*other)];
  return stride;
}

Walk Elimination::plan_walk(int node, const std::vector<int>& sources) const {
  std::set<int> others;
  for (int t : sources) others.insert(tables_[at(t)].scope.begin(), tables_[at(t)].scope.end());
  others.erase(node);
  Walk walk{{others.begin(), others.end()}, {}, 1};
  if (walk.scope.empty()) return walk;

  // The inner run may take in further dimensions as long as every table has all of them or none: they are contiguous
  // then.
  const auto same_tables = [&](int a, int b) {
    return std::all_of(sources.begin(), sources.end(),
                       [&](int t) { return contains(tables_[at(t)].scope, a) == contains(tables_[at(t)].scope, b); });
  };
  std::size_t first_inner = walk.scope.size() - 1;
  while (first_inner > 0 && same_tables(walk.scope[first_inner - 1], walk.scope[first_inner])) --first_inner;
  for (std::size_t d = 0; d < walk.scope.size(); ++d) {
    if (d < first_inner)
      walk.outer.push_back(domain_[at(walk.scope[d])]);
    else
      walk.inner *= domain_[at(walk.scope[d])];
  }
  return walk;
}

Operand Elimination::make_operand(const Table& table, int node, const Walk& walk) const {
  const std::size_t strategies = domain_[at(node)];
  Operand operand{{}, table.cost.data(), table.cost.size() / strategies, {}, false};
  const std::size_t below = stride_of(table, node), above = table.cost.size() / (strategies * below);
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
    const std::size_t stride = stride_of(table, other);
    operand.stride.push_back(other < node ? stride / strategies : stride);
  }
  operand.spans_inner = !walk.scope.empty() && contains(table.scope, walk.scope.back());
  return operand;
}

std::vector<double> Elimination::minimise(std::size_t strategies, const Walk& walk,
                                          std::vector<Operand>& operands) const {
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

void Elimination::eliminate(int node) {
  const std::vector<int>& sources = touching_[at(node)];
  const Walk walk = plan_walk(node, sources);
  std::vector<Operand> operands;
  for (int t : sources) operands.push_back(make_operand(tables_[at(t)], node, walk));
  Table result{walk.scope, minimise(domain_[at(node)], walk, operands)};

  for (int other : walk.scope)
    std::erase_if(touching_[at(other)], [&](int t) { return contains(tables_[at(t)].scope, node); });
  add(std::move(result));
}

ShardingChoice Elimination::choice() const {
  ShardingChoice choice{std::vector<int>(domain_.size(), 0)};
  for (auto node = order_.rbegin(); node != order_.rend(); ++node) {
    std::vector<double> cost(domain_[at(*node)], 0.0);
    for (int t : touching_[at(*node)]) {
      const Table& table = tables_[at(t)];
      std::size_t base = 0;
      for (int other : table.scope)
        if (other != *node) base += stride_of(table, other) * at(choice.strategy[at(other)]);
      const std::size_t stride = stride_of(table, *node);
      for (std::size_t p = 0; p < cost.size(); ++p) cost[p] += table.cost[base + p * stride];
    }
    choice.strategy[at(*node)] = static_cast<int>(std::min_element(cost.begin(), cost.end()) - cost.begin());
  }
  return choice;
}

std::vector<double> Elimination::remaining(int a, int b) const {
  std::set<int> left(touching_[at(a)].begin(), touching_[at(a)].end());
  left.insert(touching_[at(b)].begin(), touching_[at(b)].end());
  std::vector<double> total(domain_[at(a)] * domain_[at(b)], constant_);
  for (int t : left) {
    const Table& table = tables_[at(t)];
    const std::size_t a_stride = contains(table.scope, a) ? stride_of(table, a) : 0;
    const std::size_t b_stride = contains(table.scope, b) ? stride_of(table, b) : 0;
    for (std::size_t p = 0; p < domain_[at(a)]; ++p)
      for (std::size_t q = 0; q < domain_[at(b)]; ++q)
        total[p * domain_[at(b)] + q] += table.cost[p * a_stride + q * b_stride];
  }
  return total;
}

bool some_node_has_no_strategy(const ShardingProblem& problem) {
  return std::any_of(problem.nodes.begin(), problem.nodes.end(), [](const auto& node) { return node.cost.empty(); });
}

std::vector<std::optional<Seconds>> pairwise_costs_one_by_one(const ShardingProblem& problem, int a, int b) {
  ShardingProblem free = problem;
  free.memory_limit = std::nullopt;
  std::vector<std::optional<Seconds>> costs;
  for (int p = 0; p < static_cast<int>(problem.nodes[at(a)].cost.size()); ++p) {
    const ShardingProblem a_fixed = fix_strategy(free, a, p);
    for (int q = 0; q < static_cast<int>(problem.nodes[at(b)].cost.size()); ++q) {
      const std::optional<ShardingSolution> solution = solve_by_glpk(fix_strategy(a_fixed, b, q));
      costs.push_back(solution ? std::optional(solution->cost) : std::nullopt);
    }
  }
  return costs;
}

}  // namespace

bool fits_elimination(const ShardingProblem& problem) {
  require_consistent(problem);
  return elimination_order(problem, {}).has_value();
}

std::optional<ShardingSolution> solve_by_elimination(const ShardingProblem& problem) {
  require_consistent(problem);
  if (some_node_has_no_strategy(problem)) return std::nullopt;
  const std::optional<Order> order = elimination_order(problem, {});
  require(order.has_value(),
          "solve_by_elimination: a table would exceed 2^26 entries; use solve_by_glpk for this problem.");
  Elimination elimination(problem);
  elimination.eliminate(order->nodes);
  if (elimination.constant() == kForbidden) return std::nullopt;
  const Seconds cost(elimination.constant());
  return ShardingSolution{elimination.choice(), cost, cost, "elimination"};
}

std::vector<std::optional<Seconds>> pairwise_costs(const ShardingProblem& problem, int a, int b) {
  require_consistent(problem);
  const int count = static_cast<int>(problem.nodes.size());
  require(a >= 0 && a < count && b >= 0 && b < count && a != b,
          "pairwise_costs: needs two different nodes of 0..{}, not {} and {}.", count - 1, a, b);
  if (some_node_has_no_strategy(problem))
    return std::vector<std::optional<Seconds>>(problem.nodes[at(a)].cost.size() * problem.nodes[at(b)].cost.size());
  const std::optional<Order> order = elimination_order(problem, {a, b});
  if (!order) return pairwise_costs_one_by_one(problem, a, b);
  Elimination elimination(problem);
  elimination.eliminate(order->nodes);
  std::vector<std::optional<Seconds>> costs;
  for (double total : elimination.remaining(a, b))
    costs.push_back(total == kForbidden ? std::nullopt : std::optional(Seconds(total)));
  return costs;
}

}  // namespace meshwright
