// SPDX-License-Identifier: Apache-2.0
// Wide residual networks of bottlenecks (K. He et al., "Deep residual learning for image recognition",
// arXiv:1512.03385; S. Zagoruyko, N. Komodakis, "Wide residual networks", arXiv:1605.07146) as the published benchmark
// has them: of a bottleneck's three convolutions, C' -> C -> width C -> 4C, the second has the stride and the width.
// Convolutions have no bias, every one is followed by a batch norm of the microbatch's own statistics, and the classifier
// has a bias.
//
// Dimensions: (batch, h<r>, w<r>, channels), where r counts how often the resolution was halved; channels are rgb,
// stem, and of stage s: narrow<s>, wide<s>, out<s>. Padding is half a window on every side, so that only strides make
// an image smaller. Of samples whose statistics are shared the loss cannot be made by any other partition into
// microbatches: their number is part of the model.
#include "core/base/errors.h"
#include "core/graph/models/families.h"
#include "core/graph/models/model_writer.h"

namespace meshwright {

namespace {

constexpr std::int64_t kExpansion = 4;

// What flows between layers.
struct FeatureMap {
  TensorId x;
  Dim h, w, channel;
};

struct ResNetBuilder : ModelWriter {
  ResNetBuilder(Graph& into, const ModelConfig& model)
      : ModelWriter(into, model), channels(size_of(model, "channels")), width(size_of(model, "width")) {}

  // The two spatial dimensions after windows of `window` at `stride`.
  [[nodiscard]] std::vector<Dim> slide(const FeatureMap& from, std::int64_t stride);
  [[nodiscard]] static Attributes windows(std::int64_t window, std::int64_t stride, std::vector<Dim> spatial);

  [[nodiscard]] FeatureMap convolve(const std::string& name, const FeatureMap& from, const Dim& out,
                                    std::int64_t window, std::int64_t stride);
  [[nodiscard]] FeatureMap normalize(const std::string& name, const FeatureMap& from);
  [[nodiscard]] FeatureMap relu(const std::string& name, FeatureMap from);
  [[nodiscard]] FeatureMap stem(FeatureMap image);
  [[nodiscard]] FeatureMap bottleneck(const std::string& block, const FeatureMap& from, std::size_t stage,
                                      std::int64_t stride);
  [[nodiscard]] TensorId classify(const FeatureMap& from, std::int64_t classes);

  const std::int64_t channels, width;
  int halvings = 0;
};

std::vector<Dim> ResNetBuilder::slide(const FeatureMap& from, std::int64_t stride) {
  if (stride == 1) return {from.h, from.w};
  // A shortcut slides over what its block has already slid over.
  const std::string next = fmt::format("{}", std::stoi(from.h.name.substr(1)) + 1);
  return {{"h" + next, (from.h.size - 1) / stride + 1}, {"w" + next, (from.w.size - 1) / stride + 1}};
}
