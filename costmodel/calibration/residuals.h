// SPDX-License-Identifier: Apache-2.0
// How far predictions are from measurements: logarithms of predicted over measured, and what is said of many of them.
#pragma once

#include <string>
#include <vector>

#include "core/base/units.h"

namespace meshwright {

// Shares, 0.05 for 5 %, of |predicted / measured - 1|; `bias` keeps the sign.
struct ErrorSummary {
  int rows = 0;
  double mean = 0, median = 0, p90 = 0, bias = 0;
};

class Residuals {
 public:
  void add(Seconds predicted, Seconds measured);
  void add(const Residuals& others);
  [[nodiscard]] int rows() const { return static_cast<int>(logs_.size()); }
  [[nodiscard]] ErrorSummary summary() const;
  // Mean pseudo-Huber loss of the logarithms: quadratic up to about 5 %, linear beyond, so that a few odd rows do not
  // decide.
  [[nodiscard]] double robust_loss() const;

 private:
  std::vector<double> logs_;
};

// Whether a fit keeps this group of rows back, for a share of all groups: a function of the seed and the name alone, so
// that it depends neither on the order of rows nor on other files.
[[nodiscard]] bool kept_back(const std::string& group, double share, std::uint64_t seed);

}  // namespace meshwright
