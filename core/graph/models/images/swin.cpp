// SPDX-License-Identifier: Apache-2.0
// Transformers of shifted windows (Z. Liu et al., "Swin Transformer", arXiv:2103.14030). A patch attends to those of
// its window of `window` x `window`, with a learned bias for each distance and head; every second block of a stage has
// windows shifted by half of one, so that an image is rolled before and back, and what came from its other side is
// masked. Each stage but the last ends with the patches of each 2 x 2 side by side, a norm and a product to half as
// many numbers.
//
// Each stage's patches fill whole windows; where they are a single one, nothing is shifted. Scores are in memory:
// gradients of the biases need them.
//
// Dimensions: (batch, h<stage>, w<stage>, channel<stage>); in windows (batch, rows, row, cols, col, ...), where keys
// have kv_row and kv_col, and scores are (batch, rows, cols, heads, query, kv_seq). Ops are named
// "stage<stage>.blk<i>.attn.q", ".mlp.up".
#include <array>
#include <cmath>

#include "core/graph/models/families.h"
#include "core/graph/models/parts/model_writer.h"

namespace meshwright {

namespace {

constexpr std::array kSwinDepths = {"depth_0", "depth_1", "depth_2", "depth_3"};
constexpr std::array kSwinHeads = {"heads_0", "heads_1", "heads_2", "heads_3"};
constexpr double kEmbeddingEpsilon = 1e-5;  // of the norms between stages
constexpr double kOtherSide = -100.0;       // what a score is given of a patch that came from the image's other side

struct SwinBuilder : ModelWriter {
  SwinBuilder(Graph& into, const ModelConfig& of) : ModelWriter(into, of), model(of) {}

  [[nodiscard]] Dim channels() const { return {fmt::format("channel{}", stage), size_of(model, "width") << stage}; }
  [[nodiscard]] std::int64_t window() const { return size_of(model, "window"); }
  // Patches along a side, and windows.
  [[nodiscard]] std::int64_t side() const { return (size_of(model, "image") / size_of(model, "patch")) >> stage; }
  [[nodiscard]] Dim rows() const { return {"rows", side() / window()}; }
  [[nodiscard]] Dim cols() const { return {"cols", side() / window()}; }
  [[nodiscard]] Dim row() const { return {"row", window()}; }
  [[nodiscard]] Dim col() const { return {"col", window()}; }
  [[nodiscard]] Dim query() const { return {"query", window() * window()}; }
  [[nodiscard]] Dim key() const { return {"kv_seq", window() * window()}; }
  [[nodiscard]] Dim heads() const { return {"heads", size_of(model, kSwinHeads[static_cast<std::size_t>(stage)])}; }

  [[nodiscard]] TensorId dense(const std::string& name, TensorId x, const Dim& made, bool bias);
  // Along dimension `d`, element i becomes i - by.
  [[nodiscard]] TensorId rolled(const std::string& name, TensorId x, std::size_t d, std::int64_t by);
  // (rows, cols, heads, query, kv_seq): the biases by distance, and the mask of shifted windows.
  [[nodiscard]] TensorId biases(const std::string& name, std::int64_t shift);
  [[nodiscard]] std::vector<double> places() const;
  [[nodiscard]] std::vector<double> other_sides(std::int64_t shift) const;
  [[nodiscard]] TensorId attend(const std::string& name, TensorId x, std::int64_t shift);
  [[nodiscard]] TensorId block(const std::string& name, TensorId x, std::int64_t shift);
  [[nodiscard]] TensorId merge(const std::string& name, TensorId x);
  [[nodiscard]] TensorId embed_patches(TensorId images);

