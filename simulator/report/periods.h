// SPDX-License-Identifier: Apache-2.0
// When a device does something: periods of time in picoseconds, which may be united and taken out of each other.
#pragma once

#include <cstdint>
#include <vector>

namespace meshwright {

struct Period {
  std::int64_t begin, end;
};
using Periods = std::vector<Period>;

// Sorted, overlapping and touching ones made one, empty ones left out.
[[nodiscard]] Periods united_periods(Periods all);
// REQUIRES: apart.
[[nodiscard]] std::int64_t length_of(const Periods& all);
// Takes what `taken` covers out of `from`; returns how much that is. REQUIRES: both as of united_periods.
std::int64_t take_out(Periods& from, const Periods& taken);

}  // namespace meshwright
