// SPDX-License-Identifier: Apache-2.0
#include "cli/machine/machine.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <map>
#include <span>
#include <vector>

#include "cli/machine/processes.h"
#include "core/base/errors.h"
#include "core/base/text.h"
#include "executor/check/exact_check.h"
#include "executor/host/host_backend.h"
#include "executor/measure/profiler.h"
#include "executor/peers/peer_tags.h"
#include "executor/peers/peers_backend.h"

#ifdef MESHWRIGHT_WITH_CUDA
#include "executor/cuda/cuda_backend.h"
#include "executor/cuda/on_gpu.h"
#include "kernels/cuda/products/products.h"
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
  require(std::find(known.begin(), known.end(), name) != known.end(),
          "--precision: unknown precision '{}'; expected {}.", name, give);
  return dtype_from_name(name);
}

// The devices of one process.
struct Share {
  int first = 0, devices = 0, of = 0;
};

Share share_of(Peers* peers, int devices) {
  if (peers == nullptr) return {0, devices, devices};
  const int first = PeersBackend::first_device(peers->rank(), peers->size(), devices);
  return {first, PeersBackend::first_device(peers->rank() + 1, peers->size(), devices) - first, devices};
}

Machine threads(const MachineOptions& options, const Share& share) {
  require(options.gpus.empty(), "--gpus: only applies to GPUs; add --backend cuda.");
  require(options.graphs == "auto", "--graphs: only applies to GPUs; add --backend cuda.");
  Machine machine;
  machine.kind = "cpu";
  machine.precision = options.precision.empty() ? "f32" : options.precision;
  machine.numbers = precision_from(machine.precision, {"f32", "f64"}, "f32 or f64");
  machine.backend = options.exact ? exact_backend() : std::make_unique<HostBackend>(machine.numbers);
  machine.devices = fmt::format("{} threads", share.of);
  machine.device = describe_device();
  machine.libraries = describe_libraries();
  return machine;
}

#ifdef MESHWRIGHT_WITH_CUDA

constexpr const char* kPlanned = "plan";

#ifndef MESHWRIGHT_WITH_NCCL
std::string describe_nccl() { return ""; }
#endif

// The GPUs of the host that this process uses: one, if there are as many processes on the host as GPUs, or more.
struct GpuShare {
  int first = 0, gpus = 0;
};
GpuShare gpu_share(const MachineOptions& options, Peers* peers, int devices) {
  const int found = kernels::cuda::device_count();
  if (found == 0) throw SystemError(fmt::format("--backend cuda: {}.", kernels::cuda::why_none()));
  const int rank = peers == nullptr ? 0 : peers->rank_on_host(), ranks = peers == nullptr ? 1 : peers->size_on_host();
  const int used = options.gpus.empty() ? found : static_cast<int>(parse_integer(options.gpus, "--gpus", 1, found));
  if (used < ranks) return {rank * used / ranks, 1};
  const int first = rank * used / ranks, end = (rank + 1) * used / ranks;
  return {first, std::min(end - first, devices)};
}

// Numbers all GPUs of all hosts in the order of the devices; what every process has is told to all.
std::vector<int> number_gpus(const CudaBackend& backend, const Share& share, Peers* peers) {
  using Place = std::array<int, 2>;  // host, GPU of it
  std::vector<Place> places;
  for (int d = share.first; d < share.first + share.devices; ++d)
    places.push_back({peers == nullptr ? 0 : peers->host(), backend.gpu_of(DeviceId(d))});
  if (peers != nullptr) {
    const auto own = std::as_bytes(std::span(places));
    const std::uint64_t tag = peer_tag(PeerTag::Places, 0);
    for (int other = 0; other < peers->size(); ++other)
      if (other != peers->rank()) peers->send(other, tag, {own.begin(), own.end()});
    Abort abort;
    const PeerWatch watched(*peers, abort);
    std::vector<Place> all;
    for (int other = 0; other < peers->size(); ++other) {
      if (other == peers->rank()) {
        all.insert(all.end(), places.begin(), places.end());
        continue;
      }
      const std::vector<std::byte> bytes = peers->receive(other, tag, abort);
      std::vector<Place> theirs(bytes.size() / sizeof(Place));
      std::memcpy(theirs.data(), bytes.data(), bytes.size());
      all.insert(all.end(), theirs.begin(), theirs.end());
    }
    places = std::move(all);
  }
  std::vector<int> numbers;
  std::vector<Place> seen;
  for (const Place& place : places) {
    const auto found = std::find(seen.begin(), seen.end(), place);
    numbers.push_back(static_cast<int>(found - seen.begin()));
    if (found == seen.end()) seen.push_back(place);
  }
  return numbers;
}

