// SPDX-License-Identifier: Apache-2.0
// Two towers, trained to tell which image goes with which text (A. Radford et al., "Learning transferable visual models
// from natural language supervision", arXiv:2103.00020): a vision transformer whose class token stands for the image,
// and a causal transformer whose last token stands for the text. The towers share no op; the text tower's blocks
// ("text.blk<layer>") are numbered on after the image tower's ("image.blk<layer>").
//
// The representations are projected to `joint`, without a bias, and normalised to length t / sqrt(0.07), so that scores
// are t^2 / 0.07 times cosines. The loss of a microbatch of B pairs is the mean of 2 B cross entropies: an image among
// its B texts, a text among its B images. Another number of microbatches is another model, and B = 1 teaches nothing.
//
// Dimensions after the towers: queries (batch, direction=2, joint), an image and its text; candidates (candidate,
// direction, joint), a text and its image; scores (batch, direction, candidate), which may be split along any of them.
// As attention renames keys, so are candidates renamed: every sample meets every sample.
//
// Parameters are those of the paper's, 151,277,313 for ViT-B/32. What differs: the activation is GELU instead of
// x sigmoid(1.702 x) but where `quick` is set; a text is read at its last position instead of that of its end-of-text
// token; and the learned temperature is the factor t instead of a logarithm.
#include <cmath>

#include "core/graph/models/families.h"
#include "core/graph/models/transformer_builder.h"

namespace meshwright {

namespace {

constexpr double kTemperature = 0.07;
constexpr double kNormalizeEpsilon = 1e-12;  // of a mean of squares: only keeps a vector of zeros finite

// What the builder of one tower reads; the words are a table of the tower's own.
ModelConfig tower_of(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t seq) {
  ModelConfig tower;
  tower.layers = layers;
  tower.hidden = hidden;
  tower.heads = heads;
  tower.seq = seq;
  return tower;
}

ModelConfig image_tower(const ModelConfig& model) {
  const std::int64_t side = size_of(model, "image") / size_of(model, "patch");
  return tower_of(model.layers, model.hidden, model.heads, side * side + 1);
}

ModelConfig text_tower(const ModelConfig& model) {
  return tower_of(size_of(model, "text_layers"), size_of(model, "text_hidden"), size_of(model, "text_heads"),
                  model.seq);
}

Transformer encoder_of(const ModelConfig& model, const ModelConfig& tower, bool causal) {
  return {.attention = {.kv_heads = tower.heads,
                        .group = 1,
                        .head_dim = tower.hidden / tower.heads,
                        .qkv_bias = true,
                        .out_bias = true,
                        .causal = causal},
          .feed_forward = {.width = 4 * tower.hidden,
                           .activation = size_of(model, "quick") != 0 ? Activation::QuickGelu
                                         : size_of(model, "erf") != 0 ? Activation::GeluErf
                                                                      : Activation::Gelu,
                           .bias = true},
          .layers = std::vector<LayerPart>(static_cast<std::size_t>(tower.layers)),
          .epsilon = model.factors.at("epsilon"),
          .final_norm = false};
}

struct TowerBuilder : TransformerBuilder {
  TowerBuilder(Graph& into, const ModelConfig& tower, const Transformer& what, std::string of)
      : TransformerBuilder(into, tower, what), name(std::move(of)) {}

  [[nodiscard]] TensorId add_positions(TensorId x);
  [[nodiscard]] TensorId embed_images(TensorId images, std::int64_t patch);
  [[nodiscard]] TensorId embed_texts(TensorId tokens, const Dim& vocabulary);
  // The blocks, then (batch, joint) of the token at `position`.
  [[nodiscard]] TensorId encode(TensorId x, std::int64_t position, const Dim& joint);

  const std::string name;
  const Dim one{"token", 1};
};

TensorId TowerBuilder::add_positions(TensorId x) {
  return add(OpKind::BiasAdd, name + ".embed.positions.sum", {x, parameter(name + ".wpe", {seq, embed})});
}

// Patches by a convolution whose windows do not overlap; the class token first; a norm before the blocks.
TensorId TowerBuilder::embed_images(TensorId images, std::int64_t patch) {
  const std::vector<Dim> image = graph.tensor(images).dims;
  const std::string embedding = name + ".embed";
  const std::int64_t side = image[1].size / patch;
  const TensorId weight = parameter(embedding + ".weight", {{"kh", patch}, {"kw", patch}, image[3], embed});
  TensorId x = add(OpKind::Convolution, embedding, {images, weight},
                   {.result_dims = {{"patch_h", side}, {"patch_w", side}}, .stride = {patch, patch}});
  x = add(OpKind::Reshape, embedding + ".patches", {x}, {.result_dims = {batch, {"patch", seq.size - 1}, embed}});
  const TensorId token = add(OpKind::Broadcast, embedding + ".class_token",
                             {parameter(name + ".class_token", {one, embed})}, {.result_dims = {batch, one, embed}});
  x = add(OpKind::Concat, embedding + ".tokens", {token, x}, {.result_dims = {batch, seq, embed}});
  return norm(embedding + ".norm", add_positions(x), embed);
}

TensorId TowerBuilder::embed_texts(TensorId tokens, const Dim& vocabulary) {
  return add_positions(
      add(OpKind::Embedding, name + ".embed", {tokens, parameter(name + ".wte", {vocabulary, embed})}));
}

TensorId TowerBuilder::encode(TensorId x, std::int64_t position, const Dim& joint) {
  x = stack(name + ".blk", x, transformer.layers, transformer.attention.causal, std::nullopt);
  x = add(OpKind::Slice, name + ".read", {x}, {.result_dims = {batch, one, embed}, .start = position});
  x = add(OpKind::Reshape, name + ".read.rows", {x}, {.result_dims = {batch, embed}});
  return project(name + ".joint", norm(name + ".final_norm", x, embed), {embed, joint}, {"batch", joint.name});
}

struct ContrastBuilder : ModelWriter {
  ContrastBuilder(Graph& into, const ModelConfig& model)
      : ModelWriter(into, model), joint{"joint", size_of(model, "embed")} {}

