// SPDX-License-Identifier: Apache-2.0
// Collectives by NCCL between GPUs. It takes each GPU once: where members share one, they meet on it, and the first
// speaks for all to the other GPUs. Internal to executor/cuda.
//
// NCCL's parts lie member by member; where a collective's lie in rows, they are packed before and unpacked after it.
//
// Members of one process meet, and one thread starts the kernels of all: either all of them run, or none. So a device
// is never left in a collective by one that has failed before it, and nothing that waits for a whole device comes
// between.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "executor/device/backend.h"
#include "executor/peers/peers.h"

namespace meshwright {

// "NCCL 2.28.9"
[[nodiscard]] std::string describe_nccl();

// `gpus` [member]: where each is. Where those of one GPU are not neighbours in the group, and so NCCL would take it
// twice, GPUs read each other's memory instead. Throws SystemError where they, or NCCL, cannot.
[[nodiscard]] std::shared_ptr<Group> make_nccl_group(const std::vector<int>& gpus, Abort& abort);

// One member in each of `processes`, which call this at the same point: that of this process is on `gpu`. `number`: the
// same in all of them, another for each group. Throws SystemError where NCCL cannot join them.
[[nodiscard]] std::shared_ptr<Group> make_nccl_group_between(Peers& peers, const std::vector<int>& processes, int gpu,
                                                             std::uint64_t number);

}  // namespace meshwright
