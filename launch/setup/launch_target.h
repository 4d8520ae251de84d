// SPDX-License-Identifier: Apache-2.0
// What launch files are written for and read from.
#pragma once

#include <string>
#include <vector>

#include "core/planner/method/framework.h"

namespace meshwright {

struct LaunchTarget {
  std::string name;     // "megatron-bridge"
  std::string release;  // that its files are written for
  // Whose degrees it launches (find_framework), so that a plan for it can be searched; "": it takes any plan.
  std::string framework;
  bool own_stages = false;     // every stage has degrees of its own
  bool own_shardings = false;  // every stage has a mesh, and every tensor a sharding, of its own
};

// In the order in which they are shown.
[[nodiscard]] const std::vector<LaunchTarget>& launch_targets();
// Throws InputError with the nearest names.
[[nodiscard]] const LaunchTarget& find_launch_target(const std::string& name);

// Of the target's framework what its files can say: plans that are searched for it can always be written.
// REQUIRES: it has one.
[[nodiscard]] Framework framework_of(const LaunchTarget& target);

// What plans are searched for, in the order in which they are shown: frameworks, then targets of other names.
[[nodiscard]] std::vector<std::string> names_of_planned_frameworks();
// By such a name: the framework, or what the target's files can say of it. Throws InputError with the nearest names.
[[nodiscard]] const Framework& find_planned_framework(const std::string& name);

}  // namespace meshwright
