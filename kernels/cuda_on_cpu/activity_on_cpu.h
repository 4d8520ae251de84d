// SPDX-License-Identifier: Apache-2.0
// Recording (kernels/cuda/runtime/activity.h) of what is done in the place of a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/cuda/runtime/activity.h"

namespace meshwright::kernels::cuda::on_cpu {

// While it lives the calling thread's device does this; it is kept where somebody records.
class Recorded {
 public:
  Recorded(Activity::Kind kind, const char* name, std::size_t bytes);
  ~Recorded();
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;

 private:
  Activity::Kind kind_;
  const char* name_;
  std::size_t bytes_;
  std::optional<std::int64_t> start_;  // where somebody records
};

[[nodiscard]] int used_device();  // by the calling thread

}  // namespace meshwright::kernels::cuda::on_cpu
