// SPDX-License-Identifier: Apache-2.0
#include "core/base/divisors.h"

#include <algorithm>

namespace meshwright {

std::vector<std::int64_t> divisors(std::int64_t number, std::int64_t most) {
  std::vector<std::int64_t> found, larger;  // divisors come in pairs
  for (std::int64_t d = 1; d <= number / d; ++d) {
    if (number % d != 0) continue;
    found.push_back(d);
    if (d != number / d) larger.push_back(number / d);
  }
  found.insert(found.end(), larger.rbegin(), larger.rend());
  found.erase(std::upper_bound(found.begin(), found.end(), most), found.end());
  return found;
}

}  // namespace meshwright
