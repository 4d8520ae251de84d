// SPDX-License-Identifier: Apache-2.0
// What models may have and the CUDA backend does not compute, told before anything runs.
#pragma once

#include <string>

#include "core/graph/graph.h"

namespace meshwright {

// Throws InputError, which begins with `place` and names the first op, where the graph has an op that no kernel of the
// CUDA backend computes.
void expect_gpu_computes(const Graph& graph, const std::string& place);

}  // namespace meshwright
