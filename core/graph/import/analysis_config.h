// SPDX-License-Identifier: Apache-2.0
// Configurations that describe any transformer by the same few names, as llm-analysis has them: num_layers, n_head,
// hidden_dim, vocab_size, and if given num_key_value_heads, ffn_embed_dim, max_seq_len, moe_num_experts, moe_top_k,
// mlp_gated_linear_units and model_type (C. Li, "llm-analysis", github.com/cli99/llm-analysis).
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"

namespace meshwright {

// The same model as a config.json of its model_type, each size under every name that publishers give it; any other file
// as it is.
[[nodiscard]] Json publishers_config(const Json& config);

// What of the file no reader of publishers_config's members read: `unread` are those that it did not read, of any other
// file the answer.
[[nodiscard]] std::vector<std::string> unread_of_analysis_config(const Json& config,
                                                                 const std::vector<std::string>& unread);

// What publishers_config takes for granted as the file does not say it, one phrase each; of any other file nothing.
[[nodiscard]] std::vector<std::string> assumed_of_analysis_config(const Json& config);

}  // namespace meshwright
