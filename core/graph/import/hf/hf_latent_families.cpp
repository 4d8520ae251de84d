// SPDX-License-Identifier: Apache-2.0
// Decoders with latent attention: DeepSeek and its like.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/hf/hf_config.h"
#include "core/graph/import/hf/hf_families.h"
#include "core/graph/import/hf/hf_parts.h"

namespace meshwright::hf {

namespace {

constexpr std::int64_t kMaxLayersOfList = 10'000;

// `halves`: the rotated dimensions of the files lie in halves, not in pairs.
ModelConfig made_latent(const HfReader& config, bool halves = false) {
  require(config.flag_or("rope_interleave", !halves) != halves,
          "{}: 'rope_interleave' is {}, which is not supported; {} is.", config.place(), halves, !halves);
  ModelConfig model = made("deepseek_v3", config);
  (void)one_of(config, "hidden_act", "silu", {Act::Silu});
  config.refuse("attention_bias");
  return model;
}

// `value`: the width of a head's values where the file does not say; 0: it must.
void read_latent_heads(ModelConfig& model, const HfReader& config, std::int64_t value = 0) {
  set(model, "intermediate", config.size({"intermediate_size"}));
  // All heads have keys and values of their own, whatever the file says.
  (void)config.has("num_key_value_heads");
  set(model, "q_rank", config.size_or({"q_lora_rank"}, 0));
  set(model, "kv_rank", config.size({"kv_lora_rank"}));
  set(model, "nope_dim", config.size({"qk_nope_head_dim"}));
  set(model, "rope_dim", config.size({"qk_rope_head_dim"}));
  set(model, "value_dim", value > 0 ? config.size_or({"v_head_dim"}, value) : config.size({"v_head_dim"}));
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  read_rotation(model, config, 1e-6);
  // What other members make them, where files say it again; for some, `head_dim` is one of their two parts.
  const std::int64_t rope = model.more["rope_dim"], nope = model.more["nope_dim"], whole = rope + nope;
  const std::int64_t head = config.size_or({"head_dim"}, whole), again = config.size_or({"qk_head_dim"}, whole);
  require(again == whole && (head == whole || head == rope || head == nope),
          "{}: 'qk_head_dim' is {} and 'head_dim' {}, but 'qk_nope_head_dim' and 'qk_rope_head_dim' make heads of {}; "
          "check them.",
          config.place(), again, head, whole);
  config.refuse("mlp_bias");
}

// The one expert is in no layer.
void set_dense(ModelConfig& model) {
  set(model, "experts", 1);
  set(model, "top_k", 1);
  set(model, "dense_layers", model.layers);
}

void read_latent_decoder(ModelConfig& model, const HfReader& config) {
  read_latent_heads(model, config);
  read_routed_experts(model, config, 0);
  const std::int64_t step = config.size_or({"moe_layer_freq"}, 1);
  require(step == 1, "{}: 'moe_layer_freq' is {}, which is not supported; 1 is.", config.place(), step);
}

// Whether each layer has an indexer ("full") or reads what the layer before chose ("shared"): by a list, by a pattern
// of letters, or in each `index_topk_freq`-th layer.
std::vector<bool> layers_with_indexers(const HfReader& config, std::int64_t layers) {
  const std::int64_t every = std::max<std::int64_t>(1, config.size_or({"index_topk_freq"}, 1, 0));
  const std::int64_t offset = config.size_or({"index_skip_topk_offset"}, 2, 0);
  const char* key = config.has("indexer_types") ? "indexer_types" : "index_topk_pattern";
  std::vector<bool> own;
  if (!config.has(key)) {
    for (std::int64_t layer = 0; layer < std::min(layers, kMaxLayersOfList); ++layer)
      own.push_back(std::max<std::int64_t>(layer - offset + 1, 0) % every == 0);
    return own;
  }
  Json types = config.at(key);
  if (types.is_string()) {
    Json letters = Json::array();
    for (const char letter : types.get<std::string>())
      letters.push_back(letter == 'F' ? "full" : letter == 'S' ? "shared" : "neither");
    types = letters;
  }
  require(types.is_array() && types.size() == static_cast<std::size_t>(layers),
          "{}: '{}' must have one type for each of the {} layers.", config.place(), key, layers);
  for (const Json& type : types) {
    require(type == "full" || type == "shared", "{}: '{}' has {}, which is not supported; \"full\" and \"shared\" are.",
            config.place(), key, brief(type));
    own.push_back(type == "full");
  }
  return own;
}

// It reads what latent queries are made from. `heads`: its heads where the file does not say.
void set_indexer(ModelConfig& model, const HfReader& config, std::int64_t heads) {
  set(model, "q_rank", config.size({"q_lora_rank"}));
  set(model, "index_heads", config.size_or({"index_n_heads"}, heads));
  set(model, "index_dim", config.size_or({"index_head_dim"}, 128));
  set(model, "index_top_k", config.size_or({"index_topk"}, 2048));
}

void read_shared_indexers(ModelConfig& model, const HfReader& config) {
  const std::vector<bool> own = layers_with_indexers(config, model.layers);
  require(own.front(), "{}: the first layer shares an indexer, and none is before it; check 'indexer_types'.",
          config.place());
  const auto shared = std::find(own.begin(), own.end(), false);
  const std::int64_t first = shared - own.begin();
  if (shared == own.end()) return;
  const std::int64_t every = std::find(shared, own.end(), true) - shared + 1;
  for (std::int64_t layer = first; layer < static_cast<std::int64_t>(own.size()); ++layer)
    require(own[static_cast<std::size_t>(layer)] == ((layer - first + 1) % every == 0),
            "{}: layers share their indexers in no order that is supported; an indexer in the first layers and in each "
            "n-th behind them is.",
            config.place());
  set(model, "index_first", first);
  set(model, "index_every", every);
}

}  // namespace

ModelConfig read_deepseek_v3(const HfReader& config) {
  ModelConfig model = made_latent(config);
  expect_text(config, "scoring_func", "sigmoid");
  read_latent_decoder(model, config);
  return model;
}

// GLM-4.7-Flash.
ModelConfig read_glm4_moe_lite(const HfReader& config) {
  ModelConfig model = read_deepseek_v3(config);
  read_dense_layers(model, config, 1);
  return model;
}

ModelConfig read_youtu(const HfReader& config) {
  ModelConfig model = made_latent(config);
  read_latent_heads(model, config);
  set_dense(model);
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  return model;
}

// MiniCPM 3: all layers are dense, with MiniCPM's factors.
ModelConfig read_minicpm3(const HfReader& config) {
  ModelConfig model = made_latent(config, true);
  const std::int64_t value = std::max<std::int64_t>(1, model.hidden / model.heads);
  read_latent_heads(model, config, value);
  model.factors["epsilon"] = config.positive_or("rms_norm_eps", 1e-5);
  set_dense(model);
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  const double layers = std::sqrt(static_cast<double>(model.layers));
  model.factors["embed_scale"] = config.positive_or("scale_emb", 1.0);
  model.factors["residual_scale"] = config.positive_or("scale_depth", layers) / layers;
  model.factors["logit_scale"] =
      static_cast<double>(config.size_or({"dim_model_base"}, model.hidden)) / static_cast<double>(model.hidden);
  return model;
}

// Scores are a softmax, chosen by without a bias; queries grow with their positions.
ModelConfig read_mistral4(const HfReader& config) {
  ModelConfig model = made_latent(config);
  read_latent_decoder(model, config);
  set(model, "sigmoid", 0);
  set(model, "selection_bias", 0);
  const HfReader rotation = config.part_or_empty("rope_parameters");
  if (!rotation.has("llama_4_scaling_beta")) return model;
  set(model, "temperature_every", rotation.size({"original_max_position_embeddings"}));
  model.factors["temperature"] = rotation.positive_or("llama_4_scaling_beta", 0.1);
  return model;
}

// A.X K1: what the layers with experts make has a norm.
ModelConfig read_axk1(const HfReader& config) {
  ModelConfig model = read_deepseek_v3(config);
  read_dense_layers(model, config, 1);
  set(model, "moe_norm", 1);
  return model;
}

// Two attention layers to a mixture, and experts that do nothing. Its module for a further token is no part of it.
ModelConfig read_longcat_flash(const HfReader& config) {
  const std::int64_t layers = config.size({"num_layers"});
  require(config.size_or({"num_hidden_layers"}, 2 * layers) == 2 * layers,
          "{}: 'num_hidden_layers' is {}, but each of the {} of 'num_layers' has two attention layers; check them.",
          config.place(), config.size_or({"num_hidden_layers"}, 1), layers);
  ModelConfig model =
      made("longcat_flash", Core{layers, config.size({"hidden_size"}), config.size({"num_attention_heads"}),
                                 config.size({"max_position_embeddings"}), config.size({"vocab_size"})});
  (void)one_of(config, "hidden_act", "silu", {Act::Silu});
  expect_text(config, "attention_method", "MLA");
  expect_text(config, "zero_expert_type", "identity");
  for (const char* extra : {"attention_bias", "router_bias", "norm_topk_prob"}) config.refuse(extra);
  const bool scaled = config.flag_or("mla_scale_q_lora", true);
  require(config.flag_or("mla_scale_kv_lora", true) == scaled,
          "{}: 'mla_scale_q_lora' is {} and 'mla_scale_kv_lora' is not, which is not supported.", config.place(),
          scaled);
  set(model, "scaled_latents", scaled);
  (void)config.has("num_key_value_heads");  // all heads have keys and values of their own, whatever this says
  set(model, "intermediate", config.size({"ffn_hidden_size"}));
  set(model, "q_rank", config.size({"q_lora_rank"}));
  set(model, "kv_rank", config.size({"kv_lora_rank"}));
  const std::int64_t nope = config.size({"qk_nope_head_dim"}), rope = config.size({"qk_rope_head_dim"});
  set(model, "nope_dim", nope);
  set(model, "rope_dim", rope);
  set(model, "value_dim", config.size({"v_head_dim"}));
  const std::int64_t turned = config.size_or({"head_dim"}, rope), whole = config.size_or({"qk_head_dim"}, nope + rope);
  require(turned == rope && whole == nope + rope,
          "{}: 'head_dim' is {} and 'qk_head_dim' {}, but 'qk_rope_head_dim' is {} and 'qk_nope_head_dim' {}; check "
          "them.",
          config.place(), turned, whole, rope, nope);
  set_experts(model, config.size({"n_routed_experts"}), config.size({"moe_topk", "num_experts_per_tok"}),
              config.size({"expert_ffn_hidden_size"}));
  set(model, "identity_experts", config.size_or({"zero_expert_num"}, 256, 0));
  model.factors["routed_scale"] = config.positive_or("routed_scaling_factor", 6.0);
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  read_rotation(model, config, 1e-5);
  if (!config.has("rope_theta") && !config.has("rope_parameters")) model.factors["rotary_base"] = 1e7;
  return model;
}

// Scores are a softmax, chosen by without a bias.
ModelConfig read_deepseek_v2(const HfReader& config) {
  ModelConfig model = made_latent(config);
  expect_text(config, "scoring_func", "softmax");
  read_latent_decoder(model, config);
  set(model, "sigmoid", 0);
  set(model, "selection_bias", 0);
  set(model, "normalized", config.flag_or("norm_topk_prob", false));
  return model;
}

// DeepSeek-V3 with an indexer in each layer; so is GLM-5.
ModelConfig read_deepseek_v32(const HfReader& config) {
  ModelConfig model = read_deepseek_v3(config);
  set_indexer(model, config, config.text_or("model_type", "") == "glm_moe_dsa" ? 32 : 64);
  read_dense_layers(model, config, 3);
  // What transformers calls it has changed.
  const bool earlier = config.has("layer_types") && config.at("layer_types").is_array() &&
                       !config.at("layer_types").empty() && config.at("layer_types")[0] == "deepseek_sparse_attention";
  if (config.text_or("model_type", "") == "glm_moe_dsa") {
    read_shared_indexers(model, config);
    require(config.size_or({"num_experts"}, model.more["experts"]) == model.more["experts"],
            "{}: 'num_experts' is {}, but 'n_routed_experts' {}; check them.", config.place(),
            config.size_or({"num_experts"}, 1), model.more["experts"]);
    require(config.flag_or("indexer_rope_interleave", true),
            "{}: 'indexer_rope_interleave' is false, which is not supported; true is.", config.place());
    // Of one module there is nothing to share: it has an indexer of its own.
    if (model.more["mtp"] <= 1) (void)config.flag_or("index_share_for_mtp_iteration", false);
  } else {
    expect_layers(config, "indexer_types", model.layers, 0, "", "full");
  }
  expect_layers(config, "layer_types", model.layers, 0, "",
                earlier ? "deepseek_sparse_attention" : "indexed_attention");
  return model;
}

// A.X K2: DeepSeek-V3.2 with gates of what heads make, which read queries' vector and its norm as the queries do, and
// of what norms make.
ModelConfig read_axk2(const HfReader& config) {
  ModelConfig model = read_deepseek_v3(config);
  set_indexer(model, config, 16);
  read_dense_layers(model, config, 1);
  set(model, "both_queries", 1);
  set(model, "norm_gate", config.size_or({"gated_norm_rank"}, 16));
  const std::int64_t further = model.more["mtp"];
  require(further == 0, "{}: 'num_nextn_predict_layers' is {}, which is not supported for this family; 0 is.",
          config.place(), further);
  expect_layers(config, "layer_types", model.layers, 0, "", "indexed_attention");
  return model;
}

// Hunyuan 4: several residual streams, and indexers that most layers share.
ModelConfig read_hy_v4(const HfReader& config) {
  (void)one_of(config, "hidden_act", "silu", {Act::Silu});
  for (const char* extra : {"attention_bias", "rope_interleave"}) config.refuse(extra);
  ModelConfig model = made("hy_v4", config);
  read_latent_heads(model, config);
  set_epsilon(model, config, "rms_norm_eps", 1e-5);
  set_indexer(model, config, 16);
  read_routed_experts(model, config, 1);
  model.factors["routed_scale"] = config.positive_or("routed_scaling_factor", 2.827);
  const std::int64_t further = model.more["mtp"];
  require(further == 0, "{}: 'num_nextn_predict_layers' is {}, which is not supported for this family; 0 is.",
          config.place(), further);
  model.more.erase("mtp");
  set(model, "streams", config.size_or({"hc_mult"}, 4));
  model.factors["stream_magnitude"] = config.positive_or("hc_magnitude", 2.0);
  model.factors["stream_epsilon"] = config.positive_or("hc_eps", 1e-6);
  model.factors["gate_bound"] = config.positive_or("swiglu_limit", 10.0);
  (void)config.has("learnable_sink_init");  // where sinks begin
  expect_layers(config, "layer_types", model.layers, 0, "", "indexed_attention");
  if (config.has("indexer_types")) {
    read_shared_indexers(model, config);
  } else {  // as transformers has it
    set(model, "index_first", 2);
    set(model, "index_every", 4);
  }
  return model;
}

}  // namespace meshwright::hf
