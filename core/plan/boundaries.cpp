// SPDX-License-Identifier: Apache-2.0
#include "core/plan/boundaries.h"

#include "core/plan/stage_graph.h"

namespace meshwright {

void set_cross_mesh(Plan& plan, const Graph& graph, CrossMesh form) {
  for (StagePlan& stage : plan.stages) stage.cross_mesh.clear();
  if (form == CrossMesh::Send) return;
  const StageGraph stages = stage_graph(plan, graph);
  for (std::size_t from = 0; from < plan.stages.size(); ++from)
    for (const int to : stages.feeds[from]) {
      plan.stages[static_cast<std::size_t>(to)].cross_mesh.emplace(static_cast<int>(from), form);
      if (plan.schedule != ScheduleKind::Inference) plan.stages[from].cross_mesh.emplace(to, form);
    }
}

}  // namespace meshwright
