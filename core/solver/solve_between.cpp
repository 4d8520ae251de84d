// SPDX-License-Identifier: Apache-2.0
#include "core/solver/solve_between.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/solver/elimination/solve_by_elimination.h"
#include "core/solver/solve.h"

namespace meshwright {

using elimination::Table;

namespace {

int strategies(const ShardingProblem& problem, int node) { return static_cast<int>(problem.nodes[node].cost.size()); }

// One problem per pair, as BetweenSolver::solve then finds its choice again.
std::vector<std::optional<Seconds>> costs_one_by_one(ShardingProblem problem, int a, int b) {
  problem.memory_limit = std::nullopt;
  std::vector<std::optional<Seconds>> costs;
  for (int p = 0; p < strategies(problem, a); ++p) {
    const ShardingProblem a_fixed = fix_strategy(problem, a, p);
    for (int q = 0; q < strategies(problem, b); ++q) {
      const std::optional<ShardingSolution> solution = solve(fix_strategy(a_fixed, b, q));
      costs.push_back(solution ? std::optional(solution->cost) : std::nullopt);
    }
  }
  return costs;
}

}  // namespace

BetweenSolver::BetweenSolver(const ShardingProblem& problem, int a, int b, Known known, KnownTables tables)
    : problem_([&problem] { return problem; }),
      a_(a),
      b_(b),
      known_(std::move(known)),
      known_tables_(std::move(tables)) {
  require_consistent(problem);
  const int count = static_cast<int>(problem.nodes.size());
  require(a >= 0 && a < count && b >= 0 && b < count && a != b,
          "solve between: needs two different nodes of 0..{}, not {} and {}.", count - 1, a, b);
  given_ = elimination::tables_of(problem);
}

BetweenSolver::BetweenSolver(std::vector<Table> given, std::function<ShardingProblem()> problem, int a, int b,
                             Known known, KnownTables tables)
    : problem_(std::move(problem)),
      a_(a),
      b_(b),
      known_(std::move(known)),
      known_tables_(std::move(tables)),
      given_(std::move(given)) {}

std::vector<std::optional<Seconds>> BetweenSolver::costs() {
  auto found = elimination::pairwise_costs(given_, a_, b_, *known_, *known_tables_);
  return found ? std::move(*found) : costs_pair_by_pair();
}

std::vector<std::optional<Seconds>> BetweenSolver::costs_pair_by_pair() {
  if (!planned_) plan();
  if (!by_elimination_) return costs_one_by_one(problem_(), a_, b_);
  std::vector<std::optional<Seconds>> costs;
  for (int p = 0; p < strategies_.first; ++p)
    for (int q = 0; q < strategies_.second; ++q) costs.push_back(cost(p, q));
  return costs;
}

std::optional<Seconds> BetweenSolver::cost(int p, int q) {
  double total = 0.0;
  for (std::size_t i = 0; i < steps_->steps.size() && total < portfolio::kForbidden; ++i)
    if (steps_->steps[i].combination.shape->scope.empty()) total += costs_of(steps_->result_of(i), p, q).cost->front();
  forget_pair();
  return total < portfolio::kForbidden ? std::optional(Seconds(total)) : std::nullopt;
}

// The steps, and which of the two nodes each table depends on.
void BetweenSolver::plan() {
  planned_ = true;
  elimination::Structure structure = elimination::structure_of(given_);
  strategies_ = {static_cast<int>(structure.domain[a_]), static_cast<int>(structure.domain[b_])};
  const auto dependence = [&, of_a = structure.domain[a_], of_b = structure.domain[b_]](bool on_a, bool on_b) {
    return Dependence{on_a, on_b, std::vector<Numbered>(on_a == on_b ? 1 : on_a ? of_a : of_b)};
  };
  structure.domain[a_] = structure.domain[b_] = 1;
  const bool some_empty =
      std::any_of(given_.begin(), given_.end(), [](const Table& table) { return table.cost->empty(); });
  std::vector<std::shared_ptr<const elimination::Shape>> shapes;
  for (const Table& given : given_) {
    const bool on_a = given.shape->contains(a_), on_b = given.shape->contains(b_);
    tables_.push_back(dependence(on_a, on_b));
    shapes.push_back(given.shape);
    if (!on_a && !on_b) continue;
    elimination::Shape fixed = *given.shape;
    for (std::size_t d = 0; d < fixed.scope.size(); ++d)
      if (fixed.scope[d] == a_ || fixed.scope[d] == b_) fixed.classes[d] = elimination::single_strategies(1);
    shapes.back() = std::make_shared<elimination::Shape>(std::move(fixed));
  }
  if (!some_empty) steps_ = known_->find(structure, shapes);
  by_elimination_ = steps_ != nullptr;
  if (!by_elimination_) return;
  for (const elimination::Step& step : steps_->steps) {
    bool on_a = false, on_b = false;
    for (const int source : step.sources) {
      on_a = on_a || tables_[source].on_a;
      on_b = on_b || tables_[source].on_b;
    }
    tables_.push_back(dependence(on_a, on_b));
  }
}

// The entries of a given table at the fixed strategies.
elimination::Costs BetweenSolver::part(const Table& whole, int p, int q) const {
  const elimination::Shape& shape = *whole.shape;
  // The classes of one node of the scope that are left.
  const auto range = [&](std::size_t d) {
    const int node = shape.scope[d];
    if (node != a_ && node != b_) return std::pair<std::size_t, std::size_t>(0, shape.classes[d].size());
    const auto fixed = static_cast<std::size_t>(shape.classes[d]->of[node == a_ ? p : q]);
    return std::pair(fixed, fixed + 1);
  };
  const auto [row, end_row] = range(0);
  if (shape.scope.size() == 1) return std::make_shared<const std::vector<double>>(1, (*whole.cost)[row]);
  const auto [column, end_column] = range(1);
  std::vector<double> found;
  for (std::size_t r = row; r < end_row; ++r)
    for (std::size_t c = column; c < end_column; ++c) found.push_back((*whole.cost)[r * shape.classes[1].size() + c]);
  return std::make_shared<const std::vector<double>>(std::move(found));
}

BetweenSolver::Numbered& BetweenSolver::known_costs(int table, int p, int q) {
  Dependence& known = tables_[table];
  return known.costs[known.on_a == known.on_b ? 0 : static_cast<std::size_t>(known.on_a ? p : q)];
}

const BetweenSolver::Numbered& BetweenSolver::costs_of(int table, int p, int q) {
  Numbered& known = known_costs(table, p, q);
  if (known.cost != nullptr) return known;
  if (table >= steps_->given) {
    const elimination::Step& step = steps_->steps[table - steps_->given];
    std::vector<const Numbered*> sources;
    for (const int source : step.sources) sources.push_back(&costs_of(source, p, q));
    return known = known_tables_->result(step, sources);
  }
  const Table& given = given_[table];
  return known = known_tables_->given(tables_[table].on_a || tables_[table].on_b ? part(given, p, q) : given.cost);
}

void BetweenSolver::forget_pair() {
  for (Dependence& table : tables_)
    if (table.on_a && table.on_b) table.costs.front() = {};
}

std::optional<ShardingChoice> BetweenSolver::solve(int p, int q) {
  if (!planned_) plan();
  if (!by_elimination_) {
    auto solution = meshwright::solve(fix_strategy(fix_strategy(problem_(), a_, p), b_, q));
    if (!solution) return std::nullopt;
    solution->choice.strategy[a_] = p;
    solution->choice.strategy[b_] = q;
    return std::move(solution->choice);
  }
  for (std::size_t i = 0; i < steps_->steps.size(); ++i)
    if (steps_->steps[i].combination.shape->scope.empty() &&
        costs_of(steps_->result_of(i), p, q).cost->front() == elimination::kForbidden) {
      forget_pair();
      return std::nullopt;
    }
  ShardingChoice choice{std::vector<int>(steps_->steps.size(), 0)};
  std::vector<const double*> costs;
  for (auto step = steps_->steps.rbegin(); step != steps_->steps.rend(); ++step) {
    costs.clear();
    for (const int source : step->sources) costs.push_back(costs_of(source, p, q).cost->data());
    choice.strategy[step->combination.node] =
        elimination::best_strategy(step->combination, costs, choice, known_tables_->scratch());
  }
  forget_pair();
  choice.strategy[a_] = p;
  choice.strategy[b_] = q;
  return choice;
}

}  // namespace meshwright
