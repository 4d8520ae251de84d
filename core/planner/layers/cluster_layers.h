// SPDX-License-Identifier: Apache-2.0
// Cuts a model's forward ops into layers: Alpa's clustering (facts: cluster_jaxpr_by_cost of alpa/pipeline_parallel/
// layer_construction.py): least maximal cut size under a bound on each layer's work.
//
//   value(r, q) = min over k of max(value(k, q-1), blocked(k+1, r) + cut(k, r))
//   cut(k, r)   = bytes of distinct tensors made at or before op k and read in k+1..r
//   blocked     = 0 if work(k+1..r) <= average (1 + epsilon) and the range holds at least
//                 min(3, heavy ops / layers, rounded down) heavy ops, else forbidden
//
// Among the cuts whose largest cut is within 1e-4 (relative) of the least: the smallest sum of cut sizes, then the
// smallest imbalance (sum over layers of squared work; of squared op counts where no op has work). Alpa also lets a
// layer exceed the bound by its last heavy op; here epsilon is relaxed instead (make_layers).
//
// Where parallel branches of ops meet, as the towers of a two-tower model, layers are made to begin (tower_borders), so
// that none holds parts of two towers.
//
// Read layer_options.h for the other ways to cut a model.
#pragma once

#include <optional>
#include <vector>

#include "core/graph/graph.h"

namespace meshwright {

// Plain data of the DP; ops are numbered 0..n-1 in topological order.
struct LayerClusteringInput {
  std::vector<Flops> flops;  // per op; heavy ops are those with flops > 0
  struct Use {
    int made_by;               // op that makes the tensor
    std::vector<int> read_by;  // ops that read it
    Bytes bytes;
  };
  std::vector<Use> uses;
  int layers = 1;
  double epsilon = 0.5;           // a layer may exceed the average work by this share
  std::vector<double> work = {};  // per op, >= 0: what the layers share evenly, in any one unit; empty: the FLOPs
  std::vector<int> starts = {};   // ops in 1..n-1, ascending: a layer begins at each
};

// Result: first op of each layer (layers[0] == 0), or nullopt when no cut satisfies the bound.
[[nodiscard]] std::optional<std::vector<int>> cluster_layers(const LayerClusteringInput& input);
// Where layers have to begin so that none holds parts of two towers. Towers are branches of the ops side by side
// (branches_of in layer_branches.h) of which each holds a twentieth of the work and a layer's share of it. A layer
// begins with every tower but the first, and at the ends of the group of towers where what is there holds a layer's
// share; less than that goes to the layer next to it. None in models without towers, nor where too few layers or heavy
// ops are left for it.
[[nodiscard]] std::vector<int> tower_borders(const LayerClusteringInput& input);

// What the layers share evenly.
enum class LayerWork {
  ForwardFlops,
  HeldBytes,  // of the parameters they are the first to read and of the results their forward ops make
  OpCount,    // forward ops
};
// The DP's input for a graph, with its tower_borders as `starts`.
[[nodiscard]] LayerClusteringInput layer_clustering_input(const Graph& graph, int layers, double epsilon,
                                                          LayerWork work = LayerWork::ForwardFlops);

// Which layer each op of the training graph belongs to: forward ops by the cut, backward ops with their forward op,
// update ops with the first forward op that reads their parameter.
struct Layers {
  int count = 0;
  std::vector<int> layer_of_op;            // [op]
  std::vector<std::vector<OpId>> forward;  // [layer]
};
[[nodiscard]] Layers assign_layers(const Graph& graph, const std::vector<int>& first_forward_ops);
// The position of each block's first op in forward_ops(graph), for a tower's first block that of the tower's first op;
// none when the model has no blocks.
[[nodiscard]] std::vector<int> block_starts(const Graph& graph);
// The same with 0, where ops come before the first block, and with the first op after the last block, if any.
[[nodiscard]] std::vector<int> block_starts_with_ends(const Graph& graph);
// One layer per block of the model; what comes before the first block and after the last belongs to these. One layer
// when the model has no blocks.
[[nodiscard]] Layers layers_of_blocks(const Graph& graph);
// cluster_layers on the graph; relaxes epsilon (0.5, 1, 2, 4, ...) until a cut exists. Throws InputError when the graph
// has fewer forward ops than layers.
[[nodiscard]] Layers make_layers(const Graph& graph, int layers, LayerWork work = LayerWork::ForwardFlops);

}  // namespace meshwright
