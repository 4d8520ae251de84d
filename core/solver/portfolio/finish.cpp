// SPDX-License-Identifier: Apache-2.0
#include "core/solver/portfolio/finish.h"

#include <algorithm>

#include "core/solver/branch_and_bound/branch_and_bound.h"
#include "core/solver/branch_and_bound/branch_and_bound_messages.h"
#include "core/solver/elimination/elimination.h"
#include "core/solver/glpk/solve_by_glpk.h"

namespace meshwright::portfolio {

namespace {

constexpr double kMaxColumns = 100000.0;       // of the integer program: beyond, GLPK does not end in any budget
constexpr double kMaxWorkOfElimination = 1e8;  // additions of one elimination: beyond, messages give the better bounds
constexpr double kShareOfBranching = 0.5;      // of the time left, where GLPK may follow

// Every node and edge at its least: all that is known before anything has run.
double sum_of_least(const Field& field) {
  double sum = field.constant;
  for (const Field::Node& node : field.nodes) sum += *std::min_element(node.cost.begin(), node.cost.end());
  for (const Field::Edge& edge : field.edges) sum += *std::min_element(edge.cost.begin(), edge.cost.end());
  return sum;
}

bool suits_elimination(const Field& field, double max_table) {
  const std::optional<EliminationOrder> order = elimination_order(field, max_table);
  return order && order->work <= kMaxWorkOfElimination;
}

void conclude(const Incumbent& incumbent, double upper_bound, double bound, Finish& result) {
  result.labels = incumbent.labels();
  result.cost = incumbent.labels() ? incumbent.cost() : kForbidden;
  result.lower_bound = std::min({bound, incumbent.cost(), upper_bound});
  // Nothing is left below the cut: the best known labels are optimal.
  result.complete = bound >= incumbent.cut();
  if (result.complete) result.lower_bound = incumbent.cost();
}

}  // namespace

Finish finish(const Reduced& reduced, const FinishOptions& options) {
  Finish result;
  Incumbent incumbent(reduced, options.upper_bound);
  Budget branching = options.budget;
  if (options.allow_glpk && branching.limit_s != kForbidden)
    branching.limit_s = branching.used() + kShareOfBranching * std::max(0.0, branching.left());
  double bound = sum_of_least(reduced.field);
  result.method = "branch and bound";
  std::vector<bool> kept;
  if (suits_elimination(reduced.field, options.max_table)) {
    BranchAndBound tree(reduced, options.max_table, options.max_work, incumbent, branching);
    tree.run();
    bound = std::max(bound, tree.lower_bound());
    kept = tree.kept();
    if (tree.parts() <= 1 && reduced.row_limit.empty()) result.method = "elimination";
  } else {
    MessageBranching parts(reduced, options.multipliers, options.max_work, incumbent, branching);
    parts.run();
    bound = std::max(bound, parts.lower_bound());
    kept = parts.kept();
  }
  conclude(incumbent, options.upper_bound, bound, result);
  if (result.complete || !options.allow_glpk || options.budget.over()) return result;

  // GLPK gets what branch and bound could not rule out: the labels outside of `kept` cost too much.
  const ShrunkField rest = shrink(reduced, kept);
  if (rest.reduced.infeasible || label_count(rest.reduced.field) + entry_count(rest.reduced.field) > kMaxColumns)
    return result;
  const GlpkResult found = solve_by_lazy_glpk(rest.reduced, incumbent.cut(), options.budget);
  if (found.labels && incumbent.offer(rest.reduced.lift(*found.labels))) result.method = "glpk";
  // GLPK proves the rest as well: it found the optimum of it, or nothing below the cut.
  if (found.complete) {
    result.method = "glpk";
    bound = kForbidden;
  }
  conclude(incumbent, options.upper_bound, std::max(bound, found.lower_bound), result);
  return result;
}

}  // namespace meshwright::portfolio
