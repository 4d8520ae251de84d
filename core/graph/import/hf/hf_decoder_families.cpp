// SPDX-License-Identifier: Apache-2.0
// Decoders with rotated heads: Llama and its like, and those with other norms, factors, and blocks side by side.
#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_families.h"
#include "core/graph/import/hf/hf_parts.h"

namespace meshwright::hf {

ModelConfig read_llama(const HfReader& config) {
  ModelConfig model = read_decoder("llama", config);
  set_attention_bias(model, config, false);
  return model;
}

ModelConfig read_mistral(const HfReader& config) {
  ModelConfig model = read_decoder("llama", config);
  set(model, "window", config.size_or({"sliding_window"}, 0));
  return model;
}

ModelConfig read_qwen2(const HfReader& config) {
  ModelConfig model = read_decoder("llama", config);
  set(model, "qkv_bias", 1);
  read_qwen_window(model, config);
  return model;
}

// MiMo-7B: Qwen2 with a module for a further token.
ModelConfig read_mimo(const HfReader& config) {
  ModelConfig model = read_qwen2(config);
  model.family = "decoder";
  set(model, "qkv_bias", config.flag_or("attention_bias", true));
  config.refuse("use_mrope");
  set(model, "mtp", config.size_or({"num_nextn_predict_layers"}, 0, 0));
  return model;
}

ModelConfig read_qwen3(const HfReader& config) { return read_qwen3_decoder("llama", config); }

// Phi-1 to Phi-2: side by side behind one norm, biases everywhere.
ModelConfig read_phi(const HfReader& config) {
  ModelConfig model = made_with_groups("decoder", config);
  set(model, "qk_norm", config.flag_or("qk_layernorm", false));
  set(model, "gelu", 1);
  set_activation(model, config, "hidden_act", "gelu_new", {Act::Gelu, Act::GeluErf});
  for (const char* key : {"qkv_bias", "out_bias", "mlp_bias", "head_bias", "layer_norm"}) set(model, key, 1);
  set(model, "gated", 0);
  set(model, "parallel", 2);
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  read_rotation(model, config, 1e-5);
  set_epsilon(model, config, "layer_norm_eps", 1e-5);
  set_rotated_share(model, config, "partial_rotary_factor", 0.5);
  return model;
}

ModelConfig read_phi3(const HfReader& config) {
  ModelConfig model = read_decoder("decoder", config, 1e-5);
  set(model, "window", config.size_or({"sliding_window"}, 0));
  set_rotated_share(model, config, "partial_rotary_factor", 1.0);
  return model;
}

// Falcon-7B has one key and value head and one norm, the larger ones groups and two; side by side in both.
ModelConfig read_falcon(const HfReader& config) {
  config.refuse("alibi");
  const std::int64_t positions = config.size_or({"max_position_embeddings"}, 2048);
  ModelConfig model =
      made("decoder", Core{config.size({"num_hidden_layers", "n_layer"}), config.size({"hidden_size"}),
                           config.size({"num_attention_heads", "n_head"}), positions, config.size({"vocab_size"})});
  // Published before transformers had the family, the larger model says of its layers what its type says.
  const bool groups =
      config.flag_or("new_decoder_architecture", config.text_or("model_type", "falcon") == "RefinedWeb");
  const bool parallel = groups || config.flag_or("parallel_attn", true);
  const std::int64_t norms = config.size_or({"num_ln_in_parallel_attn"}, groups ? 2 : 1);
  require(norms <= 2, "{}: 'num_ln_in_parallel_attn' is {}, which is not supported; 1 and 2 are.", config.place(),
          norms);
  set(model, "intermediate", config.size_or({"ffn_hidden_size"}, 4 * model.hidden));
  const std::int64_t heads = config.size_or({"num_kv_heads", "n_head_kv"}, model.heads);
  set(model, "kv_heads", groups ? heads : config.flag_or("multi_query", true) ? 1 : model.heads);
  set(model, "gelu", 1);
  set_activation(model, config, "activation", "gelu", {Act::Gelu, Act::GeluErf});
  for (const char* key : {"qkv_bias", "out_bias", "mlp_bias"}) set(model, key, config.flag_or("bias", false));
  set(model, "layer_norm", 1);
  set(model, "gated", 0);
  set(model, "parallel", !parallel ? 0 : norms == 1 ? 2 : 1);
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  read_rotation(model, config, 1e-5);
  set_epsilon(model, config, "layer_norm_epsilon", 1e-5);
  return model;
}

ModelConfig read_gptj(const HfReader& config) {
  const std::int64_t positions = config.size({"n_positions", "n_ctx"});
  ModelConfig model = made("decoder", Core{config.size({"n_layer"}), config.size({"n_embd"}), config.size({"n_head"}),
                                           positions, config.size({"vocab_size"})});
  set(model, "intermediate", config.size_or({"n_inner"}, 4 * model.hidden));
  set(model, "gelu", 1);
  set_activation(model, config, "activation_function", "gelu_new", {Act::Gelu, Act::GeluErf});
  for (const char* key : {"mlp_bias", "head_bias", "layer_norm"}) set(model, key, 1);
  set(model, "gated", 0);
  set(model, "parallel", 2);
  set(model, "rotary_dims", config.size_or({"rotary_dim"}, 64));
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  set_epsilon(model, config, "layer_norm_epsilon", 1e-5);
  return model;
}

ModelConfig read_starcoder2(const HfReader& config) {
  ModelConfig model = made_with_groups("decoder", config);
  set(model, "gelu", 1);
  set_activation(model, config, "hidden_act", "gelu_pytorch_tanh", {Act::Gelu, Act::GeluErf});
  for (const char* key : {"qkv_bias", "out_bias", "mlp_bias"}) set(model, key, config.flag_or("use_bias", true));
  set(model, "layer_norm", 1);
  set(model, "gated", 0);
  set(model, "window", config.size_or({"sliding_window"}, 0));
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  read_rotation(model, config, 1e-5);
  set_epsilon(model, config, "norm_epsilon", 1e-5);
  return model;
}

ModelConfig read_stablelm(const HfReader& config) {
  const bool own = config.text_or("model_type", "stablelm") == "stablelm_epoch";  // its publisher's names
  ModelConfig model = read_decoder("decoder", config);
  set(model, "head_qk_norm", config.flag_or("qk_layernorm", false));
  set(model, "qkv_bias", config.flag_or("use_qkv_bias", false));
  set(model, "layer_norm", 1);
  set(model, "parallel", config.flag_or("use_parallel_residual", false) ? 2 : 0);
  set_epsilon(model, config, own ? "norm_eps" : "layer_norm_eps", 1e-5);
  set_rotated_share(model, config, own ? "rope_pct" : "partial_rotary_factor", 0.25);
  if (own)
    require(config.size_or({"num_heads"}, model.heads) == model.heads,
            "{}: 'num_heads' is {}, but 'num_attention_heads' is {}; check the sizes.", config.place(),
            config.size_or({"num_heads"}, model.heads), model.heads);
  return model;
}

namespace {

// An ungated feed-forward layer of squared ReLU.
ModelConfig read_relu_squared(const HfReader& config, const char* epsilon, bool bias) {
  ModelConfig model = made_with_groups("decoder", config);
  if (config.has("head_dim")) set(model, "head_dim", config.size({"head_dim"}));
  (void)one_of(config, "hidden_act", "relu2", {Act::ReluSquared});
  set(model, "relu_squared", 1);
  set(model, "gated", 0);
  set_attention_bias(model, config, bias);
  set(model, "mlp_bias", config.flag_or("mlp_bias", bias));
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  set_rotary_base(model, config, "rope_theta");
  set_epsilon(model, config, epsilon, 1e-5);
  return model;
}

}  // namespace

ModelConfig read_arcee(const HfReader& config) { return read_relu_squared(config, "rms_norm_eps", false); }

// The text model of Cosmos 3 Edge, which turns positions of images by axes of their own, and those of a text as one.
ModelConfig read_cosmos3_edge_text(const HfReader& config) {
  ModelConfig model = read_relu_squared(config, "rms_norm_eps", false);
  if (!config.has("rope_theta") && !config.has("rope_parameters")) model.factors["rotary_base"] = 1e8;
  return model;
}

// BitNet b1.58, trained without rounding its weights: a gated feed-forward layer of squared ReLU, and norms in front of
// the last product of attention and of the feed-forward layer.
ModelConfig read_bitnet(const HfReader& config) {
  ModelConfig model = read_relu_squared(config, "rms_norm_eps", false);
  set(model, "gated", 1);
  set(model, "inner_norms", 1);
  return model;
}

// RMS norms without weights, also of the embedding and of rotated queries and keys, and a cap of the logits.
ModelConfig read_nanochat(const HfReader& config) {
  ModelConfig model = read_relu_squared(config, "rms_norm_eps", false);
  constexpr std::int64_t kPlainRms = 4;
  set(model, "layer_norm", kPlainRms);
  set(model, "plain_qk_norm", 1);
  set(model, "embedding_norm", 1);
  if (!config.has("rms_norm_eps")) model.factors["epsilon"] = 1e-6;
  set(model, "capped", config.has("final_logit_softcapping"));
  model.factors["logit_cap"] = config.positive_or("final_logit_softcapping", 15.0);
  return model;
}

// Its norms weigh by 1 + w, which is as many weights and as much work. Half of each head is rotated.
ModelConfig read_nemotron(const HfReader& config) {
  ModelConfig model = read_relu_squared(config, "norm_eps", false);
  set(model, "layer_norm", 1);
  set_rotated_share(model, config, "partial_rotary_factor", 0.5);
  return model;
}

ModelConfig read_jais2(const HfReader& config) {
  ModelConfig model = read_relu_squared(config, "layer_norm_eps", true);
  set(model, "layer_norm", 1);
  return model;
}

// OLMo 1: layer norms without weights.
ModelConfig read_olmo(const HfReader& config) {
  ModelConfig model = read_decoder("decoder", config);
  set_qkv_bound(model, config);
  set_attention_bias(model, config, false);
  set(model, "layer_norm", 3);
  model.factors["epsilon"] = 1e-5;
  return model;
}

// Apertus: an ungated feed-forward layer, and norms of queries and keys.
ModelConfig read_apertus(const HfReader& config) {
  ModelConfig model = made_with_groups("decoder", config);
  if (config.has("head_dim")) set(model, "head_dim", config.size({"head_dim"}));
  expect_text(config, "hidden_act", "xielu");
  config.refuse("mlp_bias");
  config.refuse("post_norm");
  require(config.flag_or("qk_norm", true), "{}: 'qk_norm' is false, which is not supported; true is.", config.place());
  set(model, "xielu", 1);
  set(model, "gated", 0);
  set(model, "qk_norm", 1);
  set_attention_bias(model, config, false);
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  read_rotation(model, config, 1e-5);
  return model;
}

// Apertus 1.5's text: rows of the word table that stand for images and sounds may be unknown to the head.
ModelConfig read_apertus1p5_text(const HfReader& config) {
  ModelConfig model = read_apertus(config);
  const std::int64_t known = config.size_or({"output_vocab_size"}, model.vocab);
  require(known <= model.vocab, "{}: 'output_vocab_size' is {}, which is more than the {} words.", config.place(),
          known, model.vocab);
  require(known == model.vocab || model.more["tied"] == 0,
          "{}: 'tie_word_embeddings' is true, but the head has {} of the {} words; false was expected.", config.place(),
          known, model.vocab);
  set(model, "more_words", model.vocab - known);
  model.vocab = known;
  return model;
}

// Norms of queries and keys over each head, with a bias.
ModelConfig read_persimmon(const HfReader& config) {
  ModelConfig model = read_relu_squared(config, "layer_norm_eps", true);
  set(model, "layer_norm", 1);
  set(model, "qk_norm", config.flag_or("qk_layernorm", true));
  set_rotated_share(model, config, "partial_rotary_factor", 0.5);
  if (!config.has("rope_theta") && !config.has("rope_parameters")) model.factors["rotary_base"] = 25000.0;
  return model;
}

// Command R: side by side behind one norm, which has no bias. The norms of queries and keys have weights for each head.
ModelConfig read_cohere(const HfReader& config) {
  ModelConfig model = read_decoder("decoder", config);
  set_attention_bias(model, config, false);
  set_epsilon(model, config, "layer_norm_eps", 1e-5);
  set(model, "layer_norm", 2);
  set(model, "parallel", 2);
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  set(model, "head_qk_norm", config.flag_or("use_qk_norm", false));
  model.factors["logit_scale"] = config.positive_or("logit_scale", 0.0625);
  return model;
}

// Command R7B and A: three layers of windows, then one that sees all keys and has no positions.
ModelConfig read_cohere2(const HfReader& config) {
  ModelConfig model = read_cohere(config);
  read_windows(model, config, config.size_or({"sliding_window"}, 4096), config.size_or({"sliding_window_pattern"}, 4));
  set(model, "no_rotary_every", model.more["full_every"]);
  return model;
}

// Cohere Compass: layers of a kind for which `rope_parameters` have no entry have no positions. Vectors of images are
// added to what layers make, not to a text's.
ModelConfig read_cohere_compass(const HfReader& config) {
  ModelConfig model = read_cohere(config);
  if (!config.has("logit_scale")) model.factors["logit_scale"] = 1.0;
  (void)config.has("pooling");  // of embeddings
  const std::int64_t window = config.size_or({"sliding_window"}, 4096);
  if (config.has("layer_types")) {
    set(model, "window", window);
    read_layer_types(model, config);
  }
  const bool windows = config.has("layer_types") && model.more["first_window_layer"] < model.layers;
  const bool all = windows && model.more["full_every"] == 0 && model.more["first_window_layer"] == 0;
  if (!windows) set(model, "window", 0);
  const HfReader rotations = config.part_or_empty("rope_parameters");
  const bool in_windows = rotations.has("sliding_attention"), in_full = rotations.has("full_attention");
  if (!in_windows && !in_full) return model;  // one for all layers
  require(windows ? in_windows : in_full,
          "{}: 'rope_parameters' have no \"{}_attention\", but layers of that kind, which is not supported.",
          config.place(), windows ? "sliding" : "full");
  set(model, "rotary_windows_alone", windows && !all && !in_full);
  return model;
}

// Norms of what attention and feed-forward make, and of all queries and keys at once.
ModelConfig read_olmo2(const HfReader& config) {
  ModelConfig model = read_decoder("decoder", config, 1e-5);
  set_attention_bias(model, config, false);
  set(model, "norms", 2);
  set(model, "wide_qk_norm", 1);
  return model;
}

// Every fourth layer has no positions.
ModelConfig read_smollm3(const HfReader& config) {
  ModelConfig model = read_decoder("decoder", config);
  set_attention_bias(model, config, false);
  read_qwen_window(model, config);
  read_no_rotary(model, config, 4);
  return model;
}

}  // namespace meshwright::hf
