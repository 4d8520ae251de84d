// SPDX-License-Identifier: Apache-2.0
// A verb that several processes run together. Only the first one prints.
#pragma once

#include <functional>

#include "cli/terminal/context.h"
#include "executor/peers/peers.h"

namespace meshwright {

// Whether this build can join processes.
[[nodiscard]] bool knows_mpi();

// Joins the processes that were started together and runs `work` in each. None ends before the first one has, and if
// one fails all do, with its error, which the first one prints. REQUIRES: knows_mpi().
void work_together(Context& context, const std::function<void(Peers& peers)>& work);

}  // namespace meshwright
