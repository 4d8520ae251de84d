// SPDX-License-Identifier: Apache-2.0
// Commands of the shell itself that set variables.
#pragma once

#include <string>

#include "launch/syntax/shell_conditions.h"
#include "launch/syntax/shell_words.h"

namespace meshwright {

// What stands in (( )) or behind `let`: "N = 3", "N += 1", "N++", or a value. Whether its value is not zero.
Truth counted(const std::string& text, int line, ShellWords& words);

// `read`, also to the end of a here document (-d ''). Not known where nothing in the script says what it reads: its
// variables stay as they are.
Truth read_into(const ShellCommand& command, ShellWords& words);

}  // namespace meshwright
