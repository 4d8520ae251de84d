// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/gpu_lacks.h"

#include "core/base/errors.h"

namespace meshwright {

void expect_gpu_computes(const Graph& graph, const std::string& place) {
  const auto refuse = [&](const char* what, bool (*lacks)(const Op& op)) {
    int found = 0;
    std::string first;
    for (const Op& op : graph.ops()) {
      if (!lacks(op) || op.phase != Phase::Forward) continue;
      if (found++ == 0) first = op.name;
    }
    require(found == 0,
            "{}: the CUDA backend has no attention with {}, and the model has {}, the first '{}'; run this model with "
            "--backend cpu.",
            place, what, found, first);
  };
  refuse("a mask", [](const Op& op) { return op.attributes.extra == Attributes::Extra::Mask; });
  refuse("capped scores",
         [](const Op& op) { return op.kind == OpKind::GroupedAttention && op.attributes.score_cap > 0.0; });
}

}  // namespace meshwright
