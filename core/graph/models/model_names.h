// SPDX-License-Identifier: Apache-2.0
// Which built-in model the name of a hub, a recipe or a framework's own table stands for.
#pragma once

#include <optional>
#include <string>

#include "core/graph/models/models.h"

namespace meshwright {

// "meta-llama/Llama-3.1-8B-Instruct", "qwen3_32b_pretrain_config", "llama3 8B": the model with the most words in common
// with the name, which must have its first word, version and size. None for the name of a smaller or of another kind of
// model ("mini", "vl"), and where a number of parameters in the name is more than a tenth off.
[[nodiscard]] std::optional<ModelConfig> builtin_model_like(const std::string& name);

}  // namespace meshwright
