// SPDX-License-Identifier: Apache-2.0
// What other files say to Megatron-LM in words of their own: recipes of NeMo 2 and Megatron-Bridge, FlagScale's meshes.
#pragma once

#include "launch/read/readers.h"

namespace meshwright {

// "model.virtual_pipeline_model_parallel_size" -> "num-virtual-stages-per-pipeline-rank", and so on: the keys of
// Megatron-Bridge (067f987df) as Megatron-LM's flags.
void name_as_megatron(Settings& settings);
// The model that the recipe's name speaks of ("llama3_70b_pretrain_config").
void recipe_model(ReadingJob& job);
// --moe-layer-freq: "[0]*3+[1]*58", "([0]*3+[1]*58)", "2"; the first layers have no experts, of the others every so
// many has.
struct ExpertLayers {
  std::int64_t dense = 0, every = 1;
};
[[nodiscard]] ExpertLayers expert_layers(ReadingJob& job, const std::string& text, std::int64_t layers);
// hetero_process_meshes and hetero_pipeline_layer_split of FlagScale (16a2dd5b5c41): LaunchSetup::stages.
void read_meshes(ReadingJob& job);
// Where all meshes have the same degrees, and the stages fill the devices: one set of degrees and the blocks of each
// stage in the place of LaunchSetup::stages.
void join_meshes(ReadingJob& job);

}  // namespace meshwright
