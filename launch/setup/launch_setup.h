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
#include <set>
#include <string>
#include <vector>

#include "core/plan/plan.h"
#include "core/plan/software_name.h"
#include "core/planner/layers/layer_recompute.h"
#include "core/planner/method/framework.h"
#include "core/planner/method/method.h"

namespace meshwright {

// One pipeline stage of a framework whose stages may differ (FlagScale, Alpa).
struct StageSetup {
  int blocks = 0;
  int dp = 1, tp = 1, cp = 1, ep = 1;
  Recompute recompute = Recompute::None;
  std::string device = {};  // "": as the job's
  bool operator==(const StageSetup&) const = default;
};

// Everything that a plan decides within one stage.
struct DecidedStage {
  StagePlan stage;  // without its parameters
  // By name, as the first operator that reads it on the stage keeps it.
  std::map<std::string, ParameterSharding> parameters = {};
  // By "<operator>/<parameter>": where an operator keeps a parameter otherwise, and whose gradients are eager.
  std::map<std::string, ParameterSharding> readers = {};
  std::set<std::string> eager = {};
};

struct RecomputedRange {
  std::string first, last;  // operators
  Recompute recompute;
};

// A plan as modules for JAX and Alpa say it: the mesh of every stage, and specs of tensors over its axes.
struct GivenMeshes {
  std::vector<std::string> layer_starts = {};      // the first operator of every layer
  std::vector<Method::ManualStage> stages = {};    // of these layers
  std::map<std::string, ShardingSpec> specs = {};  // of results, parameters and states, by their names; others are free
  std::vector<DecidedStage> decided = {};          // [stage]; empty: what `specs` leaves open is searched
  // Beside `decided`:
  LossReduction loss = LossReduction::Mean;
  std::vector<RecomputedRange> recompute_ranges = {};  // exceptions to the job's recomputation
  std::optional<Schedule> runs = {};                   // of a custom schedule
};

struct LaunchSetup {
  std::string target;        // the name of a LaunchTarget
  std::string release = {};  // of the framework, as the file names it; "": it does not say
  // Whose words its settings are in, where the target launches what another program's file says; "": the target's.
  std::string dialect = {};
  ModelConfig model = {};
  // The framework's own name of the model ("llama3-70b", a flavor, a recipe), where the file says the shape by it.
  std::string model_name = {};
  int hosts = 1, devices_per_host = 1;
  std::string device = {};  // "H100-SXM5-80GB"; "": the file does not say
  Degrees degrees = {};
  // Samples per step as the file says them, where that need not be micro-batches of every replica; nullopt: it is.
  std::optional<std::int64_t> batch = {};
  // Blocks of every stage, in the order of the layers, where the file names them one by one; the embedding is with the
  // first stage and the loss with the last. Empty: as degrees.split says, or evenly.
  std::vector<int> stage_blocks = {};
  // The stage that has the modules for further tokens (ModelShape::further); nullopt: the last, with the loss.
  std::optional<int> further_stage = {};
  std::vector<StageSetup> stages = {};     // of frameworks whose stages may differ; empty: all are as `degrees`
  std::optional<GivenMeshes> meshes = {};  // of targets that take any mesh; nullopt: the degrees say all
  // Weights, gradients and states are split within groups of so many neighbouring replicas, and the groups have copies
  // of one another (HSDP); nullopt: over all replicas.
  std::optional<int> shard = {};
  DType dtype = DType::BF16;
  std::string matmul_dtype = {};      // "fp8"; "": as dtype
  SoftwareSetup software_setup = {};  // but for products of 8 bits
  Optimizer optimizer = {};
  Offload offload = Offload::None;
  std::vector<LayerRecompute> recompute_layers = {};  // exceptions to degrees.recompute
  std::string own_recompute = {};  // how a file says degrees.recompute, where otherwise than export writes it
  std::int64_t steps = 20;         // of a benchmark run
  bool overlap_gradients = false, overlap_weights = false, overlap_tensor_parallel = false;

  [[nodiscard]] int devices() const { return hosts * devices_per_host; }
  [[nodiscard]] std::int64_t global_batch() const {
    return batch.value_or(degrees.micro_batch * degrees.micro_batches * degrees.dp);
  }
};

// Megatron-Core's name for it: "alltoall", "flex", "allgather".
[[nodiscard]] const char* megatron_dispatcher(TokenDispatch dispatch);

// Blocks of every stage, named by the file or not.
[[nodiscard]] std::vector<int> blocks_of_stages(const LaunchSetup& setup);
// Stages of the setup's degrees that take all devices are one set of them, though their blocks and recomputation
// differ; others stay as they are.
void join_stages(LaunchSetup& setup);
// The setup's degrees, with a layout of the stages where they are other than the planner would cut them by itself.
[[nodiscard]] Degrees degrees_with_layout(const LaunchSetup& setup);

}  // namespace meshwright
