// SPDX-License-Identifier: Apache-2.0
// The repeated blocks of a module.
//
// By name: a numbered part of the model is a block when it and its siblings hold two products or more each; a node
// without a name of its own is of its operands' last block. Where no names tell: blocks end where one tensor alone
// leads on, as behind a residual sum, and two products or more have been made; if sequences of such parts repeat, as
// attention and feed-forward layers do, one repetition is a block.
#pragma once

#include <vector>

#include "core/graph/import/primitive/module.h"

namespace meshwright::primitive {

// [node] its block, -1: none.
[[nodiscard]] std::vector<int> blocks_of(const Module& module);

}  // namespace meshwright::primitive
