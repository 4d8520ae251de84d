// SPDX-License-Identifier: Apache-2.0
// Degrees that recompute modules of their blocks in the place of the blocks.
#pragma once

#include <vector>

#include "core/planner/method/framework.h"

namespace meshwright {

// From those that make little again to those that make much; of modules that are `there` alone.
[[nodiscard]] std::vector<Degrees> with_modules_for_blocks(const Degrees& base, RecomputeModules there);

}  // namespace meshwright
