// SPDX-License-Identifier: Apache-2.0
// Vision transformers (A. Dosovitskiy et al., "An image is worth 16x16 words", arXiv:2010.11929), with the paper's
// class token, learned positions, biases everywhere and a classifier of one layer; epsilon and the form of GELU are
// those of the authors' code. I-JEPA (M. Assran et al., 2023) has no class token, and BEiT (H. Bao et al., 2021) biases
// by how far patches are apart, down and across (relative_bias: 1 a table in each layer, 2 one for all, 3 both), in
// place of positions (absolute=0) or beside them, and keys without biases.
//
// An image (batch, h, w, rgb) becomes patches (batch, patch_h, patch_w, embed) by a convolution whose windows do not
// overlap, then a sequence (batch, seq, embed) with the class token first; blocks as in
// core/graph/models/parts/transformer.h. The classifier reads the class token alone, or the mean of what is behind it
// as well (reads_patches=1), or that alone (2), of which mean_norm makes the last norm. distilled: one more token
// behind the class token (H. Touvron et al., 2020). registers: tokens without positions (T. Darcet et al., 2023).
// layer_scale and gated are DINOv2's, and so is mask_token, a parameter that its pre-training alone reads.
#include "core/graph/models/families.h"
#include "core/graph/models/parts/transformer_builder.h"

namespace meshwright {

namespace {

std::int64_t patches_of(const ModelConfig& model) {
  const std::int64_t side = size_of(model, "image") / size_of(model, "patch");
  return side * side;
}

// Tokens that have positions beside the patches.
std::int64_t leading_of(const ModelConfig& model) {
  return size_of(model, "class_token") + size_of(model, "distilled");
}

ModelConfig with_sequence(ModelConfig model) {
  model.seq = patches_of(model) + leading_of(model) + size_of(model, "registers");
  return model;
}

Transformer encoder_of(const ModelConfig& model) {
  const bool gated = size_of(model, "gated") != 0;
  return {.attention = {.kv_heads = model.heads,
                        .group = 1,
                        .head_dim = model.hidden / model.heads,
                        .qkv_bias = size_of(model, "qkv_bias") != 0,
                        .key_bias = size_of(model, "key_bias") != 0,
                        .out_bias = true,
                        .causal = false},
          .feed_forward = {.width = size_of(model, "intermediate"),
                           .activation = gated                        ? Activation::Silu
                                         : size_of(model, "erf") != 0 ? Activation::GeluErf
                                                                      : Activation::Gelu,
                           .gated = gated,
                           .bias = true},
          .layers = std::vector<LayerPart>(static_cast<std::size_t>(model.layers)),
          .epsilon = model.factors.at("epsilon"),
          .layer_scale = size_of(model, "layer_scale") != 0,
          .final_norm = size_of(model, "mean_norm") == 0};
}

struct VitBuilder : TransformerBuilder {
  VitBuilder(Graph& into, const ModelConfig& of, const Transformer& what)
      : TransformerBuilder(into, of, what), model(of) {}

  [[nodiscard]] TensorId embed_patches(TensorId images, std::int64_t size);
  // A learned vector, or several, for each image.
  [[nodiscard]] TensorId learned(const std::string& name, const Dim& tokens);
  [[nodiscard]] TensorId with_tokens(TensorId patches);
  [[nodiscard]] TensorId classify(TensorId x, const Dim& classes);
  // How far apart the patches of each query and key are, counted from the most negative distance. The last three rows
  // are the way from the class token, the way to it, and the token with itself.
  [[nodiscard]] std::vector<double> distances() const;
  // (kv_heads, group, seq, kv_seq), from a table of its own.
  [[nodiscard]] TensorId relative_bias(const std::string& name);
  [[nodiscard]] TensorId mean_of_patches(TensorId x);

