// SPDX-License-Identifier: Apache-2.0
#include "cli/machine.h"

#include <algorithm>
#include <vector>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "executor/host_backend.h"
#include "executor/profiler.h"

#ifdef MESHWRIGHT_WITH_CUDA
#include "executor/cuda/cuda_backend.h"
#endif
#ifdef MESHWRIGHT_WITH_NCCL
#include "executor/cuda/nccl_group.h"
#endif

namespace meshwright {

namespace {

#ifdef MESHWRIGHT_WITH_NCCL
constexpr bool kWithNccl = true;
#else
constexpr bool kWithNccl = false;
#endif

DType precision_from(const std::string& name, const std::vector<std::string>& known, const char* give) {
  require(std::find(known.begin(), known.end(), name) != known.end(), "--precision: '{}' is not known; give {}.", name,
          give);
  return dtype_from_name(name);
}

Machine threads(const MachineOptions& options, int devices) {
  require(options.gpus.empty(), "--gpus: threads of the processor have none; add --backend cuda.");
  Machine machine;
  machine.kind = "cpu";
  machine.precision = options.precision.empty() ? "f32" : options.precision;
  machine.numbers = precision_from(machine.precision, {"f32", "f64"}, "f32 or f64");
  machine.backend = std::make_unique<HostBackend>(machine.numbers);
  machine.devices = fmt::format("{} threads", devices);
  machine.device = describe_device();
  machine.libraries = describe_libraries();
  return machine;
}

#ifdef MESHWRIGHT_WITH_CUDA

constexpr const char* kPlanned = "plan";

#ifndef MESHWRIGHT_WITH_NCCL
std::string describe_nccl() { return ""; }
#endif

Machine gpus(const MachineOptions& options, int devices) {
  Machine machine;
  machine.kind = "cuda";
  machine.precision = options.precision.empty() ? (options.check ? "f32" : kPlanned) : options.precision;
  CudaOptions cuda;
  if (machine.precision != kPlanned)
    cuda.precision = precision_from(machine.precision, {"f32", "f64", "bf16", "f16"}, "plan, f32, f64, bf16 or f16");
  machine.numbers = cuda.precision == DType::F64 ? DType::F64 : DType::F32;
  require(!options.check || machine.precision == "f32" || machine.precision == "f64",
          "--check: bounds are known for f32 and f64, not for '{}'; give --precision f32.", machine.precision);
  cuda.tensor_float = !options.check;
  const int found = kernels::cuda::device_count();
  if (found == 0) throw SystemError(fmt::format("--backend cuda: {}.", kernels::cuda::why_none()));
  cuda.gpus = options.gpus.empty() ? std::min(found, devices)
                                   : static_cast<int>(parse_integer(options.gpus, "--gpus", 1, devices));
  cuda.nccl = options.transport == "nccl";
  require(!cuda.nccl || cuda.gpus == devices,
          "--transport: NCCL takes each GPU once, and {} devices are to run on {}; run with --transport inproc.",
          devices, cuda.gpus);
  auto backend = std::make_unique<CudaBackend>(cuda, devices);
  for (int d = 0; d < devices; ++d) machine.gpu_of_device.push_back(backend->gpu_of(DeviceId(d)));
  machine.backend = std::move(backend);
  machine.gpus = cuda.gpus;
  machine.devices =
      fmt::format("{} device{} on {} GPU{}", devices, devices == 1 ? "" : "s", cuda.gpus, cuda.gpus == 1 ? "" : "s");
  const kernels::cuda::DeviceFacts facts = kernels::cuda::facts_of(0);
  machine.device = fmt::format("{}, {} multiprocessors", facts.name, facts.multiprocessors);
  machine.libraries = fmt::format("{}; driver for {}", facts.libraries, facts.driver);
  if (cuda.nccl) machine.libraries += "; " + describe_nccl();
  return machine;
}

#endif

}  // namespace

bool Machine::is_that_of(const Cluster& cluster) const {
  if (kind == "cpu") return cluster.name.starts_with("cpu:");
  for (const HostGroup& group : cluster.groups) {
    const std::string model = group.device.name.substr(0, group.device.name.find('-'));
    if (device.find(model) == std::string::npos) return false;
  }
  return true;
}

Machine find_machine(const MachineOptions& options, int devices) {
  require(options.backend == "cpu" || options.backend == "cuda", "--backend: '{}' is not known; give cpu or cuda.",
          options.backend);
  require(options.transport != "mpi", "--transport: this build has no MPI part; run with --transport inproc.");
  require(options.transport != "nccl" || kWithNccl,
          "--transport: this build has no NCCL part; run with --transport inproc.");
  require(options.transport != "nccl" || options.backend == "cuda",
          "--transport: NCCL joins GPUs; add --backend cuda, or run with --transport inproc.");
  require(options.transport == "inproc" || options.transport == "nccl",
          "--transport: '{}' is not known; this build has inproc{}.", options.transport, kWithNccl ? " and nccl" : "");
  if (options.backend == "cpu") return threads(options, devices);
#ifdef MESHWRIGHT_WITH_CUDA
  try {
    return gpus(options, devices);
  } catch (const kernels::cuda::Failure& failure) {
    throw SystemError(failure.what());
  }
#else
  throw InputError("--backend: this build has no CUDA part; run with --backend cpu.");
#endif
}

// A GPU's share of all that its devices hold at their peaks.
void expect_enough_gpu_memory([[maybe_unused]] const Machine& machine, [[maybe_unused]] const Program& program,
                              [[maybe_unused]] const ProgramCheck& check, [[maybe_unused]] const std::string& path) {
#ifdef MESHWRIGHT_WITH_CUDA
  if (machine.gpus == 0) return;
  std::vector<Bytes> needed(static_cast<std::size_t>(machine.gpus), Bytes(0.0));
  for (std::size_t d = 0; d < program.devices.size(); ++d)
    needed[static_cast<std::size_t>(machine.gpu_of_device[d])] += check.peak_memory[d];
  for (std::size_t gpu = 0; gpu < needed.size(); ++gpu) {
    kernels::cuda::use_device(static_cast<int>(gpu));
    const Bytes there(static_cast<double>(kernels::cuda::free_memory().free));
    if (needed[gpu] > there)
      throw SystemError(fmt::format(
          "{}: the plan's devices on GPU {} take {}, of which {} are free; plan for a smaller --batch, a smaller "
          "model, or more GPUs.",
          path, gpu, human_bytes(needed[gpu]), human_bytes(there)));
  }
#endif
}

}  // namespace meshwright
