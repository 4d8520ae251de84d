// SPDX-License-Identifier: Apache-2.0
// Recomputation told by layers, as people and the search choose it, and by ranges of forward ops, as a graph is built
// and a plan file says it.
#pragma once

#include <string>
#include <vector>

#include "core/graph/models/models.h"
#include "core/planner/layers/cluster_layers.h"

namespace meshwright {

// Layers first..last.
struct LayerRecompute {
  int first, last;
  Recompute recompute;
  bool operator==(const LayerRecompute&) const = default;
};

// "0-3:full,5:selective". Throws InputError for another form and for layers out of order or given twice.
[[nodiscard]] std::vector<LayerRecompute> layer_recompute_from_text(const std::string& text);
[[nodiscard]] std::string to_text(const std::vector<LayerRecompute>& given);

// [layer]: as given, else `otherwise`. Throws InputError for a layer that is not among 0..layers - 1.
[[nodiscard]] std::vector<Recompute> recompute_of_layers(const std::vector<LayerRecompute>& given, Recompute otherwise,
                                                         int layers);

// One range for each run of layers with the same choice. Positions are those of forward_ops(graph).
[[nodiscard]] std::vector<RecomputeRange> recompute_ranges_of_layers(const Layers& layers, const Graph& graph,
                                                                     const std::vector<Recompute>& per_layer);

// Sets `recompute` and `recompute_ranges`: without ranges when all layers choose the same, else None with ranges for
// the layers that recompute something.
void set_recompute(TrainingOptions& training, const Layers& layers, const Graph& graph,
                   const std::vector<Recompute>& per_layer);

}  // namespace meshwright
