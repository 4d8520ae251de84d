// SPDX-License-Identifier: Apache-2.0
// Steps of bucket elimination (solve_by_elimination.cpp) that its solvers share: orders, and sums of tables over the
// strategies of one node. Inside tables a forbidden pair is an infinite cost.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "core/planner/sharding_problem.h"

namespace meshwright::elimination {

constexpr double kForbidden = std::numeric_limits<double>::infinity();

struct Order {
  std::vector<int> nodes;
  double work = 0.0;  // additions
};
// Of all nodes but `kept`; those of `single` count as having one strategy. nullopt: the tables do not fit.
[[nodiscard]] std::optional<Order> find_order(const ShardingProblem& problem, const std::vector<int>& kept,
                                              const std::vector<int>& single = {});

// A cost for every combination of strategies of the nodes in `scope` (ascending), row-major, the last node fastest.
struct Table {
  std::vector<int> scope;
  std::vector<double> cost;
};

// The result's dimensions: outer ones are counted through, the inner run is one vector loop.
struct Walk {
  std::vector<int> scope;
  std::vector<std::size_t> outer;  // sizes
  std::size_t inner = 1;
};

using Domain = std::vector<std::size_t>;  // strategies per node

[[nodiscard]] bool contains(const std::vector<int>& scope, int node);
[[nodiscard]] std::size_t stride_of(const Domain& domain, const Table& table, int node);
// What is left when `node` is eliminated from the `sources`.
[[nodiscard]] Walk plan_walk(const Domain& domain, int node, const std::vector<const std::vector<int>*>& sources);
// The sum of the `sources`, least over the strategies of `node`.
[[nodiscard]] Table eliminate(const Domain& domain, int node, const Walk& walk,
                              const std::vector<const Table*>& sources);
// The strategy of `node` that is best beside a choice of the other nodes in the `sources`; of equals the first.
[[nodiscard]] int best_strategy(const Domain& domain, int node, const std::vector<const Table*>& sources,
                                const ShardingChoice& choice);
// A table per node, then one per two nodes with edges between them, in either direction.
[[nodiscard]] std::vector<Table> tables_of(const ShardingProblem& problem);

// pairwise_costs of sharding_problem.h, where a consistent problem's own tables are known.
[[nodiscard]] std::vector<std::optional<Seconds>> pairwise_costs(const ShardingProblem& problem, int a, int b,
                                                                 const std::vector<Table>& given);

}  // namespace meshwright::elimination
