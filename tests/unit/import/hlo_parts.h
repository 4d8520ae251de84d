// SPDX-License-Identifier: Apache-2.0
// What the tests of HLO modules share: the computations that reductions apply, and the count of a graph's ops.
#pragma once

#include <algorithm>
#include <string>

#include "core/graph/graph.h"

namespace meshwright {

// Before ENTRY: the computations `add` and `top` of two numbers, their sum and the larger of them.
inline const std::string kHloAdd = R"(add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

)";
inline const std::string kHloTop = R"(top {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] maximum(a, b)
}

)";

inline int ops_of(const Graph& graph, OpKind kind) {
  return static_cast<int>(
      std::count_if(graph.ops().begin(), graph.ops().end(), [&](const Op& op) { return op.kind == kind; }));
}

}  // namespace meshwright
