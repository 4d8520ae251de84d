// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/find_model.h"

#include "core/graph/import/hf_config.h"

namespace meshwright {

ModelConfig find_model(const std::string& name) {
  return name.ends_with(".json") ? model_from_hf_file(name) : find_builtin_model(name);
}

std::vector<std::string> left_out_of_model(const std::string& name) {
  return name.ends_with(".json") ? not_understood_of_hf_file(name) : std::vector<std::string>();
}

}  // namespace meshwright
