// SPDX-License-Identifier: Apache-2.0
// Decoders whose queries choose whole blocks of keys: MiniMax-M3.
#include <algorithm>
#include <vector>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/hf/hf_families.h"
#include "core/graph/import/hf/hf_parts.h"

namespace meshwright::hf {

namespace {

// The first layer from which on all are of the second kind: by names in `types`, or by 0 and 1 in `marks` of another
// object; `otherwise` where neither is given.
std::int64_t first_marked(const HfReader& config, const char* types, const std::string& first, const std::string& rest,
                          const HfReader& other, const char* marks, std::int64_t layers, std::int64_t otherwise) {
  const bool named = config.has(types);
  if (!named && !other.has(marks)) return otherwise;
  return first_entries(named ? config : other, named ? types : marks, layers, named ? Json(first) : Json(0),
                       named ? Json(rest) : Json(1));
}

// Layers of chosen blocks; a file's object of them counts before members of the file itself.
void read_blocks(ModelConfig& model, const HfReader& config, const HfReader& sparse) {
  const bool off = sparse.has("use_sparse_attention") && !sparse.flag_or("use_sparse_attention", true);
  const std::int64_t first = first_marked(config, "layer_types", "full_attention", "minimax_m3_sparse", sparse,
                                          "sparse_attention_freq", model.layers, model.layers);
  const auto number = [&](const char* theirs, const char* flat, std::int64_t otherwise, std::int64_t least = 1) {
    return sparse.size_or({theirs}, config.size_or({flat}, otherwise, least), least);
  };
  const std::int64_t heads = number("sparse_num_index_heads", "index_n_heads", 4);
  const std::int64_t width = number("sparse_index_dim", "index_head_dim", 128),
                     block = number("sparse_block_size", "index_block_size", 128),
                     chosen = number("sparse_topk_blocks", "index_topk_blocks", 16),
                     local = number("sparse_local_block", "index_local_blocks", 1, 0);
  if (off || first == model.layers) return;
  require(heads == model.more.at("kv_heads"),
          "{}: the indexer has {} heads and keys have {}, which is not supported; the same number is.", config.place(),
          heads, model.more.at("kv_heads"));
  expect_text(sparse, "sparse_score_type", "max");
  require(sparse.size_or({"sparse_init_block"}, 0, 0) == 0,
          "{}: 'sparse_init_block' is not 0, which is not supported; 0 is.", sparse.place());
  set(model, "index_first", first);
  set(model, "index_dim", width);
  set(model, "index_block", block);
  set(model, "index_blocks", chosen);
  set(model, "index_local", std::min(local, chosen));
}

}  // namespace

ModelConfig read_minimax_m3(const HfReader& config) {
  const std::string act = config.text_or("hidden_act", "silu");
  require(act == "silu" || act == "swigluoai", "{}: 'hidden_act' is \"{}\", which is not supported; \"swigluoai\" is.",
          config.place(), act);
  const auto expect_number = [&](const char* key, double only) {
    require(config.positive_or(key, only) == only, "{}: '{}' is {:g}, which is not supported; {:g} is.", config.place(),
            key, config.positive_or(key, only), only);
  };
  expect_number("swiglu_alpha", 1.702);
  expect_number("swiglu_limit", 7.0);
  expect_text(config, "scoring_func", "sigmoid");
  expect_text(config, "qk_norm_type", "per_head");
  for (const char* on : {"use_qk_norm", "use_routing_bias", "use_gemma_norm", "norm_topk_prob"})
    require(config.flag_or(on, true), "{}: '{}' is false, which is not supported; true is.", config.place(), on);
  ModelConfig model = made_with_groups("decoder_moe", config);
  set(model, "head_dim", config.size_or({"head_dim"}, model.hidden / model.heads));
  set(model, "expert_intermediate", config.size({"intermediate_size"}));
  set(model, "intermediate", config.size_or({"dense_intermediate_size"}, model.more.at("intermediate")));
  set(model, "shared_intermediate", config.size_or({"shared_intermediate_size"}, 0, 0));
  set(model, "experts", config.size({"num_local_experts", "num_experts"}));
  set(model, "top_k", config.size({"num_experts_per_tok"}));
  for (const char* on : {"qk_norm", "sigmoid", "selection_bias", "clipped_gate"}) set(model, on, 1);
  model.factors["routed_scale"] = config.positive_or("routed_scaling_factor", 1.0);
  set(model, "dense_layers",
      first_marked(config, "mlp_layer_types", "dense", "sparse", config, "moe_layer_freq", model.layers, 0));
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  constexpr double kUsualBase = 5e6;
  read_rotation(model, config, 1e-6);
  const bool based = config.has("rope_theta") || config.part_or_empty("rope_parameters").has("rope_theta");
  if (!based) model.factors["rotary_base"] = kUsualBase;
  set_rotated_share(model, config, "partial_rotary_factor", 1.0);
  // Where transformers finds no share it turns whole heads; the publisher's member says how much of them.
  const bool shared =
      config.has("partial_rotary_factor") || config.part_or_empty("rope_parameters").has("partial_rotary_factor");
  if (const std::int64_t turned = config.size_or({"rotary_dim"}, 0, 0); turned > 0 && !shared)
    set(model, "rotary_dims", turned);
  read_blocks(model, config, config.part_or_empty("sparse_attention_config"));
  return model;
}

}  // namespace meshwright::hf
