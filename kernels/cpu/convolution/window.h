// SPDX-License-Identifier: Apache-2.0
// Windows that slide over one spatial dimension: what convolution and pooling share.
#pragma once

#include <algorithm>
#include <cstdint>

namespace meshwright::kernels {

// `to` windows of `size` elements over `from` elements. Window i begins at i * stride - before; what of it lies outside
// is padding. REQUIRES: every window has an element inside.
struct Windows {
  std::int64_t from, to, size, stride, before;

  [[nodiscard]] std::int64_t begin(std::int64_t i) const { return i * stride - before; }
  // The part inside, as elements first..last-1.
  [[nodiscard]] std::int64_t first(std::int64_t i) const { return std::max<std::int64_t>(0, begin(i)); }
  [[nodiscard]] std::int64_t last(std::int64_t i) const { return std::min(from, begin(i) + size); }
  // Padding behind the last element that a window covers; less than zero where no window reaches the last elements.
  [[nodiscard]] std::int64_t after() const { return begin(to - 1) + size - from; }

  auto operator<=>(const Windows&) const = default;
};

}  // namespace meshwright::kernels
