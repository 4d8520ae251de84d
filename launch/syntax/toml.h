// SPDX-License-Identifier: Apache-2.0
// TOML 1.0 as job files use it: tables, arrays of tables, dotted and quoted keys, all strings, arrays and inline
// tables. Numbers, dates and booleans stay text.
#pragma once

#include <string>

#include "launch/syntax/config_value.h"

namespace meshwright {

// Throws InputError "PLACE:LINE: ..." for other text, and for a key or table that is given twice.
[[nodiscard]] ConfigValue value_from_toml(const std::string& text, const std::string& place);

}  // namespace meshwright