  const ModelConfig& model;
  const Dim one{"class_token", 1}, patch{"patch", patches_of(model)};
  std::optional<TensorId> shared_bias = {};
};

TensorId VitBuilder::embed_patches(TensorId images, std::int64_t size) {
  const std::vector<Dim> image = graph.tensor(images).dims;
  const Dim kh{"kh", size}, kw{"kw", size};
  TensorId x = parameter("embed.weight", {kh, kw, image[3], embed});
  x = add(
      OpKind::Convolution, "embed", {images, x},
      {.result_dims = {{"patch_h", image[1].size / size}, {"patch_w", image[2].size / size}}, .stride = {size, size}});
  x = add_bias("embed", x, {embed});
  return add(OpKind::Reshape, "embed.patches", {x}, {.result_dims = {batch, patch, embed}});
}

TensorId VitBuilder::learned(const std::string& name, const Dim& tokens) {
  return add(OpKind::Broadcast, "embed." + name, {parameter(name, {tokens, embed})},
             {.result_dims = {batch, tokens, embed}});
}

std::vector<double> VitBuilder::distances() const {
  const std::int64_t side = size_of(model, "image") / size_of(model, "patch"), span = 2 * side - 1;
  std::vector<double> of;
  for (std::int64_t q = -1; q < side * side; ++q)
    for (std::int64_t k = -1; k < side * side; ++k) {
      std::int64_t at = (q / side - k / side + side - 1) * span + (q % side - k % side + side - 1);
      if (q < 0 || k < 0) at = span * span + (k >= 0 ? 0 : q >= 0 ? 1 : 2);
      of.push_back(static_cast<double>(at));
    }
  return of;
}

TensorId VitBuilder::relative_bias(const std::string& name) {
  constexpr std::int64_t kOfClassToken = 3;
  const std::int64_t span = 2 * (size_of(model, "image") / size_of(model, "patch")) - 1;
  const Dim key{"kv_seq", seq.size};
  const TensorId ids = constant("distances", {seq, key}, distances(), DType::I32);
  const TensorId table = parameter(name + ".weight", {{"distance", span * span + kOfClassToken}, kv_heads});
  TensorId x = add(OpKind::Embedding, name, {ids, table});
  x = add(OpKind::Transpose, name + ".heads", {x}, {.result_names = {"kv_heads", "seq", "kv_seq"}});
  return add(OpKind::Reshape, name + ".groups", {x}, {.result_dims = {kv_heads, group, seq, key}});
}

TensorId VitBuilder::with_tokens(TensorId patches) {
  if (leading_of(model) == 0) {
    const TensorId x = add(OpKind::Reshape, "embed.tokens", {patches}, {.result_dims = {batch, seq, embed}});
    return add(OpKind::BiasAdd, "embed.positions.sum", {x, parameter("wpe", {seq, embed})});
  }
  std::vector<TensorId> tokens = {learned("class_token", one)};
  if (size_of(model, "distilled") != 0) tokens.push_back(learned("distillation_token", {"distillation_token", 1}));
  tokens.push_back(patches);
  const std::int64_t registers = size_of(model, "registers");
  const Dim placed{registers == 0 ? "seq" : "placed", seq.size - registers};
  TensorId x = add(OpKind::Concat, "embed.tokens", tokens, {.result_dims = {batch, placed, embed}});
  if (size_of(model, "absolute") != 0)
    x = add(OpKind::BiasAdd, "embed.positions.sum", {x, parameter("wpe", {placed, embed})});
  if (registers == 0) return x;
  // Registers have no positions, and stand between the class token and the patches.
  const auto part = [&](const char* name, const Dim& dim, std::int64_t start) {
    return add(OpKind::Slice, name, {x}, {.result_dims = {batch, dim, embed}, .start = start});
  };
  const TensorId before = part("embed.before", {"before", leading_of(model)}, 0);
  const TensorId behind = part("embed.behind", patch, leading_of(model));
  return add(OpKind::Concat, "embed.with_registers", {before, learned("registers", {"register", registers}), behind},
             {.result_dims = {batch, seq, embed}});
}

TensorId VitBuilder::mean_of_patches(TensorId x) {
  if (seq.size > patch.size)
    x = add(OpKind::Slice, "head.patches", {x}, {.result_dims = {batch, patch, embed}, .start = seq.size - patch.size});
  x = add(OpKind::ReduceSum, "head.patches.sum", {x}, {.result_names = {"batch", "embed"}});
  return add(OpKind::Scale, "head.patches.mean", {x}, {.scale = 1.0 / static_cast<double>(patch.size)});
}

// By the class token, by it and the mean of the patches, or by that alone.
TensorId VitBuilder::classify(TensorId x, const Dim& classes) {
  const auto by = [&](TensorId read, const Dim& width) {
    return add_bias("head.logits", project("head.logits", read, {width, classes}, {"batch", classes.name}), {classes});
  };
  if (size_of(model, "reads_patches") == 2) {
    const TensorId mean = mean_of_patches(x);
    return by(size_of(model, "mean_norm") != 0 ? norm("head.norm", mean, embed) : mean, embed);
  }
  TensorId read = add(OpKind::Slice, "head.class_token", {x}, {.result_dims = {batch, one, embed}});
  read = add(OpKind::Reshape, "head.rows", {read}, {.result_dims = {batch, embed}});
  Dim width = embed;
  if (size_of(model, "reads_patches") != 0) {
    width = {"embed_pair", 2 * embed.size};
    read = add(OpKind::Concat, "head.pair", {read, mean_of_patches(x)}, {.result_dims = {batch, width}});
  }
  return by(read, width);
}

}  // namespace

void build_vit(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  const Transformer encoder = encoder_of(model);
  const ModelConfig with_tokens = with_sequence(model);
  VitBuilder vit(graph, with_tokens, encoder);
  const Dim h{"h", size_of(model, "image")}, w{"w", h.size}, rgb{"rgb", 3}, classes{"class", size_of(model, "classes")};
  const TensorId images = graph.add_tensor("images", TensorKind::Input, graph.dtype, {vit.batch, h, w, rgb});
  const TensorId labels = graph.add_tensor("labels", TensorKind::Input, DType::I32, {vit.batch});
  if (size_of(model, "mask_token") != 0) (void)vit.fixed("mask_token", {vit.one, vit.embed});
  TensorId x = vit.with_tokens(vit.embed_patches(images, size_of(model, "patch")));
  constexpr std::int64_t kInLayers = 1, kShared = 2;
  const std::int64_t biases = size_of(model, "relative_bias");
  if ((biases & kShared) != 0) vit.shared_bias = vit.relative_bias("relative_bias");
  if (biases != 0)
    vit.score_bias_of = [&](const std::string& name) {
      if ((biases & kInLayers) == 0) return *vit.shared_bias;
      const TensorId own = vit.relative_bias(name + ".attn.relative_bias");
      return vit.shared_bias ? vit.add(OpKind::Add, name + ".attn.biases", {own, *vit.shared_bias}) : own;
    };
  x = vit.final_norm("blk", vit.stack("blk", x, encoder.layers, encoder.attention.causal, std::nullopt));
  graph.loss = vit.cross_entropy(vit.classify(x, classes), labels, reduction);
}

}  // namespace meshwright
