// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/gpu_lacks.h"

#include "core/base/errors.h"

namespace meshwright {

void expect_gpu_computes(const Graph& graph, const std::string& place) {
  int masked = 0;
  std::string first;
  for (const Op& op : graph.ops()) {
    if (op.attributes.extra != Attributes::Extra::Mask || op.phase != Phase::Forward) continue;
    if (masked++ == 0) first = op.name;
  }
  require(
      masked == 0,
      "{}: the CUDA backend has no attention with a mask, and the model has {}, the first '{}'; run this model with "
      "--backend cpu.",
      place, masked, first);
}

}  // namespace meshwright
