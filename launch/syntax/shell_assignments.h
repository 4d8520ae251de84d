// SPDX-License-Identifier: Apache-2.0
// What an assignment of a script does to its variables: plain ones, arrays, and arrays whose elements have names.
#pragma once

#include "launch/syntax/shell_tree.h"
#include "launch/syntax/shell_words.h"

namespace meshwright {

void assign(const ShellNode::Assignment& made, ShellWords& words);

}  // namespace meshwright
