// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/analysis_config.h"

#include <algorithm>
#include <map>

#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr int kPositions = 2048;  // where a file without a model_type has no max_seq_len

const std::map<std::string, std::vector<std::string>>& publishers_names() {
  static const std::map<std::string, std::vector<std::string>> kNames = {
      {"num_layers", {"num_hidden_layers", "n_layer", "num_layers"}},
      {"n_head", {"num_attention_heads", "num_heads", "n_head"}},
      {"hidden_dim", {"hidden_size", "n_embd", "d_model"}},
      {"ffn_embed_dim", {"intermediate_size", "n_inner", "ffn_dim"}},
      {"max_seq_len", {"max_position_embeddings", "n_positions"}},
      {"moe_num_experts", {"num_local_experts", "num_experts"}},
      {"moe_top_k", {"num_experts_per_tok"}}};
  return kNames;
}

bool is_analysis_config(const Json& config) {
  const bool all = config.contains("num_layers") && config.contains("n_head") && config.contains("hidden_dim") &&
                   config.contains("vocab_size");
  return all && !config.contains("hidden_size") && !config.contains("n_embd");
}

// Members that name the model, or say the same again.
bool says_no_more(const Json& config, const std::string& key) {
  const auto number = [&](const char* of) {
    const auto found = config.find(of);
    return found != config.end() && found->is_number_integer() ? found->get<std::int64_t>() : std::int64_t{0};
  };
  if (key == "name") return true;
  if (key == "expansion_ratio") return number("ffn_embed_dim") > 0;
  if (key == "ffn_embed_dim") return number("ffn_embed_dim") == 4 * number("hidden_dim");
  if (key == "num_key_value_heads") return number("num_key_value_heads") == number("n_head");
  if (key == "moe_num_experts" || key == "moe_top_k") return number("moe_num_experts") <= 1;
  if (key == "mlp_gated_linear_units") return config[key] == false;
  return false;
}

}  // namespace

Json publishers_config(const Json& config) {
  if (!is_analysis_config(config)) return config;
  Json made = Json::object();
  for (const auto& [key, value] : config.items()) {
    const auto names = publishers_names().find(key);
    if (names == publishers_names().end())
      made[key] = value;
    else
      for (const std::string& name : names->second) made[name] = value;
  }
  // There each head has keys of its own where a file says nothing, whatever the publisher's class has.
  if (!made.contains("num_key_value_heads")) made["num_key_value_heads"] = nullptr;
  if (config.contains("model_type")) return made;
  made["model_type"] = "gpt2";
  if (!config.contains("max_seq_len")) made["n_positions"] = kPositions;
  return made;
}

std::vector<std::string> unread_of_analysis_config(const Json& config, const std::vector<std::string>& unread) {
  if (!is_analysis_config(config)) return unread;
  const auto is_unread = [&](const std::string& name) {
    return std::find(unread.begin(), unread.end(), name) != unread.end();
  };
  std::vector<std::string> found;
  for (const auto& [key, value] : config.items()) {
    const auto names = publishers_names().find(key);
    const bool read = names == publishers_names().end()
                          ? !is_unread(key)
                          : !std::all_of(names->second.begin(), names->second.end(), is_unread);
    if (!read && !says_no_more(config, key)) found.push_back(key);
  }
  return found;
}

std::vector<std::string> assumed_of_analysis_config(const Json& config) {
  std::vector<std::string> found;
  if (!is_analysis_config(config) || config.contains("model_type")) return found;
  found.emplace_back("no 'model_type': the layers are GPT-2's");
  if (!config.contains("max_seq_len")) found.push_back(fmt::format("no 'max_seq_len': {} positions", kPositions));
  return found;
}

}  // namespace meshwright
