// SPDX-License-Identifier: Apache-2.0
#include "launch/setup/decoder.h"

#include "core/base/errors.h"
#include "core/graph/models/families.h"

namespace meshwright {

namespace {

bool is_on(const ModelConfig& model, const char* key) { return size_of(model, key) != 0; }

double factor_of(const ModelConfig& model, const char* key, double otherwise) {
  const auto found = model.factors.find(key);
  return found == model.factors.end() ? otherwise : found->second;
}

Decoder sizes_of(const ModelConfig& model) {
  Decoder of;
  of.layers = model.layers;
  of.hidden = model.hidden;
  of.heads = of.kv_heads = model.heads;
  of.head_dim = model.hidden / model.heads;
  of.ffn = size_of(model, "intermediate");
  of.seq = model.seq;
  of.vocab = model.vocab;
  of.epsilon = factor_of(model, "epsilon", 1e-5);
  of.rotary_base = factor_of(model, "rotary_base", 10000.0);
  of.tied = is_on(model, "tied");
  of.rotary_scaling = model.rotary_scaling;
  const auto adapter = [&](const char* key) { return model.more.contains(key) ? size_of(model, key) : 0; };
  of.lora_rank = adapter("lora_rank");
  of.lora_targets = adapter("lora_targets");
  return of;
}

// GPT's blocks: layer norms, biases, an ungated feed-forward layer.
Decoder with_biases(const ModelConfig& model) {
  Decoder of = sizes_of(model);
  of.rms_norm = of.gated = false;
  of.bias = of.qkv_bias = true;
  of.activation = is_on(model, "erf") ? Decoder::Activation::GeluErf : Decoder::Activation::Gelu;
  return of;
}

Decoder gpt(const ModelConfig& model) {
  Decoder of = with_biases(model);
  of.ffn = 4 * model.hidden;
  of.tied = true;
  of.positions = Decoder::Positions::Absent;
  of.differences = {
      "this program's gpt has one bias of queries where the framework has three of queries, keys and values, a bias of "
      "the last product, and no norm in front of it"};
  return of;
}

Decoder gpt2(const ModelConfig& model) {
  Decoder of = with_biases(model);
  of.kv_heads = size_of(model, "kv_heads");
  of.positions = Decoder::Positions::Learned;
  of.position_rows = size_of(model, "positions") + size_of(model, "position_offset");
  if (is_on(model, "relu")) of.activation = Decoder::Activation::Relu;
  of.bias = of.qkv_bias = is_on(model, "bias");
  if (is_on(model, "post_norm")) of.unusual.emplace_back("norms after the residual sums");
  if (!is_on(model, "final_norm")) of.unusual.emplace_back("no norm after the last block");
  if (size_of(model, "word_embed") != model.hidden) of.unusual.emplace_back("a word table narrower than its blocks");
  if (is_on(model, "window")) of.unusual.emplace_back("attention windows in some layers alone");
  if (is_on(model, "qkv_bias") != of.bias) of.unusual.emplace_back("no biases of queries, keys and values");
  if (!is_on(model, "scaled")) of.unusual.emplace_back("scores that are not divided");
  if (is_on(model, "sines")) of.unusual.emplace_back("positions that are sines");
  if (is_on(model, "head_bias")) of.unusual.emplace_back("biases of the last product");
  if (is_on(model, "rms")) of.unusual.emplace_back("RMS norms in a model with biases");
  if (is_on(model, "quick")) of.unusual.emplace_back("a sigmoid in place of GELU");
  if (is_on(model, "more_words")) of.unusual.emplace_back("words that the head does not know");
  if (factor_of(model, "embed_scale", 1.0) != 1.0) of.unusual.emplace_back("a factor 'embed_scale'");
  return of;
}

Decoder bloom(const ModelConfig& model) {
  Decoder of = with_biases(model);
  of.ffn = 4 * model.hidden;
  of.positions = Decoder::Positions::Absent;
  of.bias = of.qkv_bias = is_on(model, "bias");
  of.unusual = {"attention biases by distance (ALiBi)"};
  if (is_on(model, "embedding_norm")) of.unusual.emplace_back("a norm of the embedding");
  if (!is_on(model, "norm_bias")) of.unusual.emplace_back("layer norms without a bias");
  return of;
}

Decoder gpt_neox(const ModelConfig& model) {
  Decoder of = with_biases(model);
  of.rotary_share = static_cast<double>(size_of(model, "rotary_dims")) / static_cast<double>(of.head_dim);
  if (is_on(model, "parallel")) of.unusual.emplace_back("attention and feed-forward side by side");
  of.bias = of.qkv_bias = is_on(model, "bias");
  if (is_on(model, "last_out_bias")) of.unusual.emplace_back("a bias of what the last layer's attention makes");
  return of;
}

Decoder llama(const ModelConfig& model) {
  Decoder of = sizes_of(model);
  of.kv_heads = size_of(model, "kv_heads");
  of.head_dim = size_of(model, "head_dim");
  of.gated = is_on(model, "gated");
  of.qk_norm = is_on(model, "qk_norm");
  of.qkv_bias = is_on(model, "qkv_bias");
  if (is_on(model, "relu"))
    of.activation = Decoder::Activation::Relu;
  else if (is_on(model, "gelu"))
    of.activation = is_on(model, "erf") ? Decoder::Activation::GeluErf : Decoder::Activation::Gelu;
  of.window = size_of(model, "window");
  const bool of_all = !is_on(model, "first_window_layer") && !is_on(model, "full_every") && !is_on(model, "full_last");
  if (of.window > 0 && !of_all) of.unusual.emplace_back("attention windows in some layers alone");
  if (is_on(model, "mlp_bias")) of.unusual.emplace_back("biases of the feed-forward layers");
  if (is_on(model, "out_bias"))
    of.unusual.emplace_back(is_on(model, "qkv_bias") ? "biases of all attention layers"
                                                     : "a bias of what attention makes, and none in it");
  return of;
}

Decoder::Experts experts_of(const ModelConfig& model) {
  return {.count = size_of(model, "experts"),
          .top_k = size_of(model, "top_k"),
          .ffn = size_of(model, "expert_intermediate"),
          .shared_ffn = size_of(model, "shared_intermediate"),
          .dense_layers = size_of(model, "dense_layers"),
          .every = size_of(model, "mixture_every"),
          .sigmoid = is_on(model, "sigmoid"),
          .normalized = is_on(model, "normalized"),
          .selection_bias = model.more.contains("selection_bias") && is_on(model, "selection_bias"),
          .scale = factor_of(model, "routed_scale", 1.0)};
}

void add_further_tokens(Decoder& of, const ModelConfig& model) {
  of.further = size_of(model, "mtp");
  of.further_weight = of.further > 0 ? model.factors.at("mtp_weight") : 0.0;
}

void say_capacity(Decoder& of, const ModelConfig& model) {
  of.differences.push_back(
      fmt::format("this program's experts take a fixed number of tokens each (capacity factor {:g}); the framework's "
                  "take what the router gives them, and the file asks for an even load where it can",
                  factor_of(model, "capacity_factor", 1.0)));
}

Decoder mixtral(const ModelConfig& model) {
  Decoder of = llama(model);
  of.experts = experts_of(model);
  say_capacity(of, model);
  if (is_on(model, "router_bias")) of.unusual.emplace_back("a bias of the router");
  if (is_on(model, "expert_bias")) of.unusual.emplace_back("biases of the experts");
  if (is_on(model, "shared_gate")) of.unusual.emplace_back("a gate of the shared expert");
  if (is_on(model, "clipped_gate")) of.unusual.emplace_back("clipped gates of the experts");
  if (is_on(model, "sinks")) of.unusual.emplace_back("attention sinks");
  if (is_on(model, "no_rotary_every")) of.unusual.emplace_back("layers without positions");
  if (is_on(model, "attention_chunk")) of.unusual.emplace_back("attention within chunks");
  if (is_on(model, "plain_qk_norm")) of.unusual.emplace_back("norms of rotated queries and keys");
  if (is_on(model, "temperature_every")) of.unusual.emplace_back("queries scaled by their positions");
  if (is_on(model, "weigh_inputs")) of.unusual.emplace_back("weights of what experts are given");
  return of;
}

Decoder deepseek(const ModelConfig& model) {
  Decoder of = sizes_of(model);
  of.latent = {.q_rank = size_of(model, "q_rank"),
               .kv_rank = size_of(model, "kv_rank"),
               .nope = size_of(model, "nope_dim"),
               .rope = size_of(model, "rope_dim"),
               .value = size_of(model, "value_dim")};
  of.head_dim = of.latent->nope + of.latent->rope;
  of.experts = experts_of(model);
  say_capacity(of, model);
  if (is_on(model, "index_heads")) of.unusual.emplace_back("an indexer that chooses keys (sparse attention)");
  if (is_on(model, "both_queries"))
    of.unusual.emplace_back("queries and gates of heads that read a vector and its norm");
  if (is_on(model, "norm_gate")) of.unusual.emplace_back("gates of what norms make");
  if (is_on(model, "moe_norm")) of.unusual.emplace_back("norms of what experts make");
  if (const std::int64_t every = size_of(model, "temperature_every"); every > 0 && every < model.seq)
    of.unusual.emplace_back("queries scaled by their positions");
  for (const char* scale : {"embed_scale", "residual_scale", "logit_scale"})
    if (factor_of(model, scale, 1.0) != 1.0) of.unusual.emplace_back(fmt::format("a factor '{}'", scale));
  add_further_tokens(of, model);
  return of;
}

// What the families decoder and decoder_moe have beside llama and mixtral.
void add_decoder_keys(Decoder& of, const ModelConfig& model) {
  if (const std::int64_t rotated = size_of(model, "rotary_dims"); rotated > 0)
    of.rotary_share = static_cast<double>(rotated) / static_cast<double>(of.head_dim);
  of.rms_norm = !is_on(model, "layer_norm") || size_of(model, "layer_norm") == 4;
  const auto unusual = [&](const char* key, const char* what) {
    if (is_on(model, key)) of.unusual.emplace_back(what);
  };
  if (size_of(model, "layer_norm") == 2) of.unusual.emplace_back("layer norms without a bias");
  if (size_of(model, "layer_norm") == 3) of.unusual.emplace_back("layer norms without weights");
  if (size_of(model, "layer_norm") == 4) of.unusual.emplace_back("RMS norms without weights");
  if (of.qk_norm) unusual("qk_norm_rotated", "norms of queries and keys behind their rotation");
  unusual("parallel", "attention and feed-forward side by side");
  unusual("norms", "norms of what attention and feed-forward make");
  unusual("wide_qk_norm", "norms of queries and keys over all heads at once");
  unusual("head_bias", "biases of the last product");
  unusual("relu_squared", "squared ReLU as the activation");
  unusual("capped", "a cap of the logits");
  unusual("capped_scores", "a cap of the scores");
  unusual("bounded_qkv", "bounds of queries, keys and values");
  unusual("head_qk_norm", "norms of queries and keys with weights of each head");
  for (const char* scale : {"embed_scale", "residual_scale", "attention_scale", "logit_scale"})
    if (factor_of(model, scale, 1.0) != 1.0) of.unusual.emplace_back(fmt::format("a factor '{}'", scale));
  if (is_on(model, "rotary_windows_alone"))
    of.unusual.emplace_back(model.more.contains("rotary_first") && is_on(model, "rotary_first")
                                ? "layers behind the first ones without positions"
                                : "layers without positions");
  if (of.window > 0 && factor_of(model, "window_rotary_base", of.rotary_base) != of.rotary_base)
    of.unusual.emplace_back("another base of the rotation in layers with windows");
}

Decoder decoder(const ModelConfig& model) {
  Decoder of = llama(model);
  add_decoder_keys(of, model);
  if (is_on(model, "sinks")) of.unusual.emplace_back("attention sinks");
  if (is_on(model, "no_rotary_every")) of.unusual.emplace_back("layers without positions");
  if (is_on(model, "plain_qk_norm")) of.unusual.emplace_back("norms of rotated queries and keys");
  if (is_on(model, "inner_norms")) of.unusual.emplace_back("norms inside attention and feed-forward");
  if (is_on(model, "more_words")) of.unusual.emplace_back("words that the head does not know");
  const std::int64_t every = size_of(model, "temperature_every");
  if (every > 0 && every < model.seq + size_of(model, "temperature_first"))
    of.unusual.emplace_back("queries scaled by their positions");
  if (is_on(model, "xielu")) of.unusual.emplace_back("xIELU as the activation");
  if (!is_on(model, "causal")) of.unusual.emplace_back("queries that see the keys behind them");
  if (is_on(model, "embedding_norm")) of.unusual.emplace_back("a norm of the embedding");
  if (is_on(model, "post_norm")) of.unusual.emplace_back("norms after the residual sums");
  if (is_on(model, "mlp_out_bias")) of.unusual.emplace_back("biases of the feed-forward layers' last product alone");
  if (is_on(model, "token_types")) of.unusual.emplace_back("types of tokens");
  if (is_on(model, "bare_first")) of.unusual.emplace_back("a first layer without a norm in front");
  if (is_on(model, "encoder_layers")) of.unusual.emplace_back("an encoder that its layers attend to");
  if (is_on(model, "transformed_head")) of.unusual.emplace_back("a dense layer and a norm before the head");
  add_further_tokens(of, model);
  return of;
}

Decoder decoder_moe(const ModelConfig& model) {
  Decoder of = mixtral(model);
  add_decoder_keys(of, model);
  add_further_tokens(of, model);
  for (const auto& [key, what] : {std::pair("value_dim", "values of another width than keys"),
                                  std::pair("window_sinks", "attention sinks in layers with windows"),
                                  std::pair("averaged", "means of routed experts and the shared one"),
                                  std::pair("head_gate", "a gate of each attention head")})
    if (is_on(model, key)) of.unusual.emplace_back(what);
  if (factor_of(model, "value_scale", 1.0) != 1.0) of.unusual.emplace_back("a factor 'value_scale'");
  for (const auto& [key, others] : {std::pair("window_heads", "heads"), std::pair("window_kv_heads", "kv_heads"),
                                    std::pair("window_rotary_dims", "rotary_dims")})
    if (of.window > 0 && is_on(model, key) && size_of(model, key) != size_of(model, others))
      of.unusual.emplace_back(fmt::format("layers with windows that have '{}' of their own", others));
  return of;
}

}  // namespace

bool Decoder::has_experts(std::int64_t layer) const {
  return experts && layer >= experts->dense_layers && (layer + 1) % experts->every == 0;
}

std::vector<std::string> plain_rotation_difference(const Decoder& decoder) {
  if (!decoder.rotary_scaling) return {};
  return {
      fmt::format("the model scales the rotation of its queries and keys ({}), which these files do not say; the "
                  "work is the same",
                  text_of(*decoder.rotary_scaling))};
}

Decoder decoder_of(const ModelConfig& model) {
  if (model.family == "gpt") return gpt(model);
  if (model.family == "gpt2") return gpt2(model);
  if (model.family == "bloom") return bloom(model);
  if (model.family == "gpt_neox") return gpt_neox(model);
  if (model.family == "llama") return llama(model);
  if (model.family == "mixtral") return mixtral(model);
  if (model.family == "decoder") return decoder(model);
  if (model.family == "decoder_moe") return decoder_moe(model);
  if (model.family == "deepseek_v3") return deepseek(model);
  throw InputError(fmt::format(
      "model {} of family {} is no stack of decoder blocks, and the frameworks' launch files describe these "
      "(gpt, gpt2, bloom, gpt_neox, llama, mixtral, decoder, decoder_moe, deepseek_v3); write --to jax or alpa, which "
      "take any.",
      model.name, model.family));
}

}  // namespace meshwright