void expect_own_gpus(const std::vector<int>& gpu_of_device, const Share& share) {
  const auto first = gpu_of_device.begin() + share.first, end = first + share.devices;
  for (auto at = gpu_of_device.begin(); at != gpu_of_device.end(); ++at)
    require((at >= first && at < end) || std::find(first, end, *at) == end,
            "--transport: NCCL needs a GPU per process, but several processes share one; start as many processes as "
            "there are GPUs, or give --transport mpi.");
}

// Whether the GPUs are of one kind, so that the fastest algorithm of one is that of all.
bool are_alike(const GpuShare& own) {
  const kernels::cuda::DeviceFacts first = kernels::cuda::facts_of(own.first);
  for (int gpu = own.first + 1; gpu < own.first + own.gpus; ++gpu) {
    const kernels::cuda::DeviceFacts other = kernels::cuda::facts_of(gpu);
    if (other.name != first.name || other.multiprocessors != first.multiprocessors) return false;
  }
  return true;
}

Machine gpus(const MachineOptions& options, const Share& share, Peers* peers) {
  Machine machine;
  machine.kind = "cuda";
  machine.precision = options.precision.empty() ? (options.check ? "f32" : kPlanned) : options.precision;
  CudaOptions cuda;
  if (machine.precision != kPlanned)
    cuda.precision = precision_from(machine.precision, {"f32", "f64", "bf16", "f16"}, "plan, f32, f64, bf16 or f16");
  machine.numbers = cuda.precision == DType::F64 ? DType::F64 : DType::F32;
  require(!options.check || machine.precision == "f32" || machine.precision == "f64",
          "--check: error bounds are known for f32 and f64 only, not for '{}'; give --precision f32.",
          machine.precision);
  cuda.tensor_float = !options.check;
  cuda.graphs = options.graphs == "auto";
  const GpuShare own = gpu_share(options, peers, share.devices);
  cuda.first_gpu = own.first;
  cuda.gpus = own.gpus;
  cuda.first_device = share.first;
  cuda.nccl = options.transport == "nccl" || options.transport == "mpi+nccl";
  if (are_alike(own)) {
    machine.product_choices = std::make_shared<kernels::cuda::ProductChoices>();
    machine.product_library = kernels::cuda::product_library();
    cuda.product_choices = machine.product_choices;
  }
  auto backend = std::make_unique<CudaBackend>(cuda, share.devices);
  machine.gpu_of_device = number_gpus(*backend, share, peers);
  if (cuda.nccl) expect_own_gpus(machine.gpu_of_device, share);
  machine.backend = std::move(backend);
  machine.gpus = 1 + *std::max_element(machine.gpu_of_device.begin(), machine.gpu_of_device.end());
  machine.devices = fmt::format("{} device{} on {} GPU{}", share.of, share.of == 1 ? "" : "s", machine.gpus,
                                machine.gpus == 1 ? "" : "s");
  const kernels::cuda::DeviceFacts facts = kernels::cuda::facts_of(own.first);
  machine.device = fmt::format("{}, {} multiprocessors", facts.name, facts.multiprocessors);
  machine.libraries = fmt::format("{}; driver for {}", facts.libraries, facts.driver);
  if (cuda.nccl) machine.libraries += "; " + describe_nccl();
  return machine;
}

#endif

}  // namespace

bool Machine::is_that_of(const Cluster& cluster) const {
  if (kind == "cpu") return cluster.name.starts_with("cpu:");
  return std::all_of(cluster.groups.begin(), cluster.groups.end(),
                     [&](const HostGroup& group) { return is_of_model(device, group.device.name); });
}

