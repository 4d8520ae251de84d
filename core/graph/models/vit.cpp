// SPDX-License-Identifier: Apache-2.0
// Vision transformers (A. Dosovitskiy et al., "An image is worth 16x16 words", arXiv:2010.11929), with the paper's
// class token, learned positions, biases everywhere and a classifier of one layer; epsilon and the form of GELU are
// those of the authors' code.
//
// An image (batch, h, w, rgb) becomes patches (batch, patch_h, patch_w, embed) by a convolution whose windows do not
// overlap, then a sequence (batch, seq, embed) with the class token first; blocks as in
// core/graph/models/transformer.h. The classifier reads the class token alone.
#include "core/graph/models/families.h"
#include "core/graph/models/transformer_builder.h"

namespace meshwright {

namespace {

std::int64_t patches_per_side(const ModelConfig& model) { return size_of(model, "image") / size_of(model, "patch"); }

// The class token is one more.
ModelConfig with_sequence(ModelConfig model) {
  model.seq = patches_per_side(model) * patches_per_side(model) + 1;
  return model;
}

Transformer encoder_of(const ModelConfig& model) {
  return {.attention = {.kv_heads = model.heads,
                        .group = 1,
                        .head_dim = model.hidden / model.heads,
                        .qkv_bias = true,
                        .out_bias = true,
                        .causal = false},
          .feed_forward = {.width = size_of(model, "intermediate"),
                           .activation = size_of(model, "erf") != 0 ? Activation::GeluErf : Activation::Gelu,
                           .bias = true},
          .layers = std::vector<LayerPart>(static_cast<std::size_t>(model.layers)),
          .epsilon = model.factors.at("epsilon")};
}

struct VitBuilder : TransformerBuilder {
  using TransformerBuilder::TransformerBuilder;

  [[nodiscard]] TensorId embed_patches(TensorId images, std::int64_t size);
  [[nodiscard]] TensorId with_class_token(TensorId patches);
  [[nodiscard]] TensorId classify(TensorId x, const Dim& classes);

  const Dim one{"class_token", 1};
};

TensorId VitBuilder::embed_patches(TensorId images, std::int64_t size) {
  const std::vector<Dim> image = graph.tensor(images).dims;
  const Dim kh{"kh", size}, kw{"kw", size};
  TensorId x = parameter("embed.weight", {kh, kw, image[3], embed});
  x = add(
      OpKind::Convolution, "embed", {images, x},
      {.result_dims = {{"patch_h", image[1].size / size}, {"patch_w", image[2].size / size}}, .stride = {size, size}});
  x = add_bias("embed", x, {embed});
  return add(OpKind::Reshape, "embed.patches", {x}, {.result_dims = {batch, {"patch", seq.size - 1}, embed}});
}

TensorId VitBuilder::with_class_token(TensorId patches) {
  const TensorId token = add(OpKind::Broadcast, "embed.class_token", {parameter("class_token", {one, embed})},
                             {.result_dims = {batch, one, embed}});
  const TensorId x = add(OpKind::Concat, "embed.tokens", {token, patches}, {.result_dims = {batch, seq, embed}});
  return add(OpKind::BiasAdd, "embed.positions.sum", {x, parameter("wpe", {seq, embed})});
}

TensorId VitBuilder::classify(TensorId x, const Dim& classes) {
  x = add(OpKind::Slice, "head.class_token", {x}, {.result_dims = {batch, one, embed}});
  x = add(OpKind::Reshape, "head.rows", {x}, {.result_dims = {batch, embed}});
  return add_bias("head.logits", project("head.logits", x, {embed, classes}, {"batch", classes.name}), {classes});
}

}  // namespace

void build_vit(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  const Transformer encoder = encoder_of(model);
  VitBuilder vit(graph, with_sequence(model), encoder);
  const Dim h{"h", size_of(model, "image")}, w{"w", h.size}, rgb{"rgb", 3}, classes{"class", size_of(model, "classes")};
  const TensorId images = graph.add_tensor("images", TensorKind::Input, graph.dtype, {vit.batch, h, w, rgb});
  const TensorId labels = graph.add_tensor("labels", TensorKind::Input, DType::I32, {vit.batch});
  TensorId x = vit.with_class_token(vit.embed_patches(images, size_of(model, "patch")));
  x = vit.final_norm("blk", vit.stack("blk", x, encoder.layers, encoder.attention.causal, std::nullopt));
  graph.loss = vit.cross_entropy(vit.classify(x, classes), labels, reduction);
}

}  // namespace meshwright
