// SPDX-License-Identifier: Apache-2.0
// Decoders with latent attention: DeepSeek and its like.
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/import/hf_families.h"
#include "core/graph/import/hf_parts.h"

namespace meshwright::hf {

namespace {

ModelConfig made_latent(const HfReader& config) {
  require(config.flag_or("rope_interleave", true), "{}: 'rope_interleave' is false, which is not supported; true is.",
          config.place());
  ModelConfig model = made("deepseek_v3", config);
  (void)one_of(config, "hidden_act", "silu", {Act::Silu});
  config.refuse("attention_bias");
  return model;
}

void read_latent_heads(ModelConfig& model, const HfReader& config) {
  set(model, "intermediate", config.size({"intermediate_size"}));
  // All heads have keys and values of their own, whatever the file says.
  (void)config.has("num_key_value_heads");
  set(model, "q_rank", config.size_or({"q_lora_rank"}, 0));
  set(model, "kv_rank", config.size({"kv_lora_rank"}));
  set(model, "nope_dim", config.size({"qk_nope_head_dim"}));
  set(model, "rope_dim", config.size({"qk_rope_head_dim"}));
  set(model, "value_dim", config.size({"v_head_dim"}));
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  read_rotation(model, config, 1e-6);
  // What other members make them, where files say it again; for some, `head_dim` is the rotated part.
  const std::int64_t rope = model.more["rope_dim"], whole = rope + model.more["nope_dim"];
  const std::int64_t head = config.size_or({"head_dim"}, whole), again = config.size_or({"qk_head_dim"}, whole);
  require(again == whole && (head == whole || head == rope),
          "{}: 'qk_head_dim' is {} and 'head_dim' {}, but 'qk_nope_head_dim' and 'qk_rope_head_dim' make heads of {}; "
          "check them.",
          config.place(), again, head, whole);
  config.refuse("mlp_bias");
}

void read_latent_decoder(ModelConfig& model, const HfReader& config) {
  read_latent_heads(model, config);
  read_routed_experts(model, config, 0);
  const std::int64_t step = config.size_or({"moe_layer_freq"}, 1);
  require(step == 1, "{}: 'moe_layer_freq' is {}, which is not supported; 1 is.", config.place(), step);
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

// All layers are dense: the one expert is in none.
ModelConfig read_youtu(const HfReader& config) {
  ModelConfig model = made_latent(config);
  read_latent_heads(model, config);
  set(model, "experts", 1);
  set(model, "top_k", 1);
  set(model, "dense_layers", model.layers);
  set(model, "tied", config.flag_or("tie_word_embeddings", true));
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
  set(model, "q_rank", config.size({"q_lora_rank"}));
  set(model, "index_heads",
      config.size_or({"index_n_heads"}, config.text_or("model_type", "") == "glm_moe_dsa" ? 32 : 64));
  set(model, "index_dim", config.size_or({"index_head_dim"}, 128));
  set(model, "index_top_k", config.size_or({"index_topk"}, 2048));
  read_dense_layers(model, config, 3);
  // What transformers calls it has changed.
  const bool earlier = config.has("layer_types") && config.at("layer_types").is_array() &&
                       !config.at("layer_types").empty() && config.at("layer_types")[0] == "deepseek_sparse_attention";
  expect_layers(config, "indexer_types", model.layers, 0, "", "full");
  expect_layers(config, "layer_types", model.layers, 0, "",
                earlier ? "deepseek_sparse_attention" : "indexed_attention");
  return model;
}

}  // namespace meshwright::hf
