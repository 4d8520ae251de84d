// SPDX-License-Identifier: Apache-2.0
// What a file computes from constants alone becomes data: numbers of the ops that read it, or inputs of the graph that
// are the same in every microbatch.
#pragma once

#include "core/graph/import/primitive/module.h"

namespace meshwright::primitive {

// Replaces what is made of constants by constants with their numbers. Those of more than kMaxValues elements, or of ops
// that are not computed here, have none, and a note says so. What repeats a constant for each sample stays an op.
void make_constants_data(Module& module);

}  // namespace meshwright::primitive
