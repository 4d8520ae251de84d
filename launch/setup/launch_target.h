// SPDX-License-Identifier: Apache-2.0
// What launch files are written for and read from.
#pragma once

#include <string>
#include <vector>

namespace meshwright {

struct LaunchTarget {
  std::string name;     // "megatron-bridge"
  std::string release;  // that its files are written for
  // Whose degrees it launches (find_framework); "": every stage may have its own mesh and shardings.
  std::string framework;
};

// In the order in which they are shown.
[[nodiscard]] const std::vector<LaunchTarget>& launch_targets();
// Throws InputError with the nearest names.
[[nodiscard]] const LaunchTarget& find_launch_target(const std::string& name);

}  // namespace meshwright
