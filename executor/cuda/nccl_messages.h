// SPDX-License-Identifier: Apache-2.0
// Messages from a GPU of one process to one of another by NCCL, which moves them without the hosts' memory. Internal to
// executor/cuda.
//
// Each channel has a communicator of its two processes and a stream of its own at either end, so that a send that waits
// for its receiver keeps nothing else waiting: sending waits for nobody, as everywhere. NCCL tells messages apart by
// their order alone; those of a channel are received in the order in which they were sent (check_program).
#pragma once

#include <cstdint>
#include <memory>

#include "executor/device/backend.h"
#include "executor/peers/peers.h"

namespace meshwright {

// This end of the channel on `gpu`, of a process other than `process`; returns when both ends have joined. `sends`:
// this is the end that messages come from. `number`: the channel's, the same in both processes.
[[nodiscard]] std::unique_ptr<Messages> make_nccl_messages(Peers& peers, int process, bool sends, int gpu,
                                                           std::uint64_t number);

}  // namespace meshwright
