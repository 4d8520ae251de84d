// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/hf_families.h"

namespace meshwright {

const std::vector<HfFamily>& hf_families() {
  static const std::vector<HfFamily> all = {
      {"bert", hf::read_bert},
      {"bloom", hf::read_bloom},
      {"deepseek_v3", hf::read_deepseek_v3},
      {"deepseek_v32", hf::read_deepseek_v32},
      {"falcon", hf::read_falcon},
      {"gemma", hf::read_gemma},
      {"gemma3", hf::read_gemma3},
      {"gemma3_text", hf::read_gemma3},
      {"gemma4", hf::read_gemma4},
      {"gemma4_text", hf::read_gemma4},
      {"glm4_moe", hf::read_glm4_moe},
      {"gpt2", hf::read_gpt2},
      {"gpt_neox", hf::read_gpt_neox},
      {"gpt_oss", hf::read_gpt_oss},
      {"gptj", hf::read_gptj},
      {"granite", hf::read_granite},
      {"kimi_k2", hf::read_deepseek_v3},
      {"llama", hf::read_llama},
      {"llama4", hf::read_llama4},
      {"llama4_text", hf::read_llama4},
      {"mamba", hf::read_mamba},
      {"mamba2", hf::read_mamba2},
      {"minimax_m2", hf::read_minimax_m2},
      {"mistral", hf::read_mistral},
      {"mixtral", hf::read_mixtral},
      {"nemotron_h", hf::read_nemotron_h},
      {"olmo2", hf::read_olmo2},
      {"opt", hf::read_opt},
      {"phi", hf::read_phi},
      {"phi3", hf::read_phi3},
      {"qwen2", hf::read_qwen2},
      {"qwen3", hf::read_qwen3},
      {"qwen3_5", hf::read_qwen3_next},
      {"qwen3_5_moe", hf::read_qwen3_next},
      {"qwen3_5_moe_text", hf::read_qwen3_next},
      {"qwen3_5_text", hf::read_qwen3_next},
      {"qwen3_moe", hf::read_qwen3_moe},
      {"qwen3_next", hf::read_qwen3_next},
      {"smollm3", hf::read_smollm3},
      {"stablelm", hf::read_stablelm},
      {"starcoder2", hf::read_starcoder2},
      {"t5", hf::read_t5},
  };
  return all;
}

}  // namespace meshwright
