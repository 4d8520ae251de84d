// SPDX-License-Identifier: Apache-2.0
// Llama-Nemotron, whose layers a search has thinned out (A. Bercovich et al., Puzzle, arXiv:2411.19146).
#include <algorithm>
#include <string>
#include <vector>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_config.h"
#include "core/graph/import/hf/hf_families.h"
#include "core/graph/import/hf/hf_parts.h"
#include "core/graph/models/families.h"

namespace meshwright::hf {

namespace {

// One of two parts of a layer of Nemotron-NAS. What replaces it by a product, or thins it out, is another model.
HfReader nas_part(const HfReader& block, const char* name) {
  const HfReader part = block.part_or_empty(name);
  for (const char* key : {"replace_with_linear", "unshifted_sink", "use_prefill_window_in_sink_attention"})
    part.refuse(key);
  for (const char* key : {"sparsify", "num_sink_tokens", "window_length"})
    require(!part.has(key), "{}: '{}' is given, which is not supported; null is.", part.place(), key);
  return part;
}

// Two thirds of the factor times the hidden size, rounded up.
std::int64_t nas_width(const HfReader& part, std::int64_t hidden) {
  constexpr std::int64_t kMultiple = 256;
  require(part.has("ffn_mult"), "{}: 'ffn_mult' is missing; take the file as its publisher has it.", part.place());
  const auto width = static_cast<std::int64_t>(2.0 * std::min(part.positive_or("ffn_mult", 1.0), 1e4) *
                                               static_cast<double>(hidden) / 3.0);
  return std::max<std::int64_t>(1, (width + kMultiple - 1) / kMultiple) * kMultiple;
}

}  // namespace

// Llama, of whose layers some have no attention, or no feed-forward part, and the latter's widths are several.
ModelConfig read_nemotron_nas(const HfReader& config) {
  expect_text(config, "hidden_act", "silu");
  ModelConfig model = made("hybrid", config);
  require(config.has("block_configs") && config.at("block_configs").is_array() &&
              config.at("block_configs").size() == static_cast<std::size_t>(model.layers),
          "{}: 'block_configs' must be a list of one object for each of the {} layers.", config.place(), model.layers);
  std::int64_t group = 0;
  std::string kinds;
  std::vector<std::int64_t> widths;
  for (std::size_t layer = 0; layer < config.at("block_configs").size(); ++layer) {
    const HfReader block(config.at("block_configs")[layer],
                         fmt::format("{}: block_configs[{}]", config.place(), layer));
    const HfReader attention = nas_part(block, "attention"), inner = nas_part(block, "ffn");
    for (const HfReader* part : {&attention, &inner}) (void)part->has("no_op");
    (void)attention.has("n_heads_in_group");
    if (!attention.flag_or("no_op", false)) {
      const std::int64_t members = attention.size({"n_heads_in_group"});
      require(group == 0 || members == group,
              "{}: 'n_heads_in_group' is {}, but {} in a layer before it; the same in all layers is supported.",
              attention.place(), members, group);
      group = members;
      kinds += '*';
    }
    (void)inner.has("ffn_mult");
    for (const std::string& unknown : block.unread())
      throw InputError(
          fmt::format("{}: '{}' is not known; take the file as its publisher has it.", block.place(), unknown));
    if (inner.flag_or("no_op", false)) continue;
    kinds += '-';
    widths.push_back(nas_width(inner, model.hidden));
  }
  require(!kinds.empty() && model.heads % std::max<std::int64_t>(1, group) == 0,
          "{}: 'block_configs' has no layers, or groups of {} heads, which {} heads do not divide into; check them.",
          config.place(), group, model.heads);
  model.more["kv_heads"] = group > 0 ? model.heads / group : model.heads;
  for (const char* key : {"qkv_bias", "out_bias"}) model.more[key] = config.flag_or("attention_bias", false);
  model.more["mlp_bias"] = config.flag_or("mlp_bias", false);
  model.more["tied"] = config.flag_or("tie_word_embeddings", false);
  // There are no scans, but their sizes have to fit.
  for (const char* key : {"gated", "rotary", "scan_heads", "scan_head_dim", "state"}) model.more[key] = 1;
  read_rotation(model, config, 1e-6);
  set_layer_widths(model, widths, config.place() + ": 'block_configs'");
  model.layers = static_cast<std::int64_t>(kinds.size());
  set_layer_kinds(model, kinds, config.place() + ": 'block_configs'");
  return model;
}

}  // namespace meshwright::hf
