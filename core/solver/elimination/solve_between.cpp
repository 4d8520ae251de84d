// SPDX-License-Identifier: Apache-2.0
#include "core/solver/elimination/solve_between.h"
#include "core/solver/elimination/solve_by_elimination.h"

#include <algorithm>
#include <utility>

#include "core/base/errors.h"
#include "core/solver/solve.h"

namespace meshwright {

using elimination::Table;

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace

BetweenSolver::BetweenSolver(const ShardingProblem& problem, int a, int b)
    : problem_([&problem] { return problem; }), a_(a), b_(b) {
  require_consistent(problem);
  const int count = static_cast<int>(problem.nodes.size());
  require(a >= 0 && a < count && b >= 0 && b < count && a != b,
          "solve between: needs two different nodes of 0..{}, not {} and {}.", count - 1, a, b);
  given_ = elimination::tables_of(problem);
}

BetweenSolver::BetweenSolver(std::vector<Table> given, std::function<ShardingProblem()> problem, int a, int b)
    : problem_(std::move(problem)), a_(a), b_(b), given_(std::move(given)) {}

std::vector<std::optional<Seconds>> BetweenSolver::costs() const {
  auto found = elimination::pairwise_costs(given_, a_, b_);
  return found ? std::move(*found) : pairwise_costs(problem_(), a_, b_);
}

// Which tables each step adds up, and what they depend on.
void BetweenSolver::plan() {
  planned_ = true;
  domain_ = elimination::domain_of(given_);
  domain_[at(a_)] = domain_[at(b_)] = 1;
  const bool some_empty =
      std::any_of(given_.begin(), given_.end(), [](const Table& table) { return table.cost.empty(); });
  const auto order = elimination::find_order(given_, {}, {a_, b_});
  by_elimination_ = order.has_value() && !some_empty;
  if (!by_elimination_) return;
  std::vector<std::vector<int>> touching(domain_.size());
  const auto add = [&](Made made) {
    for (const int node : made.shape->scope) touching[at(node)].push_back(static_cast<int>(made_.size()));
    made_.push_back(std::move(made));
  };
  for (const Table& given : given_) {
    const bool of_a = given.shape->contains(a_), of_b = given.shape->contains(b_);
    add({of_a || of_b ? part(*given.shape) : given.shape, -1, of_a, of_b, {}});
  }
  for (const int node : order->nodes) {
    Step step{node, touching[at(node)], {}};
    std::vector<const elimination::Shape*> shapes;
    Made result{nullptr, static_cast<int>(steps_.size()), false, false, {}};
    for (const int source : step.sources) {
      shapes.push_back(made_[at(source)].shape.get());
      result.of_a = result.of_a || made_[at(source)].of_a;
      result.of_b = result.of_b || made_[at(source)].of_b;
    }
    step.walk = elimination::plan_walk(domain_, node, shapes);
    result.shape = step.walk.shape;
    for (const int other : result.shape->scope)
      std::erase_if(touching[at(other)], [&](int source) { return made_[at(source)].shape->contains(node); });
    steps_.push_back(std::move(step));
    add(std::move(result));
  }
}

std::shared_ptr<const elimination::Shape> BetweenSolver::part(const elimination::Shape& whole) const {
  elimination::Shape shape = whole;
  for (std::size_t d = 0; d < shape.scope.size(); ++d)
    if (shape.scope[d] == a_ || shape.scope[d] == b_) shape.classes[d] = elimination::single_strategies(1);
  return std::make_shared<elimination::Shape>(std::move(shape));
}

Table BetweenSolver::part(const Made& made, const Table& whole, int p, int q) const {
  const elimination::Shape& shape = *whole.shape;
  // The classes of the first and of the last node of the scope that are left.
  const auto range = [&](std::size_t d) {
    const int node = shape.scope[d];
    if (node != a_ && node != b_) return std::pair<std::size_t, std::size_t>(0, shape.classes[d].size());
    const std::size_t fixed = at(shape.classes[d].of[at(node == a_ ? p : q)]);
    return std::pair(fixed, fixed + 1);
  };
  const auto [row, end_row] = range(0);
  if (shape.scope.size() == 1) return {made.shape, {whole.cost[row]}};
  const auto [column, end_column] = range(1);
  Table found{made.shape, {}};
  for (std::size_t r = row; r < end_row; ++r)
    for (std::size_t c = column; c < end_column; ++c) found.cost.push_back(whole.cost[r * shape.classes[1].size() + c]);
  return found;
}

const Table& BetweenSolver::table(int index, int p, int q) {
  Made& made = made_[at(index)];
  if (made.step < 0 && !made.of_a && !made.of_b) return given_[at(index)];
  const auto [known, is_new] = made.known.try_emplace({made.of_a ? p : 0, made.of_b ? q : 0});
  if (!is_new) return known->second;
  if (made.step < 0) return known->second = part(made, given_[at(index)], p, q);
  const Step& step = steps_[at(made.step)];
  std::vector<const Table*> sources;
  for (const int source : step.sources) sources.push_back(&table(source, p, q));
  return known->second = elimination::eliminate(step.walk, sources);
}

std::optional<ShardingChoice> BetweenSolver::solve(int p, int q) {
  if (!planned_) plan();
  if (!by_elimination_) {
    auto solution = meshwright::solve(fix_strategy(fix_strategy(problem_(), a_, p), b_, q));
    if (!solution) return std::nullopt;
    solution->choice.strategy[at(a_)] = p;
    solution->choice.strategy[at(b_)] = q;
    return std::move(solution->choice);
  }
  for (std::size_t i = given_.size(); i < made_.size(); ++i)
    if (made_[i].shape->scope.empty() && table(static_cast<int>(i), p, q).cost.front() == elimination::kForbidden)
      return std::nullopt;
  ShardingChoice choice{std::vector<int>(domain_.size(), 0)};
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    std::vector<const Table*> sources;
    for (const int source : step->sources) sources.push_back(&table(source, p, q));
    choice.strategy[at(step->node)] = elimination::best_strategy(domain_, step->node, sources, choice);
  }
  // Tables of both are of no use to another pair.
  for (Made& made : made_)
    if (made.of_a && made.of_b) made.known.clear();
  choice.strategy[at(a_)] = p;
  choice.strategy[at(b_)] = q;
  return choice;
}

}  // namespace meshwright
