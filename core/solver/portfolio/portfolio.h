// SPDX-License-Identifier: Apache-2.0
// The portfolio: reductions, exact elimination, Lagrangian bound, local search, branch and bound and GLPK, in the order
// in which they pay, until the optimum is proven or the budget is spent. Every answer carries its lower bound.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/solver/problem/field.h"

namespace meshwright::portfolio {

struct Progress {
  double elapsed_s;
  std::optional<double> cost;  // of the best feasible labels so far
  double lower_bound;
  std::string stage;  // "presolve", "bound", ...
};

struct Options {
  Budget budget;
  int threads = 1;
  std::uint64_t seed = 1;
  bool allow_glpk = true;
  std::function<void(const Progress&)> on_progress;  // called from the calling thread only
};

struct Result {
  std::optional<Labels> labels;  // feasible; absent: none found
  double cost = kForbidden;
  double lower_bound = -kForbidden;
  bool proven_infeasible = false;
  // Least peak memory of any labels with finite cost, as far as known: at least `least_peak_bound`, and `least_peak`
  // was reached when it is set.
  double least_peak_bound = 0.0;
  std::optional<double> least_peak;
  std::string method;                // what settled it: "elimination", "branch and bound", "glpk", "local search"
  [[nodiscard]] double gap() const;  // (cost - lower_bound) / |cost|; 0: proven optimal; infinity: nothing found
};

[[nodiscard]] Result solve(const Field& field, const Options& options);

}  // namespace meshwright::portfolio
