// SPDX-License-Identifier: Apache-2.0
// How the elements that a group reduces are shared among its members. Internal to the executor.
#pragma once

#include <algorithm>
#include <cstdint>

namespace meshwright {

// Where one of `segments` parts of n elements begins; part `segments` is their end. Boundaries lie on whole lines of
// `line` elements, so that no two members write to one cache line.
[[nodiscard]] inline std::int64_t segment_begin(std::int64_t n, int segment, int segments, std::int64_t line = 16) {
  const std::int64_t lines = (n + line - 1) / line;
  return std::min(n, lines * segment / segments * line);
}

}  // namespace meshwright
