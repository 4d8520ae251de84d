// SPDX-License-Identifier: Apache-2.0
// Exported programs as PyTorch writes them, for tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"

namespace meshwright {

inline Json tensor_named(const std::string& name) { return {{"as_tensor", {{"name", name}}}}; }

inline Json call(const std::string& op, const std::vector<std::pair<std::string, Json>>& inputs,
                 const std::string& result) {
  Json arguments = Json::array();
  for (const auto& [name, argument] : inputs) arguments.push_back({{"name", name}, {"arg", argument}, {"kind", 1}});
  return {{"target", "torch.ops.aten." + op + ".default"},
          {"inputs", arguments},
          {"outputs", Json::array({tensor_named(result)})},
          {"metadata", Json::object()}};
}

}  // namespace meshwright
