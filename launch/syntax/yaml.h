// SPDX-License-Identifier: Apache-2.0
// YAML as launch files use it, and with it JSON: block and flow maps and lists, plain and quoted scalars over one or
// several lines, block scalars, comments, anchors and aliases, `<<`; flow maps may end in a comma (GPT-NeoX).
//
// Scalars stay text: what `yes`, `1_000` or `2e8` mean is for the framework to say. Left out: several documents in one
// file, keys that are no scalars, tags.
#pragma once

#include <string>

#include "launch/syntax/config_value.h"

namespace meshwright {

// Throws InputError "PLACE:LINE: ..." for other text.
[[nodiscard]] ConfigValue value_from_yaml(const std::string& text, const std::string& place);

}  // namespace meshwright
