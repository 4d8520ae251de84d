// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/cuda_backend.h"

#include "core/base/errors.h"
#include "executor/base/element_type.h"
#include "executor/cuda/cuda_device.h"
#include "executor/cuda/cuda_graph.h"
#include "executor/cuda/cuda_group.h"
#include "executor/cuda/on_gpu.h"
#include "kernels/cuda/runtime/activity.h"
#ifdef MESHWRIGHT_WITH_NCCL
#include "executor/cuda/nccl_group.h"
#include "executor/cuda/nccl_messages.h"
#endif

namespace meshwright {

CudaBackend::CudaBackend(const CudaOptions& options, int devices) : options_(options), devices_(devices) {
  const int found = kernels::cuda::device_count();
  if (found == 0) throw SystemError(kernels::cuda::why_none());
  if (found < options.first_gpu + options.gpus)
    throw SystemError(fmt::format("{} GPUs were requested, but there {} {}; request at most as many.",
                                  options.first_gpu + options.gpus, found == 1 ? "is" : "are", found));
  MW_CHECK(options.gpus >= 1 && devices >= 1, "{} devices on {} GPUs", devices, options.gpus);
  const int end = options.first_gpu + options.gpus;
  // Collectives without NCCL read each other's buffers, so every pair of GPUs is joined in both directions.
  for (int gpu = options.first_gpu; gpu < end && !options.nccl; ++gpu)
    for (int other = options.first_gpu; other < end; ++other)
      if (other != gpu && !on_gpu("joining GPUs", [&] { return kernels::cuda::share_memory(gpu, other); }))
        throw SystemError(fmt::format(
            "GPU {} cannot reach the memory of GPU {}, which collectives without NCCL need; take --transport nccl or "
            "--gpus 1.",
            gpu, other));
  require(options.precision != DType::I32, "integers are no precision; give f64, f32, bf16 or f16.");
  const bool brain_floats = options.precision == DType::BF16;
  for (int gpu = options.first_gpu; gpu < end; ++gpu) {
    const kernels::cuda::DeviceFacts facts =
        on_gpu("looking at the GPUs", [&] { return kernels::cuda::facts_of(gpu); });
    // facts.major is 0 where kernels run on the processor, which has every type.
    require(!brain_floats || facts.major == 0 || facts.major >= 8,
            "GPU {} ('{}', compute capability {}.{}) has no bf16 arithmetic; give f16 or f32.", gpu, facts.name,
            facts.major, facts.minor);
  }
}

CudaBackend::~CudaBackend() = default;

DType CudaBackend::stored(DType type) const {
  return options_.precision ? computed_type(type, *options_.precision) : type;
}

WorkRecorder* CudaBackend::recorder() { return kernels::cuda::can_record() ? &recorder_ : nullptr; }

int CudaBackend::gpu_of(DeviceId device) const {
  const std::int64_t local = device.value - options_.first_device;
  MW_CHECK(local >= 0 && local < devices_, "device {} does not run here", device.value);
  // Devices are dealt to GPUs in equal runs of neighbours, so that groups of neighbours share a GPU where they can.
  return options_.first_gpu + static_cast<int>(local * options_.gpus / devices_);
}

std::unique_ptr<Device> CudaBackend::make_device(DeviceId device) {
  return on_gpu("starting on a GPU", [&] {
    const int gpu = gpu_of(device);
    kernels::cuda::ProductTuning tuning{options_.product_choices, options_.time_products};
    // Products are timed with operands from memory, where most come from in a step.
    if (tuning.timed) tuning.l2 = kernels::cuda::facts_of(gpu).l2;
    return std::make_unique<CudaDevice>(
        gpu, options_.tensor_float, [this](DType type) { return stored(type); }, std::move(tuning));
  });
}
std::shared_ptr<Group> CudaBackend::make_group(const std::vector<DeviceId>& members, Abort& abort) {
#ifdef MESHWRIGHT_WITH_NCCL
  if (options_.nccl) {
    std::vector<int> gpus;
    for (const DeviceId member : members) gpus.push_back(gpu_of(member));
    return make_nccl_group(gpus, abort);
  }
#endif
  return std::make_shared<CudaGroup>(static_cast<int>(members.size()), abort);
}
std::shared_ptr<Group> CudaBackend::join_group([[maybe_unused]] const std::vector<DeviceId>& members,
                                               [[maybe_unused]] const std::vector<int>& processes,
                                               [[maybe_unused]] std::uint64_t number, [[maybe_unused]] Peers& peers,
                                               [[maybe_unused]] Abort& abort) {
#ifdef MESHWRIGHT_WITH_NCCL
  if (!options_.nccl) return nullptr;
  std::vector<int> gpus;
  for (std::size_t member = 0; member < members.size(); ++member)
    if (processes[member] == peers.rank()) gpus.push_back(gpu_of(members[member]));
  return make_nccl_group_between(peers, processes, gpus, number, abort);
#else
  return nullptr;
#endif
}
std::unique_ptr<Messages> CudaBackend::join_channel([[maybe_unused]] DeviceId own, [[maybe_unused]] int process,
                                                    [[maybe_unused]] bool sends, [[maybe_unused]] std::uint64_t number,
                                                    [[maybe_unused]] Peers& peers) {
#ifdef MESHWRIGHT_WITH_NCCL
  if (options_.nccl) return make_nccl_messages(peers, process, sends, gpu_of(own), number);
#endif
  return nullptr;
}
std::unique_ptr<Messages> CudaBackend::make_messages(DeviceId, DeviceId, Abort& abort) {
  return std::make_unique<CudaMessages>(abort);
}

// NCCL's collectives may come to a standstill in graphs of several GPUs of one process, as its manual says.
ReplayerResult CudaBackend::make_replayer(int devices, Abort& abort) {
  if (!options_.graphs) return {nullptr, "CUDA graphs are off"};
  if (options_.nccl && options_.gpus > 1)
    return {nullptr, "collectives of NCCL between GPUs of one process are not captured"};
  return {std::make_shared<CudaStepGraph>(devices, abort), ""};
}

}  // namespace meshwright
