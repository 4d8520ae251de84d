// SPDX-License-Identifier: Apache-2.0
// Types that publishers' own programs define beside transformers (`trust_remote_code`), under their own members' names.
#include <utility>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_families.h"
#include "core/graph/import/hf/hf_parts.h"

namespace meshwright::hf {

namespace {

// Throws InputError unless the member is missing or this truth value.
void expect_flag(const HfReader& config, const char* key, bool only) {
  require(config.flag_or(key, only) == only, "{}: '{}' is {}, which is not supported for this family; {} is.",
          config.place(), key, !only, only);
}

// Members that change nothing of a training step of the file's own length.
void pass_over(const HfReader& config, std::initializer_list<const char*> keys) {
  for (const char* key : keys) (void)config.has(key);
}

// The width of a gated layer, of a file that counts gates and ups together.
std::int64_t half_width(const HfReader& config, const char* key, std::int64_t both) {
  require(both % 2 == 0, "{}: '{}' is {}, which gates and ups do not share equally; an even number was expected.",
          config.place(), key, both);
  return both / 2;
}

}  // namespace

// Qwen 1: Llama with biases of queries, keys and values.
ModelConfig read_qwen(const HfReader& config) {
  ModelConfig model =
      made("llama",
           Core{config.size({"num_hidden_layers"}), config.size({"hidden_size"}), config.size({"num_attention_heads"}),
                config.size({"seq_length", "max_position_embeddings"}), config.size({"vocab_size"})});
  set(model, "kv_heads", model.heads);
  if (config.has("kv_channels")) set(model, "head_dim", config.size({"kv_channels"}));
  set(model, "intermediate", half_width(config, "intermediate_size", config.size({"intermediate_size"})));
  const bool bias = !config.flag_or("no_bias", true);
  set(model, "qkv_bias", 1);
  for (const char* key : {"out_bias", "mlp_bias"}) set(model, key, bias);
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  require(config.positive_or("rotary_pct", 1.0) == 1.0, "{}: 'rotary_pct' is {}, which is not supported; 1 is.",
          config.place(), config.positive_or("rotary_pct", 1.0));
  expect_flag(config, "scale_attn_weights", true);
  model.factors["rotary_base"] = config.positive_or("rotary_emb_base", 10000.0);
  set_epsilon(model, config, "layer_norm_epsilon", 1e-6);
  pass_over(config, {"max_position_embeddings", "use_dynamic_ntk", "use_logn_attn", "use_flash_attn", "bf16", "fp16",
                     "fp32", "onnx_safe"});
  return model;
}

// Baichuan: Llama where the file counts positions. The larger models count the tokenizer's alone, and have biases by
// distance.
ModelConfig read_baichuan(const HfReader& config) {
  require(
      config.has("max_position_embeddings"),
      "{}: 'max_position_embeddings' is missing, as in Baichuan's models of 13 billion parameters, whose scores have "
      "biases by distance beside gated layers; these are not supported.",
      config.place());
  ModelConfig model = read_decoder("llama", config);
  pass_over(config, {"model_max_length"});
  return model;
}

// ChatGLM 2 and 3, and GLM-4 before transformers had it: GLM under Megatron's names.
ModelConfig read_chatglm(const HfReader& config) {
  ModelConfig model = made(
      "decoder", Core{config.size({"num_layers"}), config.size({"hidden_size"}), config.size({"num_attention_heads"}),
                      config.size({"seq_length"}), config.size({"padded_vocab_size"})});
  const std::int64_t groups = config.size_or({"multi_query_group_num"}, 1);
  set(model, "kv_heads", config.flag_or("multi_query_attention", false) ? groups : model.heads);
  set(model, "head_dim", config.size_or({"kv_channels"}, head_of(model)));
  set(model, "intermediate", config.size({"ffn_hidden_size"}));
  const bool bias = config.flag_or("add_bias_linear", false);
  set(model, "qkv_bias", bias || config.flag_or("add_qkv_bias", false));
  for (const char* key : {"out_bias", "mlp_bias"}) set(model, key, bias);
  expect_flag(config, "rmsnorm", true);
  expect_flag(config, "post_layer_norm", true);
  expect_flag(config, "apply_residual_connection_post_layernorm", false);
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  set(model, "rotary_dims", head_of(model) / 2);
  model.factors["rotary_base"] = 10000.0 * config.positive_or("rope_ratio", 1.0);
  set_epsilon(model, config, "layernorm_epsilon", 1e-5);
  pass_over(config, {"vocab_size", "original_rope", "apply_query_key_layer_scaling", "attention_softmax_in_fp32",
                     "fp32_residual_connection", "bias_dropout_fusion", "interleaved_qkv", "rope_ratio"});
  return model;
}

// DeepSeekMoE 16B: all heads, experts by the softmax of their scores, and shared ones.
ModelConfig read_deepseek(const HfReader& config) {
  ModelConfig model = read_decoder("decoder_moe", config);
  set_attention_bias(model, config, false);
  const std::int64_t width = config.size({"moe_intermediate_size"});
  set_experts(model, config.size({"n_routed_experts"}), config.size({"num_experts_per_tok"}), width);
  set(model, "shared_intermediate", width * config.size_or({"n_shared_experts"}, 0, 0));
  set(model, "dense_layers", config.size_or({"first_k_dense_replace"}, 0, 0));
  set(model, "mixture_every", config.size_or({"moe_layer_freq"}, 1));
  set(model, "normalized", config.flag_or("norm_topk_prob", false));
  expect_text(config, "scoring_func", "softmax");
  return model;
}

// Orion: Llama with layer norms that have a bias.
ModelConfig read_orion(const HfReader& config) {
  ModelConfig model = read_decoder("decoder", config, 1e-5);
  set_attention_bias(model, config, false);
  set(model, "layer_norm", 1);
  return model;
}

// Grok 1: norms on both sides, capped scores, gates of GELU, and weights of experts that do not add up to 1.
ModelConfig read_grok(const HfReader& config) {
  ModelConfig model = read_decoder("decoder_moe", config, 1e-5);
  set(model, "gelu", 1);
  set(model, "norms", 1);
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  model.factors["embed_scale"] = config.positive_or("embedding_multiplier_scale", 1.0);
  model.factors["logit_scale"] = config.positive_or("output_multiplier_scale", 1.0);
  if (config.has("attn_output_multiplier")) set_score_scale(model, config.positive_or("attn_output_multiplier", 1.0));
  set(model, "capped_scores", config.has("max_attn_value"));
  if (config.has("max_attn_value")) model.factors["score_cap"] = config.positive_or("max_attn_value", 30.0);
  set_experts(model, config.size({"num_experts"}), config.size({"num_experts_per_tok", "num_selected_experts"}),
              config.size({"intermediate_size"}));
  set(model, "normalized", 0);
  return model;
}

// OLMo 1 before transformers had it, under the names of its own trainer.
ModelConfig read_hf_olmo(const HfReader& config) {
  const std::int64_t words = config.size({"vocab_size"}), rows = config.size_or({"embedding_size"}, words);
  ModelConfig model = made("decoder", Core{config.size({"n_layers"}), config.size({"d_model"}),
                                           config.size({"n_heads"}), config.size({"max_sequence_length"}), rows});
  set(model, "kv_heads",
      config.size_or({"n_kv_heads"}, config.flag_or("multi_query_attention", false) ? 1 : model.heads));
  const std::int64_t both = config.size_or({"mlp_hidden_size"}, config.size_or({"mlp_ratio"}, 4) * model.hidden);
  set(model, "intermediate", half_width(config, "mlp_hidden_size", both));
  expect_text(config, "activation_type", "swiglu");
  expect_text(config, "block_type", "sequential");
  expect_flag(config, "rope", true);
  expect_flag(config, "alibi", false);
  expect_flag(config, "include_bias", false);
  expect_flag(config, "attention_layer_norm", false);
  const std::string norm = config.text_or("layer_norm_type", "default");
  const bool weights = config.flag_or("layer_norm_with_affine", true);
  require(norm == "default" || norm == "rms", "{}: 'layer_norm_type' is \"{}\"; \"default\" or \"rms\" was expected.",
          config.place(), norm);
  set(model, "layer_norm",
      norm == "rms"                                  ? (weights ? 0 : 4)
      : !weights                                     ? 3
      : config.flag_or("bias_for_layer_norm", false) ? 1
                                                     : 2);
  set(model, "tied", config.flag_or("weight_tying", true));
  model.factors["rotary_base"] = config.positive_or("rope_theta", 10000.0);
  set_epsilon(model, config, "layer_norm_eps", 1e-5);
  set_qkv_bound(model, config);
  pass_over(config, {"mlp_ratio", "multi_query_attention", "bias_for_layer_norm", "flash_attention", "scale_logits",
                     "rope_full_precision"});
  expect_flag(config, "scale_logits", false);
  return model;
}

// Kolibri: Qwen3's attention, positions in layers with windows alone, norms on both sides, and DeepSeek's routing.
ModelConfig read_kolibri(const HfReader& config) {
  ModelConfig model = made("decoder_moe", config);
  set(model, "kv_heads", config.size_or({"num_key_value_heads"}, 4));
  set(model, "head_dim", config.size_or({"head_dim"}, 128));
  (void)one_of(config, "hidden_act", "silu", {Act::Silu});
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  read_rotation(model, config, 1e-6);
  for (const char* key : {"qk_norm", "norms", "sigmoid", "selection_bias"}) set(model, key, 1);
  read_windows(model, config, config.size_or({"sliding_window"}, 513), 5);
  set(model, "rotary_windows_alone", model.more["window"] > 0);
  const std::int64_t width = config.size({"moe_intermediate_size"});
  set_experts(model, config.size({"num_experts", "num_local_experts"}), config.size({"num_experts_per_tok"}), width);
  set(model, "intermediate", width);  // no layer is dense
  set(model, "shared_intermediate", config.size_or({"shared_expert_intermediate_size"}, 512, 0));
  set(model, "normalized", config.flag_or("norm_topk_prob", false));
  return model;
}

// The text model of Molmo 2: Qwen 3's or OLMo 2's layers, and words of images that the head does not know.
ModelConfig read_molmo2(const HfReader& config) {
  if (auto text = read_text_part(config, "molmo2", read_molmo2)) return *std::move(text);
  ModelConfig model = read_decoder("decoder", config);
  if (config.has("layer_norm_eps")) set_epsilon(model, config, "layer_norm_eps", 1e-6);
  set(model, "qkv_bias", config.flag_or(config.has("qkv_bias") ? "qkv_bias" : "attention_bias", false));
  const std::string norm = config.text_or("qk_norm_type", "qwen3");
  require(norm == "qwen3" || norm == "olmo", "{}: 'qk_norm_type' is \"{}\"; \"qwen3\" or \"olmo\" was expected.",
          config.place(), norm);
  expect_flag(config, "use_qk_norm", true);
  set(model, norm == "olmo" ? "wide_qk_norm" : "qk_norm", 1);
  set(model, "norms", config.flag_or("norm_after", false) ? 2 : 0);
  set(model, "more_words", config.size_or({"additional_vocab_size"}, 128, 0));
  return model;
}

}  // namespace meshwright::hf
