// SPDX-License-Identifier: Apache-2.0
// The Lagrangian dual of the memory rows: elimination solves the field exactly for given multipliers, cutting planes
// propose the next ones. Rows take part once some solution exceeds them.
#pragma once

#include <optional>
#include <vector>

#include "core/solver/branch_and_bound/branch_and_bound_master.h"
#include "core/solver/elimination/elimination.h"
#include "core/solver/presolve/presolve.h"

namespace meshwright::portfolio {

using Multipliers = std::vector<double>;  // [row], never negative: cost per unit of memory

// Node costs with every unit of memory charged at its rows' multipliers, side by side.
[[nodiscard]] std::vector<double> charged(const Reduced& reduced, const EliminationPlan& plan,
                                          const Multipliers& multipliers);
// What the charge gives back: the field's constant less the limits at the multipliers.
[[nodiscard]] double given_back(const Reduced& reduced, const Multipliers& multipliers);

class RowDual {
 public:
  RowDual(const Reduced& reduced, const EliminationPlan& plan);  // keeps references

  // Raises the bound from `start` (may be empty: all 0) until the planes leave little to gain, the bound reaches
  // `enough`, `max_runs` eliminations were made, or the budget is over; before the end of the first elimination, the
  // value is then minus infinity.
  void ascend(const Multipliers& start, double enough, int max_runs, const Budget& budget);

  [[nodiscard]] double value() const { return value_; }  // no labels that keep the rows cost less; infinity: none do
  [[nodiscard]] const Multipliers& multipliers() const { return best_; }  // where it was reached
  // Per label, side by side: its share in the combination of solutions that the best planes weigh. A node whose share
  // is spread is where the relaxation has not decided. All 0: no row was ever exceeded.
  [[nodiscard]] std::vector<double> shares() const;
  [[nodiscard]] Elimination& elimination() { return elimination_; }  // of the last run
  // The cheapest labels met that keep every row.
  [[nodiscard]] const std::optional<Labels>& labels() const { return labels_; }
  [[nodiscard]] double cost() const { return labels_cost_; }
  [[nodiscard]] double work() const { return work_; }  // additions so far

 private:
  double run(const Multipliers& multipliers, const Budget& budget);  // sets solution_excess_; out of time: -infinity
  void agree(const Multipliers& multipliers, double enough, int max_runs, const Budget& budget);
  void climb(Multipliers asked, double enough, int max_runs, const Budget& budget);
  void measure();  // solution_excess_ of the run's solution
  void add_plane(double value, const Multipliers& multipliers);
  void activate();
  [[nodiscard]] double cost_range() const;
  [[nodiscard]] Multipliers spread(const std::vector<double>& active) const;

  const Reduced& reduced_;
  const EliminationPlan& plan_;
  Elimination elimination_;
  std::vector<double> norm_;                          // [row] the most that a row may be exceeded; 0: it cannot be
  double scale_ = 1.0;                                // of costs
  std::vector<int> active_;                           // rows in the planes
  std::vector<bool> is_active_;                       // [row]
  std::vector<double> solution_excess_;               // [row] of the last run's solution
  std::vector<std::vector<double>> excess_of_plane_;  // [plane][row]
  std::vector<int> solution_;                         // [bucket] labels of the last run's solution
  std::vector<std::vector<int>> solution_of_plane_;   // [plane][bucket]
  std::optional<CuttingPlanes> planes_;
  double value_ = -kForbidden;
  Multipliers best_;
  std::optional<Labels> labels_;
  double labels_cost_ = kForbidden;
  double work_ = 0.0;
};

}  // namespace meshwright::portfolio
