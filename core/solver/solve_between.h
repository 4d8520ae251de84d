// SPDX-License-Identifier: Apache-2.0
// The best choices between fixed strategies of two nodes, for many pairs of them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/solver/elimination/known_tables.h"
#include "core/solver/problem/sharding_problem.h"

namespace meshwright {

// One problem solved between strategies p of node `a` and q of node `b`, as `solve` solves it with both fixed: the same
// order of elimination and the same sums. What depends on neither is added up once, what depends on one of them once
// per strategy. Memory rows are ignored. Where the graph is too wide for elimination, every pair is solved by itself.
class BetweenSolver {
 public:
  using Known = std::shared_ptr<elimination::KnownSteps>;         // several solvers may share it
  using KnownTables = std::shared_ptr<elimination::KnownTables>;  // so may those that share the steps, on one thread
  // REQUIRES: the problem outlives this. Throws InputError where a and b are no two nodes of it.
  BetweenSolver(const ShardingProblem& problem, int a, int b, Known known = std::make_shared<elimination::KnownSteps>(),
                KnownTables tables = std::make_shared<elimination::KnownTables>());
  // By the problem's tables; the problem itself is asked for where they are too wide for elimination.
  BetweenSolver(std::vector<elimination::Table> given, std::function<ShardingProblem()> problem, int a, int b,
                Known known, KnownTables tables);

  // The least total cost for every pair, [p * strategies(b) + q], or that of solve(p, q); an infeasible pair is
  // nullopt.
  [[nodiscard]] std::vector<std::optional<Seconds>> costs();
  // The same without a table of all pairs, which costs() does where that is too wide.
  [[nodiscard]] std::vector<std::optional<Seconds>> costs_pair_by_pair();
  // With a's and b's own strategies in it; nullopt: infeasible.
  [[nodiscard]] std::optional<ShardingChoice> solve(int p, int q);

 private:
  using Numbered = elimination::KnownTables::Numbered;
  // What a table, given or a step's result, depends on besides its shape, and its costs by that.
  struct Dependence {
    bool on_a = false, on_b = false;
    std::vector<Numbered> costs;  // [strategy of the one that it depends on]; of both or neither: [0]
  };
  void plan();
  [[nodiscard]] std::optional<Seconds> cost(int p, int q);
  [[nodiscard]] Numbered& known_costs(int table, int p, int q);
  [[nodiscard]] const Numbered& costs_of(int table, int p, int q);
  void forget_pair();  // tables of both are of no use to another pair
  [[nodiscard]] elimination::Costs part(const elimination::Table& whole, int p, int q) const;

  std::function<ShardingProblem()> problem_;
  int a_, b_;
  Known known_;
  KnownTables known_tables_;
  bool planned_ = false, by_elimination_ = false;
  std::pair<int, int> strategies_ = {0, 0};  // of a and b
  std::vector<elimination::Table> given_;
  std::shared_ptr<const elimination::Steps> steps_;  // with a and b as nodes of one strategy
  IndexedVector<int, Dependence> tables_;
};

}  // namespace meshwright
