// SPDX-License-Identifier: Apache-2.0
// Slots of a stage executable as positions and in lists. Internal to the files that cut executables into pieces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace meshwright {

[[nodiscard]] inline std::size_t at(int slot) { return static_cast<std::size_t>(slot); }

// Appends the value unless it is there.
inline void insert(std::vector<int>& list, int value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

}  // namespace meshwright
