// SPDX-License-Identifier: Apache-2.0
// Decoders with mixtures of experts.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_families.h"
#include "core/graph/import/hf/hf_parts.h"

namespace meshwright::hf {

ModelConfig read_mixtral(const HfReader& config) {
  ModelConfig model = read_decoder("mixtral", config, 1e-5);
  set(model, "window", config.size_or({"sliding_window"}, 0));
  set(model, "experts", config.size({"num_local_experts"}));
  set(model, "top_k", config.size({"num_experts_per_tok"}));
  return model;
}

namespace {

void read_qwen_experts(ModelConfig& model, const HfReader& config) {
  set_experts(model, config.size({"num_experts", "num_local_experts"}), config.size({"num_experts_per_tok"}),
              config.size({"moe_intermediate_size"}));
  set(model, "mixture_every", config.size_or({"decoder_sparse_step"}, 1));
  set(model, "normalized", config.flag_or("norm_topk_prob", false));
  if (!config.has("mlp_only_layers")) return;
  const Json& dense = config.at("mlp_only_layers");
  bool first_ones = dense.is_array();
  for (std::size_t i = 0; first_ones && i < dense.size(); ++i) first_ones = dense[i] == i;
  require(first_ones, "{}: 'mlp_only_layers' is supported for the first layers alone, as in [0, 1, 2].",
          config.place());
  set(model, "dense_layers", static_cast<std::int64_t>(dense.size()));
}

}  // namespace

// Its heads are as wide as the hidden size gives where the file does not say, unlike Qwen3's.
// Every layer has experts; sizes of attention and of experts are in parts of their own.
ModelConfig read_dbrx(const HfReader& config) {
  ModelConfig model =
      made("decoder_moe", Core{config.size({"n_layers"}), config.size({"d_model"}), config.size({"n_heads"}),
                               config.size_or({"max_seq_len"}, 2048), config.size({"vocab_size"})});
  const HfReader experts = config.part_or_empty("ffn_config"), attention = config.part_or_empty("attn_config");
  set(model, "kv_heads", attention.size_or({"kv_n_heads"}, 1));
  set_qkv_bound(model, attention);
  set_experts(model, experts.size_or({"moe_num_experts"}, 4), experts.size_or({"moe_top_k"}, 1),
              experts.size_or({"ffn_hidden_size"}, 3584));
  set(model, "intermediate", model.more["expert_intermediate"]);
  require(experts.size_or({"hidden_size"}, model.hidden) == model.hidden || !config.has("ffn_config"),
          "{}: 'hidden_size' is {}, but 'd_model' {}; check them.", experts.place(),
          experts.size_or({"hidden_size"}, model.hidden), model.hidden);
  if (experts.has("ffn_act_fn")) (void)one_of(experts.part("ffn_act_fn"), "name", "silu", {Act::Silu});
  const double norm = experts.positive_or("moe_normalize_expert_weights", 1.0);
  require(norm == 1.0, "{}: 'moe_normalize_expert_weights' is {:g}, which is not supported; 1 is.", experts.place(),
          norm);
  set(model, "layer_norm", 2);
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  // transformers 5 writes the base as other families do.
  const bool among = attention.has("rope_theta") && !config.has("rope_parameters");
  set_rotary_base(model, among ? attention : config, "rope_theta");
  model.factors["epsilon"] = 1e-5;
  return model;
}

ModelConfig read_qwen3_moe(const HfReader& config) {
  ModelConfig model = read_qwen3_decoder("mixtral", config);
  if (!config.has("head_dim")) set(model, "head_dim", std::max<std::int64_t>(1, model.hidden / model.heads));
  read_qwen_experts(model, config);
  return model;
}

// Qwen1.5 and Qwen2: the result of the shared expert is multiplied by a gate.
ModelConfig read_qwen2_moe(const HfReader& config) {
  ModelConfig model = read_decoder("mixtral", config);
  set(model, "qkv_bias", config.flag_or("qkv_bias", true));
  read_qwen_window(model, config);
  read_qwen_experts(model, config);
  set(model, "shared_intermediate", config.size({"shared_expert_intermediate_size"}));
  set(model, "shared_gate", 1);
  return model;
}

// Mellum 2: windows in some layers, and lists where Qwen3 has numbers.
ModelConfig read_mellum(const HfReader& config) {
  ModelConfig model = read_qwen3_decoder("decoder_moe", config);
  read_qwen_experts(model, config);
  read_windows(model, config, config.size_or({"sliding_window"}, 0), 0);
  set(model, "normalized", config.flag_or("norm_topk_prob", true));
  read_dense_layers(model, config, 0);
  return model;
}

// Flint: sigmoid scores without a bias, sinks, and positions in the layers with windows alone. As transformers has it
// where a file says nothing, the first two layers, each fourth one behind them and the last one see all keys.
ModelConfig read_flint(const HfReader& config) {
  ModelConfig model = read_decoder("decoder_moe", config);
  if (!config.has("head_dim")) set(model, "head_dim", 128);
  set_attention_bias(model, config, false);
  for (const char* on : {"qk_norm", "sinks", "rotary_windows_alone", "sigmoid"}) set(model, on, 1);
  read_qwen_experts(model, config);
  if (!config.has("mlp_only_layers")) set(model, "dense_layers", 2);
  set(model, "normalized", config.flag_or("norm_topk_prob", true));
  set(model, "shared_intermediate", config.size_or({"shared_expert_intermediate_size"}, 1024));
  set(model, "window", config.size_or({"sliding_window"}, 513));
  if (config.has("layer_types")) {
    read_layer_types(model, config);
    return model;
  }
  std::vector<bool> windowed;
  for (std::int64_t layer = 0; layer < std::min<std::int64_t>(model.layers, 10'000); ++layer)
    windowed.push_back(layer >= 2 && layer % 4 != 1 && layer != model.layers - 1);
  set_windowed_layers(model, windowed, config.place() + ": the layers with windows");
  return model;
}

// gpt-oss: biases everywhere, sinks, and windows in every other layer, the first included.
ModelConfig read_gpt_oss(const HfReader& config) {
  ModelConfig model = read_decoder("mixtral", config, 1e-5);
  if (!config.has("head_dim")) set(model, "head_dim", 64);
  set_attention_bias(model, config, true);
  set(model, "window", config.size_or({"sliding_window"}, 128));
  set(model, "full_every", 2);
  read_layer_types(model, config);
  set(model, "experts", config.size({"num_local_experts"}));
  set(model, "top_k", config.size({"num_experts_per_tok", "experts_per_token"}));
  for (const char* key : {"router_bias", "expert_bias", "sinks", "clipped_gate"}) set(model, key, 1);
  if (!config.has("rope_scaling") && !config.has("rope_parameters"))
    model.rotary_scaling = {.kind = RotaryScaling::Kind::Yarn,
                            .factor = 32.0,
                            .original = 4096.0,
                            .low = 1.0,
                            .high = 32.0,
                            .whole_pairs = false,
                            .amplitude = 0.1 * std::log(32.0) + 1.0};
  for (const auto& [key, only] : {std::pair("swiglu_alpha", 1.702), std::pair("swiglu_limit", 7.0)}) {
    const double given = config.positive_or(key, only);
    require(given == only, "{}: '{}' is {}, which is not supported; {} is.", config.place(), key, given, only);
  }
  return model;
}

namespace {

// Mixtures in each n-th layer, as `moe_layers` lists them where it is given.
void expect_mixture_layers(const HfReader& config, std::int64_t layers, std::int64_t every) {
  if (!config.has("moe_layers")) return;
  Json expected = Json::array();
  for (std::int64_t layer = every - 1; layer < layers; layer += every) expected.push_back(layer);
  require(config.at("moe_layers") == expected,
          "{}: 'moe_layers' lists other layers than each 'interleave_moe_layer_step'-th ({}), which is not supported.",
          config.place(), every);
}

// Attention in chunks where a layer has positions; to all keys where it has none.
void read_chunks(ModelConfig& model, const HfReader& config) {
  const std::int64_t every = model.more["no_rotary_every"];
  std::int64_t chunk = config.size_or({"attention_chunk_size"}, 0);
  if (config.has("layer_types")) {
    Json chunked = Json::array(), whole = Json::array();
    for (std::int64_t layer = 1; layer <= model.layers; ++layer) {
      chunked.push_back(every == 0 || layer % every != 0 ? "chunked_attention" : "full_attention");
      whole.push_back("full_attention");
    }
    const Json& types = config.at("layer_types");
    require(types == chunked || types == whole,
            "{}: 'layer_types' is not \"chunked_attention\" for the layers with positions and \"full_attention\" for "
            "those without, which alone is supported.",
            config.place());
    if (types != chunked) chunk = 0;
  }
  set(model, "attention_chunk", chunk);
}

// A truth value, or a number, as early files have it.
bool is_tempered(const HfReader& config) {
  constexpr const char* kKey = "attn_temperature_tuning";
  if (config.has(kKey) && config.at(kKey).is_number_integer()) return config.at(kKey) != 0;
  return config.flag_or(kKey, true);
}

}  // namespace

// Chosen experts are given the token times the sigmoid of its score.
ModelConfig read_llama4(const HfReader& config) {
  if (auto text = read_text_part(config, "llama4", read_llama4)) return *std::move(text);
  ModelConfig model = read_decoder("mixtral", config, 1e-5);
  set_attention_bias(model, config, false);
  set(model, "experts", config.size({"num_local_experts"}));
  set(model, "top_k", config.size({"num_experts_per_tok"}));
  const std::int64_t expert = config.size({"intermediate_size"});
  set(model, "expert_intermediate", expert);
  set(model, "shared_intermediate", expert);
  set(model, "intermediate", config.size({"intermediate_size_mlp"}));
  set(model, "mixture_every", config.size_or({"interleave_moe_layer_step"}, 1));
  set(model, "sigmoid", 1);
  set(model, "normalized", 0);
  set(model, "weigh_inputs", 1);
  expect_mixture_layers(config, model.layers, model.more["mixture_every"]);
  read_no_rotary(model, config, 4);
  read_chunks(model, config);
  set(model, "plain_qk_norm", config.flag_or("use_qk_norm", true));
  if (is_tempered(config)) {
    set(model, "temperature_every", config.size_or({"floor_scale"}, 8192));
    model.factors["temperature"] = config.positive_or("attn_scale", 0.1);
  }
  if (!config.has("rope_theta") && !config.has("rope_parameters")) model.factors["rotary_base"] = 500000.0;
  return model;
}

ModelConfig read_glm4_moe(const HfReader& config) {
  ModelConfig model = read_decoder("decoder_moe", config, 1e-5);
  set(model, "qkv_bias", config.flag_or("attention_bias", false));
  set(model, "qk_norm", config.flag_or("use_qk_norm", false));
  set_rotated_share(model, config, "partial_rotary_factor", 0.5);
  read_routed_experts(model, config, 1);
  set(model, "sigmoid", 1);
  set(model, "selection_bias", 1);
  return model;
}

// All layers have experts, and no width of dense ones is given.
ModelConfig read_solar_open(const HfReader& config) {
  ModelConfig model = made("decoder_moe", config);
  const std::int64_t width = config.size({"moe_intermediate_size"});
  set(model, "intermediate", config.size_or({"intermediate_size"}, width));
  set(model, "kv_heads", config.size_or({"num_key_value_heads"}, model.heads));
  set(model, "head_dim", config.size_or({"head_dim"}, 128));
  (void)one_of(config, "hidden_act", "silu", {Act::Silu});
  set(model, "qkv_bias", config.flag_or("attention_bias", false));
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  read_rotation(model, config, 1e-5);
  set_rotated_share(model, config, "partial_rotary_factor", 1.0);
  read_routed_experts(model, config, 0);
  set(model, "shared_intermediate", width * config.size_or({"n_shared_experts"}, 1, 0));
  set(model, "sigmoid", 1);
  set(model, "selection_bias", 1);
  return model;
}

// GLM-4.5 with whole heads rotated.
ModelConfig read_sarvam_moe(const HfReader& config) {
  ModelConfig model = read_glm4_moe(config);
  set_rotated_share(model, config, "partial_rotary_factor", 1.0);
  return model;
}

ModelConfig read_deepseek_ocr2_text(const HfReader& config) {
  expect_text(config, "topk_method", "greedy");
  ModelConfig model = read_decoder("decoder_moe", config);
  set_attention_bias(model, config, false);
  read_routed_experts(model, config, 2);
  set(model, "normalized", config.flag_or("norm_topk_prob", false));
  return model;
}

// A query sees the text in front of what it generates whole, and of that the last keys: in training it sees all.
ModelConfig read_unlimited_ocr_text(const HfReader& config) {
  ModelConfig model = read_deepseek_ocr2_text(config);
  if (!config.has("mlp_layer_types") && !config.has("first_k_dense_replace")) set(model, "dense_layers", 1);
  (void)config.has("sliding_window");
  const bool full = config.has("layer_types") && config.at("layer_types").is_array() &&
                    !config.at("layer_types").empty() && config.at("layer_types")[0] == "full_attention";
  expect_layers(config, "layer_types", model.layers, 0, "", full ? "full_attention" : "reference_sliding_attention");
  return model;
}

ModelConfig read_dots1(const HfReader& config) {
  ModelConfig model = read_decoder("decoder_moe", config);
  set_attention_bias(model, config, false);
  set(model, "qk_norm", 1);
  read_routed_experts(model, config, 0);
  set(model, "normalized", config.flag_or("norm_topk_prob", false));
  set(model, "sigmoid", 1);
  set(model, "selection_bias", 1);
  const std::int64_t first = config.size_or({"max_window_layers"}, model.layers, 0);
  require(!config.has("sliding_window") || first >= model.layers,
          "{}: 'sliding_window' is set for the layers from {} on, which is not supported; null is.", config.place(),
          first);
  return model;
}

// Layer norms and biases; weights of its two experts are taken from one softmax.
ModelConfig read_phimoe(const HfReader& config) {
  ModelConfig model = read_decoder("decoder_moe", config, 1e-5);
  set_attention_bias(model, config, false);
  set(model, "layer_norm", 1);
  set(model, "head_bias", config.flag_or("lm_head_bias", false));
  set(model, "window", config.size_or({"sliding_window"}, 0));
  set(model, "experts", config.size({"num_local_experts"}));
  set(model, "top_k", config.size({"num_experts_per_tok"}));
  set(model, "normalized", 0);
  return model;
}

// MiniMax-M2: without its layers for further tokens.
ModelConfig read_minimax_m2(const HfReader& config) {
  ModelConfig model = read_decoder("decoder_moe", config);
  expect_text(config, "scoring_func", "sigmoid");
  expect_text(config, "qk_norm_type", "per_layer");
  set(model, "wide_qk_norm", config.flag_or("use_qk_norm", true));
  set(model, "rotary_dims", config.size_or({"rotary_dim"}, 0));
  set(model, "experts", config.size({"num_local_experts"}));
  set(model, "top_k", config.size({"num_experts_per_tok"}));
  set(model, "expert_intermediate", config.size({"intermediate_size"}));
  set(model, "shared_intermediate", config.size_or({"shared_intermediate_size"}, 0, 0));
  set(model, "sigmoid", 1);
  set(model, "selection_bias", config.flag_or("use_routing_bias", true));
  return model;
}

// Experts of attention, and of the feed-forward layer. Each choice of a token has a head of queries for each of the
// keys.
ModelConfig read_jetmoe(const HfReader& config) {
  const std::int64_t heads = config.size_or({"num_key_value_heads"}, 16), top_k = config.size({"num_experts_per_tok"});
  ModelConfig model =
      made("jetmoe", Core{config.size({"num_hidden_layers"}), config.size({"hidden_size"}), heads,
                          config.size_or({"max_position_embeddings"}, 4096), config.size({"vocab_size"})});
  const std::int64_t all = config.size_or({"num_attention_heads"}, heads * top_k);
  require(all == heads * top_k,
          "{}: 'num_attention_heads' is {}, but 'num_key_value_heads' times 'num_experts_per_tok' is {}; check them.",
          config.place(), all, heads * top_k);
  expect_text(config, "activation_function", "silu");
  set(model, "head_dim", config.size_or({"kv_channels"}, 128));
  set(model, "intermediate", config.size({"intermediate_size"}));
  set(model, "experts", config.size({"num_local_experts"}));
  set(model, "top_k", top_k);
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
  (void)config.has("aux_loss_coef");
  read_rotation(model, config, 1e-6);
  constexpr double kEpsilon = 1e-6;  // of the norms in the layers, which is no member
  require(model.factors["epsilon"] == kEpsilon,
          "{}: 'rms_norm_eps' is {:g}, which is not supported for this family; {:g} is.", config.place(),
          model.factors["epsilon"], kEpsilon);
  return model;
}

}  // namespace meshwright::hf
