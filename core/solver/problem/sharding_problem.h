// SPDX-License-Identifier: Apache-2.0
// The intra-operator problem as plain data: choose one strategy per node so that node costs plus edge costs are least
// and, at every liveness step, the memory of the live nodes fits.
//
//   x[i,p] in {0,1}   node i uses strategy p           y[k,p,q]   edge k goes from strategy p to q
//   minimise  sum x[i,p] cost[i,p] + sum y[k,p,q] edge_cost[k,p,q]
//   (a) every node i          sum_p x[i,p] = 1
//   (b) every edge k, p       sum_q y[k,p,q] = x[from(k),p]
//   (c) every edge k, q       sum_p y[k,p,q] = x[to(k),q]
//   (d) every step t          sum over i with live_begin[i] <= t < live_end[i] of x[i,p] memory[i,p] <= memory_limit
//
// Memory is never negative, so that of the rows (d) only those of steps at which an interval begins can bind. Sums of
// whole bytes below 2^53 are exact.
//
// Solvers, evaluate and enumeration share nothing but this file. A strategy that cannot be taken, and a pair of
// strategies that cannot go together, is a nullopt cost: it is forbidden, not expensive. (Formulation: Alpa, OSDI'22,
// section 4.2.)
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/units.h"

namespace meshwright {

struct ShardingProblem {
  struct Node {
    std::string name;
    std::vector<std::string> strategies;       // for people; one per cost, or empty
    std::vector<std::optional<Seconds>> cost;  // per strategy
    std::vector<Bytes> memory;                 // per strategy; empty: none
    int live_begin = 0, live_end = 0;          // memory counts at steps live_begin <= t < live_end; equal: never
  };
  struct Edge {
    int from, to;                              // nodes, from != to
    std::vector<std::optional<Seconds>> cost;  // [p * strategies(to) + q]
  };
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::optional<Bytes> memory_limit;
};

struct ShardingChoice {
  std::vector<int> strategy;  // per node
  bool operator==(const ShardingChoice&) const = default;
};

struct ShardingSolution {
  ShardingChoice choice;
  Seconds cost{0.0};
  Seconds lower_bound{0.0};
  std::string method;  // "elimination", "glpk", "enumeration"
};

struct Evaluation {
  Seconds node_cost{0.0}, edge_cost{0.0};
  Bytes peak_memory{0.0};
  std::vector<std::string> violations;  // sentences; empty = feasible
  [[nodiscard]] Seconds total() const { return node_cost + edge_cost; }
};

// Throws InputError naming the node or edge whose sizes, indices, costs or interval do not fit together. Every function
// below calls it.
void require_consistent(const ShardingProblem& problem);

// Recomputes cost and memory from the choice alone; never calls a solver.
[[nodiscard]] Evaluation evaluate(const ShardingProblem& problem, const ShardingChoice& choice);

// A node with fixed strategy: the same problem in which node `node` has only strategy `strategy` left (cost of the
// others forbidden by removing them; indices in the choice refer to the reduced list, position 0).
[[nodiscard]] ShardingProblem fix_strategy(const ShardingProblem& problem, int node, int strategy);

}  // namespace meshwright
