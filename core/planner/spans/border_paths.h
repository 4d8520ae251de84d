// SPDX-License-Identifier: Apache-2.0
// Shortest paths over the border states of consecutive layers, by min-plus products with the layers' cost matrices.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/planner/spans/layer_solver.h"

namespace meshwright {

using StateCosts = std::vector<std::optional<Seconds>>;  // [border state]; nullopt: cannot be reached

// The state of least cost, the first of several; -1: none can be reached.
[[nodiscard]] int cheapest_state(const StateCosts& states);
// Its cost. Throws InternalError when none can be reached.
[[nodiscard]] Seconds min_cost(const StateCosts& states);

// The border states before and after a layer.
using InOutStates = std::pair<int, int>;

// A copy shares the layers so far with the original.
class BorderPaths {
 public:
  // Paths begin in the states before the first layer, each at its cost.
  explicit BorderPaths(StateCosts start) : start_(std::move(start)) {}
  // Adds a layer behind the ones so far.
  void extend(const CostMatrix& matrix, std::size_t out_states);
  // Drops all layers but the first `length`.
  void shorten(std::size_t length) { steps_.resize(length); }

  // The least costs of reaching each state after the layer at `position`, or after the last one.
  [[nodiscard]] const StateCosts& costs_after(std::size_t position) const { return steps_[position]->best; }
  [[nodiscard]] const StateCosts& end_costs() const { return steps_.empty() ? start_ : steps_.back()->best; }
  [[nodiscard]] std::size_t layers() const { return steps_.size(); }
  // The states on the cheapest path through the first `length` layers.
  [[nodiscard]] std::vector<InOutStates> trace(std::size_t length) const;

 private:
  struct Step {
    StateCosts best;
    std::vector<int> from;  // [out state]: the in state of the cheapest way to it
  };
  StateCosts start_;
  std::vector<std::shared_ptr<const Step>> steps_;  // [position]
};

}  // namespace meshwright
