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
//
// With siglip=1 (X. Zhai et al., "Sigmoid loss for language image pre-training", arXiv:2303.15343): no class token and
// no norm in front of the image's blocks, and patches have a bias; behind them a learned vector attends to all patches,
// and a feed-forward layer follows ("image.pool"). Texts see all of their tokens, and are projected to the width of the
// images with a bias. Scores are cosines times the exponential of a learned number, plus another; the loss is the mean
// over texts of the sum of B binary cross entropies, of one image each: classes (batch, candidate, match=2) of 0 and
// the score.
#include <cmath>

#include "core/graph/models/families.h"
#include "core/graph/models/parts/transformer_builder.h"

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

bool is_siglip(const ModelConfig& model) { return size_of(model, "siglip") != 0; }

ModelConfig image_tower(const ModelConfig& model) {
  const std::int64_t side = size_of(model, "image") / size_of(model, "patch");
  return tower_of(model.layers, model.hidden, model.heads, side * side + (is_siglip(model) ? 0 : 1));
}

ModelConfig text_tower(const ModelConfig& model) {
  return tower_of(size_of(model, "text_layers"), size_of(model, "text_hidden"), size_of(model, "text_heads"),
                  model.seq);
}

Transformer encoder_of(const ModelConfig& model, const ModelConfig& tower, std::int64_t width, bool causal) {
  return {.attention = {.kv_heads = tower.heads,
                        .group = 1,
                        .head_dim = tower.hidden / tower.heads,
                        .qkv_bias = true,
                        .out_bias = true,
                        .causal = causal},
          .feed_forward = {.width = width,
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
  // Patches, and a bias of theirs.
  [[nodiscard]] TensorId embed_patches(TensorId images, std::int64_t patch, bool bias);
  [[nodiscard]] TensorId blocks(TensorId x);
  // The blocks, then (batch, joint) of the token at `position`.
  [[nodiscard]] TensorId encode(TensorId x, std::int64_t position, const Dim& joint, bool bias);
  // The blocks, then (batch, joint) of a learned vector that attends to all tokens.
  [[nodiscard]] TensorId encode_pooled(TensorId x, const Dim& joint);

  const std::string name;
  const Dim one{"token", 1};
};

TensorId TowerBuilder::add_positions(TensorId x) {
  return add(OpKind::BiasAdd, name + ".embed.positions.sum", {x, parameter(name + ".wpe", {seq, embed})});
}

// By a convolution whose windows do not overlap.
TensorId TowerBuilder::embed_patches(TensorId images, std::int64_t patch, bool bias) {
  const std::vector<Dim> image = graph.tensor(images).dims;
  const std::string embedding = name + ".embed";
  const std::int64_t side = image[1].size / patch;
  const TensorId weight = parameter(embedding + ".weight", {{"kh", patch}, {"kw", patch}, image[3], embed});
  TensorId x = add(OpKind::Convolution, embedding, {images, weight},
                   {.result_dims = {{"patch_h", side}, {"patch_w", side}}, .stride = {patch, patch}});
  if (bias) x = add_bias(embedding, x, {embed});
  return add(OpKind::Reshape, embedding + ".patches", {x},
             {.result_dims = {batch, {bias ? "seq" : "patch", side * side}, embed}});
}

// The class token first; a norm before the blocks.
TensorId TowerBuilder::embed_images(TensorId images, std::int64_t patch) {
  const std::string embedding = name + ".embed";
  TensorId x = embed_patches(images, patch, false);
  const TensorId token = add(OpKind::Broadcast, embedding + ".class_token",
                             {parameter(name + ".class_token", {one, embed})}, {.result_dims = {batch, one, embed}});
  x = add(OpKind::Concat, embedding + ".tokens", {token, x}, {.result_dims = {batch, seq, embed}});
  return norm(embedding + ".norm", add_positions(x), embed);
}

TensorId TowerBuilder::embed_texts(TensorId tokens, const Dim& vocabulary) {
  return add_positions(
      add(OpKind::Embedding, name + ".embed", {tokens, parameter(name + ".wte", {vocabulary, embed})}));
}

TensorId TowerBuilder::blocks(TensorId x) {
  return stack(name + ".blk", x, transformer.layers, transformer.attention.causal, std::nullopt);
}

TensorId TowerBuilder::encode_pooled(TensorId x, const Dim& joint) {
  x = norm(name + ".final_norm", blocks(x), embed);
  const Dim probe{"seq", 1};
  const std::string pool = name + ".pool";
  const TensorId asks = add(OpKind::Broadcast, pool + ".probe.wide", {parameter(pool + ".probe", {probe, embed})},
                            {.result_dims = {batch, probe, embed}});
  TensorId y = attention(pool + ".attn", asks, x, {.causal = false});
  const TensorId inner = feed_forward(pool + ".mlp", norm(pool + ".norm", y, embed), transformer.feed_forward.width);
  y = add(OpKind::Add, pool + ".residual", {y, inner});
  return add(OpKind::Reshape, pool + ".rows", {y}, {.result_dims = {batch, joint}});
}

TensorId TowerBuilder::encode(TensorId x, std::int64_t position, const Dim& joint, bool bias) {
  x = blocks(x);
  x = add(OpKind::Slice, name + ".read", {x}, {.result_dims = {batch, one, embed}, .start = position});
  x = add(OpKind::Reshape, name + ".read.rows", {x}, {.result_dims = {batch, embed}});
  x = project(name + ".joint", norm(name + ".final_norm", x, embed), {embed, joint}, {"batch", joint.name});
  return bias ? add_bias(name + ".joint", x, {joint}) : x;
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
  // 0, 1, 2, ... of the candidates, in any dimensions of as many elements.
  [[nodiscard]] TensorId count(TensorId candidates);
  // A learned number, (batch, candidate).
  [[nodiscard]] TensorId learned(const std::string& name, bool exponential);
  [[nodiscard]] TensorId sigmoid_loss(TensorId images, TensorId texts, LossReduction reduction);

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

// The slots of a single expert that has room for all.
TensorId ContrastBuilder::count(TensorId candidates) {
  const Dim group{"group", 1}, choice{"choice", 1};
  TensorId x = add(OpKind::ReduceSum, "head.numbers.of", {candidates}, {.result_names = {candidate.name}});
  x = add(OpKind::Reshape, "head.numbers.scores", {x}, {.result_dims = {group, candidate, choice}});
  return add(OpKind::TopKSlots, "head.numbers.slots", {x}, {.top_k = 1, .capacity = candidate.size});
}

// The candidate of each query that belongs to it, (batch, direction).
TensorId ContrastBuilder::numbers(TensorId candidates) {
  const TensorId x = add(OpKind::Reshape, "head.numbers.rows", {count(candidates)}, {.result_dims = {batch}});
  return add(OpKind::Broadcast, "head.numbers", {x}, {.result_dims = {batch, direction}});
}

TensorId ContrastBuilder::learned(const std::string& name, bool exponential) {
  const Dim shared{"temperature", 1};
  TensorId x = parameter(name, {shared});
  if (exponential) x = add(OpKind::Exp, name + ".exp", {x});
  x = add(OpKind::Broadcast, name + ".wide", {x}, {.result_dims = {shared, candidate}});
  x = add(OpKind::Reshape, name + ".row", {x}, {.result_dims = {candidate}});
  return add(OpKind::Broadcast, name + ".scores", {x}, {.result_dims = {batch, candidate}});
}

TensorId ContrastBuilder::sigmoid_loss(TensorId images, TensorId texts, LossReduction reduction) {
  const auto unit = [&](const std::string& name, TensorId x, const Dim& rows) {
    x = plain_norm(name + ".normalized", x, kNormalizeEpsilon);
    x = add(OpKind::Scale, name + ".unit", {x}, {.scale = 1.0 / std::sqrt(static_cast<double>(joint.size))});
    return add(OpKind::Reshape, name + ".rows", {x}, {.result_dims = {rows, joint}});
  };
  const TensorId queries = unit("text", texts, batch), candidates = unit("image", images, candidate);
  TensorId scores =
      add(OpKind::Contract, "head.cosines", {queries, candidates}, {.result_names = {"batch", candidate.name}});
  scores = add(OpKind::Multiply, "head.scaled", {scores, learned("head.logit_scale", true)});
  scores = add(OpKind::Add, "head.scores", {scores, learned("head.logit_bias", false)});
  const Dim classes{"match", 2};
  const TensorId matched =
      add(OpKind::Reshape, "head.scores.matched", {scores}, {.result_dims = {batch, candidate, one}});
  const TensorId unmatched = add(OpKind::Scale, "head.scores.zero", {matched}, {.scale = 0.0});
  const TensorId logits =
      add(OpKind::Concat, "head.classes", {unmatched, matched}, {.result_dims = {batch, candidate, classes}});
  // Counts are whole numbers, which f32 holds up to 2^24.
  const TensorId places = add(OpKind::Cast, "head.numbers.wide", {count(candidates)}, {.dtype = DType::F32});
  const auto wide = [&](const Dim& of) {
    const std::string name = "head.numbers." + of.name;
    const TensorId x = add(OpKind::Reshape, name, {places}, {.result_dims = {of}});
    return add(OpKind::Broadcast, name + ".wide", {x}, {.result_dims = {batch, candidate}});
  };
  const TensorId labels =
      add(OpKind::Compare, "head.labels", {wide(batch), wide(candidate)}, {.comparison = Comparison::Equal});
  return cross_entropy(logits, labels, reduction, "head",
                       reduction == LossReduction::Sum ? 1.0 : static_cast<double>(candidate.size));
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
  const bool siglip = is_siglip(model);
  const Transformer vision = encoder_of(model, of_images, size_of(model, "intermediate"), false),
                    language = encoder_of(model, of_texts, size_of(model, "text_intermediate"), !siglip);
  ContrastBuilder head(graph, model);

  TowerBuilder image(graph, of_images, vision, "image");
  const Dim h{"h", size_of(model, "image")}, w{"w", h.size}, rgb{"rgb", 3};
  const TensorId images = graph.add_tensor("images", TensorKind::Input, graph.dtype, {image.batch, h, w, rgb});
  const std::int64_t patch = size_of(model, "patch");
  const TensorId x =
      siglip ? image.encode_pooled(image.add_positions(image.embed_patches(images, patch, true)), head.joint)
             : image.encode(image.embed_images(images, patch), 0, head.joint, false);

  TowerBuilder text(graph, of_texts, language, "text");
  text.next_block = image.next_block;
  const TensorId tokens = text.token_input("tokens");
  const TensorId y = text.encode(text.embed_texts(tokens, head.vocab), text.seq.size - 1, head.joint, siglip);

  graph.loss = siglip ? head.sigmoid_loss(x, y, reduction) : head.loss(x, y, reduction);
}

}  // namespace meshwright
