// SPDX-License-Identifier: Apache-2.0
// A step of all devices of a process as one CUDA graph. Internal to executor/cuda.
//
// The capture begins on the first device's stream, and the others join it; what streams wait for in collectives and
// messages becomes the graph's edges. The graph is one object, which CUDA does not guard: threads take turns in what
// they ask for, and let others go on where they wait for them.
#pragma once

#include <mutex>

#include "core/base/indexed_vector.h"
#include "executor/base/abort.h"
#include "executor/cuda/cuda_device.h"
#include "executor/device/step_replayer.h"
#include "kernels/cuda/runtime/graph.h"

namespace meshwright {

class CudaStepGraph final : public StepReplayer {
 public:
  CudaStepGraph(int devices, Abort& abort);
  CudaStepGraph(const CudaStepGraph&) = delete;
  CudaStepGraph& operator=(const CudaStepGraph&) = delete;
  ~CudaStepGraph() override;

  void capture(int number, Device& device, const std::function<void()>& issue) override;
  [[nodiscard]] void* feed(Device& device, void* to, std::size_t size) override;
  void replay(int number, Device& device, std::int64_t step, bool with_marks) override;
  [[nodiscard]] std::string description() const override;

 private:
  [[nodiscard]] kernels::cuda::Event& event_of(int number) { return events_[number]; }
  void drop_graph() noexcept;

  // For the first device: where the others join, and the end of a replay. For another device: the end of its part.
  IndexedVector<int, kernels::cuda::Event> events_;
  kernels::cuda::Stream origin_;
  kernels::cuda::Graph graph_;
  Barrier together_;
  std::mutex turn_;
};

}  // namespace meshwright
