// SPDX-License-Identifier: Apache-2.0
// What a config.json means that leaves a member out: the value of its type's class in transformers, where that is
// another than the readers' own for all families. Internal to the readers of config.json.
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"

namespace meshwright {

// Objects of members, each for what `object`, of that type, leaves out; they live as long as the program.
[[nodiscard]] std::vector<const Json*> hf_class_defaults(const std::string& type, const Json& object);

}  // namespace meshwright
