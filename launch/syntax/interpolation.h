// SPDX-License-Identifier: Apache-2.0
// "${model.seq_length}" in the YAML of OmegaConf: another value of the same file.
#pragma once

#include <map>
#include <string>

#include "launch/syntax/config_value.h"

namespace meshwright {

// Puts the value in the place of each "${a.b}" (from the file's top) and "${.b}" (from the map that it stands in, one
// map further out for each further dot), and the result in the place of "${multiply:2,${a.b}}" and of what else
// programs compute with whole numbers (sum, subtract, floor_div, ceil_div, div, min, max, eq, neq, if). What names no
// scalar of the file stays, and so does what is computed of it.
void resolve_interpolations(ConfigValue& root);

// Puts the variable in the place of each "${oc.env:NAME}", or what stands behind the comma of
// "${oc.env:NAME,otherwise}" where it is not given; without either it is unresolved (kUnresolved). "${oc.decode:X}" is
// X.
void resolve_environment(ConfigValue& root, const std::map<std::string, std::string>& variables);

}  // namespace meshwright
