// SPDX-License-Identifier: Apache-2.0
// Einsum: an equation of letters, one for each dimension.
#pragma once

#include <string>
#include <vector>

#include "core/graph/import/primitive/builder.h"

namespace meshwright::primitive {

// "bqhd,bkhd->bhqk" of as many operands as it has terms; "..." stands for the dimensions that are not named, and
// without
// "->" the result has the letters that occur once, in the order of the alphabet. Products of several operands are made
// from left to right. Throws InputError for equations that do not fit the operands, and for diagonals ("ii->i").
[[nodiscard]] int einsum(Builder& b, std::string equation, const std::vector<int>& operands);

}  // namespace meshwright::primitive
