// SPDX-License-Identifier: Apache-2.0
// The order of a program's computations, and checks that every reader's program passes.
#pragma once

#include <string>

#include "core/graph/import/xla/xla_module.h"

namespace meshwright::xla {

// Puts what calls behind what is called. Throws InputError where computations call each other in a circle.
void order_computations(Program& program, const std::string& place);

}  // namespace meshwright::xla
