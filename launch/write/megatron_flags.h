// SPDX-License-Identifier: Apache-2.0
// The flags of Megatron-LM's pretrain_gpt.py, which FlagScale takes as YAML keys and Megatron-Bridge partly as
// overrides.
#pragma once

#include <vector>

#include "launch/write/launch_job.h"
#include "launch/write/script.h"

namespace meshwright {

[[nodiscard]] FlagGroup megatron_model_flags(const Decoder& decoder);
// Whether Megatron-LM's own scaling of rotations is the decoder's: Llama 3.1's, of any factor.
[[nodiscard]] bool has_megatron_scaling(const Decoder& decoder);
[[nodiscard]] std::vector<std::string> megatron_rotation_difference(const Decoder& decoder);
// Experts, and of them what degrees say.
[[nodiscard]] FlagGroup megatron_expert_flags(const Decoder& decoder, const LaunchSetup& setup);
[[nodiscard]] FlagGroup megatron_parallel_flags(const LaunchSetup& setup);
[[nodiscard]] FlagGroup megatron_training_flags(const LaunchSetup& setup);
[[nodiscard]] FlagGroup megatron_recompute_flags(const LaunchSetup& setup);
// --recompute-num-layers of the method `block`. REQUIRES: recompute_layers that broken_launch_rules accepts, not empty.
[[nodiscard]] int blocks_recomputed_first(const LaunchSetup& setup);
[[nodiscard]] FlagGroup megatron_data_flags(const Decoder& decoder);

// "([0]*3+[1]*58)", which layers have experts; "": all.
[[nodiscard]] std::string moe_layer_pattern(const Decoder& decoder);

// The stages of the setup as one layout; "": Megatron-LM makes them so by itself, or by first= and last=.
[[nodiscard]] std::string megatron_layout(const LaunchSetup& setup);
// Whether the embedding and the loss count as a layer each, so that all stages are equal.
[[nodiscard]] bool ends_count_as_layers(const LaunchSetup& setup);

}  // namespace meshwright
