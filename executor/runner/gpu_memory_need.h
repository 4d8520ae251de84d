// SPDX-License-Identifier: Apache-2.0
// The memory that a Program takes of a GPU, beyond what check_program counts: known before it runs, and without a GPU.
//
// A device allocates and releases in an order that the Program fixes, so that what its pool keeps is exact. What
// kernels and libraries take is at most this much. Not counted: NCCL's own buffers, and the staging of groups that
// reach over several processes.
#pragma once

#include "core/base/units.h"
#include "core/graph/graph.h"
#include "core/plan/program/program.h"
#include "executor/ops/gpu_workspace.h"
#include "executor/runner/message_buffers.h"

namespace meshwright {

// CUDA itself: its context, the code of our kernels and of cuBLASLt's and cuDNN's, streams, events and graphs. Of an
// NVIDIA H200 with CUDA 13.0: what its driver counted in use beside all of GpuMemoryNeed, of the model with the least
// and of that with the most alike (experiments/h200). GPUs with fewer multiprocessors take less.
inline constexpr Bytes kCudaContext{532.0 * (1 << 20)};

// Of one logical device.
struct GpuMemoryNeed {
  Bytes tensors{0.0};    // at their peak, as they are stored
  Bytes pages{0.0};      // that the driver's pages take more
  Bytes kept{0.0};       // released blocks, kept for requests of their size; returned where memory is short
  Bytes workspace{0.0};  // of kernels and libraries
  Bytes messages{0.0};   // on their way to other devices of the process

  [[nodiscard]] Bytes beside() const { return pages + workspace + messages; }  // what must fit beside the tensors
  [[nodiscard]] Bytes all() const { return tensors + beside() + kept; }
};

// REQUIRES: `device` has its whole list in the program, which is sound (check_program).
[[nodiscard]] GpuMemoryNeed gpu_memory_need(const Graph& graph, const Program& program, DeviceId device,
                                            const StoredType& stored);
// With what is known of the program's messages. REQUIRES: `device` is one of their senders.
[[nodiscard]] GpuMemoryNeed gpu_memory_need(const Graph& graph, const Program& program, DeviceId device,
                                            const StoredType& stored, const MessageBuffers& messages);

}  // namespace meshwright
