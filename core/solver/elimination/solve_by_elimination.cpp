// SPDX-License-Identifier: Apache-2.0
#include "core/solver/elimination/solve_by_elimination.h"

#include <algorithm>
#include <utility>

#include "core/base/errors.h"
#include "core/solver/elimination/elimination_steps.h"

namespace meshwright {

namespace {

using elimination::kForbidden;
using elimination::Shape;
using elimination::Table;

// An elimination that has run. Keeps every table, so that a choice can be read off them in the reverse order.
class FinishedElimination {
 public:
  // `given` outlives this.
  FinishedElimination(const std::vector<Table>& given, const std::vector<int>& order) {
    std::vector<std::shared_ptr<const Shape>> shapes;
    for (const Table& table : given) {
      shapes.push_back(table.shape);
      costs_.push_back(table.cost.data());
    }
    const elimination::Structure structure = elimination::structure_of(given);
    steps_ = elimination::plan_steps(structure.domain, std::move(shapes), order);
    elimination::Scratch scratch;
    for (const elimination::Step& step : steps_.steps) {
      std::vector<double>& result = results_.emplace_back(step.combination.entries());
      (void)elimination::combine(step.combination, costs_of(step), result.data(), scratch);
      costs_.push_back(result.data());
      // A result without nodes is the minimum over one connected component.
      if (step.combination.shape->scope.empty()) constant_ += result.front();
    }
  }

  // Sum of what depends on no node any more; infinite: infeasible.
  [[nodiscard]] double constant() const { return constant_; }

  // A choice that attains constant(). REQUIRES: all nodes are eliminated and constant() is finite.
  [[nodiscard]] ShardingChoice choice() const {
    // In reverse order every node of a step's scope is chosen before the step's own node.
    ShardingChoice choice{std::vector<int>(steps_.steps.size(), 0)};
    for (auto step = steps_.steps.rbegin(); step != steps_.steps.rend(); ++step)
      choice.strategy[step->combination.node] = elimination::best_strategy(step->combination, costs_of(*step), choice);
    return choice;
  }

  // The tables that are left, added up: [p * strategies(b) + q]. REQUIRES: all nodes but `a` and `b` are eliminated.
  [[nodiscard]] std::vector<double> remaining(int a, std::size_t strategies_of_a, int b,
                                              std::size_t strategies_of_b) const {
    std::vector<double> total(strategies_of_a * strategies_of_b, constant_);
    for (int t = 0; t < steps_.shapes.count(); ++t) {
      const Shape& shape = *steps_.shapes[t];
      // A table that no step took is over `a`, `b` or both.
      if (steps_.taken_by[t] >= 0 || shape.scope.empty()) continue;
      // Where in the table each strategy of one of the two is.
      const auto offsets = [&](int node, std::size_t strategies) {
        std::vector<std::size_t> found(strategies, 0);
        if (!shape.contains(node)) return found;
        const std::size_t position = shape.position(node), stride = shape.stride(position);
        std::transform(shape.classes[position].of.begin(), shape.classes[position].of.end(), found.begin(),
                       [&](int of) { return of * stride; });
        return found;
      };
      const std::vector<std::size_t> of_a = offsets(a, strategies_of_a), of_b = offsets(b, strategies_of_b);
      auto sum = total.begin();
      for (const std::size_t p : of_a)
        for (const std::size_t q : of_b) *sum++ += costs_[t][p + q];
    }
    return total;
  }

 private:
  [[nodiscard]] std::vector<const double*> costs_of(const elimination::Step& step) const {
    std::vector<const double*> costs;
    for (const int table : step.sources) costs.push_back(costs_[table]);
    return costs;
  }

  elimination::Steps steps_;
  std::vector<std::vector<double>> results_;  // [step]; the numbers stay where they are when this grows
  IndexedVector<int, const double*> costs_;   // [table]
  double constant_ = 0.0;
};

bool some_node_has_no_strategy(const ShardingProblem& problem) {
  return std::any_of(problem.nodes.begin(), problem.nodes.end(), [](const auto& node) { return node.cost.empty(); });
}

std::optional<elimination::EliminationOrder> order_of(const std::vector<Table>& given,
                                                      const std::vector<int>& kept = {}) {
  return elimination::find_order(elimination::structure_of(given), elimination::search_for_models(), kept);
}

}  // namespace

bool fits_elimination(const ShardingProblem& problem) {
  require_consistent(problem);
  const auto order = elimination::find_order(elimination::structure_of(portfolio::make_field(problem)),
                                             elimination::search_for_models());
  return order.has_value();
}

std::optional<ShardingSolution> solve_by_elimination(const ShardingProblem& problem) {
  require_consistent(problem);
  if (some_node_has_no_strategy(problem)) return std::nullopt;
  const std::vector<Table> given = elimination::tables_of(problem);
  const auto order = order_of(given);
  require(order.has_value(),
          "solve_by_elimination: a table would exceed 2^26 entries; use solve_by_glpk for this problem.");
  const FinishedElimination finished(given, order->nodes);
  if (finished.constant() == kForbidden) return std::nullopt;
  const Seconds cost(finished.constant());
  return ShardingSolution{finished.choice(), cost, cost, "elimination"};
}

std::optional<std::vector<std::optional<Seconds>>> elimination::pairwise_costs(const std::vector<Table>& given, int a,
                                                                               int b) {
  const Domain domain = structure_of(given).domain;
  // One node without strategies makes every pair infeasible.
  if (std::find(domain.begin(), domain.end(), 0u) != domain.end())
    return std::vector<std::optional<Seconds>>(domain[a] * domain[b]);
  const auto order = order_of(given, {a, b});
  if (!order) return std::nullopt;
  std::vector<std::optional<Seconds>> costs;
  for (const double total : FinishedElimination(given, order->nodes).remaining(a, domain[a], b, domain[b]))
    costs.push_back(total == kForbidden ? std::nullopt : std::optional(Seconds(total)));
  return costs;
}

}  // namespace meshwright
