// SPDX-License-Identifier: Apache-2.0
// A row of elements in parts of equal length, one for each member of a group. Where they do not divide it, the last
// parts end in padding, or are padding alone. Internal to the executor.
#pragma once

#include <algorithm>
#include <cstdint>

namespace meshwright {

struct PaddedRow {
  PaddedRow(int members, std::int64_t part_length, std::int64_t padding)
      : length(members * part_length - padding), part(part_length) {}
  // Where a member's elements begin in the row, and how many there are.
  [[nodiscard]] std::int64_t begin(int member) const { return std::min(length, member * part); }
  [[nodiscard]] std::int64_t count(int member) const { return std::min(length - begin(member), part); }

  std::int64_t length;  // without padding
  std::int64_t part;    // with it
};

}  // namespace meshwright
