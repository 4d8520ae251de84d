// SPDX-License-Identifier: Apache-2.0
// What GPUs do, as kernels/cuda/runtime/activity.h sees it. Internal to executor/cuda.
#pragma once

#include "executor/base/work_recorder.h"

namespace meshwright {

class CudaRecorder final : public WorkRecorder {
 public:
  [[nodiscard]] std::string describe() const override;
  void start() override;
  [[nodiscard]] WorkRecording stop() override;
};

}  // namespace meshwright
