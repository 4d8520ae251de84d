// SPDX-License-Identifier: Apache-2.0
// The dependencies between stages. A plan lists its stages in the order of their layers, but stages of independent
// branches need not wait for each other: stages form a directed acyclic graph, most often a line.
//
// A stage feeds another one that reads a forward tensor it produces (in its forward or backward). Gradients go the
// other way. Exchanges of tied parameters at the end of the step do not count.
#pragma once

#include <vector>

#include "core/plan/plan.h"

namespace meshwright {

struct StageGraph {
  std::vector<std::vector<int>> feeds;  // [stage] -> later stages that it feeds, ascending
  // [stage] number of stages after it on the longest path to a last stage, the input of schedules.
  std::vector<int> stages_after;

  // Whether `to` is `from` or comes after it on some path.
  [[nodiscard]] bool reaches(int from, int to) const;
  // Whether one of them feeds the other.
  [[nodiscard]] bool neighbours(int one, int other) const;
};

// REQUIRES: check_plan(plan, graph) is empty.
[[nodiscard]] StageGraph stage_graph(const Plan& plan, const Graph& graph);

// [stage] -> how many stages the longest path after it has. REQUIRES: feeds[s] are stages after s.
[[nodiscard]] std::vector<int> stages_after(const std::vector<std::vector<int>>& feeds);

// The two halves of it, for searches over many cuts of the same layers into stages. [layer] -> later layers that read a
// forward tensor it produces; layer_starts as in Plan.
[[nodiscard]] std::vector<std::vector<int>> layer_feeds(const Graph& graph, const std::vector<int>& layer_starts);
// Stage s has the layers first_layers[s] to first_layers[s + 1] - 1; the last stage has the rest.
// REQUIRES: first_layers begins with 0 and ascends.
[[nodiscard]] StageGraph stage_graph(const std::vector<std::vector<int>>& layer_feeds,
                                     const std::vector<int>& first_layers);

}  // namespace meshwright
