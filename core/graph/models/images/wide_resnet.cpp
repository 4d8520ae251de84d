// SPDX-License-Identifier: Apache-2.0
// Wide residual networks of bottlenecks (K. He et al., "Deep residual learning for image recognition",
// arXiv:1512.03385; S. Zagoruyko and N. Komodakis, "Wide residual networks", arXiv:1605.07146) as the published
// benchmark has them: of a bottleneck's three convolutions, to C, width C and 4 C channels, the second has the stride.
// Convolutions have no bias, each is followed by a batch norm, and the classifier has a bias. A batch norm's statistics
// are those of one microbatch: another number of microbatches is another model.
//
// Dimensions: (batch, h<r>, w<r>, channels), where r counts the strides of 2 so far; channels are rgb, stem, and in
// stage s narrow<s>, wide<s> and out<s>. Images are padded by half a window on every side, so that only strides make
// them smaller. A block is one bottleneck.
#include "core/base/errors.h"
#include "core/graph/models/families.h"
#include "core/graph/models/parts/model_writer.h"

namespace meshwright {

namespace {

constexpr std::int64_t kExpansion = 4;

struct ResNetBuilder : ModelWriter {
  // (batch, h, w, channels), and how often a stride has halved h and w.
  struct Image {
    TensorId x;
    int halvings;
  };
  // How windows slide over an image.
  struct Windows {
    std::int64_t size, stride;
  };

  ResNetBuilder(Graph& into, const ModelConfig& model)
      : ModelWriter(into, model), channels(size_of(model, "channels")), width(size_of(model, "width")) {}

  [[nodiscard]] Attributes sliding(const Image& image, Windows windows) const;
  // Convolution "<name>.conv" and batch norm "<name>.norm".
  [[nodiscard]] Image convolve(const std::string& name, const Image& image, const Dim& out, Windows windows);
  [[nodiscard]] Image relu(const std::string& name, const Image& image);
  [[nodiscard]] Image stem(TensorId images);
  [[nodiscard]] Image bottleneck(const std::string& block, const Image& image, int stage, bool first);
  [[nodiscard]] TensorId classify(const Image& image, const Dim& classes);

  const std::int64_t channels, width;
};

Attributes ResNetBuilder::sliding(const Image& image, Windows windows) const {
  const std::vector<Dim>& from = graph.tensor(image.x).dims;
  const std::int64_t pad = (windows.size - 1) / 2;
  std::vector<Dim> to = {from[1], from[2]};
  if (windows.stride > 1)
    to = {{fmt::format("h{}", image.halvings + 1), (from[1].size - 1) / windows.stride + 1},
          {fmt::format("w{}", image.halvings + 1), (from[2].size - 1) / windows.stride + 1}};
  return {.result_dims = to,
          .window = {windows.size, windows.size},
          .stride = {windows.stride, windows.stride},
          .pad_before = {pad, pad},
          .pad_after = {pad, pad}};
}

ResNetBuilder::Image ResNetBuilder::convolve(const std::string& name, const Image& image, const Dim& out,
                                             Windows windows) {
  const Dim in = graph.tensor(image.x).dims[3], kh{"kh", windows.size}, kw{"kw", windows.size};
  const TensorId weight = parameter(name + ".conv.weight", {kh, kw, in, out});
  const TensorId x = add(OpKind::Convolution, name + ".conv", {image.x, weight}, sliding(image, windows));
  const std::string norm = name + ".norm";
  const TensorId sums = add(OpKind::BatchSums, norm + ".sums", {x});
  const double per_channel = static_cast<double>(graph.tensor(x).elements() / out.size);
  return {add(OpKind::BatchNorm, norm, {x, sums, parameter(norm + ".gamma", {out}), parameter(norm + ".beta", {out})},
              {.scale = 1.0 / per_channel, .epsilon = 1e-5}),
          windows.stride > 1 ? image.halvings + 1 : image.halvings};
}

ResNetBuilder::Image ResNetBuilder::relu(const std::string& name, const Image& image) {
  return {add(OpKind::Relu, name + ".relu", {image.x}), image.halvings};
}

ResNetBuilder::Image ResNetBuilder::stem(TensorId images) {
  Image image = relu("stem", convolve("stem", {images, 0}, {"stem", channels}, {7, 2}));
  image.x = add(OpKind::MaxPool, "stem.pool", {image.x}, sliding(image, {3, 2}));
  return {image.x, image.halvings + 1};
}

ResNetBuilder::Image ResNetBuilder::bottleneck(const std::string& block, const Image& image, int stage, bool first) {
  const std::int64_t base = channels << stage, stride = first && stage > 0 ? 2 : 1;
  const Dim narrow{fmt::format("narrow{}", stage), base}, wide{fmt::format("wide{}", stage), base * width},
      out{fmt::format("out{}", stage), base * kExpansion};
  Image inner = relu(block + ".1", convolve(block + ".1", image, narrow, {1, 1}));
  inner = relu(block + ".2", convolve(block + ".2", inner, wide, {3, stride}));
  inner = convolve(block + ".3", inner, out, {1, 1});
  const Image shortcut = first ? convolve(block + ".shortcut", image, out, {1, stride}) : image;
  return relu(block, {add(OpKind::Add, block + ".residual", {shortcut.x, inner.x}), inner.halvings});
}

// The mean over the image, then a dense layer.
TensorId ResNetBuilder::classify(const Image& image, const Dim& classes) {
  const std::vector<Dim> dims = graph.tensor(image.x).dims;
  const double pixels = static_cast<double>(dims[1].size) * static_cast<double>(dims[2].size);
  const TensorId mean =
      add(OpKind::ReduceSum, "head.mean", {image.x}, {.result_names = {"batch", dims[3].name}, .scale = 1.0 / pixels});
  return add_bias("head.logits", project("head.logits", mean, {dims[3], classes}, {"batch", classes.name}), {classes});
}

}  // namespace

std::vector<int> bottlenecks_per_stage(std::int64_t layers) {
  switch (layers) {
    case 14:
      return {1, 1, 1, 1};
    case 26:
      return {2, 2, 2, 2};
    case 50:
      return {3, 4, 6, 3};
    case 101:
      return {3, 4, 23, 3};
    case 152:
      return {3, 8, 36, 3};
    case 200:
      return {3, 24, 36, 3};
    default:
      return {};
  }
}

void build_wide_resnet(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  ResNetBuilder resnet(graph, model);
  const Dim h{"h0", size_of(model, "image")}, w{"w0", h.size}, rgb{"rgb", 3},
      classes{"class", size_of(model, "classes")};
  const TensorId images = graph.add_tensor("images", TensorKind::Input, graph.dtype, {resnet.batch, h, w, rgb});
  const TensorId labels = graph.add_tensor("labels", TensorKind::Input, DType::I32, {resnet.batch});
  ResNetBuilder::Image image = resnet.stem(images);
  const std::vector<int> stages = bottlenecks_per_stage(model.layers);
  int block = 0;
  for (int stage = 0; stage < static_cast<int>(stages.size()); ++stage)
    for (int i = 0; i < stages[static_cast<std::size_t>(stage)]; ++i, ++block) {
      graph.current_block = block;
      image = resnet.bottleneck(fmt::format("blk{}", block), image, stage, i == 0);
    }
  graph.current_block = -1;
  graph.loss = resnet.cross_entropy(resnet.classify(image, classes), labels, reduction);
}

}  // namespace meshwright
