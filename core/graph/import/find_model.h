// SPDX-License-Identifier: Apache-2.0
// A model as the user names it: built in, or a file.
#pragma once

#include <string>

#include "core/graph/models/models.h"

namespace meshwright {

// A file whose name ends in ".json" (core/graph/import/hf_config.h), else as find_builtin_model.
[[nodiscard]] ModelConfig find_model(const std::string& name);

}  // namespace meshwright
