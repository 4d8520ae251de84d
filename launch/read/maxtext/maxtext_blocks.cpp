// SPDX-License-Identifier: Apache-2.0
#include "launch/read/maxtext/maxtext_blocks.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright {

namespace {

constexpr const char* kPlain[] = {"default", "llama2", "mistral",   "mixtral", "deepseek", "gemma",
                                  "qwen2",   "qwen3",  "qwen3_moe", "gpt3",    "envy"};

class BlockReader {
 public:
  BlockReader(ReadingJob& job, std::string block, const ModelFacts& facts)
      : job_(job), s_(job.settings()), block_(std::move(block)), facts_(facts) {}

  std::optional<ModelConfig> read() {
    if (block_ == "gemma2") return gemma2();
    if (block_ == "gemma3") return gemma3();
    if (block_ == "gemma4" || block_ == "gemma4_small") return gemma4();
    if (block_ == "gpt_oss") return gpt_oss();
    if (block_ == "llama4") return llama4();
    if (block_ == "olmo3") return olmo3();
    if (block_ == "qwen3_next" || block_ == "qwen3_5") return delta();
    const bool plain =
        std::any_of(std::begin(kPlain), std::end(kPlain), [&](const char* name) { return block_ == name; });
    require(plain,
            "{}: its layers are '{}', which no model here has; give --model with a built-in model, sizes or a "
            "config.json.",
            s_.where("decoder_block"), block_);
    return std::nullopt;
  }

 private:
  std::int64_t size(const char* key, std::int64_t otherwise) { return s_.integer(key, -1).value_or(otherwise); }

  [[nodiscard]] Json sizes(const char* type) const { return config_of(facts_, type); }
  [[nodiscard]] ModelConfig model_of(const Json& config) const {
    return model_of_config(config, "", facts_, s_.where("decoder_block"));
  }

  // The caps of scores and logits are a few elementwise steps inside of attention and loss.
  void leave_out_caps() {
    for (const char* key : {"attn_logits_soft_cap", "final_logits_soft_cap"}) {
      if (s_.number(key).value_or(0.0) > 0.0) job_.assume(fmt::format("without {}", key));
    }
  }
  void take_norms() {
    for (const char* key : {"use_post_attn_norm", "use_post_ffw_norm"})
      if (!s_.boolean(key).value_or(true))
        job_.assume(fmt::format("norms behind attention and feed-forward, which {}: false leaves out", key));
  }

  // What it calls a layer is a pair, the first with a window (models/gemma2.py).
  ModelConfig gemma2() {
    Json config = sizes("gemma3_text");
    config["num_hidden_layers"] = 2 * facts_.layers;
    config["sliding_window"] = size("sliding_window_size", 4096);
    config["sliding_window_pattern"] = 2;
    leave_out_caps();
    take_norms();
    ModelConfig model = model_of(config);
    model.more["qk_norm"] = 0;
    return model;
  }
  ModelConfig gemma3() {
    Json config = sizes("gemma3_text");
    config["sliding_window"] = size("sliding_window_size", 1024);
    take_norms();
    return model_of(config);
  }
  ModelConfig gemma4() {
    Json config = sizes("gemma4_text");
    config["sliding_window"] = size("sliding_window_size", 512);
    if (const std::int64_t head = size("global_head_dim", 0); head > 0) config["global_head_dim"] = head;
    if (const std::int64_t heads = size("global_num_kv_heads", 0); heads > 0)
      config["num_global_key_value_heads"] = heads;
    config["attention_k_eq_v"] = s_.flag("share_kv_projections");
    config["num_kv_shared_layers"] = size("num_kv_shared_layers", 0);
    config["use_double_wide_mlp"] = s_.flag("use_double_wide_mlp");
    config["hidden_size_per_layer_input"] = size("hidden_size_per_layer_input", 0);
    if (const std::int64_t words = size("vocab_size_per_layer_input", 0); words > 0)
      config["vocab_size_per_layer_input"] = words;
    if (facts_.experts > 0) {
      config["enable_moe_block"] = true;
      config["num_experts"] = facts_.experts;
      config["top_k_experts"] = facts_.top_k;
      config["moe_intermediate_size"] = facts_.expert_ffn.value_or(facts_.ffn.value_or(0));
    }
    if (const double cap = s_.number("final_logits_soft_cap").value_or(0.0); cap > 0.0)
      config["final_logit_softcapping"] = cap;
    take_norms();
    return model_of(config);
  }
  ModelConfig gpt_oss() {
    Json config = sizes("gpt_oss");
    config["intermediate_size"] = facts_.expert_ffn.value_or(facts_.ffn.value_or(0));
    config["num_local_experts"] = facts_.experts;
    config["num_experts_per_tok"] = facts_.top_k;
    config["sliding_window"] = size("sliding_window_size", 128);
    return model_of(config);
  }
  ModelConfig llama4() {
    Json config = sizes("llama4_text");
    config["intermediate_size"] = facts_.expert_ffn.value_or(facts_.ffn.value_or(0));
    config["intermediate_size_mlp"] = facts_.ffn.value_or(0);
    config["num_local_experts"] = facts_.experts;
    config["num_experts_per_tok"] = facts_.top_k;
    config["interleave_moe_layer_step"] = facts_.mixture_every;
    config["no_rope_layer_interval"] = std::max<std::int64_t>(0, size("nope_layer_interval", 0));
    if (const std::int64_t chunk = size("chunk_attn_window_size", 0); chunk > 0) config["attention_chunk_size"] = chunk;
    return model_of(config);
  }
  ModelConfig olmo3() {
    Json config = sizes("olmo3");
    config["sliding_window"] = size("sliding_window_size", 4096);
    return model_of(config);
  }
  // Gated delta rules in all layers but every fourth.
  ModelConfig delta() {
    const bool mixture = facts_.experts > 0;
    Json config = sizes(block_ == "qwen3_next" ? "qwen3_next" : mixture ? "qwen3_5_moe_text" : "qwen3_5_text");
    config["full_attention_interval"] = size("inhomogeneous_layer_cycle_interval", 4);
    config["linear_conv_kernel_dim"] = size("gdn_conv_kernel_dim", 4);
    config["linear_key_head_dim"] = size("gdn_key_head_dim", 128);
    config["linear_value_head_dim"] = size("gdn_value_head_dim", 128);
    config["linear_num_key_heads"] = size("gdn_num_key_heads", 16);
    config["linear_num_value_heads"] = size("gdn_num_value_heads", 32);
    config["partial_rotary_factor"] = s_.number("partial_rotary_factor").value_or(1.0);
    if (mixture) {
      config["num_experts"] = facts_.experts;
      config["num_experts_per_tok"] = facts_.top_k;
      config["moe_intermediate_size"] = facts_.expert_ffn.value_or(facts_.ffn.value_or(0));
      config["shared_expert_intermediate_size"] = facts_.shared_ffn.value_or(0);
      config.erase("intermediate_size");
    }
    return model_of(config);
  }

  ReadingJob& job_;
  Settings& s_;
  std::string block_;
  const ModelFacts& facts_;
};

}  // namespace

std::optional<ModelConfig> model_of_block(ReadingJob& job, const std::string& block, const ModelFacts& facts) {
  return BlockReader(job, block, facts).read();
}

}  // namespace meshwright
