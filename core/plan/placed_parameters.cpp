// SPDX-License-Identifier: Apache-2.0
#include "core/plan/placed_parameters.h"

#include <algorithm>
#include <set>

namespace meshwright {

std::vector<PlacedParameter> placed_parameters(const Plan& plan, const Graph& graph) {
  std::vector<PlacedParameter> placed;
  std::set<TensorId> met;
  for (const Op& op : graph.ops()) {
    if (op.phase != Phase::Forward) continue;
    for (const TensorId input : op.inputs) {
      const Tensor& tensor = graph.tensor(input);
      if (tensor.kind != TensorKind::Parameter) continue;
      const bool first = met.insert(input).second;
      // Copies of a stage are like it.
      for (std::size_t s = 0; s < static_cast<std::size_t>(stages_per_copy(plan)); ++s) {
        const auto found = plan.stages[s].parameters.find(op.name + "/" + tensor.name);
        if (found == plan.stages[s].parameters.end()) continue;
        placed.push_back({input, static_cast<int>(s), &found->second, first});
      }
    }
  }
  return placed;
}

bool splits_sums(const Plan& plan, const Graph& graph) {
  const std::vector<PlacedParameter> placed = placed_parameters(plan, graph);
  return std::any_of(placed.begin(), placed.end(), [](const PlacedParameter& each) {
    return !each.first_reader && (each.sharding->eager || each.sharding->state != each.sharding->weight);
  });
}

bool has_padding(const Plan& plan, const Graph& graph) {
  std::vector<LogicalMesh> meshes;
  for (const StagePlan& stage : plan.stages) meshes.push_back(mesh_of(stage, plan.cluster));
  const std::vector<PlacedParameter> placed = placed_parameters(plan, graph);
  return std::any_of(placed.begin(), placed.end(), [&](const PlacedParameter& each) {
    const std::vector<Dim>& dims = graph.tensor(each.tensor).dims;
    const LogicalMesh& mesh = meshes[static_cast<std::size_t>(each.stage)];
    return !divides(dims, each.sharding->weight, mesh) || !divides(dims, each.sharding->state, mesh);
  });
}

}  // namespace meshwright
