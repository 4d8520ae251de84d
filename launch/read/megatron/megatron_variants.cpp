// SPDX-License-Identifier: Apache-2.0
#include "launch/read/megatron/megatron_variants.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

[[noreturn]] void refuse_layers(ReadingJob& job, const std::string& key) {
  throw InputError(
      fmt::format("{}: asks for layers that its flags do not describe to us; give --model with a built-in model, sizes "
                  "or a config.json.",
                  job.settings().where(key)));
}

// The module of MindSpeed-LLM that --spec names: "gemma2" of "mindspeed_llm.tasks.models.spec.gemma2_spec layer_spec".
std::string specification(ReadingJob& job) {
  const std::string text = join(job.settings().words("spec"), " ");
  const std::size_t at = text.find("mindspeed_llm.tasks.models.spec.");
  if (at == std::string::npos) return "";
  const std::size_t begin = text.rfind('.', text.find("_spec", at)) + 1;
  return text.substr(begin, text.find("_spec", begin) - begin);
}

// --- gated delta rules: Qwen3-Next, Qwen3.5 ---

ModelConfig delta_model(ReadingJob& job, const ModelFacts& facts, const std::string& place) {
  Settings& s = job.settings();
  Json config = config_of(facts, "qwen3_next");
  const auto take = [&](const char* key, const char* flag, std::int64_t usual) {
    config[key] = s.integer(flag).value_or(usual);
  };
  take("linear_num_key_heads", "linear-num-key-heads", 16);
  take("linear_num_value_heads", "linear-num-value-heads", 32);
  take("linear_key_head_dim", "linear-key-head-dim", 128);
  take("linear_value_head_dim", "linear-value-head-dim", 128);
  take("linear_conv_kernel_dim", "linear-conv-kernel-dim", 4);
  config["full_attention_interval"] =
      s.integer("linear-attention-freq").value_or(s.integer("full-attention-interval").value_or(4));
  config["partial_rotary_factor"] = s.number("partial-rotary-factor").value_or(facts.rotary_share);
  config["head_dim"] = facts.head_dim.value_or(std::max<std::int64_t>(1, facts.hidden / facts.heads));
  if (facts.experts > 0) {
    config["num_experts"] = facts.experts;
    config["num_experts_per_tok"] = facts.top_k;
    config["moe_intermediate_size"] = facts.expert_ffn.value_or(facts.ffn.value_or(4 * facts.hidden));
    config["shared_expert_intermediate_size"] = facts.shared_ffn.value_or(0);
    if (facts.dense_layers > 0 || facts.mixture_every > 1) job.assume("experts in every layer");
  }
  config["mtp_num_hidden_layers"] = facts.further;
  (void)s.flag("moe-shared-expert-gate");
  return model_of_config(config, "", facts, place);
}

// --- DeepSeek's sparse attention ---

ModelConfig indexed_model(ReadingJob& job, const ModelFacts& facts, const char* prefix, const std::string& place) {
  Settings& s = job.settings();
  require(
      facts.latent && facts.q_rank > 0 && facts.experts > 0,
      "{}: an indexer is known in mixtures with latent attention and --q-lora-rank alone; give --model for another.",
      place);
  const auto size = [&](const char* name) { return s.integer(fmt::format("{}{}", prefix, name)); };
  Json config = config_of(facts, "deepseek_v32");
  config["q_lora_rank"] = facts.q_rank;
  config["kv_lora_rank"] = facts.kv_rank;
  config["qk_nope_head_dim"] = facts.nope_dim;
  config["qk_rope_head_dim"] = facts.rope_dim;
  config["v_head_dim"] = facts.value_dim;
  config["n_routed_experts"] = facts.experts;
  config["num_experts_per_tok"] = facts.top_k;
  config["moe_intermediate_size"] = facts.expert_ffn.value_or(facts.ffn.value_or(4 * facts.hidden));
  const std::int64_t expert = config["moe_intermediate_size"].get<std::int64_t>();
  config["n_shared_experts"] = facts.shared_ffn.value_or(0) / std::max<std::int64_t>(1, expert);
  config["first_k_dense_replace"] = facts.dense_layers;
  config["n_group"] = config["topk_group"] = 1;
  config["num_nextn_predict_layers"] = facts.further;
  if (const auto heads = size("n-heads")) config["index_n_heads"] = *heads;
  if (const auto width = size("head-dim")) config["index_head_dim"] = *width;
  if (const auto chosen = size("topk")) config["index_topk"] = *chosen;
  return model_of_config(config, "", facts, place);
}