namespace {

void check_options(const MachineOptions& options) {
  require(options.backend == "cpu" || options.backend == "cuda",
          "--backend: unknown backend '{}'; expected cpu or cuda.", options.backend);
  require(options.graphs == "auto" || options.graphs == "off", "--graphs: unknown value '{}'; expected auto or off.",
          options.graphs);
  const std::vector<std::string> known = {"inproc", "mpi", "nccl", "mpi+nccl"};
  require(std::find(known.begin(), known.end(), options.transport) != known.end(),
          "--transport: unknown transport '{}'; expected inproc, mpi, nccl or mpi+nccl.", options.transport);
  const bool nccl = options.transport.ends_with("nccl");
  require(!joins_processes(options) || knows_mpi(),
          "--transport: this build has no MPI support; install libopenmpi-dev and build again, or give --transport "
          "inproc.");
  require(!nccl || kWithNccl, "--transport: this build has no NCCL support; give --transport inproc.");
  require(!nccl || options.backend == "cuda",
          "--transport: NCCL needs GPUs; add --backend cuda, or give --transport inproc.");
}

Machine find_local(const MachineOptions& options, const Share& share, [[maybe_unused]] Peers* peers) {
  if (options.backend == "cpu") return threads(options, share);
#ifdef MESHWRIGHT_WITH_CUDA
  try {
    return gpus(options, share, peers);
  } catch (const kernels::cuda::Failure& failure) {
    throw SystemError(failure.what());
  }
#else
  throw InputError("--backend: this build has no CUDA support; give --backend cpu.");
#endif
}

}  // namespace

bool joins_processes(const MachineOptions& options) { return options.transport.starts_with("mpi"); }

Machine find_machine(const MachineOptions& options, int devices, Peers* peers) {
  check_options(options);
  Machine machine = find_local(options, share_of(peers, devices), peers);
  if (peers == nullptr) return machine;
  machine.local = std::move(machine.backend);
  machine.backend = std::make_unique<PeersBackend>(*machine.local, *peers, devices);
  machine.processes = peers->size();
  machine.devices += ", " + peers->describe();
  return machine;
}

std::vector<GpuMemoryNeed> gpu_memory_needs(const Machine& machine, const Graph& graph, const Program& program) {
  std::vector<GpuMemoryNeed> needs;
  if (machine.gpus == 0) return needs;
  const StoredType stored = [&](DType type) { return machine.backend->stored(type); };
  // Devices of a stage allocate alike.
  const auto first_like = [&](DeviceId device) {
    return std::min(device, program.stages[program.stage_of_device[device.index()].index()].devices[0]);
  };
  std::vector<DeviceId> firsts;
  const int devices = static_cast<int>(program.devices.size());
  for (DeviceId device(0); device.value < devices; ++device.value)
    if (first_like(device) == device) firsts.push_back(device);
  const MessageBuffers messages(program, firsts, stored);
  for (DeviceId device(0); device.value < devices; ++device.value) {
    const DeviceId first = first_like(device);
    needs.push_back(first < device ? needs[first.index()] : gpu_memory_need(graph, program, device, stored, messages));
  }
  return needs;
}

// A GPU's share of all that its devices hold at their peaks. CUDA itself is there already.
void expect_enough_gpu_memory([[maybe_unused]] const Machine& machine,
                              [[maybe_unused]] const std::vector<GpuMemoryNeed>& needs,
                              [[maybe_unused]] const std::string& path) {
#ifdef MESHWRIGHT_WITH_CUDA
  if (machine.gpus == 0) return;
  std::vector<Bytes> needed(static_cast<std::size_t>(machine.gpus), Bytes(0.0));  // by all processes
  std::map<int, std::size_t> own;                                                 // this process's GPU -> its number
  const Backend& local = machine.local ? *machine.local : *machine.backend;
  for (std::size_t d = 0; d < needs.size(); ++d) {
    const DeviceId device(static_cast<int>(d));
    const auto number = static_cast<std::size_t>(machine.gpu_of_device[d]);
    needed[number] += needs[d].tensors + needs[d].beside();
    if (machine.backend->runs_here(device)) own[static_cast<const CudaBackend&>(local).gpu_of(device)] = number;
  }
  for (const auto& [gpu, number] : own) {
    const Bytes there = on_gpu("checking the GPUs' memory", [gpu = gpu] {
      kernels::cuda::use_device(gpu);
      return Bytes(static_cast<double>(kernels::cuda::free_memory().free));
    });
    if (needed[number] > there)
      throw SystemError(
          fmt::format("{}: the plan's devices on GPU {} need {}, but {} are free; plan for a smaller --batch, a "
                      "smaller model, or more GPUs.",
                      path, gpu, human_bytes(needed[number]), human_bytes(there)));
  }
#endif
}

}  // namespace meshwright
