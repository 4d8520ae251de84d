// SPDX-License-Identifier: Apache-2.0
// A verb done by several processes at once, of which the first speaks.
#pragma once

#include <functional>

#include "cli/terminal/context.h"
#include "executor/peers/peers.h"

namespace meshwright {

// Whether this build can join processes.
[[nodiscard]] bool knows_mpi();

// Joins the processes that were started together and does `work` in each. None leaves before the first is through, and
// where one fails all do, with its sentence: the first says it. REQUIRES: knows_mpi().
void work_together(Context& context, const std::function<void(Peers& peers)>& work);

}  // namespace meshwright
