// SPDX-License-Identifier: Apache-2.0
// Vision transformers (A. Dosovitskiy et al., "An image is worth 16x16 words", arXiv:2010.11929), with the paper's
// class token, learned positions, biases everywhere and a classifier of one layer; epsilon and the form of GELU are
// those of the authors' code.
//
// An image (batch, h, w, rgb) becomes patches (batch, patch_h, patch_w, embed) by a convolution whose windows do not
// overlap, then a sequence (batch, seq, embed) with the class token first; blocks as in
// core/graph/models/transformer.h. The classifier reads the class token alone, or the mean of what is behind it as well
// (reads_patches). distilled: one more token behind the class token (H. Touvron et al., 2020). registers: tokens
// without positions (T. Darcet et al., 2023). layer_scale and gated are DINOv2's, and so is mask_token, a parameter
// that its pre-training alone reads.
#include "core/graph/models/families.h"
#include "core/graph/models/transformer_builder.h"

namespace meshwright {

namespace {

std::int64_t patches_of(const ModelConfig& model) {
  const std::int64_t side = size_of(model, "image") / size_of(model, "patch");
  return side * side;
}

// Tokens that have positions beside the patches.
std::int64_t leading_of(const ModelConfig& model) { return 1 + size_of(model, "distilled"); }

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
          .layer_scale = size_of(model, "layer_scale") != 0};
}

struct VitBuilder : TransformerBuilder {
  VitBuilder(Graph& into, const ModelConfig& of, const Transformer& what)
      : TransformerBuilder(into, of, what), model(of) {}

  [[nodiscard]] TensorId embed_patches(TensorId images, std::int64_t size);
  // A learned vector, or several, for each image.
  [[nodiscard]] TensorId learned(const std::string& name, const Dim& tokens);
  [[nodiscard]] TensorId with_tokens(TensorId patches);
  [[nodiscard]] TensorId classify(TensorId x, const Dim& classes);

  const ModelConfig& model;
  const Dim one{"class_token", 1}, patch{"patch", patches_of(model)};
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

TensorId VitBuilder::with_tokens(TensorId patches) {
  std::vector<TensorId> tokens = {learned("class_token", one)};
  if (size_of(model, "distilled") != 0) tokens.push_back(learned("distillation_token", {"distillation_token", 1}));
  tokens.push_back(patches);
  const std::int64_t registers = size_of(model, "registers");
  const Dim placed{registers == 0 ? "seq" : "placed", seq.size - registers};
  TensorId x = add(OpKind::Concat, "embed.tokens", tokens, {.result_dims = {batch, placed, embed}});
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

// By the class token, or by it and the mean of the patches.
TensorId VitBuilder::classify(TensorId x, const Dim& classes) {
  TensorId read = add(OpKind::Slice, "head.class_token", {x}, {.result_dims = {batch, one, embed}});
  read = add(OpKind::Reshape, "head.rows", {read}, {.result_dims = {batch, embed}});
  Dim width = embed;
  if (size_of(model, "reads_patches") != 0) {
    const Dim& all = patch;
    TensorId mean =
        add(OpKind::Slice, "head.patches", {x}, {.result_dims = {batch, all, embed}, .start = seq.size - all.size});
    mean = add(OpKind::ReduceSum, "head.patches.sum", {mean}, {.result_names = {"batch", "embed"}});
    mean = add(OpKind::Scale, "head.patches.mean", {mean}, {.scale = 1.0 / static_cast<double>(all.size)});
    width = {"embed_pair", 2 * embed.size};
    read = add(OpKind::Concat, "head.pair", {read, mean}, {.result_dims = {batch, width}});
  }
  return add_bias("head.logits", project("head.logits", read, {width, classes}, {"batch", classes.name}), {classes});
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
  x = vit.final_norm("blk", vit.stack("blk", x, encoder.layers, encoder.attention.causal, std::nullopt));
  graph.loss = vit.cross_entropy(vit.classify(x, classes), labels, reduction);
}

}  // namespace meshwright