  const ModelConfig& model;
  int stage = 0;
};

TensorId SwinBuilder::dense(const std::string& name, TensorId x, const Dim& made, bool bias) {
  const std::vector<Dim> dims = graph.tensor(x).dims;
  std::vector<std::string> result;
  for (std::size_t d = 0; d + 1 < dims.size(); ++d) result.push_back(dims[d].name);
  result.push_back(made.name);
  const TensorId y = project(name, x, {dims.back(), made}, result);
  return bias ? add_bias(name, y, {made}) : y;
}

TensorId SwinBuilder::rolled(const std::string& name, TensorId x, std::size_t d, std::int64_t by) {
  const std::vector<Dim> dims = graph.tensor(x).dims;
  const auto part = [&](const char* which, std::int64_t start, std::int64_t size) {
    std::vector<Dim> of = dims;
    of[d] = {fmt::format("{}_{}", dims[d].name, which), size};
    return add(OpKind::Slice, fmt::format("{}.{}", name, which), {x}, {.result_dims = of, .start = start});
  };
  const TensorId behind = part("behind", by, dims[d].size - by);
  return add(OpKind::Concat, name, {behind, part("before", 0, by)}, {.result_dims = dims});
}

// The distance of each query from each key, down and across, counted from the most negative one.
std::vector<double> SwinBuilder::places() const {
  const std::int64_t w = window();
  std::vector<double> of;
  for (std::int64_t q = 0; q < w * w; ++q)
    for (std::int64_t k = 0; k < w * w; ++k)
      of.push_back(static_cast<double>((q / w - k / w + w - 1) * (2 * w - 1) + (q % w - k % w + w - 1)));
  return of;
}

// What is added to the score of each query and key in each window: they see each other if both were in the window
// before, or both came from the other side of the picture, which the last window along a side has behind its own.
std::vector<double> SwinBuilder::other_sides(std::int64_t shift) const {
  const std::int64_t w = window(), windows = side() / w;
  const auto came = [&](std::int64_t window_number, std::int64_t place) {
    return window_number == windows - 1 && place >= w - shift;
  };
  std::vector<double> of;
  for (std::int64_t down = 0; down < windows; ++down)
    for (std::int64_t across = 0; across < windows; ++across)
      for (std::int64_t q = 0; q < w * w; ++q)
        for (std::int64_t k = 0; k < w * w; ++k) {
          const bool together = came(down, q / w) == came(down, k / w) && came(across, q % w) == came(across, k % w);
          of.push_back(together ? 0.0 : kOtherSide);
        }
  return of;
}

TensorId SwinBuilder::biases(const std::string& name, std::int64_t shift) {
  const std::int64_t distances = 2 * window() - 1;
  const std::vector<Dim> all = {rows(), cols(), heads(), query(), key()};
  const TensorId ids = constant("places", {query(), key()}, places(), DType::I32);
  TensorId x =
      add(OpKind::Embedding, name, {ids, parameter(name + ".weight", {{"distance", distances * distances}, heads()})});
  x = add(OpKind::Transpose, name + ".heads", {x}, {.result_names = {"heads", "query", "kv_seq"}});
  x = add(OpKind::Broadcast, name + ".windows", {x}, {.result_dims = all});
  if (shift == 0) return x;
  TensorId mask = constant(fmt::format("other_sides.{}", stage), {rows(), cols(), query(), key()}, other_sides(shift));
  mask = add(OpKind::Broadcast, name + ".mask", {mask}, {.result_dims = all});
  return add(OpKind::Add, name + ".masked", {x, mask});
}

TensorId SwinBuilder::attend(const std::string& name, TensorId x, std::int64_t shift) {
  const std::vector<Dim> image = graph.tensor(x).dims;
  const Dim width{"head_dim", image.back().size / heads().size};
  const Dim kv_row{"kv_row", window()}, kv_col{"kv_col", window()};
  const bool bias = size_of(model, "qkv_bias") != 0;
  for (const std::size_t d : {std::size_t{1}, std::size_t{2}})
    if (shift > 0) x = rolled(fmt::format("{}.rolled.{}", name, d), x, d, shift);
  x = add(OpKind::Reshape, name + ".windows", {x},
          {.result_dims = {batch, rows(), row(), cols(), col(), image.back()}});
  const auto made = [&](const std::string& which, const Dim& down, const Dim& across) {
    TensorId y = project(name + which, x, {image.back(), heads(), width},
                         {"batch", "rows", "row", "cols", "col", "heads", "head_dim"});
    if (bias) y = add_bias(name + which, y, {heads(), width});
    if (down == row()) return y;
    return add(OpKind::Reshape, name + which + ".keys", {y},
               {.result_dims = {batch, rows(), down, cols(), across, heads(), width}});
  };
  const TensorId q = made(".q", row(), col()), k = made(".k", kv_row, kv_col), v = made(".v", kv_row, kv_col);
  const std::vector<Dim> parted = {batch, rows(), cols(), heads(), row(), col(), kv_row, kv_col};
  std::vector<std::string> names;
  for (const Dim& dim : parted) names.push_back(dim.name);
  TensorId scores = add(OpKind::Contract, name + ".scores", {q, k}, {.result_names = names});
  scores = add(OpKind::Scale, name + ".scores.scaled", {scores},
               {.scale = 1.0 / std::sqrt(static_cast<double>(width.size))});
  scores = add(OpKind::Reshape, name + ".scores.joined", {scores},
               {.result_dims = {batch, rows(), cols(), heads(), query(), key()}});
  scores = add(OpKind::BiasAdd, name + ".scores.biased", {scores, biases(name + ".relative_bias", shift)});
  TensorId weights = add(OpKind::Softmax, name + ".weights", {scores});
  weights = add(OpKind::Reshape, name + ".weights.parted", {weights}, {.result_dims = parted});
  TensorId y = add(OpKind::Contract, name + ".core", {weights, v},
                   {.result_names = {"batch", "rows", "row", "cols", "col", "heads", "head_dim"}});
  y = project(name + ".out", y, {heads(), width, image.back()},
              {"batch", "rows", "row", "cols", "col", image.back().name});
  y = add_bias(name + ".out", y, {image.back()});
  y = add(OpKind::Reshape, name + ".image", {y}, {.result_dims = image});
  for (const std::size_t d : {std::size_t{1}, std::size_t{2}})
    if (shift > 0) y = rolled(fmt::format("{}.back.{}", name, d), y, d, image[d].size - shift);
  return y;
}

TensorId SwinBuilder::block(const std::string& name, TensorId x, std::int64_t shift) {
  const double epsilon = model.factors.at("epsilon");
  const Dim in = channels(), mlp{fmt::format("mlp{}", stage), in.size * size_of(model, "widen")};
  x = add(OpKind::Add, name + ".attn.residual",
          {x, attend(name + ".attn", layer_norm(name + ".ln1", x, in, epsilon), shift)});
  TensorId y = dense(name + ".mlp.up", layer_norm(name + ".ln2", x, in, epsilon), mlp, true);
  y = add(size_of(model, "erf") != 0 ? OpKind::GeluErf : OpKind::Gelu, name + ".mlp.gelu", {y});
  return add(OpKind::Add, name + ".mlp.residual", {x, dense(name + ".mlp.down", y, in, true)});
}

// Patches of a square side by side, column after column.
TensorId SwinBuilder::merge(const std::string& name, TensorId x) {
  const std::vector<Dim> dims = graph.tensor(x).dims;
  const Dim down{"down", 2}, across{"across", 2}, four{"four_channels", 4 * dims[3].size};
  ++stage;
  const Dim h{fmt::format("h{}", stage), dims[1].size / 2}, w{fmt::format("w{}", stage), dims[2].size / 2};
  x = add(OpKind::Reshape, name + ".squares", {x}, {.result_dims = {batch, h, down, w, across, dims[3]}});
  x = add(OpKind::Transpose, name + ".turned", {x},
          {.result_names = {"batch", h.name, w.name, across.name, down.name, dims[3].name}});
  x = add(OpKind::Reshape, name + ".four", {x}, {.result_dims = {batch, h, w, four}});
  return dense(name, layer_norm(name + ".norm", x, four, kEmbeddingEpsilon), channels(), false);
}

TensorId SwinBuilder::embed_patches(TensorId images) {
  const std::int64_t size = size_of(model, "patch");
  const TensorId weight = parameter("stem.weight", {{"kh", size}, {"kw", size}, {"rgb", 3}, channels()});
  TensorId x = add(OpKind::Convolution, "stem", {images, weight},
                   {.result_dims = {{"h0", side()}, {"w0", side()}}, .stride = {size, size}});
  x = add_bias("stem", x, {channels()});
  return layer_norm("stem.norm", x, channels(), kEmbeddingEpsilon);
}

void build_swin(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  SwinBuilder swin(graph, model);
  const Dim h{"h", size_of(model, "image")}, w{"w", h.size}, rgb{"rgb", 3}, classes{"class", size_of(model, "classes")};
  const TensorId images = graph.add_tensor("images", TensorKind::Input, graph.dtype, {swin.batch, h, w, rgb});
  const TensorId labels = graph.add_tensor("labels", TensorKind::Input, DType::I32, {swin.batch});
  TensorId x = swin.embed_patches(images);
  int number = 0;
  for (std::size_t stage = 0; stage < kSwinDepths.size(); ++stage) {
    const std::string name = fmt::format("stage{}", stage);
    for (std::int64_t i = 0; i < size_of(model, kSwinDepths[stage]); ++i) {
      graph.current_block = number++;
      const bool shifted = i % 2 == 1 && swin.side() > swin.window();
      x = swin.block(fmt::format("{}.blk{}", name, i), x, shifted ? swin.window() / 2 : 0);
    }
    if (stage + 1 < kSwinDepths.size()) x = swin.merge(name + ".merge", x);
  }
  graph.current_block = -1;
  const std::vector<Dim> dims = graph.tensor(x).dims;
  if (size_of(model, "final_norm") != 0) x = swin.layer_norm("head.norm", x, dims[3], model.factors.at("epsilon"));
  const double patches = static_cast<double>(dims[1].size) * static_cast<double>(dims[2].size);
  x = swin.add(OpKind::ReduceSum, "head.mean", {x}, {.result_names = {"batch", dims[3].name}, .scale = 1.0 / patches});
  graph.loss = swin.cross_entropy(swin.dense("head.logits", x, classes, true), labels, reduction);
}

}  // namespace

std::vector<Family> swin_families() {
  std::vector<SizeField> sizes = {{"image", 10'000},
                                  {"patch", 10'000, 1, 4},
                                  {"classes", 10'000'000},
                                  {"window", 10'000, 1, 7},
                                  {"width", 100'000}};
  for (const char* depth : kSwinDepths) sizes.push_back({depth, 10'000});
  for (const char* heads : kSwinHeads) sizes.push_back({heads, 10'000});
  sizes.push_back({"widen", 1'000, 1, 4});
  sizes.push_back({"qkv_bias", 1, 0, 1});
  sizes.push_back({"final_norm", 1, 0, 1});
  sizes.push_back({"erf", 1, 0, 1});
  return {{"swin",
           sizes,
           {{"epsilon", 1e-5}},
           "swin:image=64,window=2,classes=10,width=8,depth_0=2,depth_1=2,depth_2=2,depth_3=1,heads_0=1,heads_1=2,"
           "heads_2=2,heads_3=4",
           4096,
           DType::F16,
           build_swin}};
}

}  // namespace meshwright
