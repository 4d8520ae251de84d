// SPDX-License-Identifier: Apache-2.0
// Logical devices as threads of this process: shared memory, and kernels that run when they are asked for. Every
// floating-point tensor lies, and is computed, in one precision.
#pragma once

#include "executor/device/backend.h"

namespace meshwright {

// What computes ops of tensors that lie in one precision.
struct HostOps {
  void (*run_op)(const OpCallPlan& call, std::span<void* const> inputs, std::span<void* const> outputs,
                 const OpMoment& moment);
  void (*run_attention_block)(const OpCallPlan& call, const AttentionBlock& block, std::span<void* const> inputs,
                              std::span<void* const> outputs, const OpMoment& moment);
  // Whether new memory begins as bytes of ones, which are no numbers, so that reading it before it is written shows.
  bool marks_memory = false;
};
[[nodiscard]] HostOps host_ops(DType precision);  // in numbers, F32 or F64

class HostBackend final : public Backend {
 public:
  explicit HostBackend(DType precision) : HostBackend(precision, host_ops(precision)) {}  // F32 or F64
  HostBackend(DType precision, HostOps ops) : precision_(precision), ops_(ops) {}
  [[nodiscard]] DType stored(DType type) const override;
  [[nodiscard]] bool runs_blocks() const override { return true; }
  [[nodiscard]] std::unique_ptr<Device> make_device(DeviceId device) override;
  [[nodiscard]] std::shared_ptr<Group> make_group(const std::vector<DeviceId>& members, Abort& abort) override;
  [[nodiscard]] std::unique_ptr<Messages> make_messages(DeviceId from, DeviceId to, Abort& abort) override;

 private:
  DType precision_;
  HostOps ops_;
};

}  // namespace meshwright
