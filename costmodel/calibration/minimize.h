// SPDX-License-Identifier: Apache-2.0
// Minimization of a function of a few bounded positive parameters without derivatives.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace meshwright {

// A positive parameter that is fitted by its logarithm, within bounds.
struct FitParameter {
  std::string name;
  double start, low, high;
};

struct FitStarts {
  int count = 4;  // with the parameters' own
  std::uint64_t seed = 1;
};

struct FitResult {
  std::vector<double> values;  // in the order of the parameters
  double loss = 0.0;
};

// Nelder and Mead's simplex (The Computer Journal 7, 1965) over the logarithms, restarted around the best point until a
// restart gains less than a thousandth; points beyond a bound are moved onto it. The simplex finds a local minimum, so
// it starts from the parameters' own start and from the best of a sample of points within the bounds, and the least of
// these minima is the result. The same input gives the same result.
// REQUIRES: 0 < low <= start <= high; starts >= 1.
[[nodiscard]] FitResult minimize(const std::function<double(const std::vector<double>&)>& loss,
                                 const std::vector<FitParameter>& parameters, const FitStarts& starts = {});

}  // namespace meshwright
