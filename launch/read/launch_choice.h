// SPDX-License-Identifier: Apache-2.0
// Which of several launches of a script is read where the caller names none: the only one that can be, if those that
// can be are the same training.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/read/launch_reading.h"

namespace meshwright {

struct LaunchChoice {
  std::optional<std::int64_t> launch = {};  // as LaunchInput's
  std::vector<std::string> notes = {};      // what the others are
};

// `read` reads one launch as a whole, and throws InputError where it cannot. Throws InputError with all launches where
// several differ in what is predicted, or none can be read.
[[nodiscard]] LaunchChoice choose_launch(const LaunchInput& input,
                                         const std::function<LaunchReading(const LaunchInput& input)>& read);

}  // namespace meshwright
