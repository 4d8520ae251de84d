// SPDX-License-Identifier: Apache-2.0
// Which local op of an executable waits for which.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/plan/program/program.h"

namespace meshwright {

// An op waits for those whose results it reads, and for those whose operands or results it overwrites. Slots of one
// buffer are one place, as is a slot with those that are its aliases.
struct OpOrder {
  std::vector<std::vector<int>> after, before;  // [op] the ops it waits for, and those that wait for it
};
[[nodiscard]] OpOrder find_op_order(const StageExecutable& executable);

// Slots as positions and in lists, for the files that cut executables into pieces.
[[nodiscard]] inline std::size_t at(int slot) { return static_cast<std::size_t>(slot); }

// Appends the value unless it is there.
inline void insert(std::vector<int>& list, int value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

}  // namespace meshwright
