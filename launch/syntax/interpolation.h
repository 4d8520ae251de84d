// SPDX-License-Identifier: Apache-2.0
// "${model.seq_length}" in the YAML of OmegaConf: another value of the same file.
#pragma once

#include "launch/syntax/config_value.h"

namespace meshwright {

// Puts the value in the place of each "${a.b}" (from the file's top) and "${.b}" (from the map that it stands in, one
// map further out for each further dot). What names no scalar of the file, such as "${oc.env:HOME}", stays.
void resolve_interpolations(ConfigValue& root);

}  // namespace meshwright
