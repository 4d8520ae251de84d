// SPDX-License-Identifier: Apache-2.0
// Speech to text (A. Radford et al., "Robust speech recognition via large-scale weak supervision", arXiv:2212.04356):
// an encoder of the frames of a spectrogram, two convolutions over time of which the second halves them, and a decoder
// of text that reads it. Norms are in front of attention and feed-forward, keys have no bias, the encoder's positions
// are sines and the decoder's a table, and the head is the word table.
//
// Frames (batch, channel=1, frame, mel) become (batch, seq, embed), where the encoder's seq is `positions` and the
// decoder's the text's.
#include "core/graph/models/family_keys.h"
#include "core/graph/models/parts/transformer_builder.h"

namespace meshwright {

namespace {

using keys::equal_layers;
using keys::gelu_of;

Transformer half_of(const ModelConfig& model, bool encoder) {
  return {.attention = {.kv_heads = model.heads,
                        .group = 1,
                        .head_dim = model.hidden / model.heads,
                        .qkv_bias = true,
                        .key_bias = false,
                        .out_bias = true},
          .feed_forward = {.width = size_of(model, "intermediate"), .activation = gelu_of(model), .bias = true},
          .layers = equal_layers(encoder ? model.layers : size_of(model, "decoder_layers")),
          .epsilon = model.factors.at("epsilon"),
          .positions = encoder ? Positions::Fixed : Positions::Learned,
          .position_rows = model.seq,
          .last_sine_slowest = true,
          .tied = true,
          .embed_scale = encoder ? 1.0 : model.factors.at("embed_scale")};
}

ModelConfig listener(ModelConfig model) {
  model.seq = size_of(model, "positions");
  model.vocab = 0;
  return model;
}

struct FrameBuilder : TransformerBuilder {
  using TransformerBuilder::TransformerBuilder;

  // Three frames make one, with a GELU.
  [[nodiscard]] TensorId convolve(const std::string& name, TensorId x, const Dim& out, std::int64_t stride);
  [[nodiscard]] TensorId embed_frames(TensorId frames);
};

TensorId FrameBuilder::convolve(const std::string& name, TensorId x, const Dim& out, std::int64_t stride) {
  const std::vector<Dim> from = graph.tensor(x).dims;
  const Dim kh{"kh", 1}, kw{"kw", 3};
  const Dim frames = stride == 1 ? from[2] : Dim{"half_frame", (from[2].size - 1) / stride + 1};
  x = add(OpKind::Convolution, name, {x, parameter(name + ".weight", {kh, kw, from[3], out})},
          {.result_dims = {from[1], frames},
           .window = {1, 3},
           .stride = {1, stride},
           .pad_before = {0, 1},
           .pad_after = {0, 1}});
  return activate(name, add_bias(name, x, {out}));
}

TensorId FrameBuilder::embed_frames(TensorId frames) {
  const TensorId first = convolve("enc.conv1", frames, {"conv_embed", embed.size}, 1);
  TensorId x = convolve("enc.conv2", first, embed, 2);
  x = add(OpKind::Reshape, "enc.embed", {x}, {.result_dims = {batch, seq, embed}});
  const TensorId sines = constant("sines", {seq, embed}, sines_of_positions(seq.size, embed.size));
  return add(OpKind::BiasAdd, "enc.embed.positions.sum", {x, sines});
}

}  // namespace

void build_speech(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  const ModelConfig heard = listener(model);
  const Transformer listens = half_of(model, true), writes = half_of(model, false);
  FrameBuilder encoder(graph, heard, listens);
  const TensorId frames =
      graph.add_tensor("frames", TensorKind::Input, graph.dtype,
                       {encoder.batch, {"channel", 1}, {"frame", 2 * heard.seq}, {"mel", size_of(model, "mel")}});
  const TensorId memory = encoder.final_norm(
      "enc", encoder.stack("enc", encoder.embed_frames(frames), listens.layers, false, std::nullopt));

  TransformerBuilder decoder(graph, model, writes);
  decoder.next_block = encoder.next_block;
  const TensorId tokens = decoder.token_input("tokens"), labels = decoder.token_input("labels");
  const TensorId x = decoder.stack("dec", decoder.embed_tokens("embed", tokens), writes.layers, true, memory);
  graph.loss = decoder.losses(x, "dec", labels, reduction, {});
}

}  // namespace meshwright
