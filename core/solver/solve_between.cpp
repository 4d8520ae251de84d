// SPDX-License-Identifier: Apache-2.0
#include "core/solver/solve_between.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/solver/elimination/solve_by_elimination.h"
#include "core/solver/glpk/solve_by_glpk.h"
#include "core/solver/solve.h"

namespace meshwright {

using elimination::Table;

namespace {

int strategies(const ShardingProblem& problem, int node) { return static_cast<int>(problem.nodes[node].cost.size()); }

// One integer program per pair.
std::vector<std::optional<Seconds>> costs_one_by_one(ShardingProblem problem, int a, int b) {
  problem.memory_limit = std::nullopt;
  std::vector<std::optional<Seconds>> costs;
  for (int p = 0; p < strategies(problem, a); ++p) {
    const ShardingProblem a_fixed = fix_strategy(problem, a, p);
    for (int q = 0; q < strategies(problem, b); ++q) {
      const std::optional<ShardingSolution> solution = solve_by_glpk(fix_strategy(a_fixed, b, q));
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

std::vector<std::optional<Seconds>> BetweenSolver::costs() const {
  auto found = elimination::pairwise_costs(given_, a_, b_, *known_, *known_tables_);
  return found ? std::move(*found) : costs_one_by_one(problem_(), a_, b_);
}

// The steps, and which of the two nodes each table depends on.
void BetweenSolver::plan() {
  planned_ = true;
  elimination::Structure structure = elimination::structure_of(given_);
  structure.domain[a_] = structure.domain[b_] = 1;
  const bool some_empty =
      std::any_of(given_.begin(), given_.end(), [](const Table& table) { return table.cost->empty(); });
  std::vector<std::shared_ptr<const elimination::Shape>> shapes;
  for (const Table& given : given_) {
    const bool on_a = given.shape->contains(a_), on_b = given.shape->contains(b_);
    tables_.push_back({on_a, on_b, {}});
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
    Dependence result;
    for (const int source : step.sources) {
      result.on_a = result.on_a || tables_[source].on_a;
      result.on_b = result.on_b || tables_[source].on_b;
    }
    tables_.push_back(std::move(result));
  }
}

// The entries of a given table at the fixed strategies.
elimination::Costs BetweenSolver::part(const Table& whole, int p, int q) const {
  const elimination::Shape& shape = *whole.shape;
  // The classes of one node of the scope that are left.
  const auto range = [&](std::size_t d) {
    const int node = shape.scope[d];
    if (node != a_ && node != b_) return std::pair<std::size_t, std::size_t>(0, shape.classes[d].size());
    const auto fixed = static_cast<std::size_t>(shape.classes[d].of[node == a_ ? p : q]);
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

std::vector<BetweenSolver::Numbered> BetweenSolver::sources_of(const elimination::Step& step, int p, int q) {
  std::vector<Numbered> sources;
  for (const int source : step.sources) sources.push_back(costs_of(source, p, q));
  return sources;
}

const BetweenSolver::Numbered& BetweenSolver::costs_of(int table, int p, int q) {
  Dependence& known = tables_[table];
  const auto [costs, is_new] = known.costs.try_emplace({known.on_a ? p : 0, known.on_b ? q : 0});
  if (!is_new) return costs->second;
  if (table >= steps_->given) {
    const elimination::Step& step = steps_->steps[table - steps_->given];
    return costs->second = known_tables_->result(step, sources_of(step, p, q));
  }
  const Table& given = given_[table];
  return costs->second = known_tables_->given(known.on_a || known.on_b ? part(given, p, q) : given.cost);
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
        costs_of(steps_->result_of(i), p, q).cost->front() == elimination::kForbidden)
      return std::nullopt;
  ShardingChoice choice{std::vector<int>(steps_->steps.size(), 0)};
  for (auto step = steps_->steps.rbegin(); step != steps_->steps.rend(); ++step) {
    std::vector<const double*> costs;
    for (const Numbered& source : sources_of(*step, p, q)) costs.push_back(source.cost->data());
    choice.strategy[step->combination.node] = elimination::best_strategy(step->combination, costs, choice);
  }
  // Tables of both are of no use to another pair.
  for (Dependence& table : tables_)
    if (table.on_a && table.on_b) table.costs.clear();
  choice.strategy[a_] = p;
  choice.strategy[b_] = q;
  return choice;
}

}  // namespace meshwright