ModelConfig gemma2_model(ReadingJob& job, const ModelFacts& facts) {
  Settings& s = job.settings();
  Json config = config_of(facts, "gemma2");
  config["tie_word_embeddings"] = true;  // without --untie-embeddings-and-output-weights it is
  config["hidden_activation"] = "gelu_pytorch_tanh";
  config["head_dim"] = facts.head_dim.value_or(std::max<std::int64_t>(1, facts.hidden / facts.heads));
  config["sliding_window"] = s.integer("interleave-sliding-window").value_or(4096);
  if (const auto scale = s.number("query-pre-attn-scalar")) config["query_pre_attn_scalar"] = *scale;
  if (const auto cap = s.number("output-logit-softcapping")) config["final_logit_softcapping"] = *cap;
  if (const auto cap = s.number("attn-logit-softcapping")) config["attn_logit_softcapping"] = *cap;
  for (const char* key : {"gelu-tanh", "post-norm", "input-embeds-norm"}) (void)s.flag(key);
  return model_of_config(config, "", facts, s.where("spec"));
}

// Norms behind attention and feed-forward layers, as Gemma 2 has them, in blocks of Llama.
ModelConfig glm4_model(ReadingJob& job, const ModelFacts& facts) {
  Settings& s = job.settings();
  Json config = config_of(facts, "glm4");
  config["head_dim"] = facts.head_dim.value_or(std::max<std::int64_t>(1, facts.hidden / facts.heads));
  config["attention_bias"] = facts.qkv_bias;
  config["partial_rotary_factor"] = facts.rotary_share;
  (void)s.flag("post-norm");
  return model_of_config(config, "", facts, s.where("spec"));
}

}  // namespace

std::optional<ModelConfig> variant_model(ReadingJob& job, const ModelFacts& facts) {
  Settings& s = job.settings();
  // Layers of other kinds, streams beside the residual one, experts that do nothing or work on narrower tokens.
  for (const char* key : {"heterogeneous-layers-config-path", "compress-ratios", "enable-mhc", "num-zero-experts",
                          "moe-latent-size", "enable-hyper-connections", "enable-engram"})
    if (s.has(key)) refuse_layers(job, key);
  const std::string kind = s.text_or_nothing("experimental-attention-variant");
  const std::string spec = specification(job);
  if (kind == "gated_delta_net" || spec == "qwen3_next") {
    // Attention beside the delta rules has a gate in every model that is known.
    if (spec.empty() && !s.flag("attention-output-gate")) refuse_layers(job, "experimental-attention-variant");
    return delta_model(job, facts, s.where(spec.empty() ? "experimental-attention-variant" : "spec"));
  }
  if (kind == "dsa") return indexed_model(job, facts, "dsa-indexer-", s.where("experimental-attention-variant"));
  if (!kind.empty() && kind != "None" && kind != "null") refuse_layers(job, "experimental-attention-variant");
  if (s.flag("enable-dsa-indexer")) return indexed_model(job, facts, "index-", s.where("enable-dsa-indexer"));
  if (spec == "gemma2") return s.has("swiglu") ? glm4_model(job, facts) : gemma2_model(job, facts);
  for (const char* other : {"deepseek4", "longcat", "mamba", "grok"})
    if (spec == other) refuse_layers(job, "spec");
  return std::nullopt;
}

}  // namespace meshwright
