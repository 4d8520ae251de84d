// SPDX-License-Identifier: Apache-2.0
// The tensors that cross from one layer to the next, and the specs they may have there.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/mesh/submesh.h"
#include "core/planner/intra_op/intra_op_rules.h"
#include "core/planner/layers/step_structure.h"
#include "core/sharding/sharding_spec.h"

namespace meshwright {

// A layer's border: one spec for each crossing tensor, of those that the rules let its op leave. Where there
// are very many joint states, only those are kept that split every tensor the same way by name.
struct Border {
  std::vector<TensorId> tensors;
  std::vector<std::vector<ShardingSpec>> states;  // [state][tensor]
};
// What rules let ops leave their results as, found once for equal ops.
struct KnownResults {
  // By the graph, and the class of the op in it.
  std::map<std::tuple<const Graph*, int, std::size_t>, std::vector<ShardingSpec>> specs = {};
};
// `known`: of the same mesh and rules; nullptr: nothing is remembered.
[[nodiscard]] Border make_border(const StepStructure& structure, int layer, const LogicalMesh& mesh,
                                 const IntraOpRules& rules = {}, KnownResults* known = nullptr);
// A text of the borders before and after a layer. Layers of equal signature are equal problems only when these texts
// are equal too; without rules they are.
[[nodiscard]] std::string border_signature(const StepStructure& structure, int layer, const LogicalMesh& mesh,
                                           const IntraOpRules& rules, KnownResults* known = nullptr);

}  // namespace meshwright
