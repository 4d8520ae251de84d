// SPDX-License-Identifier: Apache-2.0
// How unevenly a mixture's tokens lie on the devices that share its experts: a condition of the step, which neither the
// model nor the plan decides. All devices wait for the busiest.
#pragma once

#include <vector>

namespace meshwright {

struct ExpertLoad {
  double factor = 1.0;              // tokens of the busiest of several devices over their mean
  std::vector<double> shares = {};  // of all tokens, of each expert; empty: only the factor is known

  [[nodiscard]] bool even() const { return factor == 1.0 && shares.empty(); }
  // Tokens of the busiest of `parts` devices over their mean, where each has as many neighbouring experts: 1 of one
  // device, and at most `parts`, which is all tokens. REQUIRES: parts >= 1; it divides the number of shares.
  [[nodiscard]] double busiest(int parts) const;
  bool operator==(const ExpertLoad&) const = default;
};

}  // namespace meshwright
