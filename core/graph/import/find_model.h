// SPDX-License-Identifier: Apache-2.0
// A model as the user names it: built in, or a file.
#pragma once

#include <string>
#include <vector>

#include "core/graph/models/models.h"

namespace meshwright {

// A file whose name ends in ".json" (core/graph/import/hf_config.h), else as find_builtin_model.
[[nodiscard]] ModelConfig find_model(const std::string& name);
// What the model's file says, may change the model, and is left out of it; empty for a built-in one.
[[nodiscard]] std::vector<std::string> left_out_of_model(const std::string& name);

}  // namespace meshwright
