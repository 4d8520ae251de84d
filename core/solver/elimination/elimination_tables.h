// SPDX-License-Identifier: Apache-2.0
// Steps of bucket elimination (solve_by_elimination.cpp) that its solvers share: orders, and sums of tables over the
// strategies of one node. Inside tables a forbidden pair is an infinite cost.
//
// Many strategies of a node cost the same beside every strategy of another node: a table has one entry for all of them.
// Every sum is the one that tables of single strategies would give, to the last bit.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "core/solver/problem/sharding_problem.h"

namespace meshwright::elimination {

constexpr double kForbidden = std::numeric_limits<double>::infinity();

using Domain = std::vector<std::size_t>;  // strategies per node

// Strategies of a node that a table does not tell apart; classes are numbered in the order of their first strategies.
struct Classes {
  std::vector<int> of;     // [strategy]
  std::vector<int> first;  // [class]: its first strategy
  [[nodiscard]] std::size_t size() const { return first.size(); }
};
// REQUIRES: `of` is numbered in the order of first strategies.
[[nodiscard]] Classes make_classes(std::vector<int> of);
[[nodiscard]] Classes single_strategies(std::size_t count);

// What a table depends on.
struct Shape {
  std::vector<int> scope;        // nodes, ascending
  std::vector<Classes> classes;  // [node of the scope]
  [[nodiscard]] bool contains(int node) const;
  // REQUIRES: contains(node).
  [[nodiscard]] std::size_t position(int node) const;
  [[nodiscard]] std::size_t stride(std::size_t position) const;  // of one class in Table::cost
};

// A cost for every combination of classes of the nodes in the scope, row-major, the last node fastest.
struct Table {
  std::shared_ptr<const Shape> shape;
  std::vector<double> cost;
};

// What lies between two nodes, by classes of their strategies.
struct Between {
  int from, to;
  Classes from_classes, to_classes;
  std::vector<double> cost;  // [class of from * classes of to + class of to]
};
// Strategies that cost the same beside all others are of one class.
void merge_equal(Between& edge);
// A table per node, then one per two nodes with something between them, in either direction.
[[nodiscard]] std::vector<Table> make_tables(const std::vector<std::vector<double>>& nodes,
                                             const std::vector<Between>& edges);
[[nodiscard]] std::vector<Table> tables_of(const ShardingProblem& problem);
// Of tables made by one of the two.
[[nodiscard]] Domain domain_of(const std::vector<Table>& given);

struct Order {
  std::vector<int> nodes;
  double work = 0.0;  // additions
};
// Of all nodes but `kept`; those of `single` count as having one strategy. Sizes are counted in strategies. nullopt:
// the tables do not fit.
[[nodiscard]] std::optional<Order> find_order(const std::vector<Table>& given, const std::vector<int>& kept,
                                              const std::vector<int>& single = {});

// How a node is eliminated from tables of given shapes.
struct Walk {
  std::shared_ptr<const Shape> shape;  // of the result
  std::vector<std::size_t> outer;      // its leading dimensions are counted through,
  std::size_t inner = 1;               // the rest is one vector loop
  Classes own;                         // the node's, as the sources tell its strategies apart
  struct Source {
    // Where in the table's costs are those of each class of `own`, and of each class of the result's nodes in its
    // scope.
    std::vector<std::vector<std::size_t>> offsets;
    bool as_it_lies;                  // entry by entry the table's costs
    bool least;                       // a cost of the node alone, the least of a class stands for it
    bool spans_inner;                 // the inner run is in this table, contiguous
    std::size_t size, per_class;      // entries in all, and per class of `own`
    std::vector<std::size_t> stride;  // per outer dimension; 0: not in this table
  };
  std::vector<Source> sources;
};
[[nodiscard]] Walk plan_walk(const Domain& domain, int node, const std::vector<const Shape*>& sources);
// The sum of the `sources`, least over the strategies of the walk's node.
[[nodiscard]] Table eliminate(const Walk& walk, const std::vector<const Table*>& sources);
// The strategy of `node` that is best beside a choice of the other nodes in the `sources`; of equals the first.
[[nodiscard]] int best_strategy(const Domain& domain, int node, const std::vector<const Table*>& sources,
                                const ShardingChoice& choice);

// pairwise_costs of sharding_problem.h for a consistent problem's tables. nullopt: they do not fit.
[[nodiscard]] std::optional<std::vector<std::optional<Seconds>>> pairwise_costs(const std::vector<Table>& given, int a,
                                                                                int b);

}  // namespace meshwright::elimination
