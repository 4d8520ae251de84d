// SPDX-License-Identifier: Apache-2.0
#include "launch/read/model_facts.h"

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_config.h"

namespace meshwright {

namespace {

std::string core_of(const ModelFacts& facts) {
  return fmt::format("layers={},hidden={},heads={},seq={},vocab={}", facts.layers, facts.hidden, facts.heads, facts.seq,
                     facts.vocab);
}

std::string experts_text(const ModelFacts& facts, std::int64_t ffn) {
  std::string text = fmt::format(",experts={},top_k={},expert_intermediate={}", facts.experts, facts.top_k,
                                 facts.expert_ffn.value_or(ffn));
  if (facts.shared_ffn.value_or(0) > 0) text += fmt::format(",shared_intermediate={}", *facts.shared_ffn);
  if (facts.dense_layers > 0) text += fmt::format(",dense_layers={}", facts.dense_layers);
  return text;
}

// REQUIRES: a mixture of the families decoder_moe or deepseek_v3, which alone have such modules.
std::string further_text(const ModelFacts& facts) {
  return facts.further == 0 ? "" : fmt::format(",mtp={},mtp_weight={}", facts.further, facts.further_weight);
}

std::string latent_text(const ModelFacts& facts, std::int64_t ffn) {
  ModelFacts of = facts;
  if (of.experts == 0) {
    of.experts = of.top_k = 1;
    of.dense_layers = of.layers;
  }
  std::string text =
      fmt::format("deepseek_v3:{},intermediate={}{},kv_rank={},nope_dim={},rope_dim={},value_dim={}", core_of(of), ffn,
                  experts_text(of, ffn), of.kv_rank, of.nope_dim, of.rope_dim, of.value_dim);
  if (of.q_rank > 0) text += fmt::format(",q_rank={}", of.q_rank);
  return text + fmt::format(",tied={}", of.tied ? 1 : 0) + further_text(of);
}

// llama, and mixtral with experts; with what these lack the families decoder and decoder_moe.
std::string decoder_text(const ModelFacts& facts, std::int64_t ffn, std::vector<std::string>& assumed) {
  using Activation = ModelFacts::Activation;
  const std::int64_t kv_heads = facts.kv_heads.value_or(facts.heads);
  const bool mixture = facts.experts > 0;
  const bool partly_rotated = facts.positions == ModelFacts::Positions::Rotary && facts.rotary_share != 1.0;
  const bool more = partly_rotated || (mixture && (facts.further > 0 || facts.selection_bias));
  const char* family = mixture ? (more ? "decoder_moe" : "mixtral") : more ? "decoder" : "llama";
  std::string text = fmt::format("{}:{},kv_heads={},intermediate={}", family, core_of(facts), kv_heads, ffn);
  if (partly_rotated) {
    const std::int64_t head = facts.head_dim.value_or(facts.heads > 0 ? facts.hidden / facts.heads : 0);
    const auto rotated = static_cast<std::int64_t>(static_cast<double>(head) * facts.rotary_share + 0.5) / 2 * 2;
    text += fmt::format(",rotary_dims={}", rotated);
  }
  if (mixture && facts.sigmoid) text += ",sigmoid=1";
  if (mixture && facts.selection_bias) text += ",selection_bias=1";
  if (mixture) text += further_text(facts);
  if (facts.experts > 0) text += experts_text(facts, ffn);
  if (facts.experts > 0 && facts.mixture_every > 1) text += fmt::format(",mixture_every={}", facts.mixture_every);
  if (facts.head_dim) text += fmt::format(",head_dim={}", *facts.head_dim);
  if (!facts.gated) text += ",gated=0";
  if (facts.activation == Activation::Relu)
    text += ",relu=1";
  else if (facts.activation == Activation::Gelu)
    text += ",gelu=1";
  if (facts.bias) text += ",out_bias=1,mlp_bias=1";
  if (facts.bias || facts.qkv_bias) text += ",qkv_bias=1";
  if (facts.qk_norm) text += ",qk_norm=1";
  if (facts.window > 0) text += fmt::format(",window={},full_every={}", facts.window, facts.full_every);
  if (mixture && facts.sinks) text += ",sinks=1";
  if (!facts.rms_norm) assumed.push_back("RMS norms in the place of layer norms");
  if (facts.positions != ModelFacts::Positions::Rotary) assumed.push_back("rotated positions");
  return text + fmt::format(",tied={},rotary_base={}", facts.tied ? 1 : 0, facts.rotary_base);
}

std::string text_of(const ModelFacts& facts, std::vector<std::string>& assumed) {
  using Positions = ModelFacts::Positions;
  const std::int64_t ffn = facts.ffn.value_or(4 * facts.hidden);
  if (facts.further > 0 && facts.experts == 0 && !facts.latent)
    assumed.push_back(fmt::format(
        "without the {} modules that predict further tokens, which only mixtures of ours have", facts.further));
  if (facts.latent) {
    if (!facts.gated || facts.activation != ModelFacts::Activation::Silu)
      assumed.emplace_back("feed-forward layers with gates of SiLU, as all of ours with latent attention have");
    return latent_text(facts, ffn);
  }
  if (facts.sinks && facts.experts == 0) assumed.emplace_back("without the learnt score of attention's softmax");
  const bool plain = facts.window == 0 && facts.experts == 0 && !facts.gated && !facts.rms_norm && !facts.head_dim &&
                     !facts.qk_norm && facts.kv_heads.value_or(facts.heads) == facts.heads;
  if (plain && facts.positions == Positions::Alibi && ffn == 4 * facts.hidden && facts.bias)
    return fmt::format("bloom:{},tied={}", core_of(facts), facts.tied ? 1 : 0);
  if (plain && facts.positions == Positions::Rotary && facts.bias && facts.activation == ModelFacts::Activation::Gelu) {
    const std::int64_t head = facts.heads > 0 ? facts.hidden / facts.heads : 0;
    const auto rotated = static_cast<std::int64_t>(static_cast<double>(head) * facts.rotary_share) / 2 * 2;
    return fmt::format("gpt_neox:{},intermediate={},rotary_dims={},parallel={},tied={},rotary_base={}", core_of(facts),
                       ffn, rotated, facts.parallel ? 1 : 0, facts.tied ? 1 : 0, facts.rotary_base);
  }
  if (plain && facts.positions == Positions::None && facts.bias && facts.tied && ffn == 4 * facts.hidden &&
      facts.activation == ModelFacts::Activation::Gelu)
    return "gpt:" + core_of(facts);
  if (plain && facts.positions == Positions::Learned && facts.activation != ModelFacts::Activation::Silu)
    return fmt::format("gpt2:{},intermediate={},positions={},bias={},relu={},tied={}", core_of(facts), ffn,
                       std::max(facts.seq, facts.positions_learned.value_or(facts.seq)), facts.bias ? 1 : 0,
                       facts.activation == ModelFacts::Activation::Relu ? 1 : 0, facts.tied ? 1 : 0);
  return decoder_text(facts, ffn, assumed);
}

}  // namespace

std::string bert_text(const ModelFacts& facts) {
  return fmt::format("bert:{},intermediate={}", core_of(facts), facts.ffn.value_or(4 * facts.hidden));
}

std::string t5_text(const ModelFacts& facts, std::int64_t decoder_layers, std::int64_t encoder_seq) {
  const std::int64_t longest = std::max({facts.seq, encoder_seq, facts.positions_learned.value_or(1)});
  const bool relu = facts.activation == ModelFacts::Activation::Relu;
  const bool silu = facts.activation == ModelFacts::Activation::Silu;
  return fmt::format(
      "bart:{},intermediate={},decoder_layers={},encoder_seq={},positions={},norm_first=1,embedding_norm=0,gated={},"
      "relu={},silu={},erf=0,tied={}",
      core_of(facts), facts.ffn.value_or(4 * facts.hidden), decoder_layers, encoder_seq, longest, facts.gated ? 1 : 0,
      relu ? 1 : 0, silu ? 1 : 0, facts.tied ? 1 : 0);
}

ModelConfig model_of_text(const std::string& text, const std::string& place) {
  try {
    return find_builtin_model(text);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: the model that it describes cannot be made: {}", place, error.what()));
  }
}

namespace {

// What families have, each its own part of it, and is not in text_of.
void add_small_parts(const ModelFacts& facts, ModelConfig& model) {
  const auto factor = [&](const char* key, const std::optional<double>& value) {
    if (value && model.factors.contains(key)) model.factors[key] = *value;
  };
  const auto part = [&](const char* key, bool on) {
    if (model.more.contains(key)) model.more[key] = on ? 1 : 0;
  };
  factor("epsilon", facts.epsilon);
  if (facts.positions == ModelFacts::Positions::Rotary) factor("rotary_base", facts.rotary_base);
  if (facts.experts == 0) return;
  factor("routed_scale", facts.routed_scale);
  part("sigmoid", facts.sigmoid);
  part("selection_bias", facts.selection_bias);
  if (facts.normalized) part("normalized", *facts.normalized);
}

}  // namespace

ModelConfig model_of(const ModelFacts& facts, const std::string& name, const std::string& place,
                     std::vector<std::string>& assumed) {
  ModelConfig model = model_of_text(text_of(facts, assumed), place);
  add_small_parts(facts, model);
  if (!name.empty()) model.name = name;
  return model;
}

Json config_of(const ModelFacts& facts, const char* model_type) {
  Json config;
  config["model_type"] = model_type;
  config["hidden_size"] = facts.hidden;
  config["num_hidden_layers"] = facts.layers;
  config["num_attention_heads"] = facts.heads;
  config["num_key_value_heads"] = facts.kv_heads.value_or(facts.heads);
  config["intermediate_size"] = facts.ffn.value_or(4 * facts.hidden);
  config["vocab_size"] = facts.vocab;
  config["max_position_embeddings"] = facts.seq;
  config["rope_theta"] = facts.rotary_base;
  config["tie_word_embeddings"] = facts.tied;
  if (facts.head_dim) config["head_dim"] = *facts.head_dim;
  return config;
}

ModelConfig model_of_config(const Json& config, const std::string& name, const ModelFacts& facts,
                            const std::string& place) {
  ModelConfig model = model_from_hf_text(config.dump(), name, place + ", read as a config.json");
  model.seq = facts.seq;
  if (name.empty()) model.name = model.family;
  return model;
}

}  // namespace meshwright
