// SPDX-License-Identifier: Apache-2.0
// A model's steps with nothing, some and all of the forward pass made again, cut into the same layers: the ways that
// layers choose from.
#pragma once

#include <memory>
#include <vector>

#include "core/graph/models/models.h"
#include "core/planner/layers/step_structure.h"

namespace meshwright {

struct RecomputeWays {
  // `cut`: the layers of a graph.
  template <class Cut>
  RecomputeWays(const ModelConfig& model, std::int64_t microbatches, const Cut& cut) {
    for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
      Way& way = *ways.emplace_back(std::make_unique<Way>());
      way.graph = build_training_graph(model, {.batch = 16, .microbatches = microbatches, .recompute = recompute});
      way.layers = cut(way.graph);
      way.structure = std::make_unique<StepStructure>(way.graph, way.layers);
      variants.push_back({recompute, way.structure.get()});
    }
  }

  [[nodiscard]] const StepStructure& structure() const { return *ways.front()->structure; }

  struct Way {
    Graph graph;
    Layers layers;
    std::unique_ptr<StepStructure> structure;
  };
  std::vector<std::unique_ptr<Way>> ways;
  std::vector<StepVariant> variants;
};

}  // namespace meshwright
