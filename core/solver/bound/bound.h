// SPDX-License-Identifier: Apache-2.0
// Lower bounds: the Lagrangian dual of the field, by block-coordinate message passing (sequential tree-reweighted
// message passing, Kolmogorov 2006) together with subgradient steps on one multiplier per memory row.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/solver/local_search/local_search.h"
#include "core/solver/presolve/presolve.h"

namespace meshwright::portfolio {

class DualBound {
 public:
  // Keeps a reference. REQUIRES: every label has a partner across every edge, as presolve leaves it. `multipliers`:
  // (step, value) of the rows to begin with, steps ascending; those of other steps are passed over.
  explicit DualBound(const Reduced& reduced, const std::vector<std::pair<int, double>>& multipliers = {});
  DualBound(const DualBound& other);  // goes on from the same messages and multipliers
  ~DualBound();
  DualBound& operator=(const DualBound&) = delete;

  // Takes labels out for good: all bounds from now on are of labellings without them. `kept`: [node][label].
  void keep_only(const std::vector<std::vector<bool>>& kept);
  void keep_only(std::size_t node, const std::vector<bool>& kept);

  // One forward and one backward pass over the nodes, then a multiplier step towards `upper_bound`.
  void iterate(double upper_bound);
  [[nodiscard]] double value() const;  // best bound so far: no labels cost less; infinity: there are none
  // The best bound so far of the labellings that use a label: none of them costs less.
  [[nodiscard]] const Guide& min_marginals() const;
  // Reparametrised costs of the last pass: what a search for good labels may follow.
  [[nodiscard]] const Guide& guide() const;
  // [node]: how far the cheapest labels of the last pass disagree across its edges, in cost.
  [[nodiscard]] std::vector<double> disagreement() const;
  // Forbids, in a copy of the reduced field, the pairs of labels that cost more than `upper_bound`. Returns how many.
  std::size_t forbid_pairs(double upper_bound, Field& field);
  [[nodiscard]] const std::vector<double>& multipliers() const;  // [row], of the best bound

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace meshwright::portfolio
