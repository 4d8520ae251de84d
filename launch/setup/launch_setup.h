// SPDX-License-Identifier: Apache-2.0
// One training job as a framework's launch files describe it: what they can say of a model, its devices and a plan, in
// the same words for every framework.
//
// Writers make files of it, readers make it of files, and the planner is asked for the plan that it stands for; so a
// file that is written and read again gives the same setup. Numbers are in the frameworks' own count: samples are
// sequences, layers are the model's blocks.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/planner/layers/layer_recompute.h"
#include "core/planner/method/framework.h"

namespace meshwright {

struct LaunchSetup {
  std::string target;   // the name of a LaunchTarget
  std::string release;  // of the framework, as the file names it; "": it does not say
  ModelConfig model;
  // The framework's own name of the model ("llama3-70b", a flavor, a recipe), where the file says the shape by it.
  std::string model_name = {};
  int hosts = 1, devices_per_host = 1;
  std::string device = {};  // "H100-SXM5-80GB"; "": the file does not say
  Degrees degrees;
  // Weights, gradients and states are split within groups of so many neighbouring replicas, and the groups have copies
  // of one another (HSDP); nullopt: over all replicas.
  std::optional<int> shard = {};
  DType dtype = DType::BF16;
  std::string matmul_dtype = {};  // "fp8"; "": as dtype
  Optimizer optimizer = {};
  Offload offload = Offload::None;
  std::vector<LayerRecompute> recompute_layers = {};  // exceptions to degrees.recompute
  std::int64_t steps = 20;                            // of a benchmark run
  bool overlap_gradients = false, overlap_weights = false, overlap_tensor_parallel = false;

  [[nodiscard]] int devices() const { return hosts * devices_per_host; }
  [[nodiscard]] std::int64_t global_batch() const {
    return degrees.micro_batch * degrees.micro_batches * degrees.dp;
  }
};

}  // namespace meshwright
