// SPDX-License-Identifier: Apache-2.0
// Lower bounds: the Lagrangian dual of the field, by block-coordinate message passing (sequential tree-reweighted
// message passing, Kolmogorov 2006) together with subgradient steps on one multiplier per memory row.
#pragma once

#include <utility>
#include <vector>

#include "core/solver/bound/bound_messages.h"
#include "core/solver/local_search/local_search.h"
#include "core/solver/presolve/presolve.h"

namespace meshwright::portfolio {

class DualBound {
 public:
  // Keeps a reference. REQUIRES: every label has a partner across every edge, as presolve leaves it. `multipliers`:
  // (step, value) of the rows to begin with, steps ascending; those of other steps are passed over.
  explicit DualBound(const Reduced& reduced, const std::vector<std::pair<int, double>>& multipliers = {});
  DualBound(const DualBound&) = default;
  DualBound& operator=(const DualBound&) = delete;
  // Forgets how the steps went so far. Too short a pace never finds out that the messages have moved on; and what held
  // one bound back is not what holds back a copy, which goes on from the same messages and multipliers.
  void renew();

  // Takes the labels of a node that are not kept out for good: all bounds from now on are of labellings without them.
  void keep_only(std::size_t node, const std::vector<bool>& kept);

  // One forward and one backward pass over the nodes, then a multiplier step towards `upper_bound`.
  void iterate(double upper_bound);
  // The best bound so far: no labels cost less; infinity: there are none.
  [[nodiscard]] double value() const { return best_; }
  // The best bound so far of the labellings that use a label: none of them costs less.
  [[nodiscard]] const Guide& min_marginals() const { return min_marginals_; }
  // Reparametrised costs of the last pass: what a search for good labels may follow.
  [[nodiscard]] const Guide& guide() const { return guide_; }
  // [node]: how far the cheapest labels of the last pass disagree across its edges, in cost.
  [[nodiscard]] std::vector<double> disagreement() const { return messages_.disagreement(visit_); }
  // Forbids, in a copy of the reduced field, the pairs of labels that cost more than `upper_bound`. Returns how many.
  std::size_t forbid_pairs(double upper_bound, Field& field);
  // [row], of the best bound.
  [[nodiscard]] const std::vector<double>& multipliers() const { return best_multiplier_; }
  // The same as (step, value): what another bound of the field may begin with.
  [[nodiscard]] std::vector<std::pair<int, double>> multipliers_by_step() const;

 private:
  static constexpr double kFirstPace = 0.05;

  void price_memory();  // extra_, priced_limit_ from multiplier_
  // The bounds of a forward and of a backward pass at the multipliers; infinity: there are no labels.
  std::pair<double, double> pass_both_ways();
  // The volume algorithm (Barahona and Anbil 2000): from the best multipliers along a running mean of subgradients, as
  // far as Polyak's rule says, by a pace that grows while it helps and shrinks while it does not.
  void step(double upper_bound, bool is_better);
  void note_min_marginals(double bound_before);

  const Reduced& reduced_;
  Messages messages_;
  Messages::Visit visit_;
  std::vector<double> multiplier_, best_multiplier_;  // [row]
  std::vector<double> extra_;                         // [label of all nodes]: memory at its price; infinity: taken out
  double priced_limit_ = 0.0;                         // sum over rows of multiplier times limit
  std::vector<double> direction_;                     // [row]: running mean of what the rows lack
  double best_ = -kForbidden;
  double pace_ = kFirstPace;  // of the multiplier steps
  int since_better_ = 0;
  Guide min_marginals_, guide_;
};

}  // namespace meshwright::portfolio
