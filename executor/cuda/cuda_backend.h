// SPDX-License-Identifier: Apache-2.0
// Logical devices on GPUs: each has a stream, memory and kernels of its own. Several may share one GPU, where their
// work runs side by side. Host threads run ahead of the GPUs: they meet to exchange addresses, and streams wait for
// each other's events.
//
// Collectives add in the order of members, so all get the same bits in every run.
#pragma once

#include <memory>
#include <vector>

#include "executor/cuda/cuda_recorder.h"
#include "executor/device/backend.h"
#include "kernels/cuda/products/product_choices.h"
#include "kernels/cuda/runtime/stream.h"

namespace meshwright {

struct CudaOptions {
  // Absent: every tensor is stored in the type that the graph gives it. Otherwise every floating-point tensor is stored
  // and computed in this type.
  std::optional<DType> precision;
  bool tensor_float = true;  // float products may round their operands to TF32
  int first_gpu = 0;         // the first GPU to use
  int gpus = 1;              // how many GPUs to use, from that one on
  int first_device = 0;      // the logical devices that run here begin with it
  bool nccl = false;         // collectives by NCCL where devices of a group are on several GPUs
  // Algorithms of products, chosen for GPUs such as the first. A product without a choice takes the library's first
  // proposal or, with `time_products`, the fastest one, which is then added.
  std::shared_ptr<kernels::cuda::ProductChoices> product_choices = nullptr;
  bool time_products = false;
  bool graphs = true;  // steps are captured as a CUDA graph where they can be
};

class CudaBackend final : public Backend {
 public:
  // `devices`: how many logical ones run here, spread evenly over the GPUs, neighbours together. Throws SystemError
  // where there are fewer GPUs, and InputError for a type that a GPU does not compute in.
  CudaBackend(const CudaOptions& options, int devices);
  ~CudaBackend() override;

  [[nodiscard]] DType stored(DType type) const override;
  [[nodiscard]] std::unique_ptr<Device> make_device(DeviceId device) override;
  [[nodiscard]] std::shared_ptr<Group> make_group(const std::vector<DeviceId>& members, Abort& abort) override;
  [[nodiscard]] std::shared_ptr<Group> join_group(const std::vector<DeviceId>& members,
                                                  const std::vector<int>& processes, std::uint64_t number, Peers& peers,
                                                  Abort& abort) override;
  [[nodiscard]] std::unique_ptr<Messages> join_channel(DeviceId own, int process, bool sends, std::uint64_t number,
                                                       Peers& peers) override;
  [[nodiscard]] std::unique_ptr<Messages> make_messages(DeviceId from, DeviceId to, Abort& abort) override;

  // None where NCCL joins GPUs of this process.
  [[nodiscard]] ReplayerResult make_replayer(int devices, Abort& abort) override;

  [[nodiscard]] bool names_work() const override { return true; }
  [[nodiscard]] WorkRecorder* recorder() override;

  [[nodiscard]] int gpu_of(DeviceId device) const;

 private:
  CudaOptions options_;
  int devices_;
  CudaRecorder recorder_;
};

}  // namespace meshwright
