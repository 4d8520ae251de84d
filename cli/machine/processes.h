// SPDX-License-Identifier: Apache-2.0
// A verb that several processes run together. Only the first one prints.
#pragma once

#include <functional>
#include <string>

#include "cli/terminal/context.h"
#include "core/base/units.h"
#include "executor/peers/peers.h"

namespace CLI {
class App;
}

namespace meshwright {

// Whether this build can join processes.
[[nodiscard]] bool knows_mpi();

// Joins the processes that were started together and runs `work` in each. None ends before the first one has, and if
// one fails all do, with its error, which the first one prints. Where one is lost (PeerLost: it has died, or nothing
// was heard of it for `patience`), each of the others prints what it knows. REQUIRES: knows_mpi().
void work_together(Context& context, Seconds patience, const std::function<void(Peers& peers)>& work);

// --patience, and what it gives. Throws InputError for a value that is not from 1 second to a day.
void add_patience_option(CLI::App& verb, std::string& patience);
[[nodiscard]] Seconds patience_from_text(const std::string& patience);

}  // namespace meshwright
