// SPDX-License-Identifier: Apache-2.0
// The families of decoders: their keys, and what the keys make of them.
//
//   gpt2          learned positions (sines: fixed ones, as bart's), layer norm, biases; OPT's and GPT-Neo's variants
//   bloom         linear biases by distance, a norm of the embedding (BigScience, 2022); MPT
//   gpt_neox      partly rotated heads, attention and feed-forward side by side (S. Black et al., 2022)
//   llama         RMS norm, rotated heads, grouped queries, gated SiLU (H. Touvron et al., 2023); Mistral, Qwen2, Qwen3
//   mixtral       llama with a mixture of experts (A. Jiang et al., 2024); Qwen3-MoE, Llama 4, gpt-oss
//   decoder       llama with other norms, factors, and blocks side by side: Gemma, Phi, Falcon, Granite, OLMo 2, ...
//   decoder_moe   the same with a mixture of experts: GLM-4.5, MiniMax-M2; MiniMax-M3 with chosen blocks of keys
//   deepseek_v3   latent attention, sigmoid scores, a shared expert (DeepSeek-AI, 2024); DeepSeek-V3.2 with an indexer
#include <algorithm>

#include "core/graph/models/family_keys.h"

namespace meshwright {

namespace {

using namespace keys;

// --- keys ---

// A quarter of a head, in pairs.
std::int64_t quarter_of_head(const ModelConfig& model, const std::string& place) {
  return std::max<std::int64_t>(2, hidden_per_head(model, place) / 8 * 2);
}

std::vector<SizeField> gpt2_sizes() {
  return with_core_sizes({derived_width("intermediate", four_times_hidden),
                          {.key = "kv_heads", .maximum = kMaxHeads, .derived = heads_of},
                          derived_width("positions", seq_of),
                          {"position_offset", 1'000'000, 0, 0},
                          derived_width("word_embed", hidden_of),
                          width_or_none("window"),
                          {"first_window_layer", kMaxLayers, 0, 0},
                          {"full_every", kMaxLayers, 0, 0},
                          flag("relu", 0),
                          erf(0),
                          {"sines", 2, 0, 0},
                          flag("quick", 0),
                          flag("rms", 0),
                          {"more_words", 1'000'000, 0, 0},
                          flag("bias", 1),
                          {.key = "qkv_bias", .maximum = 1, .minimum = 0, .derived = bias_of},
                          flag("scaled", 1),
                          flag("post_norm", 0),
                          flag("final_norm", 1),
                          flag("head_bias", 0),
                          flag("tied", 1)});
}
std::vector<SizeField> bloom_sizes() {
  return with_core_sizes({erf(0), flag("bias", 1), flag("norm_bias", 1), flag("embedding_norm", 1), flag("tied", 1)});
}
std::vector<SizeField> gpt_neox_sizes() {
  return with_core_sizes({derived_width("intermediate", four_times_hidden),
                          derived_width("rotary_dims", quarter_of_head), erf(1), flag("parallel", 1), flag("bias", 1),
                          flag("last_out_bias", 0), flag("tied", 0)});
}
// windows: queries of the layers from first_window_layer on see `window` keys back, but those of every full_every-th of
// these layers.
std::vector<SizeField> llama_sizes() {
  return with_core_sizes({width("intermediate"),
                          {.key = "kv_heads", .maximum = kMaxHeads, .derived = heads_of},
                          derived_width("head_dim", hidden_per_head),
                          width_or_none("window"),
                          {"first_window_layer", kMaxLayers, 0, 0},
                          {"full_every", kMaxLayers, 0, 0},
                          flag("qkv_bias", 0),
                          flag("out_bias", 0),
                          flag("mlp_bias", 0),
                          flag("qk_norm", 0),
                          flag("gated", 1),
                          flag("relu", 0),
                          flag("gelu", 0),
                          erf(0),
                          flag("tied", 0)});
}
std::vector<SizeField> expert_sizes() {
  return {{"experts", 100'000},
          {"top_k", 100'000},
          derived_width("expert_intermediate", intermediate_of),
          width_or_none("shared_intermediate"),
          {"dense_layers", kMaxLayers, 0, 0},
          {"mixture_every", kMaxLayers, 1, 1},
          flag("normalized", 1)};
}
// Modules that predict further tokens.
SizeField further_tokens() { return {"mtp", 100, 0, 0}; }
// no_rotary_every: each of these layers has no positions; attention_chunk: in the others, a query sees the keys of its
// own chunk alone. temperature_every: see AttentionPart, with the factor temperature.
std::vector<SizeField> mixtral_sizes() {
  return with(with(llama_sizes(), expert_sizes()), {flag("shared_gate", 0),
                                                    flag("sigmoid", 0),
                                                    flag("router_bias", 0),
                                                    flag("expert_bias", 0),
                                                    flag("sinks", 0),
                                                    flag("clipped_gate", 0),
                                                    {"no_rotary_every", kMaxLayers, 0, 0},
                                                    width_or_none("attention_chunk"),
                                                    flag("plain_qk_norm", 0),
                                                    flag("weigh_inputs", 0),
                                                    {"temperature_every", kMaxWidth, 0, 0}});
}
// layer_norm: norms are RMS (0), or of layers with weights and a bias (1), with weights alone (2), or with neither (3),
// or RMS without weights (4).
// parallel: attention and feed-forward side by side, behind a norm each (1) or one for both (2). norms: of what they
// read (0), of what they make as well (1), or of that alone (2). rotary_dims: 0 rotates all of a head. capped: logits x
// become cap tanh(x / cap), with the factor logit_cap. capped_scores: so do scores, with score_cap. head_qk_norm:
// queries and keys have norms with weights for each head. bounded_qkv: queries, keys and values are held within the
// factor qkv_bound.
std::vector<SizeField> decoder_keys() {
  return {{"layer_norm", 4, 0, 0},          {"parallel", 2, 0, 0},      {"norms", 2, 0, 0},
          flag("wide_qk_norm", 0),          flag("qk_norm_rotated", 0), flag("head_bias", 0),
          {"rotary_dims", 1'000'000, 0, 0}, flag("relu_squared", 0),    flag("capped", 0),
          flag("head_qk_norm", 0),          flag("capped_scores", 0),   flag("bounded_qkv", 0),
          flag("rotary_windows_alone", 0)};
}
// inner_norms: of what all heads make, and of what the last product of a feed-forward layer reads. more_words: rows of
// the word table behind those that the head knows. post_norm: norms are of the residual sums. mlp_out_bias: a bias of
// the last product of a feed-forward layer alone. temperature_every, temperature_first and temper_rotated: see
// AttentionPart, with the factor temperature. causal=0: queries see the keys behind them as well (ModernBERT), as far
// ahead as windows reach back. bare_first: attention of the first layer reads the embedding itself. transformed_head:
// dense, activation and norm before the head, with a bias of the first (1) or without (2). encoder_layers: an encoder
// of such layers, which see all keys and have a word table of their own; the decoder's layers attend to what it makes.
std::vector<SizeField> decoder_sizes() {
  return with(with(llama_sizes(), decoder_keys()), {{"no_rotary_every", kMaxLayers, 0, 0},
                                                    flag("sinks", 0),
                                                    flag("plain_qk_norm", 0),
                                                    flag("inner_norms", 0),
                                                    {"more_words", 1'000'000, 0, 0},
                                                    {"temperature_every", kMaxWidth, 0, 0},
                                                    flag("temperature_first", 1),
                                                    flag("temper_rotated", 0),
                                                    flag("causal", 1),
                                                    flag("xielu", 0),
                                                    flag("embedding_norm", 0),
                                                    flag("bare_first", 0),
                                                    flag("post_norm", 0),
                                                    flag("mlp_out_bias", 0),
                                                    {"token_types", 1'000'000, 0, 0},
                                                    {"transformed_head", 2, 0, 0},
                                                    {"encoder_layers", kMaxLayers, 0, 0},
                                                    further_tokens()});
}
// value_dim: width of a head's values (0: head_dim), which are times the factor value_scale. window_heads and
// window_kv_heads: those of layers with windows, and window_rotary_dims (0: as the others); window_sinks: sinks in
// these alone. full_shift: so many layers are counted for full_every before the first one with a window; full_last: the
// last layer has none, whatever full_every says. head_gate: what a head makes is times the sigmoid of a product of the
// token (1), each of its numbers of one of its own (2), or either times the softplus instead (3, 4).
// rotary_first: so many layers rotate, whatever rotary_windows_alone says. averaged: the result is the mean of the
// routed experts' and the shared one's. index_blocks: so many blocks of index_block keys are what a query of a layer
// from index_first on reads, the last index_local ones in any case; 0: none are chosen.
std::vector<SizeField> decoder_moe_sizes() {
  return with(with(mixtral_sizes(), decoder_keys()), {flag("selection_bias", 0),
                                                      further_tokens(),
                                                      width_or_none("value_dim"),
                                                      {"window_heads", kMaxHeads, 0, 0},
                                                      {"window_kv_heads", kMaxHeads, 0, 0},
                                                      {"window_rotary_dims", 1'000'000, 0, 0},
                                                      flag("window_sinks", 0),
                                                      {"full_shift", kMaxLayers, 0, 0},
                                                      flag("full_last", 0),
                                                      {"head_gate", 4, 0, 0},
                                                      {"rotary_first", kMaxLayers, 0, 0},
                                                      flag("averaged", 0),
                                                      {"index_blocks", 1'000'000, 0, 0},
                                                      {"index_block", kMaxWidth, 1, 128},
                                                      {"index_local", 1'000'000, 0, 1},
                                                      {"index_dim", kMaxWidth, 2, 128},
                                                      {"index_first", kMaxLayers, 0, 0}});
}
// moe_norm: the result of a mixture has a norm. temperature_every: see AttentionPart, with the factor temperature.
// index_every, index_first: layers from index_first on read the keys that the layer before chose, but every
// index_every-th of them, which has an indexer as the first ones have. both_queries: see LatentPart; what heads make is
// times the sigmoid of a product of these. norm_gate: see Transformer's norm_gate_width.
std::vector<SizeField> deepseek_sizes() {
  return with(with(with_core_sizes({width("intermediate")}), expert_sizes()), {width_or_none("q_rank"),
                                                                               width("kv_rank"),
                                                                               width("nope_dim"),
                                                                               width("rope_dim"),
                                                                               width("value_dim"),
                                                                               {"index_heads", kMaxHeads, 0, 0},
                                                                               width_or_none("index_dim"),
                                                                               {"index_top_k", 10'000'000, 0, 0},
                                                                               {"index_first", kMaxLayers, 1, 1},
                                                                               {"index_every", kMaxLayers, 1, 1},
                                                                               flag("sigmoid", 1),
                                                                               flag("selection_bias", 1),
                                                                               flag("moe_norm", 0),
                                                                               flag("both_queries", 0),
                                                                               width_or_none("norm_gate"),
                                                                               {"temperature_every", kMaxWidth, 0, 0},
                                                                               further_tokens(),
                                                                               flag("tied", 0)});
}

std::vector<FactorField> rotated() { return {{"rotary_base", 10000.0}, epsilon(1e-5)}; }
std::vector<FactorField> rotated_mixture() {
  return {{"rotary_base", 10000.0}, epsilon(1e-5), {"capacity_factor", 1.0}, {"routed_scale", 1.0}};
}
std::vector<FactorField> tempered(std::vector<FactorField> factors) {
  factors.push_back({"temperature", 0.1});
  return factors;
}

std::vector<FactorField> with_stream_scales(std::vector<FactorField> factors) {
  for (const char* scale : {"embed_scale", "residual_scale", "logit_scale"}) factors.push_back({scale, 1.0});
  return factors;
}

std::vector<FactorField> with_further_tokens(std::vector<FactorField> factors) {
  factors.push_back({"mtp_weight", 0.3});
  return factors;
}

std::vector<FactorField> with_value_scale(std::vector<FactorField> factors) {
  factors.push_back({"value_scale", 1.0});
  return factors;
}

std::vector<FactorField> with_scales(std::vector<FactorField> factors) {
  for (const char* scale : {"embed_scale", "residual_scale", "attention_scale", "logit_scale"})
    factors.push_back({scale, 1.0});
  factors.push_back({"logit_cap", 30.0});
  factors.push_back({"score_cap", 50.0});
  factors.push_back({"qkv_bound", 8.0});
  factors.push_back({"window_rotary_base", 0.0, "rotary_base"});  // of the layers with windows
  return factors;
}

// --- what the keys make ---

// Every n-th layer, counted from 1; none for n = 0.
bool every(std::int64_t n, std::int64_t layer) { return n > 0 && (layer + 1) % n == 0; }

LayerPart layer_of(const ModelConfig& model, std::int64_t layer) {
  const std::int64_t first = size_of(model, "first_window_layer");
  const std::int64_t of_windows = layer - first + size_of(model, "full_shift");
  const bool full_last = is_set(model, "full_last") && layer == model.layers - 1;
  const bool windowed = layer >= first && !full_last && !every(size_of(model, "full_every"), of_windows);
  const bool rotary = !every(size_of(model, "no_rotary_every"), layer) &&
                      (windowed || !is_set(model, "rotary_windows_alone") || layer < size_of(model, "rotary_first"));
  return {.window = windowed ? size_of(model, "window") : 0,
          .chunk = rotary ? size_of(model, "attention_chunk") : 0,
          .rotary = rotary,
          .mixture = is_set(model, "experts") && layer >= size_of(model, "dense_layers") &&
                     every(size_of(model, "mixture_every"), layer)};
}

std::vector<LayerPart> layer_parts(const ModelConfig& model) {
  std::vector<LayerPart> parts;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) parts.push_back(layer_of(model, layer));
  return parts;
}

Transformer gpt2(const ModelConfig& model) {
  const bool bias = is_set(model, "bias");
  AttentionPart attention = own_heads(model, bias);
  attention.kv_heads = size_of(model, "kv_heads");
  attention.group = model.heads / attention.kv_heads;
  attention.qkv_bias = is_set(model, "qkv_bias");
  attention.scaled = is_set(model, "scaled");
  return {.attention = attention,
          .feed_forward = {.width = size_of(model, "intermediate"),
                           .activation = is_set(model, "relu")    ? Activation::Relu
                                         : is_set(model, "quick") ? Activation::QuickGelu
                                                                  : gelu_of(model),
                           .bias = bias},
          .layers = layer_parts(model),
          .norm = is_set(model, "rms") ? Norm::Rms : Norm::Layer,
          .epsilon = model.factors.at("epsilon"),
          .norm_after = is_set(model, "post_norm"),
          .final_norm = is_set(model, "final_norm"),
          .positions = is_set(model, "sines") ? Positions::Fixed : Positions::Learned,
          .position_rows = size_of(model, "positions") + size_of(model, "position_offset"),
          .first_position = size_of(model, "position_offset"),
          .last_sine_slowest = size_of(model, "sines") == 2,
          .word_embed = size_of(model, "word_embed"),
          .more_words = size_of(model, "more_words"),
          .tied = is_set(model, "tied"),
          .head_bias = is_set(model, "head_bias"),
          .embed_scale = model.factors.at("embed_scale")};
}

Transformer bloom(const ModelConfig& model) {
  const bool bias = is_set(model, "bias");
  return {.attention = own_heads(model, bias),
          .feed_forward = {.width = 4 * model.hidden, .activation = gelu_of(model), .bias = bias},
          .layers = equal_layers(model.layers),
          .norm_bias = is_set(model, "norm_bias"),
          .epsilon = model.factors.at("epsilon"),
          .positions = Positions::Alibi,
          .embedding_norm = is_set(model, "embedding_norm"),
          .tied = is_set(model, "tied")};
}

Transformer gpt_neox(const ModelConfig& model) {
  const bool bias = is_set(model, "bias");
  std::vector<LayerPart> layers = equal_layers(model.layers);
  layers.back().out_bias = is_set(model, "last_out_bias");
  return {.attention = own_heads(model, bias),
          .feed_forward = {.width = size_of(model, "intermediate"), .activation = gelu_of(model), .bias = bias},
          .layers = layers,
          .epsilon = model.factors.at("epsilon"),
          .parallel = is_set(model, "parallel"),
          .positions = Positions::Rotary,
          .rotary_base = model.factors.at("rotary_base"),
          .rotary_dims = size_of(model, "rotary_dims"),
          .tied = is_set(model, "tied")};
}

Transformer rotated_decoder(const ModelConfig& model) {
  Transformer made{.attention = {},
                   .feed_forward = {.width = size_of(model, "intermediate"),
                                    .activation = is_set(model, "gelu") ? gelu_of(model) : Activation::Silu,
                                    .gated = true,
                                    .bias = is_set(model, "mlp_bias")},
                   .layers = {},
                   .norm = Norm::Rms,
                   .epsilon = model.factors.at("epsilon"),
                   .positions = Positions::Rotary,
                   .rotary_base = model.factors.at("rotary_base"),
                   .tied = is_set(model, "tied")};
  made.layers = layer_parts(model);
  return made;
}

Transformer llama(const ModelConfig& model) {
  Transformer made = rotated_decoder(model);
  const std::int64_t kv_heads = size_of(model, "kv_heads");
  made.attention = {.kv_heads = kv_heads,
                    .group = model.heads / kv_heads,
                    .head_dim = size_of(model, "head_dim"),
                    .qkv_bias = is_set(model, "qkv_bias"),
                    .out_bias = is_set(model, "out_bias"),
                    .norm = is_set(model, "qk_norm")};
  made.feed_forward.gated = is_set(model, "gated");
  if (is_set(model, "relu")) made.feed_forward.activation = Activation::Relu;
  return made;
}

FurtherTokens further_tokens_of(const ModelConfig& model) {
  return {size_of(model, "mtp"), model.factors.at("mtp_weight")};
}

MixturePart experts_of(const ModelConfig& model) {
  return {.experts = size_of(model, "experts"),
          .top_k = size_of(model, "top_k"),
          .width = size_of(model, "expert_intermediate"),
          .shared_width = size_of(model, "shared_intermediate"),
          .capacity_factor = model.factors.at("capacity_factor"),
          .sigmoid = is_set(model, "sigmoid"),
          .normalize = is_set(model, "normalized"),
          .selection_bias = is_set(model, "selection_bias"),
          .router_bias = is_set(model, "router_bias"),
          .expert_bias = is_set(model, "expert_bias"),
          .scale = model.factors.at("routed_scale")};
}

Transformer mixtral(const ModelConfig& model) {
  Transformer made = llama(model);
  made.attention.sinks = is_set(model, "sinks");
  made.attention.plain_norm = is_set(model, "plain_qk_norm");
  made.attention.temperature_every = size_of(model, "temperature_every");
  made.attention.temperature = model.factors.at("temperature");
  if (is_set(model, "clipped_gate")) made.feed_forward.activation = Activation::ClippedSilu;
  made.mixture = experts_of(model);
  made.mixture->shared_gate = is_set(model, "shared_gate");
  made.mixture->weigh_inputs = is_set(model, "weigh_inputs");
  return made;
}

void apply_decoder_keys(Transformer& made, const ModelConfig& model) {
  using NormOf = Transformer::NormOf;
  constexpr NormOf kNorms[] = {NormOf::Input, NormOf::Both, NormOf::Result};
  constexpr std::int64_t kPlainRms = 4;
  const bool layer_norm = is_set(model, "layer_norm") && size_of(model, "layer_norm") != kPlainRms;
  made.norm = layer_norm ? Norm::Layer : Norm::Rms;
  made.norm_bias = size_of(model, "layer_norm") < 2;
  made.norm_weights = size_of(model, "layer_norm") < 3;
  made.norm_of = kNorms[size_of(model, "norms")];
  made.parallel = is_set(model, "parallel");
  made.one_norm = size_of(model, "parallel") == 2;
  made.rotary_dims = size_of(model, "rotary_dims");
  made.head_bias = is_set(model, "head_bias");
  made.attention.wide_norm = is_set(model, "wide_qk_norm");
  made.attention.norm_rotated = is_set(model, "qk_norm_rotated");
  made.attention.scale = model.factors.at("attention_scale");
  made.embed_scale = model.factors.at("embed_scale");
  made.residual_scale = model.factors.at("residual_scale");
  made.logit_scale = model.factors.at("logit_scale");
  if (is_set(model, "relu_squared")) made.feed_forward.activation = Activation::ReluSquared;
  if (is_set(model, "capped")) made.logit_cap = model.factors.at("logit_cap");
  if (is_set(model, "capped_scores")) made.attention.cap = model.factors.at("score_cap");
  made.attention.head_norm = is_set(model, "head_qk_norm");
  if (is_set(model, "bounded_qkv")) made.attention.qkv_bound = model.factors.at("qkv_bound");
  for (LayerPart& layer : made.layers)
    if (layer.window > 0) layer.rotary_base = model.factors.at("window_rotary_base");
}

Transformer decoder(const ModelConfig& model) {
  Transformer made = llama(model);
  apply_decoder_keys(made, model);
  made.attention.sinks = is_set(model, "sinks");
  made.attention.temperature_every = size_of(model, "temperature_every");
  made.attention.temperature_first = size_of(model, "temperature_first");
  made.attention.temper_rotated = is_set(model, "temper_rotated");
  made.attention.temperature = model.factors.at("temperature");
  made.attention.causal = is_set(model, "causal");
  made.attention.plain_norm = is_set(model, "plain_qk_norm");
  made.attention.out_norm = made.feed_forward.inner_norm = is_set(model, "inner_norms");
  made.more_words = size_of(model, "more_words");
  if (is_set(model, "xielu")) made.feed_forward.activation = Activation::Xielu;
  made.embedding_norm = is_set(model, "embedding_norm");
  made.layers.front().bare = is_set(model, "bare_first");
  made.norm_after = is_set(model, "post_norm");
  made.final_norm = !made.norm_after;
  made.feed_forward.out_bias = is_set(model, "mlp_out_bias");
  made.token_types = size_of(model, "token_types");
  made.transformed_head = is_set(model, "transformed_head");
  made.transform_bias = size_of(model, "transformed_head") == 1;
  if (const std::int64_t layers = size_of(model, "encoder_layers"); layers > 0) {
    made.encoder_words = model.vocab;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      made.encoder.push_back(layer_of(model, layer));
      LayerPart& made_layer = made.encoder.back();
      if (made_layer.window == 0) continue;
      ++made_layer.window;  // an encoder's windows do not count the query's own key
      made_layer.rotary_base = model.factors.at("window_rotary_base");
    }
  }
  made.further = further_tokens_of(model);
  return made;
}

Transformer decoder_moe(const ModelConfig& model) {
  Transformer made = mixtral(model);
  apply_decoder_keys(made, model);
  made.further = further_tokens_of(model);
  made.attention.value_dim = size_of(model, "value_dim");
  made.attention.value_scale = model.factors.at("value_scale");
  made.attention.window_sinks = is_set(model, "window_sinks");
  const std::int64_t gate = size_of(model, "head_gate");
  made.attention.head_gate = gate == 1 || gate == 3;
  made.attention.wide_gate = gate == 2 || gate == 4;
  made.attention.softplus_gate = gate >= 3;
  made.mixture->averaged = is_set(model, "averaged");
  for (LayerPart& layer : made.layers)
    if (layer.window > 0) layer.rotary_dims = size_of(model, "window_rotary_dims");
  if (is_set(model, "index_blocks")) {
    made.attention.block_index = BlockIndexPart{size_of(model, "index_dim"), size_of(model, "index_block"),
                                                size_of(model, "index_blocks"), size_of(model, "index_local")};
    for (std::int64_t layer = size_of(model, "index_first"); layer < model.layers; ++layer)
      made.layers[static_cast<std::size_t>(layer)].chooses_blocks = true;
  }
  const std::int64_t heads = size_of(model, "window_heads"), kv_heads = size_of(model, "window_kv_heads");
  if (heads > 0 || kv_heads > 0) {
    made.attention.window_kv_heads = kv_heads > 0 ? kv_heads : made.attention.kv_heads;
    made.attention.window_group = (heads > 0 ? heads : model.heads) / made.attention.window_kv_heads;
  }
  return made;
}

Transformer deepseek_v3(const ModelConfig& model) {
  Transformer made = rotated_decoder(model);
  const LatentPart latent{.q_rank = size_of(model, "q_rank"),
                          .kv_rank = size_of(model, "kv_rank"),
                          .nope = size_of(model, "nope_dim"),
                          .rope = size_of(model, "rope_dim"),
                          .value = size_of(model, "value_dim"),
                          .both_queries = is_set(model, "both_queries")};
  made.attention = {.kv_heads = model.heads, .group = 1, .head_dim = latent.nope + latent.rope, .latent = latent};
  made.attention.wide_gate = latent.both_queries;
  made.norm_gate_width = size_of(model, "norm_gate");
  made.attention.temperature_every = size_of(model, "temperature_every");
  made.attention.temperature_first = 0;
  made.attention.temperature = model.factors.at("temperature");
  made.embed_scale = model.factors.at("embed_scale");
  made.residual_scale = model.factors.at("residual_scale");
  made.logit_scale = model.factors.at("logit_scale");
  made.mixture = experts_of(model);
  made.mixture->result_norm = is_set(model, "moe_norm");
  if (is_set(model, "index_heads"))
    made.attention.index =
        IndexPart{size_of(model, "index_heads"), size_of(model, "index_dim"), size_of(model, "index_top_k")};
  const std::int64_t first = size_of(model, "index_first");
  for (std::int64_t layer = first; layer < model.layers; ++layer)
    made.layers[static_cast<std::size_t>(layer)].shares_index = !every(size_of(model, "index_every"), layer - first);
  made.further = further_tokens_of(model);
  return made;
}

}  // namespace

std::vector<Family> transformer_families() {
  constexpr DType kType = DType::BF16;
  return {
      {"gpt2",
       with_adapters(gpt2_sizes()),
       {epsilon(1e-5), {"embed_scale", 1.0}},
       "gpt2:layers=2,hidden=64,heads=4,seq=32,vocab=128",
       kDefaultBatch,
       kType,
       build<gpt2>},
      {"bloom",
       with_adapters(bloom_sizes()),
       {epsilon(1e-5)},
       "bloom:layers=2,hidden=64,heads=4,seq=32,vocab=128",
       kDefaultBatch,
       kType,
       build<bloom>},
      {"gpt_neox",
       with_adapters(gpt_neox_sizes()),
       {{"rotary_base", 10000.0}, epsilon(1e-5)},
       "gpt_neox:layers=2,hidden=64,heads=4,seq=32,vocab=128",
       kDefaultBatch,
       kType,
       build<gpt_neox>},
      {"llama", with_adapters(llama_sizes()), rotated(),
       "llama:layers=2,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=32,vocab=128", kDefaultBatch, kType,
       build<llama>},
      {"mixtral", with_adapters(mixtral_sizes()), tempered(rotated_mixture()),
       "mixtral:layers=2,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=32,vocab=128,experts=4,top_k=2",
       kDefaultBatch, kType, build<mixtral>},
      {"decoder", with_adapters(decoder_sizes()), with_further_tokens(with_scales(tempered(rotated()))),
       "decoder:layers=2,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=32,vocab=128,norms=1", kDefaultBatch, kType,
       build<decoder>},
      {"decoder_moe", with_adapters(decoder_moe_sizes()),
       with_value_scale(with_further_tokens(with_scales(tempered(rotated_mixture())))),
       "decoder_moe:layers=2,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=32,vocab=128,experts=4,top_k=2,"
       "rotary_dims=8",
       kDefaultBatch, kType, build<decoder_moe>},
      {"deepseek_v3", with_adapters(deepseek_sizes()),
       with_further_tokens(with_stream_scales(tempered(rotated_mixture()))),
       "deepseek_v3:layers=2,hidden=64,heads=4,intermediate=128,seq=32,vocab=128,experts=4,top_k=2,dense_layers=1,"
       "q_rank=32,kv_rank=16,nope_dim=16,rope_dim=8,value_dim=16",
       kDefaultBatch, kType, build<deepseek_v3>},
  };
}

}  // namespace meshwright
