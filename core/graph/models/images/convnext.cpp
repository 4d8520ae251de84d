// SPDX-License-Identifier: Apache-2.0
// Residual networks of wide depthwise convolutions (Z. Liu et al., "A ConvNet for the 2020s", arXiv:2201.03545), and
// with response_norm their second version (S. Woo et al., arXiv:2301.00808). A block is a convolution of each channel
// by itself over 7 x 7 pixels, a layer norm, and two dense layers with GELU between them, added to its input; with
// layer_scale the result is weighed number by number. Each stage but the first begins with a norm and a convolution
// that halves the image.
//
// The global response norm weighs each of the wide layer's channels by the length of its map over the mean length of
// all.
//
// Dimensions: (batch, h<stage>, w<stage>, channel<stage>); inside of a block the last is mlp<stage>. Ops are named
// "stage<stage>.blk<i>.conv", ".up", ".down".
#include <array>

#include "core/graph/models/families.h"
#include "core/graph/models/parts/model_writer.h"

namespace meshwright {

namespace {

constexpr std::array kDepths = {"depth_0", "depth_1", "depth_2", "depth_3"};
constexpr std::array kChannels = {"width_0", "width_1", "width_2", "width_3"};
constexpr std::int64_t kStages = kDepths.size();
constexpr std::int64_t kKernel = 7, kHalving = 2, kWiden = 4;
constexpr double kInnerEpsilon = 1e-6;  // of all norms but the last

struct ConvNextBuilder : ModelWriter {
  ConvNextBuilder(Graph& into, const ModelConfig& of, int in_stage)
      : ModelWriter(into, of), model(of), stage(in_stage) {}

  [[nodiscard]] Dim channels() const { return channels_of(stage); }
  [[nodiscard]] Dim channels_of(int which) const {
    const auto at = static_cast<std::size_t>(which);
    return {fmt::format("channel{}", which), size_of(model, kChannels[at])};
  }
  // A convolution whose windows of `size` do not overlap, with a bias.
  [[nodiscard]] TensorId shrink(const std::string& name, TensorId x, std::int64_t size);
  [[nodiscard]] TensorId depthwise(const std::string& name, TensorId x);
  [[nodiscard]] TensorId response_norm(const std::string& name, TensorId x);
  // Along x's last dimension, a parameter of it.
  [[nodiscard]] TensorId along(const std::string& name, const std::string& of, TensorId x);
  [[nodiscard]] TensorId block(const std::string& name, TensorId x);
  [[nodiscard]] TensorId classify(TensorId x, const Dim& classes);

