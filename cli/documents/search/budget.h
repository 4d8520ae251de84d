// SPDX-License-Identifier: Apache-2.0
// plan --tokens: what a whole training run takes, and the number of hosts it needs for a deadline or within a price.
#pragma once

#include <string>

#include "cli/documents/search/planning.h"

namespace CLI {
class App;
}

namespace meshwright {

struct BudgetOptions {
  std::string tokens, deadline_days, max_price;  // "": not given
  [[nodiscard]] bool given() const { return !tokens.empty() || !deadline_days.empty() || !max_price.empty(); }
};
void add_budget_options(CLI::App& verb, BudgetOptions& options);

// "1.5e12", "300B", "15T": K, M, B and T are 10^3, 10^6, 10^9 and 10^12. Throws InputError naming --tokens.
[[nodiscard]] double tokens_from_text(const std::string& text);

// plan_and_report for the cluster, or for as many of its hosts as the run needs, with what the run takes there; with
// --pareto the numbers of hosts that no other beats in days and price at once. Throws InputError for options that
// contradict each other, NoFeasiblePlan with what can be met where nothing is within the deadline or the price.
void plan_run_and_report(const PlanningOptions& options, const BudgetOptions& budget, const Cluster& cluster,
                         PlanReport report);

}  // namespace meshwright
