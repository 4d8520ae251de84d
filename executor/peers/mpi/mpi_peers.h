// SPDX-License-Identifier: Apache-2.0
// Processes that mpirun, srun or whatever else starts MPI programs has started together.
//
// One thread of each process does all of MPI's work (no more than MPI_THREAD_SERIALIZED is asked of the library), so
// that large messages go on while every device computes.
#pragma once

#include <memory>

#include "core/base/units.h"
#include "executor/peers/peers.h"

namespace meshwright {

// Once in a process; leaving is what the destructor does, and waits for the others to do. A process that was started
// alone is the only one. Throws SystemError where MPI cannot be begun.
//
// Another process counts as lost when it has ended without leaving, which is noticed at once on the same host, or when
// nothing was heard of it for `patience`; each process is heard of every second, whatever its devices do. Then nobody
// can leave together with it, and the destructor ends the calling process, with the exit code of a SystemError.
[[nodiscard]] std::unique_ptr<Peers> join_mpi(Seconds patience);

}  // namespace meshwright
