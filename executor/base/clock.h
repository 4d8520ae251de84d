// SPDX-License-Identifier: Apache-2.0
// The wall clock of a run.
#pragma once

#include <chrono>

#include "core/base/units.h"

namespace meshwright {

using Clock = std::chrono::steady_clock;

// Picoseconds from `origin` to `time`, at the clock's resolution of nanoseconds.
[[nodiscard]] inline SimTime since(Clock::time_point origin, Clock::time_point time) {
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(time - origin).count() * 1000};
}

}  // namespace meshwright
