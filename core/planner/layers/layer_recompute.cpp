// SPDX-License-Identifier: Apache-2.0
#include "core/planner/layers/layer_recompute.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

std::vector<LayerRecompute> layer_recompute_from_text(const std::string& text) {
  constexpr int kMaxLayers = 1 << 20;
  std::vector<LayerRecompute> given;
  int next = 0;
  for (const std::string& part : split(text, ',')) {
    const std::size_t colon = part.find(':');
    require(colon != std::string::npos, "'{}' is not layers:recompute; write as in 0-3:full,5:selective.", part);
    const std::string layers = part.substr(0, colon);
    const std::size_t dash = layers.find('-');
    const int first = static_cast<int>(parse_integer(layers.substr(0, dash), "first layer", 0, kMaxLayers));
    const int last = dash == std::string::npos
                         ? first
                         : static_cast<int>(parse_integer(layers.substr(dash + 1), "last layer", 0, kMaxLayers));
    require(first >= next && first <= last, "'{}' stands out of order; give layers in ascending order, each once.",
            part);
    given.push_back({first, last, recompute_from_name(part.substr(colon + 1))});
    next = last + 1;
  }
  return given;
}

std::string to_text(const std::vector<LayerRecompute>& given) {
  std::vector<std::string> parts;
  for (const LayerRecompute& range : given)
    parts.push_back(range.first == range.last
                        ? fmt::format("{}:{}", range.first, name_of(range.recompute))
                        : fmt::format("{}-{}:{}", range.first, range.last, name_of(range.recompute)));
  return join(parts, ",");
}

std::vector<Recompute> recompute_of_layers(const std::vector<LayerRecompute>& given, Recompute otherwise, int layers) {
  std::vector<Recompute> found(layers, otherwise);
  for (const LayerRecompute& range : given) {
    require(range.first >= 0 && range.first <= range.last && range.last < layers,
            "recomputation of layers {} to {}: the model is cut into the layers 0 to {}; give layers among them, or "
            "another number of layers.",
            range.first, range.last, layers - 1);
    std::fill(found.begin() + range.first, found.begin() + range.last + 1, range.recompute);
  }
  return found;
}

std::vector<RecomputeRange> recompute_ranges_of_layers(const Layers& layers, const Graph& graph,
                                                       const std::vector<Recompute>& per_layer) {
  MW_CHECK(per_layer.size() == layers.forward.size(), "{} choices for {} layers", per_layer.size(),
           layers.forward.size());
  std::vector<RecomputeRange> ranges;
  int next = 0;
  for (std::size_t layer = 0; layer < per_layer.size(); ++layer) {
    const int first = next;
    next += static_cast<int>(layers.forward[layer].size());
    if (!ranges.empty() && ranges.back().recompute == per_layer[layer])
      ranges.back().last = next - 1;
    else
      ranges.push_back({first, next - 1, per_layer[layer]});
  }
  MW_CHECK(next == static_cast<int>(forward_ops(graph).size()), "the layers are of another graph");
  return ranges;
}

void set_recompute(TrainingOptions& training, const Layers& layers, const Graph& graph,
                   const std::vector<Recompute>& per_layer) {
  training.recompute_ranges = recompute_ranges_of_layers(layers, graph, per_layer);
  // A choice that all layers share needs no ranges.
  const bool uniform = training.recompute_ranges.size() == 1;
  training.recompute = uniform ? per_layer.front() : Recompute::None;
  // What is in no range has the model's own choice, which is None here.
  std::erase_if(training.recompute_ranges,
                [&](const RecomputeRange& range) { return uniform || range.recompute == Recompute::None; });
}

}  // namespace meshwright
