// SPDX-License-Identifier: Apache-2.0
#include "cli/profiling/profile_machine.h"

#include <algorithm>
#include <thread>

#include "cli/machine/machine.h"
#include "cli/machine/provenance.h"
#include "cli/options/options.h"
#include "core/base/errors.h"
#include "core/base/text.h"
#include "executor/measure/profiler.h"

#ifdef MESHWRIGHT_WITH_CUDA
#include "executor/cuda/cuda_measurer.h"
#include "executor/cuda/on_gpu.h"
#include "kernels/cuda/products/products.h"
#endif

namespace meshwright {

namespace {

#ifdef MESHWRIGHT_WITH_CUDA
constexpr bool kWithCuda = true;
#else
constexpr bool kWithCuda = false;
#endif

constexpr double kMemoryShare = 0.25;  // of this machine's memory, for the operands of one measurement

DType dtype_of(const std::string& name) {
  return at_place("--dtype", [&] { return dtype_from_name(name); });
}

ProfiledMachine threads(const ProfiledMachineOptions& options) {
  require(options.gpus.empty(), "--gpus: threads of the processor have none; add --backend cuda.");
  const std::string here = fmt::format("cpu:{}", std::max(1u, std::thread::hardware_concurrency()));
  ProfiledMachine machine;
  machine.cluster = find_cluster(options.cluster.empty() ? here : options.cluster);
  require(machine.cluster.name.starts_with("cpu:") && machine.cluster.hosts() == 1,
          "--cluster: {} is not this machine; give cpu:N for N of its threads.", machine.cluster.name);
  machine.dtype = dtype_of(options.dtype.empty() ? "f32" : options.dtype);
  machine.joined = machine.cluster.devices();
  machine.measurer = std::make_unique<HostMeasurer>(machine.joined, kMemoryShare * memory_of_this_machine());
  return machine;
}

#ifdef MESHWRIGHT_WITH_CUDA

Cluster preset_of(const std::string& gpu) {
  for (const ClusterPreset& preset : cluster_presets()) {
    const Cluster cluster = find_cluster(preset.pattern.substr(0, preset.pattern.find(':')) + ":1");
    if (is_of_model(gpu, cluster.only().device.name)) return cluster;
  }
  throw InputError(fmt::format(
      "--cluster is missing: no preset has the GPU '{}'; name a cluster file for it, whose rates the measured "
      "ones replace (`meshwright clusters --json` shows what such a file holds).",
      gpu));
}

Cluster named_cluster(const std::string& name) {
  const Cluster cluster = find_cluster(name);
  require(cluster.uniform(), "--cluster: {} has {} kinds of hosts; name one with the kind that this machine is.",
          cluster.name, cluster.groups.size());
  require(!cluster.name.starts_with("cpu:"), "--cluster: {} has no GPUs; name one that has, or give --backend cpu.",
          cluster.name);
  return cluster;
}

kernels::cuda::DeviceFacts common_facts(int gpus) {
  const kernels::cuda::DeviceFacts first = kernels::cuda::facts_of(0);
  for (int gpu = 1; gpu < gpus; ++gpu) {
    const std::string other = kernels::cuda::facts_of(gpu).name;
    require(other == first.name,
            "--gpus: GPU {} is '{}' and GPU 0 is '{}'; measure like ones together, as with --gpus 1 or "
            "CUDA_VISIBLE_DEVICES.",
            gpu, other, first.name);
  }
  return first;
}

DType dtype_on(const kernels::cuda::DeviceFacts& gpu, const std::string& name) {
  const bool brain_floats = gpu.major == 0 || gpu.major >= 8;
  const DType dtype = dtype_of(!name.empty() ? name : brain_floats ? "bf16" : "f16");
  require(dtype != DType::BF16 || brain_floats,
          "--dtype: the GPU '{}' (compute capability {}.{}) has no bf16 arithmetic; give f16 or f32.", gpu.name,
          gpu.major, gpu.minor);
  return dtype;
}

ProfiledMachine gpus(const ProfiledMachineOptions& options) {
  const int found = kernels::cuda::device_count();
  if (found == 0) throw SystemError(fmt::format("--backend cuda: {}.", kernels::cuda::why_none()));
  ProfiledMachine machine;
  machine.gpus = true;
  const bool named = !options.cluster.empty();
  machine.cluster = named ? named_cluster(options.cluster) : preset_of(kernels::cuda::facts_of(0).name);
  const int on_host = machine.cluster.only().devices_per_host;
  const int used = options.gpus.empty() ? std::min(found, on_host)
                                        : static_cast<int>(parse_integer(options.gpus, "--gpus", 1, on_host));
  if (used > found)
    throw SystemError(
        fmt::format("--gpus: {} were requested, but this machine has {}; request at most as many.", used, found));
  machine.joined = named && !options.gpus.empty() ? on_host : used;
  if (!named) machine.cluster = take_part(machine.cluster, 1, used);
  const kernels::cuda::DeviceFacts facts = common_facts(used);
  DeviceKind& device = machine.cluster.only().device;
  device.memory = std::min(device.memory, Bytes(static_cast<double>(facts.memory)));
  machine.dtype = dtype_on(facts, options.dtype);
  machine.devices = fmt::format("{} device{} on {} GPU{}", machine.joined, machine.joined == 1 ? "" : "s", used,
                                used == 1 ? "" : "s");
  machine.product_choices = std::make_shared<kernels::cuda::ProductChoices>();
  machine.product_library = kernels::cuda::product_library();
  machine.measurer = std::make_unique<CudaMeasurer>(used, machine.joined, machine.product_choices);
  return machine;
}

#endif

}  // namespace

void expect_backend(const ProfiledMachineOptions& options) {
  const std::string& backend = options.backend;
  const char* const known = kWithCuda ? "cpu or cuda" : "cpu";
  require(!backend.empty(), "--backend is missing; give --backend cpu{}.", kWithCuda ? " or --backend cuda" : "");
  require(backend != "cuda" || kWithCuda, "--backend: this build has no CUDA part; it measures --backend cpu.");
  require(backend == "cpu" || backend == "cuda", "--backend: '{}' is not known; this build measures {}.", backend,
          known);
}

ProfiledMachine machine_to_profile(const ProfiledMachineOptions& options) {
#ifdef MESHWRIGHT_WITH_CUDA
  if (options.backend == "cuda") return on_gpu("--backend cuda", [&] { return gpus(options); });
#endif
  return threads(options);
}

}  // namespace meshwright
