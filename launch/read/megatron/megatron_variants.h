// SPDX-License-Identifier: Apache-2.0
// Layers of Megatron-LM and MindSpeed-LLM that are no plain decoder blocks: gated delta rules, attention that an
// indexer narrows, Gemma 2.
#pragma once

#include <optional>

#include "launch/read/readers.h"

namespace meshwright {

// nullopt: the layers are plain blocks. Throws InputError where a flag asks for layers that no model here has, and for
// such as lack a size.
[[nodiscard]] std::optional<ModelConfig> variant_model(ReadingJob& job, const ModelFacts& facts);

}  // namespace meshwright
