// SPDX-License-Identifier: Apache-2.0
// Logical devices as threads of this process: shared memory, and kernels that run when they are asked for. Every
// floating-point tensor lies, and is computed, in one precision.
#pragma once

#include "executor/device/backend.h"

namespace meshwright {

class HostBackend final : public Backend {
 public:
  explicit HostBackend(DType precision) : precision_(precision) {}  // F32 or F64
  [[nodiscard]] DType stored(DType type) const override;
  [[nodiscard]] bool runs_blocks() const override { return true; }
  [[nodiscard]] std::unique_ptr<Device> make_device(DeviceId device) override;
  [[nodiscard]] std::shared_ptr<Group> make_group(const std::vector<DeviceId>& members, Abort& abort) override;
  [[nodiscard]] std::unique_ptr<Messages> make_messages(DeviceId from, DeviceId to, Abort& abort) override;

 private:
  DType precision_;
};

}  // namespace meshwright
