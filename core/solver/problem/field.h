// SPDX-License-Identifier: Apache-2.0
// The sharding problem as the solvers of the portfolio see it: a pairwise Markov random field (one label per node, node
// and edge costs) with one knapsack row per liveness step.
//
// Plain numbers: costs have no unit here, and a forbidden label or pair is infinity, the neutral element of min. At the
// portfolio's border (portfolio.h) both turn back into Seconds, Bytes and nullopt.
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "core/solver/problem/sharding_problem.h"

namespace meshwright::portfolio {

inline constexpr double kForbidden = std::numeric_limits<double>::infinity();

using Labels = std::vector<int>;  // [node]

struct Field {
  struct Node {
    std::vector<double> cost;    // [label], at least one
    std::vector<double> memory;  // [label], or empty: none; never negative
    int begin = 0, end = 0;      // the memory counts at steps begin <= t < end
  };
  struct Edge {
    int u, v;                  // u != v; at most one edge joins two nodes
    std::vector<double> cost;  // [label of u * labels of v + label of v]
  };
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  double limit = kForbidden;  // of the memory sum at every step; infinity: no rows
  double constant = 0.0;      // added to every cost

  [[nodiscard]] int labels(int node) const { return static_cast<int>(nodes[node].cost.size()); }
};

// Labels of all nodes, and entries of all edge tables. As doubles: callers compare them with work, which is a double.
[[nodiscard]] double label_count(const Field& field);
[[nodiscard]] double entry_count(const Field& field);

// [row * columns + column] of a table with `rows` rows -> [column * rows + row].
[[nodiscard]] std::vector<double> transposed(const std::vector<double>& cost, std::size_t rows);

// `problem` has passed require_consistent. Parallel edges are added up into one.
[[nodiscard]] Field make_field(const ShardingProblem& problem);

struct FieldValue {
  double cost;  // infinity: a forbidden label or pair
  double peak;  // largest memory sum over steps
};
// From the labels alone; O(size of the field).
[[nodiscard]] FieldValue evaluate(const Field& field, const Labels& labels);

// How long a search may go on. The core reads no clock: `elapsed` is given by whoever has one; without it nothing is
// cut off by time.
struct Budget {
  double limit_s = kForbidden;
  std::function<double()> elapsed;  // seconds since the start, never decreasing
  [[nodiscard]] double used() const { return elapsed ? elapsed() : 0.0; }
  [[nodiscard]] double left() const { return limit_s - used(); }
  [[nodiscard]] bool over() const { return left() <= 0.0; }
};

}  // namespace meshwright::portfolio
