// SPDX-License-Identifier: Apache-2.0
// What Pai-Megatron-Patch (a098ca5a) adds to Megatron-LM's flags: words beside a tokenizer's, optimizers whose states
// lie on the host, biases of single products.
#pragma once

#include "launch/read/readers.h"

namespace meshwright {

// The words of --patch-tokenizer-type and --extra-vocab-size together, which it pads no further; nullopt: these are not
// given, or the tokenizer is no known one.
[[nodiscard]] std::optional<std::int64_t> words_of_patch(ReadingJob& job);
// --use-llama2-rotary-position-embeddings and the like, --disable-bias-linear-fc with --disable-bias-attn-fc.
void name_patch_as_megatron(Settings& settings);
// "hybridadam" and "cpu-adam" are Adam with states on the host; false: the optimizer is another.
bool read_patch_optimizer(ReadingJob& job, const std::string& kind);

}  // namespace meshwright
