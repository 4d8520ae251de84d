// SPDX-License-Identifier: Apache-2.0
// Variable elimination with one entry for every combination of strategies: what elimination by classes must equal to
// the last bit.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/solver/elimination/elimination_tables.h"
#include "core/solver/elimination/solve_by_elimination.h"

namespace meshwright {

class PlainElimination {
 public:
  explicit PlainElimination(const ShardingProblem& problem) : problem_(problem) {
    for (int i = 0; i < static_cast<int>(problem.nodes.size()); ++i) {
      Table own{{i}, {}};
      for (int p = 0; p < strategies(i); ++p) own.cost[{p}] = cost_of(node(i).cost[static_cast<std::size_t>(p)]);
      tables_.push_back(std::move(own));
    }
    std::map<std::pair<int, int>, Table> pairs;
    for (const ShardingProblem::Edge& edge : problem.edges) {
      const auto [low, high] = std::minmax(edge.from, edge.to);
      Table& table = pairs[{low, high}];
      table.scope = {low, high};
      for (int p = 0; p < strategies(edge.from); ++p)
        for (int q = 0; q < strategies(edge.to); ++q)
          table.cost[edge.from == low ? std::vector{p, q} : std::vector{q, p}] +=
              cost_of(edge.cost[static_cast<std::size_t>(p * strategies(edge.to) + q)]);
    }
    for (auto& [ends, table] : pairs) tables_.push_back(std::move(table));
  }

  // As elimination::pairwise_costs, in the same order of elimination.
  [[nodiscard]] std::vector<std::optional<Seconds>> pairwise_costs(int a, int b) {
    const auto order = elimination::find_order(elimination::structure_of(elimination::tables_of(problem_)),
                                               elimination::search_for_models(), {a, b});
    for (const int node : order->nodes) eliminate(node);
    std::vector<std::optional<Seconds>> found;
    for (int p = 0; p < strategies(a); ++p)
      for (int q = 0; q < strategies(b); ++q) {
        double sum = constant_;
        for (const Table& table : tables_) sum += at(table, {{a, p}, {b, q}});
        found.push_back(sum == elimination::kForbidden ? std::nullopt : std::optional(Seconds(sum)));
      }
    return found;
  }

 private:
  using Choice = std::map<int, int>;  // node -> strategy
  struct Table {
    std::vector<int> scope;
    std::map<std::vector<int>, double> cost;  // by the strategies of the scope's nodes
  };
  [[nodiscard]] const ShardingProblem::Node& node(int i) const { return problem_.nodes[static_cast<std::size_t>(i)]; }
  [[nodiscard]] int strategies(int i) const { return static_cast<int>(node(i).cost.size()); }
  static double cost_of(const std::optional<Seconds>& cost) { return cost ? cost->si() : elimination::kForbidden; }
  static double at(const Table& table, const Choice& choice) {
    std::vector<int> key;
    for (const int node : table.scope) key.push_back(choice.at(node));
    return table.cost.at(key);
  }
  static bool has(const Table& table, int node) {
    return std::find(table.scope.begin(), table.scope.end(), node) != table.scope.end();
  }

  void eliminate(int node) {
    std::vector<Table> sources, left;
    std::set<int> others;
    for (Table& table : tables_) {
      if (has(table, node)) others.insert(table.scope.begin(), table.scope.end());
      (has(table, node) ? sources : left).push_back(std::move(table));
    }
    others.erase(node);
    // Tables without the result's last node are added first.
    std::stable_partition(sources.begin(), sources.end(),
                          [&](const Table& table) { return others.empty() || !has(table, *others.rbegin()); });
    Table result{{others.begin(), others.end()}, {}};
    Choice choice;
    fill(node, sources, choice, result);
    tables_ = std::move(left);
    if (result.scope.empty())
      constant_ += result.cost.begin()->second;
    else
      tables_.push_back(std::move(result));
  }

  void fill(int node, const std::vector<Table>& sources, Choice& choice, Table& result) const {
    if (choice.size() < result.scope.size()) {
      const int next = result.scope[choice.size()];
      for (int p = 0; p < strategies(next); ++p) {
        choice[next] = p;
        fill(node, sources, choice, result);
      }
      choice.erase(next);
      return;
    }
    double best = elimination::kForbidden;
    Choice all = choice;
    for (int p = 0; p < strategies(node); ++p) {
      all[node] = p;
      double sum = 0.0;
      for (const Table& source : sources) sum += at(source, all);
      best = std::min(best, sum);
    }
    std::vector<int> key;
    for (const auto& [other, p] : choice) key.push_back(p);
    result.cost[std::move(key)] = best;
  }

  const ShardingProblem& problem_;
  std::vector<Table> tables_;
  double constant_ = 0.0;
};

}  // namespace meshwright
