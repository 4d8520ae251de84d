// SPDX-License-Identifier: Apache-2.0
// Which stages wait for which. A plan lists its stages in the order of their layers, but stages of branches that do not
// depend on one another need not wait for one another: stages form a directed acyclic graph, of which a line is the
// common case.
//
// A stage feeds another when that one reads a forward tensor it makes (in its forward, or to differentiate it).
// Gradients go the other way. Weights and gradient sums that tied parameters exchange at the end of the step do not
// count.
#pragma once

#include <vector>

#include "core/plan/plan.h"

namespace meshwright {

struct StageGraph {
  std::vector<std::vector<int>> feeds;  // [stage] -> later stages that it feeds, ascending
  // [stage] stages on the longest way from it to one that feeds nobody, itself not counted: what schedules ask.
  std::vector<int> stages_after;

  // Whether `to` is `from` or comes after it on some way.
  [[nodiscard]] bool reaches(int from, int to) const;
};

// REQUIRES: check_plan(plan, graph) is empty.
[[nodiscard]] StageGraph stage_graph(const Plan& plan, const Graph& graph);

// [stage] -> how many stages the longest way after it has. REQUIRES: feeds[s] are stages after s.
[[nodiscard]] std::vector<int> stages_after(const std::vector<std::vector<int>>& feeds);

// The two halves of it, for searches over many cuts into stages of the same layers. [layer] -> later layers that read a
// forward tensor it makes; layer_starts as in Plan.
[[nodiscard]] std::vector<std::vector<int>> layer_feeds(const Graph& graph, const std::vector<int>& layer_starts);
// Stage s has the layers first_layers[s] to first_layers[s + 1] - 1; the last stage has all that are left.
// REQUIRES: first_layers begins with 0 and ascends.
[[nodiscard]] StageGraph stage_graph(const std::vector<std::vector<int>>& layer_feeds,
                                     const std::vector<int>& first_layers);

}  // namespace meshwright
