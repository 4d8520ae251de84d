// SPDX-License-Identifier: Apache-2.0
// Flags of older releases of Megatron-LM, and of Megatron-DeepSpeed, which grew from one of them.
#pragma once

#include <optional>
#include <string>

#include "launch/read/readers.h"

namespace meshwright {

// What they call by other names.
void rename_old_flags(Settings& settings);

// Throws InputError where a model without experts is left with a flag of experts that no release of Megatron-LM has.
void expect_known_experts(ReadingJob& job);

// Recomputation as they say it: --checkpoint-activations, --activations-checkpoint-method and Megatron-DeepSpeed's
// --deepspeed-activation-checkpointing.
struct OldRecompute {
  bool given = false;
  std::string method = {};  // as of --recompute-method
  std::optional<std::int64_t> layers = {};
  std::vector<std::string> flags = {};  // those that say so, as the file has them
};
[[nodiscard]] OldRecompute old_recompute(ReadingJob& job);

// Experts as Megatron-DeepSpeed gives them: the number of each layer that has some, the distance of these layers
// (--expert-interval), and a dense layer beside them (--mlp-type residual). Nothing of it where they are not given.
// Throws InputError where layers have unequal numbers.
void read_old_experts(ReadingJob& job, ModelFacts& facts);

}  // namespace meshwright
