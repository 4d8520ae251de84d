// SPDX-License-Identifier: Apache-2.0
// Lower bounds: the Lagrangian dual of the field, by block-coordinate message passing (sequential tree-reweighted
// message passing, Kolmogorov 2006) together with subgradient steps on one multiplier per memory row.
#pragma once

#include <memory>

#include "core/planner/portfolio/local_search.h"
#include "core/planner/portfolio/presolve.h"

namespace meshwright::portfolio {

class DualBound {
 public:
  explicit DualBound(const Reduced& reduced);  // keeps a reference
  ~DualBound();

  // One forward and one backward pass over the nodes, then a multiplier step towards `upper_bound`.
  void iterate(double upper_bound);
  [[nodiscard]] double value() const;  // best bound so far: no labels cost less
  // The best bound so far of the labellings that use a label: none of them costs less.
  [[nodiscard]] const Guide& min_marginals() const;
  // Reparametrised costs of the last pass: what a search for good labels may follow.
  [[nodiscard]] const Guide& guide() const;
  [[nodiscard]] const std::vector<double>& multipliers() const;  // [row], of the best bound

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace meshwright::portfolio
