// SPDX-License-Identifier: Apache-2.0
// The best choices between fixed strategies of two nodes, for many pairs of them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "core/solver/elimination/elimination_tables.h"
#include "core/solver/problem/sharding_problem.h"

namespace meshwright {

// One problem solved between strategies p of node `a` and q of node `b`, as `solve` solves it with both fixed: the same
// order of elimination and the same sums. What depends on neither is added up once, what depends on one of them once
// per strategy. Memory rows are ignored.
class BetweenSolver {
 public:
  // REQUIRES: the problem outlives this.
  BetweenSolver(const ShardingProblem& problem, int a, int b);
  // By the problem's tables; the problem itself is asked for where they are too wide for elimination.
  BetweenSolver(std::vector<elimination::Table> given, std::function<ShardingProblem()> problem, int a, int b);

  // As pairwise_costs.
  [[nodiscard]] std::vector<std::optional<Seconds>> costs() const;
  // With a's and b's own strategies in it; nullopt: infeasible.
  [[nodiscard]] std::optional<ShardingChoice> solve(int p, int q);

 private:
  struct Step {
    int node;
    std::vector<int> sources;
    elimination::Walk walk;
  };
  // A table that is given or comes of a step, for every pair of strategies that it tells apart.
  struct Made {
    std::shared_ptr<const elimination::Shape> shape;
    int step = -1;  // -1: given
    bool of_a = false, of_b = false;
    std::map<std::pair<int, int>, elimination::Table> known;
  };
  void plan();
  [[nodiscard]] const elimination::Table& table(int index, int p, int q);
  // With a and b as nodes of one strategy.
  [[nodiscard]] std::shared_ptr<const elimination::Shape> part(const elimination::Shape& whole) const;
  [[nodiscard]] elimination::Table part(const Made& made, const elimination::Table& whole, int p, int q) const;

  std::function<ShardingProblem()> problem_;
  int a_, b_;
  bool planned_ = false, by_elimination_ = false;
  elimination::Domain domain_;  // 1 for a and b
  std::vector<elimination::Table> given_;
  std::vector<Made> made_;  // the given ones first
  std::vector<Step> steps_;
};

}  // namespace meshwright
