// SPDX-License-Identifier: Apache-2.0
// Encoders of masked words beside BERT's own: with other positions, windows, gates or heads.
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_families.h"
#include "core/graph/import/hf/hf_parts.h"

namespace meshwright::hf {

// BERT with T5's biases by distance, one table for all layers, and RoBERTa's positions.
ModelConfig read_mpnet(const HfReader& config) {
  ModelConfig model = read_roberta(config);
  set(model, "token_types", 0);
  set(model, "buckets", config.size_or({"relative_attention_num_buckets"}, 32));
  return model;
}

// ESM-2, of proteins: rotated heads, norms in front, and a masked-word head. Files of models that zero masked tokens
// scale all others by what that leaves of them in training; a batch's own share of masked ones is not counted.
ModelConfig read_esm(const HfReader& config) {
  config.refuse("is_decoder");
  config.refuse("add_cross_attention");
  config.refuse("is_folding_model");
  const std::string positions = config.text_or("position_embedding_type", "absolute");
  require(positions == "rotary",
          "{}: 'position_embedding_type' is \"{}\", which is not supported for this family; \"rotary\" is.",
          config.place(), positions);
  expect_tied(config);
  ModelConfig model = made("decoder", config);
  set(model, "intermediate", config.size({"intermediate_size"}));
  for (const char* key : {"gelu", "erf", "layer_norm", "head_bias", "transformed_head"}) set(model, key, 1);
  for (const char* key : {"gated", "causal"}) set(model, key, 0);
  set_all_biases(model, true);
  set(model, "embedding_norm", config.flag_or("emb_layer_norm_before", false));
  set(model, "tied", 1);
  set_rotary_base(model, config, "rope_theta");
  set_epsilon(model, config, "layer_norm_eps", 1e-12);
  constexpr double kMasked = 0.15 * 0.8;
  if (config.aside("token_dropout") == true) model.factors["embed_scale"] = 1.0 - kMasked;
  return model;
}

// Nomic's BERT: rotated heads and gates, without biases but of the norms and the head.
ModelConfig read_nomic_bert(const HfReader& config) {
  ModelConfig model = made(
      "decoder", Core{config.size({"num_hidden_layers", "n_layer"}), config.size({"hidden_size", "n_embd"}),
                      config.size({"num_attention_heads", "n_head"}),
                      config.size_or({"max_position_embeddings", "n_positions"}, 2048), config.size({"vocab_size"})});
  const std::string act = config.text_or("activation_function", "swiglu");
  require(act == "swiglu", "{}: 'activation_function' is \"{}\", which is not supported; \"swiglu\" is.",
          config.place(), act);
  (void)one_of(config, "hidden_act", "silu", {Act::Silu});
  expect_tied(config);
  set(model, "intermediate", config.size({"intermediate_size", "n_inner"}));
  if (config.has("head_dim")) set(model, "head_dim", config.size({"head_dim"}));
  for (const char* key : {"layer_norm", "head_bias", "transformed_head", "embedding_norm", "post_norm", "tied"})
    set(model, key, 1);
  set(model, "causal", 0);
  set(model, "token_types", config.size_or({"type_vocab_size"}, 2));
  set_rotary_base(model, config, "rotary_emb_base");
  if (!config.has("rotary_emb_base") && !config.has("rope_parameters")) model.factors["rotary_base"] = 1000.0;
  set_epsilon(model, config, config.has("layer_norm_epsilon") ? "layer_norm_epsilon" : "layer_norm_eps", 1e-12);
  // What Nomic's own files say besides.
  for (const char* other : {"prenorm", "use_rms_norm", "causal", "parallel_block", "qkv_proj_bias", "mlp_fc1_bias",
                            "mlp_fc2_bias", "rotary_emb_interleaved", "scale_attn_by_inverse_layer_idx"})
    config.refuse(other);
  const double share = config.positive_or("rotary_emb_fraction", 1.0);
  require(share == 1.0, "{}: 'rotary_emb_fraction' is {:g}, which is not supported; 1 is.", config.place(), share);
  return model;
}

namespace {

// BERT's blocks with rotated heads in place of a table of positions. Biases are of attention; those of the feed-forward
// layer are left to the caller.
ModelConfig rotated_encoder(const HfReader& config, double base) {
  expect_tied(config);
  config.refuse("is_decoder");
  config.refuse("add_cross_attention");
  ModelConfig model = made("decoder", config);
  set(model, "intermediate", config.size({"intermediate_size"}));
  for (const char* key : {"gelu", "layer_norm", "head_bias", "transformed_head", "embedding_norm", "post_norm", "tied",
                          "qkv_bias", "out_bias"})
    set(model, key, 1);
  set(model, "causal", 0);
  set(model, "token_types", config.size_or({"type_vocab_size"}, 1, 0));
  set_rotary_base(model, config, "rope_theta");
  if (!config.has("rope_theta") && !config.has("rope_parameters")) model.factors["rotary_base"] = base;
  return model;
}

}  // namespace

// Jina's embeddings: XLM-RoBERTa with rotated heads.
ModelConfig read_jina_embeddings_v3(const HfReader& config) {
  ModelConfig model = rotated_encoder(config, 20000.0);
  set_activation(model, config, "hidden_act", "gelu", {Act::Gelu, Act::GeluErf});
  require(model.more["erf"] == 1, "{}: 'hidden_act' is no exact GELU, which is not supported; \"gelu\" is.",
          config.place());
  for (const char* key : {"mlp_bias", "erf"}) set(model, key, 1);
  set(model, "gated", 0);
  set_epsilon(model, config, "layer_norm_eps", 1e-5);
  return model;
}

// Alibaba's GTE: the same with gates, whose products have no biases.
ModelConfig read_gte(const HfReader& config) {
  ModelConfig model = rotated_encoder(config, 160000.0);
  set_activation(model, config, "hidden_act", "gelu", {Act::GeluErf});
  set(model, "mlp_out_bias", 1);
  set_epsilon(model, config, "layer_norm_eps", 1e-12);
  return model;
}

// RoFormer (J. Su et al., 2021): pairs of neighbours are rotated, which is in the order of the weights.
ModelConfig read_roformer(const HfReader& config) {
  config.refuse("rotary_value");
  ModelConfig model = rotated_encoder(config, 10000.0);
  const std::int64_t width = config.size_or({"embedding_size"}, model.hidden);
  require(width == model.hidden, "{}: 'embedding_size' is {}, another than 'hidden_size', which is not supported.",
          config.place(), width);
  if (!config.has("type_vocab_size")) set(model, "token_types", 2);
  set_activation(model, config, "hidden_act", "gelu", {Act::Gelu, Act::GeluErf});
  set(model, "mlp_bias", 1);
  set(model, "gated", 0);
  set_epsilon(model, config, "layer_norm_eps", 1e-12);
  return model;
}

// RemBERT (H. W. Chung et al., 2021): a narrow word table, and a wide head that is another.
ModelConfig read_rembert(const HfReader& config) {
  require(!config.flag_or("tie_word_embeddings", false),
          "{}: 'tie_word_embeddings' is true, which is not supported for this family; false is.", config.place());
  ModelConfig model = read_bert_sizes(config);
  set(model, "embed_width", config.size_or({"input_embedding_size"}, 256));
  set(model, "head_width", config.size_or({"output_embedding_size"}, 1664));
  set(model, "tied", 0);
  return model;
}

// Longformer (I. Beltagy et al., 2020), in which no token sees all others, as in training of masked words.
// `attention_window` counts the keys of both sides.
ModelConfig read_longformer(const HfReader& config) {
  expect_text(config, "attention_mode", "longformer");
  (void)config.has("onnx_export");
  ModelConfig model = read_roberta(config);
  read_attention_window(model, config, "window");
  return model;
}

// I-BERT (S. Kim et al., 2021) before it computes with integers: RoBERTa.
ModelConfig read_ibert(const HfReader& config) {
  config.refuse("quant_mode");
  (void)config.has("force_dequant");
  return read_roberta(config);
}

// BigBird (M. Zaheer et al., 2020) with full attention, as its implementation has it for all texts that are short.
ModelConfig read_big_bird(const HfReader& config) {
  const std::string attention = config.text_or("attention_type", "block_sparse");
  const std::int64_t block = config.size_or({"block_size"}, 64), random = config.size_or({"num_random_blocks"}, 3, 0);
  require(attention == "original_full",
          "{}: 'attention_type' is \"{}\", whose random blocks of keys are not supported; \"original_full\" is, which "
          "transformers takes in any case for texts of at most {} tokens.",
          config.place(), attention, (5 + 2 * random) * block);
  config.refuse("rescale_embeddings");
  require(config.flag_or("use_bias", true), "{}: 'use_bias' is false, which is not supported; true is.",
          config.place());
  expect_tied(config);
  ModelConfig model = read_bert_sizes(config);
  if (!config.has("hidden_act")) set(model, "erf", 0);
  return model;
}

// LayoutLM (Y. Xu et al., 2020): BERT that is told where on its page each word stands.
ModelConfig read_layoutlm(const HfReader& config) {
  ModelConfig model = read_bert(config);
  set(model, "box_rows", config.size_or({"max_2d_position_embeddings"}, 1024));
  return model;
}

}  // namespace meshwright::hf