  const ModelConfig& model;
  int stage;
};

TensorId ConvNextBuilder::shrink(const std::string& name, TensorId x, std::int64_t size) {
  const std::vector<Dim> from = graph.tensor(x).dims;
  const TensorId weight = parameter(name + ".weight", {{"kh", size}, {"kw", size}, from[3], channels()});
  const std::vector<Dim> to = {{fmt::format("h{}", stage), from[1].size / size},
                               {fmt::format("w{}", stage), from[2].size / size}};
  return add_bias(name, add(OpKind::Convolution, name, {x, weight}, {.result_dims = to, .stride = {size, size}}),
                  {channels()});
}

TensorId ConvNextBuilder::depthwise(const std::string& name, TensorId x) {
  const std::vector<Dim> dims = graph.tensor(x).dims;
  const Dim in{"channel_in", 1}, out{"channel_out", 1};
  const TensorId image =
      add(OpKind::Reshape, name + ".channels", {x}, {.result_dims = {batch, dims[1], dims[2], dims[3], in}});
  const TensorId weight = parameter(name + ".weight", {dims[3], {"kh", kKernel}, {"kw", kKernel}, in, out});
  constexpr std::int64_t kPad = kKernel / 2;
  TensorId y =
      add(OpKind::Convolution, name, {image, weight},
          {.result_dims = {dims[1], dims[2]}, .stride = {1, 1}, .pad_before = {kPad, kPad}, .pad_after = {kPad, kPad}});
  y = add_bias(name, y, {dims[3], out});
  return add(OpKind::Reshape, name + ".joined", {y}, {.result_dims = dims});
}

TensorId ConvNextBuilder::along(const std::string& name, const std::string& of, TensorId x) {
  return add(OpKind::Broadcast, name + ".wide", {parameter(of, {graph.tensor(x).dims.back()})},
             {.result_dims = graph.tensor(x).dims});
}

TensorId ConvNextBuilder::response_norm(const std::string& name, TensorId x) {
  const std::vector<Dim> dims = graph.tensor(x).dims;
  const Dim& channel = dims.back();
  TensorId length = add(OpKind::ReduceSum, name + ".squares.sum", {add(OpKind::Multiply, name + ".squares", {x, x})},
                        {.result_names = {"batch", channel.name}});
  length = add(OpKind::Sqrt, name + ".length", {length});
  TensorId mean = add(OpKind::ReduceSum, name + ".mean", {length},
                      {.result_names = {"batch"}, .scale = 1.0 / static_cast<double>(channel.size)});
  mean = add(OpKind::Shift, name + ".mean.shifted", {mean}, {.value = kInnerEpsilon});
  mean = add(OpKind::Broadcast, name + ".mean.wide", {mean}, {.result_dims = {batch, channel}});
  TensorId share = add(OpKind::Divide, name + ".share", {length, mean});
  share = add(OpKind::Broadcast, name + ".share.wide", {share}, {.result_dims = dims});
  TensorId y = add(OpKind::Multiply, name + ".weighed", {x, share});
  y = add(OpKind::Multiply, name + ".scaled", {y, along(name + ".gamma", name + ".gamma", x)});
  return add(OpKind::Add, name, {x, add_bias(name, y, {channel})});
}

TensorId ConvNextBuilder::block(const std::string& name, TensorId x) {
  const Dim in = channels(), wide{fmt::format("mlp{}", stage), kWiden * in.size};
  const std::vector<Dim> dims = graph.tensor(x).dims;
  const auto dense = [&](const std::string& which, TensorId from, const Dim& read, const Dim& made) {
    const TensorId y = project(name + which, from, {read, made}, {"batch", dims[1].name, dims[2].name, made.name});
    return add_bias(name + which, y, {made});
  };
  TensorId y = layer_norm(name + ".norm", depthwise(name + ".conv", x), in, kInnerEpsilon);
  y = dense(".up", y, in, wide);
  y = add(size_of(model, "erf") != 0 ? OpKind::GeluErf : OpKind::Gelu, name + ".gelu", {y});
  if (size_of(model, "response_norm") != 0) y = response_norm(name + ".response", y);
  y = dense(".down", y, wide, in);
  if (size_of(model, "layer_scale") != 0)
    y = add(OpKind::Multiply, name + ".layer_scaled",
            {y, along(name + ".layer_scale", name + ".layer_scale.gamma", y)});
  return add(OpKind::Add, name + ".residual", {x, y});
}

// The norm of the mean over the image, then a dense layer.
TensorId ConvNextBuilder::classify(TensorId x, const Dim& classes) {
  const std::vector<Dim> dims = graph.tensor(x).dims;
  const double pixels = static_cast<double>(dims[1].size) * static_cast<double>(dims[2].size);
  TensorId mean =
      add(OpKind::ReduceSum, "head.mean", {x}, {.result_names = {"batch", dims[3].name}, .scale = 1.0 / pixels});
  mean = layer_norm("head.norm", mean, dims[3], model.factors.at("epsilon"));
  return add_bias("head.logits", project("head.logits", mean, {dims[3], classes}, {"batch", classes.name}), {classes});
}

void build_convnext(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  ConvNextBuilder convnext(graph, model, 0);
  const Dim h{"h", size_of(model, "image")}, w{"w", h.size}, rgb{"rgb", 3}, classes{"class", size_of(model, "classes")};
  const TensorId images = graph.add_tensor("images", TensorKind::Input, graph.dtype, {convnext.batch, h, w, rgb});
  const TensorId labels = graph.add_tensor("labels", TensorKind::Input, DType::I32, {convnext.batch});
  TensorId x = convnext.layer_norm("stem.norm", convnext.shrink("stem", images, size_of(model, "patch")),
                                   convnext.channels(), kInnerEpsilon);
  int number = 0;
  for (; convnext.stage < kStages; ++convnext.stage)
    for (std::int64_t i = 0; i < size_of(model, kDepths[static_cast<std::size_t>(convnext.stage)]); ++i) {
      graph.current_block = number++;
      const std::string name = fmt::format("stage{}", convnext.stage);
      if (i == 0 && convnext.stage > 0) {
        x = convnext.layer_norm(name + ".halve.norm", x, convnext.channels_of(convnext.stage - 1), kInnerEpsilon);
        x = convnext.shrink(name + ".halve", x, kHalving);
      }
      x = convnext.block(fmt::format("{}.blk{}", name, i), x);
    }
  graph.current_block = -1;
  graph.loss = convnext.cross_entropy(convnext.classify(x, classes), labels, reduction);
}

}  // namespace

std::vector<Family> convnext_families() {
  std::vector<SizeField> sizes = {{"image", 10'000}, {"patch", 10'000, 1, 4}, {"classes", 10'000'000}};
  for (const char* depth : kDepths) sizes.push_back({depth, 10'000});
  for (const char* width : kChannels) sizes.push_back({width, 100'000});
  sizes.push_back({"layer_scale", 1, 0, 1});
  sizes.push_back({"response_norm", 1, 0, 0});
  sizes.push_back({"erf", 1, 0, 1});
  return {{"convnext",
           sizes,
           {{"epsilon", 1e-12}},
           "convnext:image=32,classes=10,depth_0=1,depth_1=1,depth_2=2,depth_3=1,width_0=8,width_1=16,width_2=32,width_"
           "3=64",
           4096,
           DType::F16,
           build_convnext}};
}

}  // namespace meshwright
