// SPDX-License-Identifier: Apache-2.0
// What a program's arguments are called, as JAX prints the paths of a step's arguments.
#pragma once

#include <string>

#include "core/graph/import/xla/xla_module.h"

namespace meshwright::xla {

// "state.params['decoder']['mlp']" -> "state.params.decoder.mlp"; the instruction's name where the path is none of an
// argument.
[[nodiscard]] std::string name_of_argument(const Instruction& of);

// "state" of "state.params.decoder.mlp": the step's argument that it is an element of; empty: it is one by itself, or
// the file has no names.
[[nodiscard]] std::string tree_of_argument(const Instruction& of);

}  // namespace meshwright::xla
