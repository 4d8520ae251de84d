// SPDX-License-Identifier: Apache-2.0
// The families with an encoder: their keys, and what the keys make of them.
//
//   bert          bidirectional, norms after the sums, token types, the masked-word head (J. Devlin et al., 2019);
//                 ELECTRA's generator, ALBERT with layers that share their weights; Megatron's with norms in front;
//                 MPNet with relative biases, too; Longformer with windows; RemBERT with a wide head of its own
//   t5            encoder and decoder, relative biases (C. Raffel et al., 2020); umT5 with biases of each layer,
//                 LongT5 with windows, Switch Transformers with experts
//   bart          encoder and decoder, tables of positions or sines, biases (M. Lewis et al., 2020); mBART, PEGASUS,
//                 Marian, Blenderbot, M2M-100; Megatron-LM's T5
//   speech        an encoder of sound and a decoder of text (core/graph/models/speech.cpp); Whisper
#include <algorithm>

#include "core/graph/models/family_keys.h"

namespace meshwright {

namespace {

using namespace keys;

// box_rows: of the tables of where words stand on a page (LayoutLM). window: keys that a query sees back, itself among
// them, and as many ahead. unused_projections: see AttentionPart. head_width: what the head's dense layer makes, where
// the head is no word table (tied=0). causal: a decoder of BERT's blocks. plain_head: without the dense layer and its
// norm. final_norm: behind blocks with norms in front.
std::int64_t norm_first_of(const ModelConfig& model, const std::string&) { return size_of(model, "norm_first"); }
std::vector<SizeField> bert_sizes() {
  return with_core_sizes({derived_width("intermediate", four_times_hidden),
                          derived_width("positions", seq_of),
                          {"position_offset", 1'000'000, 0, 0},
                          {"token_types", 1'000'000, 0, 2},
                          width_or_none("embed_width"),
                          {"layer_groups", kMaxLayers, 0, 0},
                          {"buckets", 254, 0, 0},
                          {"box_rows", 1'000'000, 0, 0},
                          width_or_none("window"),
                          flag("unused_projections", 0),
                          width_or_none("head_width"),
                          flag("norm_first", 0),
                          {.key = "final_norm", .maximum = 1, .minimum = 0, .derived = norm_first_of},
                          flag("embedding_norm", 1),
                          flag("causal", 0),
                          flag("plain_head", 0),
                          flag("tied", 1),
                          erf(1)});
}
// encoder_window: keys that a query of the encoder sees back, itself among them, and as many ahead (LongT5). experts:
// of Switch Transformers, in the second layer and every mixture_every-th behind it, or in all layers (1); a token goes
// to one, if it is among the first expert_capacity of its sample that do (0: by the factor capacity_factor).
// encoder_seq: the tokens of a sample that the encoder reads (0: as many as the decoder, which seq is of).
std::vector<SizeField> t5_sizes() {
  return with_core_sizes({width("intermediate"),
                          derived_width("head_dim", hidden_per_head),
                          {.key = "decoder_layers", .maximum = kMaxLayers, .derived = layers_of},
                          {"buckets", 254, 4, 32},
                          flag("layer_biases", 0),
                          flag("gated", 1),
                          flag("relu", 0),
                          erf(0),
                          flag("tied", 0),
                          width_or_none("encoder_seq"),
                          width_or_none("encoder_window"),
                          {"experts", 100'000, 0, 0},
                          width_or_none("expert_capacity"),
                          flag("router_bias", 0),
                          {"mixture_every", kMaxLayers, 0, 2},
                          {"decoder_mixture_every", kMaxLayers, 0, 2},
                          {.key = "scaled_head", .maximum = 1, .minimum = 0, .derived = tied_of}});
}

Transformer bert(const ModelConfig& model) {
  AttentionPart attention = own_heads(model, true);
  attention.causal = is_set(model, "causal");
  attention.unused_projections = is_set(model, "unused_projections");
  std::vector<LayerPart> layers = equal_layers(model.layers);
  for (LayerPart& layer : layers) layer.window = size_of(model, "window");
  if (const std::int64_t groups = size_of(model, "layer_groups"); groups > 0)
    for (std::int64_t layer = 0; layer < model.layers; ++layer)
      layers[static_cast<std::size_t>(layer)].group = layer * groups / model.layers;
  return {.attention = attention,
          .feed_forward = {.width = size_of(model, "intermediate"), .activation = gelu_of(model), .bias = true},
          .layers = layers,
          .epsilon = model.factors.at("epsilon"),
          .norm_after = !is_set(model, "norm_first"),
          .final_norm = is_set(model, "final_norm"),
          .positions = Positions::Learned,
          .position_rows = size_of(model, "positions") + size_of(model, "position_offset"),
          .first_position = size_of(model, "position_offset"),
          .buckets = size_of(model, "buckets"),
          .box_rows = size_of(model, "box_rows"),
          .token_types = size_of(model, "token_types"),
          .embedding_norm = is_set(model, "embedding_norm"),
          .embedding_width = size_of(model, "embed_width"),
          .head_width = size_of(model, "head_width"),
          .tied = is_set(model, "tied"),
          .head_bias = true,
          .transformed_head = !is_set(model, "plain_head")};
}

Transformer t5(const ModelConfig& model) {
  const AttentionPart attention{
      .kv_heads = model.heads, .group = 1, .head_dim = size_of(model, "head_dim"), .scaled = false};
  const bool experts = is_set(model, "experts");
  const auto layers = [&](std::int64_t number, std::int64_t every) {
    std::vector<LayerPart> all = equal_layers(number);
    for (std::int64_t layer = 0; experts && every > 0 && layer < number; ++layer)
      all[static_cast<std::size_t>(layer)].mixture = every == 1 || layer % every == 1;
    return all;
  };
  std::vector<LayerPart> encoder = layers(model.layers, size_of(model, "mixture_every"));
  for (LayerPart& layer : encoder) layer.window = size_of(model, "encoder_window");
  const MixturePart mixture{.experts = size_of(model, "experts"),
                            .top_k = 1,
                            .width = size_of(model, "intermediate"),
                            .capacity_factor = model.factors.at("capacity_factor"),
                            .capacity = size_of(model, "expert_capacity"),
                            .normalize = false,
                            .router_bias = is_set(model, "router_bias")};
  return {.attention = attention,
          .feed_forward = {.width = size_of(model, "intermediate"),
                           .activation = is_set(model, "relu") ? Activation::Relu : gelu_of(model),
                           .gated = is_set(model, "gated")},
          .mixture = experts ? std::optional(mixture) : std::nullopt,
          .layers = layers(size_of(model, "decoder_layers"), size_of(model, "decoder_mixture_every")),
          .encoder = encoder,
          .encoder_seq = size_of(model, "encoder_seq"),
          .norm = Norm::Rms,
          .epsilon = model.factors.at("epsilon"),
          .positions = Positions::Relative,
          .buckets = size_of(model, "buckets"),
          .layer_biases = is_set(model, "layer_biases"),
          .tied = is_set(model, "tied"),
          .scaled_head = is_set(model, "scaled_head")};
}

// norm_first: norms are of what attention and feed-forward read, with one more behind each stack. sines: positions are
// sines instead of a table; 2: the last wave is the slowest (Transformer::last_sine_slowest). decoder_positions: rows
// of the decoder's table. encoder_window: keys that a query of the encoder sees back, itself among them, and as many
// ahead (LED). unused_projections: see AttentionPart. source_vocab: rows of a word table of the encoder's own, in
// which case the decoder's is the head's, or neither is (tied=0; FSMT). encoder_seq: as T5's. gated: feed-forward
// layers have gates (Megatron-LM's T5).
std::int64_t positions_of(const ModelConfig& model, const std::string&) { return size_of(model, "positions"); }
std::int64_t longest_seq_of(const ModelConfig& model, const std::string&) {
  return std::max(model.seq, size_of(model, "encoder_seq"));
}

std::vector<SizeField> bart_sizes() {
  return with_core_sizes({derived_width("intermediate", four_times_hidden),
                          {.key = "decoder_layers", .maximum = kMaxLayers, .derived = layers_of},
                          width_or_none("encoder_seq"),
                          derived_width("positions", longest_seq_of),
                          derived_width("decoder_positions", positions_of),
                          {"position_offset", 1'000'000, 0, 0},
                          derived_width("decoder_intermediate", intermediate_of),
                          width_or_none("source_vocab"),
                          width_or_none("encoder_window"),
                          flag("unused_projections", 0),
                          {"sines", 2, 0, 0},
                          flag("norm_first", 0),
                          flag("embedding_norm", 1),
                          flag("decoder_norm_of_words", 0),
                          flag("relu", 0),
                          flag("silu", 0),
                          flag("gated", 0),
                          flag("tied", 1),
                          erf(1)});
}

Transformer bart(const ModelConfig& model) {
  const bool first = is_set(model, "norm_first"), sines = is_set(model, "sines");
  const Activation activation = is_set(model, "relu")   ? Activation::Relu
                                : is_set(model, "silu") ? Activation::Silu
                                                        : gelu_of(model);
  AttentionPart attention = own_heads(model, true);
  attention.unused_projections = is_set(model, "unused_projections");
  std::vector<LayerPart> encoder = equal_layers(model.layers);
  for (LayerPart& layer : encoder) layer.window = size_of(model, "encoder_window");
  return {.attention = attention,
          .feed_forward = {.width = size_of(model, "intermediate"),
                           .activation = activation,
                           .gated = is_set(model, "gated"),
                           .bias = true},
          .layers = equal_layers(size_of(model, "decoder_layers")),
          .encoder = encoder,
          .encoder_seq = size_of(model, "encoder_seq"),
          .encoder_words = size_of(model, "source_vocab"),
          .decoder_width = size_of(model, "decoder_intermediate"),
          .epsilon = model.factors.at("epsilon"),
          .norm_after = !first,
          .final_norm = first,
          .positions = sines ? Positions::Fixed : Positions::Learned,
          .position_rows = size_of(model, "positions") + size_of(model, "position_offset"),
          .first_position = size_of(model, "position_offset"),
          .decoder_position_rows = size_of(model, "decoder_positions") + size_of(model, "position_offset"),
          .last_sine_slowest = size_of(model, "sines") == 2,
          .embedding_norm = is_set(model, "embedding_norm"),
          .decoder_norm_of_words = is_set(model, "decoder_norm_of_words"),
          .tied = is_set(model, "tied"),
          .embed_scale = model.factors.at("embed_scale")};
}

// positions: those of the encoder, whose frames are twice as many.
std::vector<SizeField> speech_sizes() {
  return with_core_sizes({derived_width("intermediate", four_times_hidden),
                          {.key = "decoder_layers", .maximum = kMaxLayers, .derived = layers_of},
                          {"positions", 10'000'000},
                          {"mel", 100'000},
                          erf(1)});
}

}  // namespace

std::vector<Family> encoder_families() {
  constexpr DType kType = DType::BF16;
  return {
      {"bert",
       bert_sizes(),
       {epsilon(1e-12)},
       "bert:layers=2,hidden=64,heads=4,seq=32,vocab=128",
       kDefaultBatch,
       kType,
       build<bert>},
      {"t5",
       t5_sizes(),
       {epsilon(1e-6), {"capacity_factor", 1.0}},
       "t5:layers=2,hidden=64,heads=4,intermediate=128,seq=32,vocab=128",
       kDefaultBatch,
       kType,
       build<t5>},
      {"bart",
       bart_sizes(),
       {epsilon(1e-5), {"embed_scale", 1.0}},
       "bart:layers=2,hidden=64,heads=4,seq=32,vocab=128",
       kDefaultBatch,
       kType,
       build<bart>},
      {"speech",
       speech_sizes(),
       {epsilon(1e-5), {"embed_scale", 1.0}},
       "speech:layers=2,hidden=64,heads=4,seq=16,vocab=128,positions=32,mel=16",
       kDefaultBatch,
       kType,
       build_speech},
  };
}

}  // namespace meshwright
