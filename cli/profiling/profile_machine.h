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

// Throws InputError for what is not known or not built; measures nothing.
void expect_backend(const ProfiledMachineOptions& options);

// The cluster is, if none is named,
//   cpu    the threads of this machine
//   cuda   of the presets the one whose device ("H200-SXM5-141GB") is what the GPU calls itself ("NVIDIA H200"), with
//   as
//          many devices of one host as GPUs are used; its device has no more memory than the GPU
// and the type of the weights f32; for GPUs bf16 where they compute in it, else f16.
//
// --gpus says how many GPUs are used (all, but no more than a host of the cluster has devices). Where it is given and a
// host of a named cluster has more devices, these share the GPUs: collectives and messages are measured between devices
// that share one. Without it they are measured between GPUs only.
//
// Throws InputError for options that make no sense, SystemError where there is no such GPU. REQUIRES: expect_backend.
[[nodiscard]] ProfiledMachine machine_to_profile(const ProfiledMachineOptions& options);

}  // namespace meshwright
