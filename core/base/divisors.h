// SPDX-License-Identifier: Apache-2.0
// The divisors of a number.
#pragma once

#include <cstdint>
#include <vector>

namespace meshwright {

// Those of at most `most`, ascending, in O(sqrt(number)) steps. REQUIRES: number >= 0; 0 has none.
[[nodiscard]] std::vector<std::int64_t> divisors(std::int64_t number, std::int64_t most);
[[nodiscard]] inline std::vector<std::int64_t> divisors(std::int64_t number) { return divisors(number, number); }

}  // namespace meshwright
