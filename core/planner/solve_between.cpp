// SPDX-License-Identifier: Apache-2.0
#include "core/planner/solve_between.h"

#include <algorithm>
#include <utility>

#include "core/base/errors.h"

namespace meshwright {

using elimination::Table;

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace

BetweenSolver::BetweenSolver(const ShardingProblem& problem, int a, int b) : problem_(problem), a_(a), b_(b) {
  require_consistent(problem);
  const int count = static_cast<int>(problem.nodes.size());
  require(a >= 0 && a < count && b >= 0 && b < count && a != b,
          "solve between: needs two different nodes of 0..{}, not {} and {}.", count - 1, a, b);
  for (const ShardingProblem::Node& node : problem.nodes) domain_.push_back(node.cost.size());
  domain_[at(a)] = domain_[at(b)] = 1;
  given_ = elimination::tables_of(problem);
}

// Which tables each step adds up, and what they depend on.
void BetweenSolver::plan() {
  planned_ = true;
  const bool some_empty =
      std::any_of(problem_.nodes.begin(), problem_.nodes.end(), [](const auto& node) { return node.cost.empty(); });
  const auto order = elimination::find_order(problem_, {}, {a_, b_});
  by_elimination_ = order.has_value() && !some_empty;
  if (!by_elimination_) return;
  std::vector<std::vector<int>> touching(problem_.nodes.size());
  const auto add = [&](Made made) {
    for (const int node : made.scope) touching[at(node)].push_back(static_cast<int>(made_.size()));
    made_.push_back(std::move(made));
  };
  for (const Table& given : given_)
    add({given.scope, -1, elimination::contains(given.scope, a_), elimination::contains(given.scope, b_), {}});
  for (const int node : order->nodes) {
    Step step{node, touching[at(node)], {}};
    std::vector<const std::vector<int>*> scopes;
    Made result{{}, static_cast<int>(steps_.size()), false, false, {}};
    for (const int source : step.sources) {
      scopes.push_back(&made_[at(source)].scope);
      result.of_a = result.of_a || made_[at(source)].of_a;
      result.of_b = result.of_b || made_[at(source)].of_b;
    }
    step.walk = elimination::plan_walk(domain_, node, scopes);
    result.scope = step.walk.scope;
    for (const int other : step.walk.scope)
      std::erase_if(touching[at(other)],
                    [&](int source) { return elimination::contains(made_[at(source)].scope, node); });
    steps_.push_back(std::move(step));
    add(std::move(result));
  }
}

Table BetweenSolver::part(const Table& whole, int p, int q) const {
  const std::size_t first = at(whole.scope.front() == a_ ? p : q), last = at(whole.scope.back() == a_ ? p : q);
  const auto fixed = [&](int node) { return node == a_ || node == b_; };
  if (whole.scope.size() == 1) return {whole.scope, {whole.cost[first]}};
  const std::size_t columns = problem_.nodes[at(whole.scope.back())].cost.size();
  Table part{whole.scope, {}};
  for (std::size_t r = 0; r < whole.cost.size() / columns; ++r)
    for (std::size_t c = 0; c < columns; ++c)
      if ((!fixed(whole.scope.front()) || r == first) && (!fixed(whole.scope.back()) || c == last))
        part.cost.push_back(whole.cost[r * columns + c]);
  return part;
}

const Table& BetweenSolver::table(int index, int p, int q) {
  Made& made = made_[at(index)];
  if (made.step < 0 && !made.of_a && !made.of_b) return given_[at(index)];
  const auto [known, is_new] = made.known.try_emplace({made.of_a ? p : 0, made.of_b ? q : 0});
  if (!is_new) return known->second;
  if (made.step < 0) return known->second = part(given_[at(index)], p, q);
  const Step& step = steps_[at(made.step)];
  std::vector<const Table*> sources;
  for (const int source : step.sources) sources.push_back(&table(source, p, q));
  return known->second = elimination::eliminate(domain_, step.node, step.walk, sources);
}

std::optional<ShardingChoice> BetweenSolver::solve(int p, int q) {
  if (!planned_) plan();
  if (!by_elimination_) {
    auto solution = meshwright::solve(fix_strategy(fix_strategy(problem_, a_, p), b_, q));
    if (!solution) return std::nullopt;
    solution->choice.strategy[at(a_)] = p;
    solution->choice.strategy[at(b_)] = q;
    return std::move(solution->choice);
  }
  for (std::size_t i = given_.size(); i < made_.size(); ++i)
    if (made_[i].scope.empty() && table(static_cast<int>(i), p, q).cost.front() == elimination::kForbidden)
      return std::nullopt;
  ShardingChoice choice{std::vector<int>(problem_.nodes.size(), 0)};
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
