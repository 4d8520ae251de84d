// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/find_model.h"

#include "core/graph/import/hf_config.h"

namespace meshwright {

ModelConfig find_model(const std::string& name) {
  return name.ends_with(".json") ? model_from_hf_file(name) : find_builtin_model(name);
}

}  // namespace meshwright
