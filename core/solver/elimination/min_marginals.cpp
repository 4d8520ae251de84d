// SPDX-License-Identifier: Apache-2.0
#include "core/solver/elimination/min_marginals.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/solver/elimination/elimination.h"

namespace meshwright {

// The plan refers to the field, the elimination to the plan: they stay where they were made.
struct MinMarginals::Tables {
  portfolio::Field field;
  portfolio::EliminationPlan plan;
  std::optional<portfolio::Elimination> elimination = {};
  std::vector<double> least = {};  // side by side

  // Messages without a limit: each node has one bucket, so the min-marginals are exact.
  Tables(portfolio::Field of, const std::vector<int>& order)
      : field(std::move(of)), plan(field, order, portfolio::kForbidden) {}
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;
};

MinMarginals::MinMarginals(std::unique_ptr<Tables> tables) : tables_(std::move(tables)) {}
MinMarginals::~MinMarginals() = default;
MinMarginals::MinMarginals(MinMarginals&&) noexcept = default;

std::optional<MinMarginals> MinMarginals::of(const ShardingProblem& problem, double max_entries) {
  require_consistent(problem);
  portfolio::Field field = portfolio::make_field(problem);
  const auto order = portfolio::elimination_order(field, max_entries);
  if (!order) return std::nullopt;
  auto tables = std::make_unique<Tables>(std::move(field), order->nodes);
  // The order bounds each table. Here all messages count together, as both passes keep them.
  if (static_cast<double>(tables->plan.entries()) > max_entries) return std::nullopt;
  const auto& nodes = problem.nodes;
  // A node without strategies leaves no choice at all.
  if (std::any_of(nodes.begin(), nodes.end(), [](const auto& node) { return node.cost.empty(); })) {
    tables->least.assign(tables->plan.first().back(), portfolio::kForbidden);
  } else {
    tables->elimination.emplace(tables->plan);
    (void)tables->elimination->run(portfolio::side_by_side(tables->field));
    tables->elimination->min_marginals(tables->least);
  }
  return MinMarginals(std::move(tables));
}

std::optional<Seconds> MinMarginals::least(int node, int strategy) const {
  const double cost = tables_->least[tables_->plan.first()[node] + strategy];
  return cost == portfolio::kForbidden ? std::nullopt : std::optional(Seconds(cost));
}

ShardingChoice MinMarginals::choice(int node, int strategy, const ShardingChoice& like) const {
  MW_CHECK(least(node, strategy).has_value(), "node {} cannot take strategy {}", node, strategy);
  ShardingChoice choice;
  tables_->elimination->decode_with(node, strategy, like.strategy, choice.strategy);
  return choice;
}

}  // namespace meshwright
