// SPDX-License-Identifier: Apache-2.0
#include "core/solver/elimination/solve_by_elimination.h"

#include <algorithm>
#include <utility>

#include "core/base/errors.h"

namespace meshwright {

namespace {

using elimination::kForbidden;
using elimination::KnownTables;
using elimination::Shape;
using elimination::Table;

// An elimination that has run. Keeps every table, so that a choice can be read off them in the reverse order.
class FinishedElimination {
 public:
  // `steps`: of tables with the shapes of `given`.
  FinishedElimination(const std::vector<Table>& given, std::shared_ptr<const elimination::Steps> steps,
                      KnownTables& known)
      : steps_(std::move(steps)) {
    for (const Table& table : given) tables_.push_back(known.given(table.cost));
    tables_.reserve(given.size() + steps_->steps.size());
    std::vector<const KnownTables::Numbered*> sources;
    for (const elimination::Step& step : steps_->steps) {
      sources.clear();
      for (const int table : step.sources) sources.push_back(&tables_[table]);
      tables_.push_back(known.result(step, sources));
      // A result without nodes is the minimum over one connected component.
      if (step.combination.shape->scope.empty()) constant_ += tables_.back().cost->front();
    }
  }

  // Sum of what depends on no node any more; infinite: infeasible.
  [[nodiscard]] double constant() const { return constant_; }

  // A choice that attains constant(). REQUIRES: all nodes are eliminated and constant() is finite.
  [[nodiscard]] ShardingChoice choice() const {
    elimination::Scratch scratch;
    // In reverse order every node of a step's scope is chosen before the step's own node.
    ShardingChoice choice{std::vector<int>(steps_->steps.size(), 0)};
    for (auto step = steps_->steps.rbegin(); step != steps_->steps.rend(); ++step)
      choice.strategy[step->combination.node] =
          elimination::best_strategy(step->combination, costs_of(*step), choice, scratch);
    return choice;
  }

  // The tables that are left, added up: [p * strategies(b) + q]. REQUIRES: all nodes but `a` and `b` are eliminated.
  [[nodiscard]] std::vector<double> remaining(int a, std::size_t strategies_of_a, int b,
                                              std::size_t strategies_of_b) const {
    std::vector<double> total(strategies_of_a * strategies_of_b, constant_);
    for (int t = 0; t < steps_->shapes.count(); ++t) {
      const Shape& shape = *steps_->shapes[t];
      // A table that no step took is over `a`, `b` or both.
      if (steps_->taken_by[t] >= 0 || shape.scope.empty()) continue;
      // Where in the table each strategy of one of the two is.
      const auto offsets = [&](int node, std::size_t strategies) {
        std::vector<std::size_t> found(strategies, 0);
        if (!shape.contains(node)) return found;
        const std::size_t position = shape.position(node), stride = shape.stride(position);
        std::transform(shape.classes[position]->of.begin(), shape.classes[position]->of.end(), found.begin(),
                       [&](int of) { return of * stride; });
        return found;
      };
      const std::vector<std::size_t> of_a = offsets(a, strategies_of_a), of_b = offsets(b, strategies_of_b);
      auto sum = total.begin();
      for (const std::size_t p : of_a)
        for (const std::size_t q : of_b) *sum++ += (*tables_[t].cost)[p + q];
    }
    return total;
  }

 private:
  [[nodiscard]] std::vector<const double*> costs_of(const elimination::Step& step) const {
    std::vector<const double*> costs;
    for (const int table : step.sources) costs.push_back(tables_[table].cost->data());
    return costs;
  }

  std::shared_ptr<const elimination::Steps> steps_;
  IndexedVector<int, KnownTables::Numbered> tables_;
  double constant_ = 0.0;
};

std::vector<std::shared_ptr<const Shape>> shapes_of(const std::vector<Table>& given) {
  std::vector<std::shared_ptr<const Shape>> shapes;
  shapes.reserve(given.size());
  for (const Table& table : given) shapes.push_back(table.shape);
  return shapes;
}

bool some_node_has_no_strategy(const ShardingProblem& problem) {
  return std::any_of(problem.nodes.begin(), problem.nodes.end(), [](const auto& node) { return node.cost.empty(); });
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
  elimination::KnownSteps known;
  const auto steps = known.find(elimination::structure_of(given), shapes_of(given));
  require(steps != nullptr,
          "solve_by_elimination: a table would exceed 2^26 entries; use solve_by_glpk for this problem.");
  KnownTables tables;
  const FinishedElimination finished(given, steps, tables);
  if (finished.constant() == kForbidden) return std::nullopt;
  const Seconds cost(finished.constant());
  return ShardingSolution{finished.choice(), cost, cost, "elimination"};
}

std::optional<std::vector<std::optional<Seconds>>> elimination::pairwise_costs(const std::vector<Table>& given, int a,
                                                                               int b, KnownSteps& known,
                                                                               KnownTables& tables) {
  const Structure structure = structure_of(given);
  const Domain& domain = structure.domain;
  // One node without strategies makes every pair infeasible.
  if (std::find(domain.begin(), domain.end(), 0u) != domain.end())
    return std::vector<std::optional<Seconds>>(domain[a] * domain[b]);
  const std::shared_ptr<const Steps> steps = known.find(structure, shapes_of(given), {a, b});
  if (steps == nullptr) return std::nullopt;
  std::vector<std::optional<Seconds>> costs;
  for (const double total : FinishedElimination(given, steps, tables).remaining(a, domain[a], b, domain[b]))
    costs.push_back(total == kForbidden ? std::nullopt : std::optional(Seconds(total)));
  return costs;
}

}  // namespace meshwright
