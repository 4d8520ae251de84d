// SPDX-License-Identifier: Apache-2.0
// The bytes on one device over time. What changes at one moment counts together.
#pragma once

#include <algorithm>
#include <cstdint>

namespace meshwright {

class DeviceMemory {
 public:
  // REQUIRES: `time` is not before that of the last change.
  void change(std::int64_t time, std::int64_t bytes) {
    peak_ = std::max(peak_, time > time_ ? level_ : 0);
    time_ = time;
    level_ += bytes;
  }
  // REQUIRES: no more changes follow.
  [[nodiscard]] std::int64_t peak() const { return std::max(peak_, level_); }

 private:
  std::int64_t time_ = 0, level_ = 0, peak_ = 0;
};

}  // namespace meshwright
