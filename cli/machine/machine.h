// SPDX-License-Identifier: Apache-2.0
// Where `run` runs a plan: threads of this machine or its GPUs, and those of other processes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/mesh/cluster.h"
#include "core/mesh/device_names.h"
#include "core/plan/program/program.h"
#include "executor/device/backend.h"
#include "executor/peers/peers.h"
#include "executor/runner/gpu_memory_need.h"
#include "kernels/cuda/products/product_choices.h"

namespace meshwright {

struct MachineOptions {
  std::string backend = "cpu", transport = "inproc", precision, gpus;  // as given; "" where not
  std::string graphs = "auto";                                         // or "off"
  bool check = false;
  bool exact = false;  // threads that compute over integers modulo a prime (executor/check/exact_check.h)
};

struct Machine {
  std::unique_ptr<Backend> local;    // of this process's devices, where there are other processes
  std::unique_ptr<Backend> backend;  // of all
  std::string kind;                  // "cpu", "cuda"
  std::string devices;               // "4 threads", "4 devices on 1 GPU"
  std::string device;                // what it is: "NVIDIA H200, 132 multiprocessors"
  std::string libraries;             // with their versions
  std::string precision;             // "f32", or "plan": each tensor in the type that the plan gives it
  DType numbers = DType::F32;        // the type of the initial weights
  int gpus = 0;                      // of all processes
  // Algorithms of products for the GPUs of this process, used by devices created later. null: threads, or GPUs of
  // different kinds.
  std::shared_ptr<kernels::cuda::ProductChoices> product_choices;
  std::string product_library;     // the library whose algorithms they are
  std::vector<int> gpu_of_device;  // empty: threads
  int processes = 1;

  // Bytes of an element of this type as it is stored here.
  [[nodiscard]] int size_of(DType type) const { return meshwright::size_of(backend->stored(type)); }
  [[nodiscard]] bool shares_gpus() const { return static_cast<std::size_t>(gpus) < gpu_of_device.size(); }
  // Whether the plan's cluster consists of such devices.
  [[nodiscard]] bool is_that_of(const Cluster& cluster) const;
  // Whether numbers are computed in the planned type.
  [[nodiscard]] bool computes_in(DType planned) const { return backend->stored(planned) == planned; }
};

// `peers`: the processes that run the plan's `devices` together, or null. Throws InputError for options that are
// unknown or not built in, SystemError if there is no such GPU.
[[nodiscard]] Machine find_machine(const MachineOptions& options, int devices, Peers* peers);

// Whether the options request processes that were started together.
[[nodiscard]] bool joins_processes(const MachineOptions& options);

// [device] what each takes of its GPU; empty where devices are threads.
[[nodiscard]] std::vector<GpuMemoryNeed> gpu_memory_needs(const Machine& machine, const Graph& graph,
                                                          const Program& program);
// Throws SystemError if a GPU has less memory than its devices need at their peaks. The memory of threads is checked by
// the verb.
void expect_enough_gpu_memory(const Machine& machine, const std::vector<GpuMemoryNeed>& needs, const std::string& path);

}  // namespace meshwright
