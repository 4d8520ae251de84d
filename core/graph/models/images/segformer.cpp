// SPDX-License-Identifier: Apache-2.0
// SegFormer's encoder with a classifier (E. Xie et al., arXiv:2105.15203): four stages of transformer blocks, each of
// which begins with a convolution whose windows overlap and that shrinks the image `patch` times (the first stage) or
// twice. A pixel attends to pixels of a map that a convolution of `reduce_<stage>` pixels a side has made smaller.
// There are no positions: between the dense layers of a feed-forward layer is a convolution of each channel by itself
// over 3 x 3 pixels. A norm ends each stage, and the classifier reads the mean of the last.
//
// Dimensions: (batch, h<stage>, w<stage>, channel<stage>); queries (batch, seq, kv_heads, group, head_dim), where seq
// is all pixels. Ops are named "stage<stage>.blk<i>.attn.q", ".mlp.up", ".mlp.conv".
#include <array>

#include "core/graph/models/families.h"
#include "core/graph/models/parts/model_writer.h"

namespace meshwright {

namespace {

constexpr std::array kMixDepths = {"depth_0", "depth_1", "depth_2", "depth_3"};
constexpr std::array kMixHeads = {"heads_0", "heads_1", "heads_2", "heads_3"};
constexpr std::array kMixWidths = {"width_0", "width_1", "width_2", "width_3"};
constexpr std::array kMixReductions = {"reduce_0", "reduce_1", "reduce_2", "reduce_3"};
constexpr std::int64_t kShrink = 2;  // of each stage but the first

struct SegformerBuilder : ModelWriter {
  SegformerBuilder(Graph& into, const ModelConfig& of) : ModelWriter(into, of), model(of) {}

  [[nodiscard]] std::int64_t of_stage(const std::array<const char*, 4>& keys) const {
    return size_of(model, keys[static_cast<std::size_t>(stage)]);
  }
  [[nodiscard]] Dim channels() const { return {fmt::format("channel{}", stage), of_stage(kMixWidths)}; }
  struct Windows {
    std::int64_t size, stride, pad;
  };
  // (batch, h, w, in) -> (batch, h', w', channel<stage>), with a bias. `map`: what the names of these begin with.
  [[nodiscard]] TensorId convolution(const std::string& name, TensorId x, const Windows& windows,
                                     const std::string& map);
  [[nodiscard]] TensorId dense(const std::string& name, TensorId x, const Dim& made);
  // The first two dimensions behind the batch as one.
  [[nodiscard]] TensorId joined(const std::string& name, TensorId x, const std::string& pixels);
  [[nodiscard]] TensorId attend(const std::string& name, TensorId x);
  [[nodiscard]] TensorId depthwise(const std::string& name, TensorId x);
  [[nodiscard]] TensorId feed_forward(const std::string& name, TensorId x);

