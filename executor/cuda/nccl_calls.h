// SPDX-License-Identifier: Apache-2.0
// NCCL's calls as groups and messages make them. Internal to executor/cuda.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/errors.h"
#include "core/graph/graph.h"
#include "executor/cuda/cuda_device.h"
#include "executor/peers/peers.h"
#include "kernels/cpu/layout/tiles.h"

namespace meshwright::nccl {

// Throws SystemError with NCCL's sentence.
void expect(ncclResult_t result, const char* what);

[[nodiscard]] ncclDataType_t type_of(DType stored);
[[nodiscard]] ncclRedOp_t operation_of(kernels::Reduction reduction);

// Whatever is still under way ends with the last owner: after an error its peers may never come.
using Communicator = std::shared_ptr<ncclComm>;
[[nodiscard]] Communicator owned(ncclComm_t communicator);

// Throws SystemError where a collective or a message that has begun has failed since, as it does when a cable or
// another process fails: its kernel then never ends.
void expect_no_failure(const std::weak_ptr<ncclComm>& of, int gpu);

// The id under which `processes` join: the first of them makes it, and the others get it as a message of this tag.
[[nodiscard]] ncclUniqueId shared_id(Peers& peers, const std::vector<int>& processes, std::uint64_t tag);

// The numbers that each of `processes` brings, by process; all of them call this. `tag`: of these messages alone.
[[nodiscard]] std::vector<std::vector<int>> shared_numbers(Peers& peers, const std::vector<int>& processes,
                                                           const std::vector<int>& own, std::uint64_t tag);

[[nodiscard]] inline cudaStream_t stream_of(kernels::cuda::Stream stream) {
  return static_cast<cudaStream_t>(stream.handle);
}

}  // namespace meshwright::nccl
