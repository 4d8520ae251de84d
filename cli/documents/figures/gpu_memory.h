// SPDX-License-Identifier: Apache-2.0
// What a plan takes of its GPUs beside the tensors that its program counts, where this program's executor runs it.
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/plan/plan.h"
#include "core/plan/program/folded_devices.h"
#include "core/plan/program/program.h"
#include "executor/runner/gpu_memory_need.h"

namespace meshwright {

// Of the fullest device of one host group.
struct GpuMemoryUse {
  int group = 0;
  std::string device;  // its name
  Bytes memory{0.0};   // all of it
  GpuMemoryNeed need;

  [[nodiscard]] Bytes needed() const { return need.tensors + need.beside() + kCudaContext; }
  [[nodiscard]] bool fits() const { return needed() <= memory; }
};
// Empty: other software runs the plan, or its devices are threads, or have less memory than CUDA itself takes.
// `folded`: only the devices that stand for others have lists in the program.
[[nodiscard]] std::vector<GpuMemoryUse> gpu_memory_use(const Plan& plan, const Graph& graph, const Program& program,
                                                       const FoldedDevices* folded);
// A search's MemoryBesideTensors: [stage] what this program's executor holds beside tensors on the first device of each
// rank, beyond what the usable memory leaves of it. Empty of what gpu_memory_use is.
[[nodiscard]] std::vector<Bytes> memory_beside_tensors(const Plan& plan, const Graph& graph, const Program& program,
                                                       const FoldedDevices* folded);
// "# beside it on a GPU, in GiB: workspaces 0.55, messages 0.00, pages 0.12, CUDA 0.75; 14.6 in all, with up to 1.1 of
// blocks kept for reuse, of 131.3"; "" of none.
[[nodiscard]] std::string gpu_memory_line(const std::vector<GpuMemoryUse>& uses);
void add_gpu_memory(Json& json, const std::vector<GpuMemoryUse>& uses);

}  // namespace meshwright
