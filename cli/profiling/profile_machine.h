// SPDX-License-Identifier: Apache-2.0
// What `meshwright profile` measures: threads of this machine, or its GPUs, and as which cluster.
#pragma once

#include <memory>
#include <string>

#include "core/mesh/cluster.h"
#include "executor/measure/measurer.h"
#include "kernels/cuda/products/product_choices.h"

namespace meshwright {

struct ProfiledMachineOptions {
  std::string backend, cluster, gpus, dtype;  // as given; "" where not
};

struct ProfiledMachine {
  std::unique_ptr<Measurer> measurer;
  Cluster cluster;  // of one kind of device: the shards of its plans are measured
  DType dtype;      // of the weights
  int joined = 1;   // devices between which collectives and messages can be measured, all on one host
  bool gpus = false;
  std::string devices;  // "2 devices on 1 GPU"; "": threads
  // Algorithms of products: those stored here before measuring are used, the others are timed and stored. null:
  // threads.
  std::shared_ptr<kernels::cuda::ProductChoices> product_choices;
  std::string product_library;  // the library whose algorithms they are
};

// Throws InputError for a backend that is unknown or not built in. Measures nothing.
void expect_backend(const ProfiledMachineOptions& options);

// The cluster is, if none is named,
//   cpu    the threads of this machine
//   cuda   the preset whose device ("H200-SXM5-141GB") matches the GPU's own name ("NVIDIA H200"), with one host of as
//          many devices as GPUs are used, and no more memory per device than the GPU has
// and the type of the weights is f32, for GPUs bf16 if they compute in it, else f16.
//
// --gpus is the number of GPUs to use (default: all, but at most as many as a host of the cluster has devices). If it
// is given and a host of a named cluster has more devices, these share the GPUs: collectives and messages are measured
// between devices that share one. Otherwise they are measured between GPUs only.
//
// Throws InputError for options that contradict each other, SystemError if there is no such GPU. REQUIRES:
// expect_backend.
[[nodiscard]] ProfiledMachine machine_to_profile(const ProfiledMachineOptions& options);

}  // namespace meshwright
