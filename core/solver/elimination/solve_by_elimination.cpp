// SPDX-License-Identifier: Apache-2.0
// Bucket elimination over (min, +): a node is eliminated by adding up all tables it occurs in and keeping, for every
// combination of its neighbours' strategies, the least over its own. A chain of n nodes with s strategies costs n s^3.
//
// Inside the tables a forbidden pair is an infinite cost; it becomes nullopt before it leaves this file.
#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include "core/base/errors.h"
#include "core/solver/elimination/elimination_tables.h"
#include "core/solver/elimination/solve_by_elimination.h"
#include "core/solver/glpk/solve_by_glpk.h"
#include "core/solver/problem/sharding_problem.h"

namespace meshwright {

namespace {

using elimination::kForbidden;
using elimination::Order;
using elimination::Table;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

class Elimination {
 public:
  // `given` are a problem's tables.
  explicit Elimination(const std::vector<Table>& given)
      : domain_(elimination::domain_of(given)), touching_(domain_.size()) {
    for (const Table& table : given) add(table);
  }

  void eliminate(const std::vector<int>& order) {
    for (int node : order) eliminate(node);
    order_ = order;
  }

  // Sum of what depends on no node any more; infinite: infeasible.
  [[nodiscard]] double constant() const { return constant_; }

  // A choice that attains constant(). REQUIRES: all nodes are eliminated and constant() is finite.
  [[nodiscard]] ShardingChoice choice() const {
    ShardingChoice choice{std::vector<int>(domain_.size(), 0)};
    for (auto node = order_.rbegin(); node != order_.rend(); ++node)
      choice.strategy[at(*node)] = elimination::best_strategy(domain_, *node, sources_of(*node), choice);
    return choice;
  }

  // Tables left over `a` and `b`, added up: [p * strategies(b) + q]. REQUIRES: all other nodes are eliminated.
  [[nodiscard]] std::vector<double> remaining(int a, int b) const;

 private:
  void add(const Table& table);
  void eliminate(int node);
  [[nodiscard]] std::vector<const Table*> sources_of(int node) const {
    std::vector<const Table*> sources;
    for (const int t : touching_[at(node)]) sources.push_back(tables_[at(t)]);
    return sources;
  }

  elimination::Domain domain_;
  std::deque<Table> made_;
  std::vector<const Table*> tables_;        // kept after use: the choice is read off them
  std::vector<std::vector<int>> touching_;  // per node: the tables it occurs in that have not been used yet; after its
                                            // elimination: those that were added up for it
  std::vector<int> order_;
  double constant_ = 0.0;
};

void Elimination::add(const Table& table) {
  if (table.shape->scope.empty()) {
    constant_ += table.cost.front();
    return;
  }
  for (int node : table.shape->scope) touching_[at(node)].push_back(static_cast<int>(tables_.size()));
  tables_.push_back(&table);
}

void Elimination::eliminate(int node) {
  const std::vector<const Table*> sources = sources_of(node);
  std::vector<const elimination::Shape*> shapes;
  for (const Table* table : sources) shapes.push_back(table->shape.get());
  const elimination::Walk walk = elimination::plan_walk(domain_, node, shapes);
  const Table& result = made_.emplace_back(elimination::eliminate(walk, sources));
  for (int other : walk.shape->scope)
    std::erase_if(touching_[at(other)], [&](int t) { return tables_[at(t)]->shape->contains(node); });
  add(result);
}

std::vector<double> Elimination::remaining(int a, int b) const {
  std::set<int> left(touching_[at(a)].begin(), touching_[at(a)].end());
  left.insert(touching_[at(b)].begin(), touching_[at(b)].end());
  std::vector<double> total(domain_[at(a)] * domain_[at(b)], constant_);
  for (int t : left) {
    const elimination::Shape& shape = *tables_[at(t)]->shape;
    // Where in the table each strategy of one of the two is.
    const auto offsets = [&](int node) {
      std::vector<std::size_t> found(domain_[at(node)], 0);
      if (!shape.contains(node)) return found;
      const std::size_t position = shape.position(node), stride = shape.stride(position);
      for (std::size_t p = 0; p < found.size(); ++p) found[p] = at(shape.classes[position].of[p]) * stride;
      return found;
    };
    const std::vector<std::size_t> of_a = offsets(a), of_b = offsets(b);
    for (std::size_t p = 0; p < of_a.size(); ++p)
      for (std::size_t q = 0; q < of_b.size(); ++q)
        total[p * of_b.size() + q] += tables_[at(t)]->cost[of_a[p] + of_b[q]];
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
  return elimination::find_order(elimination::tables_of(problem), {}).has_value();
}

std::optional<ShardingSolution> solve_by_elimination(const ShardingProblem& problem) {
  require_consistent(problem);
  if (some_node_has_no_strategy(problem)) return std::nullopt;
  const std::vector<Table> given = elimination::tables_of(problem);
  const std::optional<Order> order = elimination::find_order(given, {});
  require(order.has_value(),
          "solve_by_elimination: a table would exceed 2^26 entries; use solve_by_glpk for this problem.");
  Elimination elimination(given);
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
  const auto costs = elimination::pairwise_costs(elimination::tables_of(problem), a, b);
  return costs ? *costs : pairwise_costs_one_by_one(problem, a, b);
}

std::optional<std::vector<std::optional<Seconds>>> elimination::pairwise_costs(const std::vector<Table>& given, int a,
                                                                               int b) {
  const Domain domain = domain_of(given);
  if (std::find(domain.begin(), domain.end(), 0u) != domain.end())
    return std::vector<std::optional<Seconds>>(domain[at(a)] * domain[at(b)]);
  const std::optional<Order> order = find_order(given, {a, b});
  if (!order) return std::nullopt;
  Elimination steps(given);
  steps.eliminate(order->nodes);
  std::vector<std::optional<Seconds>> costs;
  for (double total : steps.remaining(a, b))
    costs.push_back(total == kForbidden ? std::nullopt : std::optional(Seconds(total)));
  return costs;
}

}  // namespace meshwright
