// SPDX-License-Identifier: Apache-2.0
// Collectives by NCCL between GPUs. NCCL takes each GPU once: members that share a GPU form a part of a CompositeGroup,
// whose first member represents them on NCCL. Internal to executor/cuda.
//
// NCCL's parts are contiguous; where a collective's parts are rows of a matrix, they are packed before and unpacked
// after it.
//
// The members of one process meet, and one thread starts the kernels of all: either all of them run, or none. So a
// device that has failed never leaves another one of its process waiting inside a collective, and no call that waits
// for a whole device comes between the starts. NCCL is asked for failures under way whenever a device waits.
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

// `gpus` [member]: its GPU. If members of one GPU are not neighbours in the group, so that NCCL would need the GPU
// twice, GPUs read each other's memory instead. Throws SystemError if neither they nor NCCL can.
[[nodiscard]] std::shared_ptr<Group> make_nccl_group(const std::vector<int>& gpus, Abort& abort);

// A group whose members are in several processes; all of them call this at the same point. Each GPU communicates for
// itself, so that a process with several GPUs sends over all of their links. `processes` [member]: where it runs;
// `gpus`: of this process's members, in their order. `number`: of the group, the same in all processes. Null, in every
// process, where members of one process are not neighbours in the group. Throws SystemError if NCCL cannot join them.
[[nodiscard]] std::shared_ptr<Group> make_nccl_group_between(Peers& peers, const std::vector<int>& processes,
                                                             const std::vector<int>& gpus, std::uint64_t number,
                                                             Abort& abort);

}  // namespace meshwright
