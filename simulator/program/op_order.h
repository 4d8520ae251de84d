// SPDX-License-Identifier: Apache-2.0
// Which local op of an executable waits for which.
#pragma once

#include <algorithm>
#include <vector>

#include "core/base/indexed_vector.h"
#include "core/plan/program/program.h"

namespace meshwright {

// An op waits for the ops whose results it reads, and for those whose operands or results it overwrites. All slots of
// one buffer count as one place, as do a slot and its aliases.
struct OpOrder {
  IndexedVector<int, std::vector<int>> after, before;  // [op] the ops it waits for, and those that wait for it
};
[[nodiscard]] OpOrder find_op_order(const StageExecutable& executable);

// Appends the value unless the list has it.
template <class T>
void add_once(std::vector<T>& list, T value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

}  // namespace meshwright
