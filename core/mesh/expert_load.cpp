// SPDX-License-Identifier: Apache-2.0
#include "core/mesh/expert_load.h"

#include <algorithm>
#include <numeric>

#include "core/base/errors.h"

namespace meshwright {

double ExpertLoad::busiest(int parts) const {
  const auto all = static_cast<double>(parts);
  if (shares.empty()) return std::min(factor, all);
  const auto experts = static_cast<std::ptrdiff_t>(shares.size());
  MW_CHECK(experts % parts == 0, "{} shares of experts on {} devices", experts, parts);
  double most = 0.0;
  for (auto first = shares.begin(); first != shares.end(); first += experts / parts)
    most = std::max(most, std::accumulate(first, first + experts / parts, 0.0));
  // Sums of shares are rounded.
  return std::clamp(most * all, 1.0, all);
}

}  // namespace meshwright
