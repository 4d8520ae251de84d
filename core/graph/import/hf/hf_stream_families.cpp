// SPDX-License-Identifier: Apache-2.0
// Decoders of several residual streams: DeepSeek-V4.
#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/hf/hf_families.h"
#include "core/graph/import/hf/hf_parts.h"
#include "core/graph/models/families.h"

namespace meshwright::hf {

namespace {

enum CompressionOfFile { kWindowAlone, kNear, kFar };
constexpr const char *kNearType = "compressed_sparse_attention", *kFarType = "heavily_compressed_attention";

// Where a file does not say it, the first two layers compress most, and then the two kinds take turns.
std::vector<int> compression_kinds(const HfReader& config, const ModelConfig& model) {
  std::vector<int> kinds;
  const auto layers = static_cast<std::size_t>(model.layers);
  const auto listed = [&](const char* key, const auto& kind_of) {
    const Json& list = config.at(key);
    require(list.is_array() && list.size() >= layers,
            "{}: '{}' must be a list with one entry for each of the {} layers.", config.place(), key, layers);
    for (std::size_t layer = 0; layer < layers; ++layer) {
      const std::optional<int> kind = kind_of(list[layer]);
      require(kind.has_value(), "{}: '{}' has {}, which is not supported.", config.place(), key, brief(list[layer]));
      kinds.push_back(*kind);
    }
  };
  const auto by_type = [](const Json& type) -> std::optional<int> {
    if (type == "sliding_attention") return kWindowAlone;
    if (type == kNearType) return kNear;
    return type == kFarType ? std::optional<int>(kFar) : std::nullopt;
  };
  const auto by_rate = [&](const Json& rate) -> std::optional<int> {
    if (rate == 0) return kWindowAlone;
    if (rate == model.more.at("near_rate")) return kNear;
    return rate == model.more.at("far_rate") ? std::optional<int>(kFar) : std::nullopt;
  };
  const bool types = config.has("layer_types"), rates = config.has("compress_ratios");
  if (types)
    listed("layer_types", by_type);
  else if (rates)
    listed("compress_ratios", by_rate);
  else
    for (std::size_t layer = 0; layer < layers; ++layer) kinds.push_back(layer < 2 || layer % 2 == 0 ? kFar : kNear);
  return kinds;
}

void read_compression(ModelConfig& model, const HfReader& config) {
  const HfReader rates = config.part_or_empty("compress_rates");
  set(model, "near_rate", config.size_or({"compress_rate_csa"}, rates.size_or({kNearType}, 4)));
  set(model, "far_rate", config.size_or({"compress_rate_hca"}, rates.size_or({kFarType}, 128)));
  set_compression_kinds(model, compression_kinds(config, model), config.place() + ": 'layer_types'");
  set(model, "index_heads", config.size_or({"index_n_heads"}, 64));
  set(model, "index_dim", config.size_or({"index_head_dim"}, 128));
  set(model, "index_top_k", config.size_or({"index_topk"}, 512));
  set(model, "window", config.size_or({"sliding_window"}, 128));
}

// Layers that compress have a base of their own, and are the only ones that scaling slows down; amplitudes stay unless
// the file has one.
void read_compressed_rotation(ModelConfig& model, const HfReader& config) {
  const double plain = config.positive_or("rope_theta", 10000.0),
               compressed = config.positive_or("compress_rope_theta", 160000.0);
  const HfReader told = config.part_or_empty("rope_parameters");
  const auto of_kind = [&](const char* kind, const char* key, double otherwise) {
    return told.has(kind) ? told.part(kind).positive_or(key, otherwise) : otherwise;
  };
  model.factors["rotary_base"] = of_kind("main", "rope_theta", plain);
  model.factors["compressed_rotary_base"] = of_kind("compress", "rope_theta", compressed);
  constexpr double kUsualShare = 0.125;
  const double share =
      config.positive_or("partial_rotary_factor", of_kind("main", "partial_rotary_factor", kUsualShare));
  require(of_kind("compress", "partial_rotary_factor", share) == share,
          "{}: 'rope_parameters' rotate other shares of heads in layers that compress, which is not supported.",
          config.place());
  const auto head = static_cast<double>(head_of(model));
  set(model, "rope_dim", config.size_or({"qk_rope_head_dim"}, static_cast<std::int64_t>(share * head)));
  model.rotary_scaling = read_rotary_scaling(model, config);
  if (!model.rotary_scaling) return;
  const HfReader scaled = config.part_or_empty(config.has("rope_scaling") ? "rope_scaling" : "rope_parameters");
  const HfReader rotation = scaled.has("compress") ? scaled.part("compress") : scaled;
  model.rotary_scaling->amplitude = rotation.positive_or("attention_factor", 1.0);
  model.rotary_scaling->score_scale = 1.0;
}

void read_scores(ModelConfig& model, const HfReader& config) {
  static const std::map<std::string, std::int64_t> kScores = {{"sqrtsoftplus", 0}, {"sigmoid", 1}, {"softmax", 2}};
  const std::string name = config.text_or("scoring_func", "sqrtsoftplus");
  const auto found = kScores.find(name);
  require(found != kScores.end(),
          "{}: 'scoring_func' is \"{}\", which is not supported; \"sqrtsoftplus\", \"sigmoid\" and \"softmax\" are.",
          config.place(), name);
  set(model, "scores", found->second);
}

}  // namespace

ModelConfig read_deepseek_v4(const HfReader& config) {
  expect_text(config, "hidden_act", "silu");
  config.refuse("attention_bias");
  config.refuse("mlp_bias");
  require(config.flag_or("norm_topk_prob", true), "{}: 'norm_topk_prob' is false, which is not supported; true is.",
          config.place());
  for (const char* one : {"num_key_value_heads", "n_shared_experts"})
    require(config.size_or({one}, 1, 0) == 1, "{}: '{}' is {}, which is not supported; 1 is.", config.place(), one,
            config.size_or({one}, 1, 0));
  ModelConfig model = made("deepseek_v4", config);
  set(model, "head_dim", config.size({"head_dim"}));
  set(model, "q_rank", config.size({"q_lora_rank"}));
  set(model, "out_groups", config.size({"o_groups"}));
  set(model, "out_rank", config.size({"o_lora_rank"}));
  set(model, "streams", config.size_or({"hc_mult"}, 4));
  set(model, "stream_turns", config.size_or({"hc_sinkhorn_iters"}, 20));
  set_epsilon(model, config, "rms_norm_eps", 1e-6);
  model.factors["stream_epsilon"] = config.positive_or("hc_eps", 1e-6);
  model.factors["gate_bound"] = config.positive_or("swiglu_limit", 10.0);
  read_compression(model, config);
  read_compressed_rotation(model, config);
  const std::int64_t width = config.size({"moe_intermediate_size"});
  set_experts(model, config.size({"n_routed_experts", "num_local_experts"}), config.size({"num_experts_per_tok"}),
              width);
  set(model, "shared_intermediate", width);
  model.factors["routed_scale"] = config.positive_or("routed_scaling_factor", 1.5);
  read_scores(model, config);
  const std::int64_t hashed = config.size_or({"num_hash_layers"}, 3, 0);
  set(model, "hash_layers",
      config.has("mlp_layer_types") ? first_entries(config, "mlp_layer_types", model.layers, "hash_moe", "moe")
                                    : std::min(model.layers, hashed));
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  return model;
}

}  // namespace meshwright::hf
