// SPDX-License-Identifier: Apache-2.0
// Which layers of a model may work at the same time: branches side by side, as the towers of a two-tower model have.
//
// Layers 0..L-1 are listed in topological order. They form a chain of segments; a segment is one or several branches,
// each a run of consecutive layers:
//
//   towers of layers 0..3 and 4..6 that layer 7 joins, then 8:   {{0..3}, {4..6}}, {{7..8}}
//
// A layer follows the layer before it in its branch; the first of a branch follows the last of every branch of the
// segment before. Whatever a layer really reads it follows in that sense, directly or through others. A model that is a
// line, or has links that keep its parts from standing side by side, is one segment of one branch.
#pragma once

#include <vector>

#include "core/planner/layers/cluster_layers.h"

namespace meshwright {

// Layers first..last.
struct LayerRun {
  int first, last;
  auto operator<=>(const LayerRun&) const = default;
};

struct LayerBranches {
  std::vector<std::vector<LayerRun>> segments;  // in order; together all layers

  [[nodiscard]] int layers() const { return segments.back().back().last + 1; }
  [[nodiscard]] bool is_line() const { return segments.size() == 1 && segments.front().size() == 1; }
  bool operator==(const LayerBranches&) const = default;
};

// The branches of things 0..n-1 of which each reads some before it (reads[i]: numbers below i). Among
// all chains of segments in which every thing follows what it reads, the one whose longest path has the least `work`
// (per thing; empty: 1 each), then the one that leaves the fewest pairs in an order. With `least_work`, a branch of
// less than that is taken for a part of the branch beside it. About n log n steps where things read what is shortly
// before them, n^2 where many read nothing. Throws InputError for reads that are not in topological order.
[[nodiscard]] LayerBranches branches_of(const std::vector<std::vector<int>>& reads,
                                        const std::vector<double>& work = {}, double least_work = 0.0);

// A layer reads another when one of its forward ops reads a tensor that one of the other's makes; parameters and inputs
// of the model do not count.
[[nodiscard]] LayerBranches find_branches(const Graph& graph, const Layers& layers);

// Throws InputError unless segments and branches are runs that together are layers 0..layers-1 in order.
void require_branches_of(const LayerBranches& branches, int layers);

// Stages of consecutive layers, in order, together all layers: [stage] -> the stages that directly follow it (one has a
// layer that follows a layer of the other), ascending.
[[nodiscard]] std::vector<std::vector<int>> following_stages(const LayerBranches& branches,
                                                             const std::vector<LayerRun>& stages);

}  // namespace meshwright
