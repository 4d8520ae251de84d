// SPDX-License-Identifier: Apache-2.0
// What a file computes from constants alone becomes data: numbers of the ops that read it, or inputs of the graph that
// are the same in every microbatch.
#pragma once

#include "core/graph/import/primitive/module.h"

namespace meshwright::primitive {

// Replaces what is made of constants by constants with their numbers. Where that would be more than kMaxValues
// elements, or one for each sample, ops make it of smaller ones, if a Graph has these; otherwise it has no numbers, and
// a note says so.
void make_constants_data(Module& module);

}  // namespace meshwright::primitive