  const ModelConfig& model;
  int stage = 0;
};

TensorId SegformerBuilder::convolution(const std::string& name, TensorId x, const Windows& windows,
                                       const std::string& map) {
  const std::vector<Dim> from = graph.tensor(x).dims;
  const auto shrunk = [&](std::int64_t side) { return (side + 2 * windows.pad - windows.size) / windows.stride + 1; };
  // What windows do not reach is padding of the other side less.
  const auto after = [&](std::int64_t side) {
    return (shrunk(side) - 1) * windows.stride + windows.size - side - windows.pad;
  };
  const Dim made{map + channels().name, channels().size};
  const TensorId weight = parameter(name + ".weight", {{"kh", windows.size}, {"kw", windows.size}, from[3], made});
  x = add(OpKind::Convolution, name, {x, weight},
          {.result_dims = {{fmt::format("{}h{}", map, stage), shrunk(from[1].size)},
                           {fmt::format("{}w{}", map, stage), shrunk(from[2].size)}},
           .stride = {windows.stride, windows.stride},
           .pad_before = {windows.pad, windows.pad},
           .pad_after = {after(from[1].size), after(from[2].size)}});
  return add_bias(name, x, {made});
}

TensorId SegformerBuilder::dense(const std::string& name, TensorId x, const Dim& made) {
  const std::vector<Dim> dims = graph.tensor(x).dims;
  std::vector<std::string> result;
  for (std::size_t d = 0; d + 1 < dims.size(); ++d) result.push_back(dims[d].name);
  result.push_back(made.name);
  return add_bias(name, project(name, x, {dims.back(), made}, result), {made});
}

TensorId SegformerBuilder::joined(const std::string& name, TensorId x, const std::string& pixels) {
  std::vector<Dim> dims = graph.tensor(x).dims;
  dims[2] = {pixels, dims[1].size * dims[2].size};
  dims.erase(dims.begin() + 1);
  return add(OpKind::Reshape, name, {x}, {.result_dims = dims});
}

TensorId SegformerBuilder::attend(const std::string& name, TensorId x) {
  const std::vector<Dim> image = graph.tensor(x).dims;
  const Dim heads{"kv_heads", of_stage(kMixHeads)}, one{"group", 1}, width{"head_dim", image[3].size / heads.size};
  TensorId read = x;
  if (const std::int64_t reduce = of_stage(kMixReductions); reduce > 1) {
    read = convolution(name + ".reduce", x, {reduce, reduce, 0}, "small_");
    read = layer_norm(name + ".reduce.norm", read, graph.tensor(read).dims.back());
  }
  const auto made = [&](const std::string& which, TensorId from, const std::vector<Dim>& dims, const char* pixels) {
    const std::vector<Dim> map = graph.tensor(from).dims;
    std::vector<Dim> weight = {map[3]};
    std::vector<std::string> result = {"batch", map[1].name, map[2].name};
    for (const Dim& dim : dims) {
      weight.push_back(dim);
      result.push_back(dim.name);
    }
    return joined(name + which + ".pixels", add_bias(name + which, project(name + which, from, weight, result), dims),
                  pixels);
  };
  const TensorId q = made(".q", x, {heads, one, width}, "seq");
  const TensorId k = made(".k", read, {heads, width}, "kv_seq"), v = made(".v", read, {heads, width}, "kv_seq");
  TensorId y = add(OpKind::GroupedAttention, name + ".core", {q, k, v}, {.causal = false});
  y = project(name + ".out", y, {heads, one, width, image[3]}, {"batch", "seq", image[3].name});
  return add(OpKind::Reshape, name + ".image", {add_bias(name + ".out", y, {image[3]})}, {.result_dims = image});
}

TensorId SegformerBuilder::depthwise(const std::string& name, TensorId x) {
  const std::vector<Dim> dims = graph.tensor(x).dims;
  const Dim in{"channel_in", 1}, out{"channel_out", 1};
  const TensorId image =
      add(OpKind::Reshape, name + ".channels", {x}, {.result_dims = {batch, dims[1], dims[2], dims[3], in}});
  const TensorId weight = parameter(name + ".weight", {dims[3], {"kh", 3}, {"kw", 3}, in, out});
  TensorId y = add(OpKind::Convolution, name, {image, weight},
                   {.result_dims = {dims[1], dims[2]}, .stride = {1, 1}, .pad_before = {1, 1}, .pad_after = {1, 1}});
  y = add_bias(name, y, {dims[3], out});
  return add(OpKind::Reshape, name + ".joined", {y}, {.result_dims = dims});
}

TensorId SegformerBuilder::feed_forward(const std::string& name, TensorId x) {
  const Dim wide{fmt::format("mlp{}", stage), channels().size * size_of(model, "widen")};
  const TensorId y = depthwise(name + ".conv", dense(name + ".up", x, wide));
  return dense(name + ".down", add(size_of(model, "erf") != 0 ? OpKind::GeluErf : OpKind::Gelu, name + ".gelu", {y}),
               channels());
}

void build_segformer(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  SegformerBuilder builder(graph, model);
  const Dim h{"h", size_of(model, "image")}, w{"w", h.size}, rgb{"rgb", 3}, classes{"class", size_of(model, "classes")};
  TensorId x = graph.add_tensor("images", TensorKind::Input, graph.dtype, {builder.batch, h, w, rgb});
  const TensorId labels = graph.add_tensor("labels", TensorKind::Input, DType::I32, {builder.batch});
  int number = 0;
  for (; builder.stage < static_cast<int>(kMixDepths.size()); ++builder.stage) {
    const std::string stage = fmt::format("stage{}", builder.stage);
    const std::int64_t shrink = builder.stage == 0 ? size_of(model, "patch") : kShrink;
    x = builder.convolution(stage + ".in", x, {2 * shrink - 1, shrink, shrink - 1}, "");
    x = builder.layer_norm(stage + ".in.norm", x, builder.channels());
    for (std::int64_t i = 0; i < builder.of_stage(kMixDepths); ++i) {
      graph.current_block = number++;
      const std::string name = fmt::format("{}.blk{}", stage, i);
      const auto plus = [&](const std::string& part, TensorId y) {
        return builder.add(OpKind::Add, name + part + ".residual", {x, y});
      };
      x = plus(".attn", builder.attend(name + ".attn", builder.layer_norm(name + ".ln1", x, builder.channels())));
      x = plus(".mlp", builder.feed_forward(name + ".mlp", builder.layer_norm(name + ".ln2", x, builder.channels())));
    }
    x = builder.layer_norm(stage + ".norm", x, builder.channels());
  }
  graph.current_block = -1;
  const std::vector<Dim> dims = graph.tensor(x).dims;
  const double pixels = static_cast<double>(dims[1].size) * static_cast<double>(dims[2].size);
  x = builder.add(OpKind::ReduceSum, "head.mean", {x},
                  {.result_names = {"batch", dims[3].name}, .scale = 1.0 / pixels});
  graph.loss = builder.cross_entropy(builder.dense("head.logits", x, classes), labels, reduction);
}

}  // namespace

std::vector<Family> segformer_families() {
  std::vector<SizeField> sizes = {{"image", 10'000}, {"patch", 10'000, 1, 4}, {"classes", 10'000'000}};
  for (const char* depth : kMixDepths) sizes.push_back({depth, 10'000});
  for (const char* heads : kMixHeads) sizes.push_back({heads, 10'000});
  for (const char* width : kMixWidths) sizes.push_back({width, 100'000});
  for (const char* reduce : kMixReductions) sizes.push_back({reduce, 10'000});
  sizes.push_back({"widen", 1'000, 1, 4});
  sizes.push_back({"erf", 1, 0, 1});
  return {{"segformer",
           sizes,
           {},
           "segformer:image=32,classes=10,depth_0=1,depth_1=1,depth_2=1,depth_3=1,heads_0=1,heads_1=2,heads_2=2,"
           "heads_3=4,width_0=8,width_1=16,width_2=16,width_3=32,reduce_0=4,reduce_1=2,reduce_2=1,reduce_3=1",
           4096,
           DType::F16,
           build_segformer}};
}

}  // namespace meshwright