  // The factor of a root mean square norm whose results have length t / sqrt(kTemperature), (joint).
  [[nodiscard]] TensorId length();
  [[nodiscard]] TensorId normalize(const std::string& name, TensorId x, TensorId length);
  // (batch, joint) twice -> (batch, direction, joint)
  [[nodiscard]] TensorId beside(const std::string& name, TensorId first, TensorId second);
  [[nodiscard]] TensorId numbers(TensorId candidates);
  [[nodiscard]] TensorId loss(TensorId images, TensorId texts, LossReduction reduction);

  const Dim joint;
  const Dim one{"side", 1}, direction{"direction", 2}, candidate{"candidate", batch.size};
};

TensorId ContrastBuilder::length() {
  const Dim shared{"temperature", 1};
  // A gamma, as which it scales and is 1 before the first step.
  TensorId t = parameter("head.temperature.gamma", {shared});
  const double of_one = 1.0 / std::sqrt(kTemperature * static_cast<double>(joint.size));
  t = add(OpKind::Scale, "head.temperature.scaled", {t}, {.scale = of_one});
  t = add(OpKind::Broadcast, "head.temperature.joint", {t}, {.result_dims = {shared, joint}});
  return add(OpKind::Reshape, "head.temperature", {t}, {.result_dims = {joint}});
}

TensorId ContrastBuilder::normalize(const std::string& name, TensorId x, TensorId length) {
  x = add(OpKind::RmsNorm, name + ".normalized", {x, length}, {.epsilon = kNormalizeEpsilon});
  return add(OpKind::Reshape, name + ".side", {x}, {.result_dims = {batch, one, joint}});
}

TensorId ContrastBuilder::beside(const std::string& name, TensorId first, TensorId second) {
  return add(OpKind::Concat, name, {first, second}, {.result_dims = {batch, direction, joint}});
}

// 0, 1, 2, ..., the candidate of each query that belongs to it, (batch, direction): the slots of a single expert that
// has room for all.
TensorId ContrastBuilder::numbers(TensorId candidates) {
  const Dim group{"group", 1}, choice{"choice", 1};
  TensorId x = add(OpKind::ReduceSum, "head.numbers.of", {candidates}, {.result_names = {candidate.name}});
  x = add(OpKind::Reshape, "head.numbers.scores", {x}, {.result_dims = {group, candidate, choice}});
  x = add(OpKind::TopKSlots, "head.numbers.slots", {x}, {.top_k = 1, .capacity = candidate.size});
  x = add(OpKind::Reshape, "head.numbers.rows", {x}, {.result_dims = {batch}});
  return add(OpKind::Broadcast, "head.numbers", {x}, {.result_dims = {batch, direction}});
}

TensorId ContrastBuilder::loss(TensorId images, TensorId texts, LossReduction reduction) {
  const TensorId of_one = length();
  images = normalize("image", images, of_one);
  texts = normalize("text", texts, of_one);
  const TensorId queries = beside("head.queries", images, texts);
  const TensorId candidates = add(OpKind::Reshape, "head.candidates", {beside("head.pairs", texts, images)},
                                  {.result_dims = {candidate, direction, joint}});
  const TensorId scores = add(OpKind::Contract, "head.scores", {queries, candidates},
                              {.result_names = {"batch", direction.name, candidate.name}});
  return cross_entropy(scores, numbers(candidates), reduction);
}

}  // namespace

void build_two_tower(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  const ModelConfig of_images = image_tower(model), of_texts = text_tower(model);
  const Transformer vision = encoder_of(model, of_images, false), language = encoder_of(model, of_texts, true);
  ContrastBuilder head(graph, model);

  TowerBuilder image(graph, of_images, vision, "image");
  const Dim h{"h", size_of(model, "image")}, w{"w", h.size}, rgb{"rgb", 3};
  const TensorId images = graph.add_tensor("images", TensorKind::Input, graph.dtype, {image.batch, h, w, rgb});
  const TensorId x = image.encode(image.embed_images(images, size_of(model, "patch")), 0, head.joint);

  TowerBuilder text(graph, of_texts, language, "text");
  text.next_block = image.next_block;
  const TensorId tokens = text.token_input("tokens");
  const TensorId y = text.encode(text.embed_texts(tokens, head.vocab), text.seq.size - 1, head.joint);

  graph.loss = head.loss(x, y, reduction);
}

}  // namespace meshwright
