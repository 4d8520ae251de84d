// SPDX-License-Identifier: Apache-2.0
// Families with learned positions, linear biases or relative ones, and their like: GPT-2, GPT-Neo, OPT, BLOOM, MPT,
// GPT-NeoX, BERT, ELECTRA, ALBERT, ModernBERT, T5.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_families.h"
#include "core/graph/import/hf/hf_parts.h"

namespace meshwright::hf {

ModelConfig read_gpt2(const HfReader& config) {
  config.refuse("scale_attn_by_inverse_layer_idx");
  config.refuse("add_cross_attention");
  const std::int64_t positions = config.size({"n_positions", "n_ctx", "max_position_embeddings"});
  ModelConfig model =
      made("gpt2", Core{config.size({"n_layer", "num_hidden_layers"}), config.size({"n_embd", "hidden_size"}),
                        config.size({"n_head", "num_attention_heads"}), positions, config.size({"vocab_size"})});
  set(model, "positions", positions);
  set(model, "intermediate", config.size_or({"n_inner"}, 4 * model.hidden));
  const Act act =
      set_activation(model, config, "activation_function", "gelu_new", {Act::Gelu, Act::GeluErf, Act::Relu});
  set(model, "relu", act == Act::Relu);
  set(model, "scaled", config.flag_or("scale_attn_weights", true));
  set_epsilon(model, config, "layer_norm_epsilon", 1e-5);
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  return model;
}

// Words are colours. The last begins a sequence, and the head does not know it.
ModelConfig read_imagegpt(const HfReader& config) {
  config.refuse("scale_attn_by_inverse_layer_idx");
  config.refuse("add_cross_attention");
  expect_text(config, "activation_function", "quick_gelu");
  require(!config.flag_or("tie_word_embeddings", false),
          "{}: 'tie_word_embeddings' is true, which is not supported; false is.", config.place());
  const std::int64_t positions = config.size_or({"n_positions"}, 1024);
  ModelConfig model = made("gpt2", Core{config.size({"n_layer"}), config.size({"n_embd"}), config.size({"n_head"}),
                                        positions, config.size_or({"vocab_size"}, 513) - 1});
  require(model.vocab > 0, "{}: 'vocab_size' is 1, of which none is a colour.", config.place());
  set(model, "more_words", 1);
  set(model, "positions", positions);
  set(model, "intermediate", config.size_or({"n_inner"}, 4 * model.hidden));
  for (const char* key : {"quick", "rms"}) set(model, key, 1);
  set(model, "scaled", config.flag_or("scale_attn_weights", true));
  set(model, "tied", 0);
  set_epsilon(model, config, "layer_norm_epsilon", 1e-5);
  return model;
}

// Positions are counted from 2 (row 1 once stood for padding). The norms' epsilon is no member: it is always 1e-5.
// StarCoder 1 and SantaCoder: all queries read one key and value.
ModelConfig read_gpt_bigcode(const HfReader& config) {
  config.refuse("add_cross_attention");
  for (const char* key : {"multi_query", "scale_attn_weights"})
    require(config.flag_or(key, true), "{}: '{}' is false, which is not supported; true is.", config.place(), key);
  ModelConfig model = read_gpt2(config);
  set(model, "kv_heads", 1);
  return model;
}

// CTRL (N. S. Keskar et al., 2019): sines, a scaled embedding, and a bias of the logits. Norms in the blocks have an
// epsilon that is no member.
ModelConfig read_ctrl(const HfReader& config) {
  const std::int64_t positions = config.size_or({"n_positions", "max_position_embeddings"}, 256);
  ModelConfig model =
      made("gpt2", Core{config.size({"n_layer", "num_hidden_layers"}), config.size({"n_embd", "hidden_size"}),
                        config.size({"n_head", "num_attention_heads"}), positions, config.size({"vocab_size"})});
  constexpr double kEpsilon = 1e-6;
  set_epsilon(model, config, "layer_norm_epsilon", kEpsilon);
  require(model.factors["epsilon"] == kEpsilon,
          "{}: 'layer_norm_epsilon' is {:g}, which is not supported for this family; {:g} is.", config.place(),
          model.factors["epsilon"], kEpsilon);
  expect_tied(config);
  set(model, "positions", positions);
  set(model, "intermediate", config.size({"dff"}));
  for (const char* key : {"relu", "sines", "head_bias"}) set(model, key, 1);
  model.factors["embed_scale"] = std::sqrt(static_cast<double>(model.hidden));
  for (const char* other : {"attn_pdrop", "summary_type"}) (void)config.has(other);
  return model;
}

namespace {

// [[["global", "local"], 12]]: twelve times a layer that sees all keys, then one with a window.
std::vector<bool> windowed_layers(const HfReader& config, std::int64_t layers) {
  std::vector<bool> windowed;
  if (!config.has("attention_types")) {
    for (std::int64_t layer = 0; layer < layers; ++layer) windowed.push_back(layer % 2 == 1);
    return windowed;
  }
  const auto refuse_unless = [&](bool well_formed) {
    require(well_formed,
            "{}: 'attention_types' must be lists of kinds and how often they follow one another, of {} layers in all, "
            "as in [[[\"global\", \"local\"], {}]].",
            config.place(), layers, layers / 2);
  };
  const Json& types = config.at("attention_types");
  refuse_unless(types.is_array());
  for (const Json& part : types) {
    refuse_unless(part.is_array() && part.size() == 2 && part[0].is_array() && part[1].is_number_unsigned() &&
                  part[1] <= static_cast<std::uint64_t>(layers));
    for (std::int64_t turn = 0; turn < part[1].get<std::int64_t>(); ++turn)
      for (const Json& kind : part[0]) {
        refuse_unless((kind == "global" || kind == "local") && static_cast<std::int64_t>(windowed.size()) < layers);
        windowed.push_back(kind == "local");
      }
  }
  refuse_unless(static_cast<std::int64_t>(windowed.size()) == layers);
  return windowed;
}

}  // namespace

// Scores are not divided, and queries, keys and values have no biases.
ModelConfig read_gpt_neo(const HfReader& config) {
  const std::int64_t positions = config.size({"max_position_embeddings"});
  ModelConfig model = made("gpt2", Core{config.size({"num_layers"}), config.size({"hidden_size"}),
                                        config.size({"num_heads"}), positions, config.size({"vocab_size"})});
  set(model, "positions", positions);
  set(model, "intermediate", config.size_or({"intermediate_size"}, 4 * model.hidden));
  const Act act =
      set_activation(model, config, "activation_function", "gelu_new", {Act::Gelu, Act::GeluErf, Act::Relu});
  set(model, "relu", act == Act::Relu);
  set(model, "qkv_bias", 0);
  set(model, "scaled", 0);
  set(model, "window", config.size_or({"window_size"}, 256));
  (void)config.has("attention_layers");  // `attention_types`, written out
  set_windowed_layers(model, windowed_layers(config, model.layers), config.place() + ": 'attention_types'");
  set_epsilon(model, config, "layer_norm_epsilon", 1e-5);
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  return model;
}

// GPT 1: norms after the sums. Its "gelu" is the tanh form.
ModelConfig read_openai_gpt(const HfReader& config) {
  const std::int64_t positions = config.size({"n_positions"});
  ModelConfig model = made("gpt2", Core{config.size({"n_layer"}), config.size({"n_embd"}), config.size({"n_head"}),
                                        positions, config.size({"vocab_size"})});
  set(model, "positions", positions);
  const std::string name = config.text_or("afn", "gelu");
  require(name == "gelu" || name == "relu", "{}: 'afn' is \"{}\", which is not supported; gelu and relu are.",
          config.place(), name);
  set(model, "relu", name == "relu");
  set(model, "post_norm", 1);
  set(model, "final_norm", 0);
  set_epsilon(model, config, "layer_norm_epsilon", 1e-5);
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  return model;
}

namespace {

// GPT-2's blocks, with positions counted from 2 and an embedding that is scaled.
ModelConfig read_scaled(const HfReader& config, const Core& core, const char* width, const char* activation) {
  config.refuse("add_cross_attention");
  ModelConfig model = made("gpt2", core);
  set(model, "positions", core.positions);
  set(model, "position_offset", 2);
  set(model, "intermediate", config.size({width}));
  const Act act = set_activation(model, config, activation, "gelu", {Act::Gelu, Act::GeluErf, Act::Relu});
  set(model, "relu", act == Act::Relu);
  if (config.flag_or("scale_embedding", true))
    model.factors["embed_scale"] = std::sqrt(static_cast<double>(model.hidden));
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  return model;
}

}  // namespace

ModelConfig read_biogpt(const HfReader& config) {
  const Core core{config.size({"num_hidden_layers"}), config.size({"hidden_size"}),
                  config.size({"num_attention_heads"}), config.size({"max_position_embeddings"}),
                  config.size({"vocab_size"})};
  ModelConfig model = read_scaled(config, core, "intermediate_size", "hidden_act");
  (void)config.has("layer_norm_eps");  // its implementation has norms of 1e-5 whatever this says
  return model;
}

// Positions are sines.
ModelConfig read_xglm(const HfReader& config) {
  const Core core{config.size({"num_layers"}), config.size({"d_model"}), config.size({"attention_heads"}),
                  config.size({"max_position_embeddings"}), config.size({"vocab_size"})};
  ModelConfig model = read_scaled(config, core, "ffn_dim", "activation_function");
  set(model, "sines", 2);
  return model;
}

ModelConfig read_opt(const HfReader& config) {
  ModelConfig model = made("gpt2", config);
  const bool before = config.flag_or("do_layer_norm_before", true);
  require(
      config.flag_or("layer_norm_elementwise_affine", true),
      "{}: 'layer_norm_elementwise_affine' is false, which is not supported; models with weights in their norms are.",
      config.place());
  set(model, "positions", config.size({"max_position_embeddings"}));
  set(model, "position_offset", 2);
  set(model, "intermediate", config.size({"ffn_dim"}));
  set(model, "word_embed", config.size_or({"word_embed_proj_dim"}, model.hidden));
  const Act act = set_activation(model, config, "activation_function", "relu", {Act::Relu, Act::Gelu, Act::GeluErf});
  set(model, "relu", act == Act::Relu);
  set(model, "bias", config.flag_or("enable_bias", true));
  set(model, "post_norm", !before);
  set(model, "final_norm", before && !config.flag_or("_remove_final_layer_norm", false));
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  return model;
}

// Its GELU is the tanh form.
ModelConfig read_bloom(const HfReader& config) {
  config.refuse("apply_residual_connection_post_layernorm");
  const std::int64_t positions = config.size_or({"seq_length", "max_position_embeddings"}, 2048);
  ModelConfig model =
      made("bloom", Core{config.size({"n_layer", "num_hidden_layers"}), config.size({"hidden_size", "n_embed"}),
                         config.size({"n_head", "num_attention_heads"}), positions, config.size({"vocab_size"})});
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  set_epsilon(model, config, "layer_norm_epsilon", 1e-5);
  return model;
}

// No biases anywhere; the slopes of its linear biases are BLOOM's where the greatest is 2^-8. Members that its files
// have and its implementation does not read (`no_bias`, `learned_pos_emb`, ...) must say what it does.
ModelConfig read_mpt(const HfReader& config) {
  ModelConfig model = made("bloom", Core{config.size({"n_layers"}), config.size({"d_model"}), config.size({"n_heads"}),
                                         config.size_or({"max_seq_len"}, 2048), config.size({"vocab_size"})});
  const auto only = [](const HfReader& part, const char* key, std::int64_t value) {
    const std::int64_t given = part.size_or({key}, value);
    require(given == value, "{}: '{}' is {}, which is not supported; {} is.", part.place(), key, given, value);
  };
  const auto null = [](const HfReader& part, const char* key) {
    require(!part.has(key), "{}: '{}' is given, which is not supported; null is.", part.place(), key);
  };
  only(config, "expansion_ratio", 4);
  null(config, "logit_scale");
  require(config.flag_or("no_bias", true), "{}: 'no_bias' is false, which is not supported; true is.", config.place());
  const std::string norm = config.text_or("norm_type", "low_precision_layernorm");
  require(norm == "low_precision_layernorm" || norm == "layernorm",
          "{}: 'norm_type' is \"{}\", which is not supported; \"layernorm\" and \"low_precision_layernorm\" are.",
          config.place(), norm);
  if (config.has("attn_config")) {
    const HfReader attention = config.part("attn_config");
    for (const char* key : {"clip_qkv", "softmax_scale"}) null(attention, key);
    for (const char* key : {"prefix_lm", "qk_ln", "attn_uses_sequence_id"}) attention.refuse(key);
    expect_text(attention, "attn_type", "multihead_attention");
    require(attention.flag_or("alibi", true), "{}: 'alibi' is false, which is not supported; true is.",
            attention.place());
    only(attention, "alibi_bias_max", 8);
  }
  for (const char* key : {"bias", "norm_bias", "embedding_norm"}) set(model, key, 0);
  set(model, "erf", 1);
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  set_epsilon(model, config, "layer_norm_epsilon", 1e-5);
  return model;
}

namespace {

// `rotated`, `tied`: where the file does not say.
ModelConfig read_gpt_neox_like(const HfReader& config, double rotated, bool tied) {
  ModelConfig model = made("gpt_neox", config);
  (void)config.has("is_decoder");  // it is one whatever this says
  set_activation(model, config, "hidden_act", "gelu", {Act::Gelu, Act::GeluErf});
  set_rotated_share(model, config, "rotary_pct", rotated);
  set_rotary_base(model, config, "rotary_emb_base");
  set(model, "tied", config.flag_or("tie_word_embeddings", tied));
  set_epsilon(model, config, "layer_norm_eps", 1e-5);
  return model;
}

}  // namespace

ModelConfig read_gpt_neox(const HfReader& config) {
  ModelConfig model = read_gpt_neox_like(config, 0.25, false);
  require(config.flag_or("attention_bias", true),
          "{}: 'attention_bias' is false, which is not supported for this family; true is.", config.place());
  set(model, "intermediate", config.size({"intermediate_size"}));
  set(model, "parallel", config.flag_or("use_parallel_residual", true));
  return model;
}

// No biases but in norms, and of what attention of the last layer makes.
ModelConfig read_gpt_neox_japanese(const HfReader& config) {
  ModelConfig model = read_gpt_neox_like(config, 1.0, true);
  set(model, "intermediate", model.hidden * config.size_or({"intermediate_multiple_size"}, 4));
  set(model, "parallel", 0);
  set(model, "bias", 0);
  set(model, "last_out_bias", 1);
  return model;
}

ModelConfig read_bert_sizes(const HfReader& config) {
  config.refuse("is_decoder");
  config.refuse("add_cross_attention");
  ModelConfig model = made("bert", config);
  set_activation(model, config, "hidden_act", "gelu", {Act::Gelu, Act::GeluErf});
  set_epsilon(model, config, "layer_norm_eps", 1e-12);
  set(model, "positions", config.size({"max_position_embeddings"}));
  set(model, "intermediate", config.size({"intermediate_size"}));
  set(model, "token_types", config.size_or({"type_vocab_size"}, 2));
  return model;
}

ModelConfig read_bert(const HfReader& config) {
  expect_text(config, "position_embedding_type", "absolute");
  expect_tied(config);
  return read_bert_sizes(config);
}

// BERT whose positions are counted from 2, row 1 being padding's.
ModelConfig read_roberta(const HfReader& config) {
  constexpr std::int64_t kRowsBefore = 2;
  ModelConfig model = read_bert(config);
  const std::int64_t rows = config.size({"max_position_embeddings"});
  require(rows > kRowsBefore, "{}: 'max_position_embeddings' is {}, of which the first {} are no positions.",
          config.place(), rows, kRowsBefore);
  model.seq = std::min(model.seq, rows - kRowsBefore);
  set(model, "positions", rows - kRowsBefore);
  set(model, "position_offset", kRowsBefore);
  return model;
}

// Norms in front of what they are for, and one behind the blocks; the embedding has one of its own or none.
ModelConfig read_megatron_bert(const HfReader& config) {
  ModelConfig model = read_bert(config);
  set(model, "norm_first", 1);
  set(model, "embedding_norm", 0);
  return model;
}
ModelConfig read_roberta_norm_first(const HfReader& config) {
  ModelConfig model = read_roberta(config);
  set(model, "norm_first", 1);
  set(model, "embedding_norm", config.text_or("model_type", "") == "roberta-prelayernorm");
  return model;
}

// ERNIE: a table of tasks beside BERT's, where it is used.
ModelConfig read_ernie(const HfReader& config) {
  config.refuse("use_task_id");
  (void)config.has("task_type_vocab_size");
  return read_bert(config);
}

// BERT without token types, under other names.
ModelConfig read_distilbert(const HfReader& config) {
  const std::int64_t positions = config.size_or({"max_position_embeddings"}, 512);
  ModelConfig model = made("bert", Core{config.size({"n_layers"}), config.size({"dim"}), config.size({"n_heads"}),
                                        positions, config.size({"vocab_size"})});
  config.refuse("sinusoidal_pos_embds");
  expect_tied(config);
  set_activation(model, config, "activation", "gelu", {Act::Gelu, Act::GeluErf});
  model.factors["epsilon"] = 1e-12;
  set(model, "positions", positions);
  set(model, "intermediate", config.size({"hidden_dim"}));
  set(model, "token_types", 0);
  return model;
}

// The generator, which predicts masked words. Its head's activation is the exact GELU whatever the blocks'.
ModelConfig read_electra(const HfReader& config) {
  ModelConfig model = read_bert(config);
  require(model.more["erf"] == 1, "{}: 'hidden_act' is no exact GELU, which is not supported; \"gelu\" is.",
          config.place());
  const std::int64_t width = config.size_or({"embedding_size"}, 128);
  set(model, "embed_width", width == model.hidden ? 0 : width);
  return model;
}

// Layers of a group share their weights.
ModelConfig read_albert(const HfReader& config) {
  expect_text(config, "position_embedding_type", "absolute");
  ModelConfig model = made("bert", config);
  set_activation(model, config, "hidden_act", "gelu_new", {Act::Gelu, Act::GeluErf});
  set_epsilon(model, config, "layer_norm_eps", 1e-12);
  set(model, "positions", config.size({"max_position_embeddings"}));
  set(model, "intermediate", config.size({"intermediate_size"}));
  set(model, "token_types", config.size_or({"type_vocab_size"}, 2));
  set(model, "embed_width", config.size_or({"embedding_size"}, 128));
  const std::int64_t groups = config.size_or({"num_hidden_groups"}, 1), within = config.size_or({"inner_group_num"}, 1);
  require(within == 1, "{}: 'inner_group_num' is {}, which is not supported; 1 is.", config.place(), within);
  require(groups <= model.layers, "{}: 'num_hidden_groups' is {}, which is more than its {} layers.", config.place(),
          groups, model.layers);
  set(model, "layer_groups", groups);
  expect_tied(config);
  return model;
}

// ModernBERT, and its decoder: rotated heads, a gated feed-forward layer, norms in front, and windows in all layers but
// each n-th, counted from the first. `local_attention` counts the keys of a window on both sides.
ModelConfig read_modernbert(const HfReader& config) {
  const bool causal = config.text_or("model_type", "modernbert") == "modernbert-decoder";
  ModelConfig model = made("decoder", config);
  set(model, "intermediate", config.size({"intermediate_size"}));
  set(model, "gelu", 1);
  const Act act = set_activation(model, config, "hidden_activation", "gelu", {Act::Gelu, Act::GeluErf});
  const std::string of_head = config.text_or("classifier_activation", "gelu");
  require(activation_from(config, "classifier_activation", of_head) == act,
          "{}: 'classifier_activation' is \"{}\", another than 'hidden_activation', which is not supported.",
          config.place(), of_head);
  set_attention_bias(model, config, false);
  set(model, "mlp_bias", config.flag_or("mlp_bias", false));
  set(model, "head_bias", config.flag_or("decoder_bias", true));
  set(model, "transformed_head", config.flag_or("classifier_bias", false) ? 1 : 2);
  set(model, "layer_norm", config.flag_or("norm_bias", false) ? 1 : 2);
  set(model, "embedding_norm", 1);
  set(model, "bare_first", 1);
  set(model, "causal", causal);
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  set_epsilon(model, config, "norm_eps", 1e-5);
  set_rotary_base(model, config, "global_rope_theta");
  if (!config.has("rope_parameters")) {
    model.factors["rotary_base"] = config.positive_or("global_rope_theta", 160000.0);
    model.factors["window_rotary_base"] = config.positive_or("local_rope_theta", 10000.0);
  }
  const std::int64_t every = config.size_or({"global_attn_every_n_layers"}, 3);
  const std::int64_t side = config.size_or({"local_attention"}, 128) / 2;
  set(model, "window", causal ? side : side + 1);
  set(model, "first_window_layer", every == 1 ? model.layers : 1);
  set(model, "full_every", every);
  read_layer_types(model, config);
  return model;
}

// --- encoder and decoder ---

// umT5 has a table of biases for each layer. "gated-gelu" is the tanh form, a plain "gelu" the exact one. What mT5's
// head reads is not scaled.
ModelConfig read_t5(const HfReader& config) {
  config.refuse("is_decoder");
  ModelConfig model = made("t5", Core{config.size({"num_layers"}), config.size({"d_model"}), config.size({"num_heads"}),
                                      config.size_or({"n_positions"}, 512), config.size({"vocab_size"})});
  const std::string type = config.text_or("model_type", "t5");
  const bool multilingual = type == "mt5";
  const std::string forward =
      config.text_or("feed_forward_proj", type == "mt5" || type == "umt5" ? "gated-gelu" : "relu");
  constexpr std::string_view kGated = "gated-";
  const bool gated = forward.starts_with(kGated);
  const std::string name = gated ? forward.substr(kGated.size()) : forward;
  const Act act = activation_from(config, "feed_forward_proj", gated && name == "gelu" ? "gelu_new" : name);
  // Files of transformers 5 say what that member means as well.
  require(config.flag_or("is_gated_act", gated) == gated &&
              (!config.has("dense_act_fn") ||
               activation_from(config, "dense_act_fn", config.text_or("dense_act_fn", name)) == act),
          "{}: 'feed_forward_proj' is \"{}\", but 'is_gated_act' and 'dense_act_fn' say otherwise; check them.",
          config.place(), forward);
  require(act != Act::Silu, "{}: 'feed_forward_proj' is \"{}\", which is not supported; relu and gated-gelu are.",
          config.place(), forward);
  const std::int64_t distance = config.size_or({"relative_attention_max_distance"}, 128);
  require(distance == 128, "{}: 'relative_attention_max_distance' is {}, which is not supported; 128 is.",
          config.place(), distance);
  set(model, "intermediate", config.size({"d_ff"}));
  set(model, "head_dim", config.size({"d_kv"}));
  set(model, "decoder_layers", config.size_or({"num_decoder_layers"}, model.layers));
  set(model, "buckets", config.size_or({"relative_attention_num_buckets"}, 32));
  set(model, "layer_biases", type == "umt5");
  set(model, "gated", gated);
  set(model, "relu", act == Act::Relu);
  set(model, "erf", act == Act::GeluErf);
  const bool tied = config.flag_or("tie_word_embeddings", true);
  set(model, "tied", tied);
  // Files of transformers 5 say apart whether what the head reads is scaled; older ones mean both by the tied table.
  set(model, "scaled_head", !multilingual && config.flag_or("scale_decoder_outputs", tied));
  set_epsilon(model, config, "layer_norm_epsilon", 1e-6);
  return model;
}

// LongT5 (M. Guo et al., 2022): queries of the encoder see so many keys on either side. Those that see sums of all
// keys besides, by which most are published, have no equal here.
ModelConfig read_longt5(const HfReader& config) {
  expect_text(config, "encoder_attention_type", "local");
  (void)config.has("global_block_size");
  ModelConfig model = read_t5(config);
  set(model, "encoder_window", config.size_or({"local_radius"}, 127) + 1);
  return model;
}

namespace {

// Which layers have experts, of so many with them: layer 1 and each so many behind it, or all.
std::int64_t sparse_step(const HfReader& config, const char* key, const char* step_key, std::int64_t layers) {
  constexpr std::int64_t kUsual = 3;
  const std::int64_t sparse = config.size_or({key}, kUsual, 0), step = sparse > 0 ? layers / sparse : layers;
  require(step > 0, "{}: '{}' is {}, which is more than its {} layers.", config.place(), key, sparse, layers);
  const std::int64_t said = config.size_or({step_key}, step, 0);
  require(said == step, "{}: '{}' is {}, but '{}' of {} layers are every {}; check them.", config.place(), step_key,
          said, key, layers, step);
  return step;
}

}  // namespace

// Switch Transformers (W. Fedus et al., 2021). Its losses that balance experts are left out.
ModelConfig read_switch_transformers(const HfReader& config) {
  ModelConfig model = read_t5(config);
  set(model, "experts", config.size_or({"num_experts"}, 8));
  set(model, "expert_capacity", config.size_or({"expert_capacity"}, 64));
  set(model, "router_bias", config.flag_or("router_bias", false));
  set(model, "mixture_every", sparse_step(config, "num_sparse_encoder_layers", "encoder_sparse_step", model.layers));
  set(model, "decoder_mixture_every",
      sparse_step(config, "num_sparse_decoder_layers", "decoder_sparse_step", model.more["decoder_layers"]));
  for (const char* nothing : {"router_z_loss_coef", "add_router_probs", "router_dtype", "router_ignore_padding_tokens",
                              "batch_prioritized_routing", "num_selected_experts"})
    (void)config.has(nothing);
  return model;
}

}  // namespace meshwright::hf
