// SPDX-License-Identifier: Apache-2.0
// Bin packing of whole numbers: whether items fit on hosts that are alike, and how.
#pragma once

#include <optional>
#include <vector>

namespace meshwright {

// The host (0..hosts-1, counted in the order in which they are filled) of each item, so that the items of a host add up
// to `room` at most; nullopt: there is no way. Complete: exponential in the number of different sizes at worst.
// REQUIRES: sizes are positive.
[[nodiscard]] std::optional<std::vector<int>> fill_hosts(const std::vector<int>& sizes, int hosts, int room);

}  // namespace meshwright
