// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/hf/hf_families.h"

#include <algorithm>
#include <array>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/hf/hf_config.h"

namespace meshwright {

namespace {

// A public family whose layers no op here computes.
struct LackingFamily {
  const char *model_type, *layers, *nearest;
};
constexpr const char* kOfDeepSeekV4 =
    "keep several residual streams that they mix (hc_mult), attend to keys which are compressed several to one "
    "(compress_ratios), and choose experts by a hash of the token (num_hash_layers)";
constexpr std::array<LackingFamily, 2> kLackingFamilies = {
    {{"deepseek_ref", kOfDeepSeekV4, "deepseek_v4"},
     {"kimi_k3",
      "attend to the results of earlier blocks of layers (attn_res_block_size), and have SiTU gates "
      "(activation_situ_beta)",
      "kimi_linear"}}};

// What begins most like the name, then what is a few letters from it.
std::vector<std::string> nearest_types(const std::string& type) {
  constexpr std::size_t kMost = 3, kLeastInCommon = 3;
  const std::vector<std::string> all = hf_model_types();
  const auto in_common = [&](const std::string& known) {
    const auto [end, _] = std::mismatch(known.begin(), known.end(), type.begin(), type.end());
    return static_cast<std::size_t>(end - known.begin());
  };
  std::vector<std::string> found;
  for (const std::string& known : all)
    if (in_common(known) >= kLeastInCommon) found.push_back(known);
  std::stable_sort(found.begin(), found.end(),
                   [&](const auto& a, const auto& b) { return in_common(a) > in_common(b); });
  for (const std::string& known : nearest_names(type, all))
    if (std::find(found.begin(), found.end(), known) == found.end()) found.push_back(known);
  found.resize(std::min(found.size(), kMost));
  return found;
}

// A file of a checkpoint that says how its weights are quantised, and nothing of the model.
bool describes_quantisation_alone(const HfReader& config) {
  if (config.has("hidden_size") || config.has("architectures")) return false;
  return config.has("quantization") || config.has("quant_method") || config.has("quant_algo");
}

}  // namespace

const std::vector<HfFamily>& hf_families() {
  static const std::vector<HfFamily> all = {
      {"afmoe", hf::read_afmoe},
      {"albert", hf::read_albert},
      {"apertus", hf::read_apertus},
      {"arcee", hf::read_arcee},
      {"aria", hf::read_wrapped},
      {"aria_text", hf::read_aria_text},
      {"audioflamingo3", hf::read_wrapped},
      {"axk1", hf::read_axk1},
      {"aya_vision", hf::read_wrapped},
      {"bailing_moe", hf::read_bailing_moe},
      {"bailing_moe_v2", hf::read_bailing_moe},
      {"bamba", hf::read_bamba},
      {"bart", hf::read_bart},
      {"bert", hf::read_bert},
      {"biogpt", hf::read_biogpt},
      {"bitnet", hf::read_bitnet},
      {"blenderbot", hf::read_blenderbot},
      {"blenderbot-small", hf::read_blenderbot},
      {"blip-2", hf::read_wrapped},
      {"bloom", hf::read_bloom},
      {"camembert", hf::read_roberta},
      {"clip", hf::read_clip},
      {"codegen", hf::read_gptj},
      {"cohere", hf::read_cohere},
      {"cohere2", hf::read_cohere2},
      {"cohere2_moe", hf::read_cohere2_moe},
      {"cohere2_vision", hf::read_wrapped},
      {"convnext", hf::read_convnext},
      {"convnextv2", hf::read_convnext},
      {"cosmos3_omni", hf::read_wrapped},
      {"cwm", hf::read_cwm},
      {"data2vec-text", hf::read_roberta},
      {"dbrx", hf::read_dbrx},
      {"deepseek_ocr2", hf::read_wrapped},
      {"deepseek_ocr2_text", hf::read_deepseek_ocr2_text},
      {"deepseek_v2", hf::read_deepseek_v2},
      {"deepseek_v3", hf::read_deepseek_v3},
      {"deepseek_v32", hf::read_deepseek_v32},
      {"deepseek_v4", hf::read_deepseek_v4},
      {"deepseek_vl", hf::read_wrapped},
      {"deepseek_vl_hybrid", hf::read_wrapped},
      {"deepseek_vl_v2", hf::read_wrapped},
      {"deit", hf::read_vit},
      {"dinov2", hf::read_dinov2},
      {"dinov2_with_registers", hf::read_dinov2},
      {"distilbert", hf::read_distilbert},
      {"dots1", hf::read_dots1},
      {"electra", hf::read_electra},
      {"emu3", hf::read_wrapped},
      {"emu3_text_model", hf::read_llama},
      {"ernie", hf::read_ernie},
      {"ernie4_5", hf::read_ernie4_5},
      {"ernie4_5_moe", hf::read_ernie4_5_moe},
      {"esm", hf::read_esm},
      {"eurobert", hf::read_eurobert},
      {"exaone", hf::read_exaone},
      {"exaone4", hf::read_exaone4},
      {"exaone4_5", hf::read_wrapped},
      {"exaone_moe", hf::read_exaone_moe},
      {"falcon", hf::read_falcon},
      {"falcon_h1", hf::read_falcon_h1},
      {"falcon_mamba", hf::read_mamba},
      {"fast_vlm", hf::read_wrapped},
      {"flex_olmo", hf::read_flex_olmo},
      {"florence2", hf::read_wrapped},
      {"fun_asr_nano", hf::read_wrapped},
      {"fuyu", hf::read_wrapped},
      {"gemma", hf::read_gemma},
      {"gemma2", hf::read_gemma2},
      {"gemma3", hf::read_gemma3},
      {"gemma3_text", hf::read_gemma3},
      {"gemma3n", hf::read_gemma3n},
      {"gemma3n_text", hf::read_gemma3n},
      {"gemma4", hf::read_gemma4},
      {"gemma4_text", hf::read_gemma4},
      {"gemma4_unified", hf::read_gemma4},
      {"gemma4_unified_text", hf::read_gemma4},
      {"glm", hf::read_glm},
      {"glm4", hf::read_glm},
      {"glm46v", hf::read_wrapped},
      {"glm4_moe", hf::read_glm4_moe},
      {"glm4_moe_lite", hf::read_glm4_moe_lite},
      {"glm4v", hf::read_wrapped},
      {"glm4v_moe", hf::read_wrapped},
      {"glm4v_moe_text", hf::read_glm4_moe},
      {"glm4v_text", hf::read_glm},
      {"glm_moe_dsa", hf::read_deepseek_v32},
      {"glm_ocr", hf::read_wrapped},
      {"glm_ocr_text", hf::read_glm},
      {"glmasr", hf::read_wrapped},
      {"glmga", hf::read_wrapped},
      {"got_ocr2", hf::read_wrapped},
      {"gpt2", hf::read_gpt2},
      {"gpt_bigcode", hf::read_gpt_bigcode},
      {"gpt_neo", hf::read_gpt_neo},
      {"gpt_neox", hf::read_gpt_neox},
      {"gpt_oss", hf::read_gpt_oss},
      {"gptj", hf::read_gptj},
      {"granite", hf::read_granite},
      {"granite4_vision", hf::read_wrapped},
      {"granite4_vision_text", hf::read_granite},
      {"granite_docling", hf::read_wrapped},
      {"granite_docling_text", hf::read_granite},
      {"granite_speech", hf::read_wrapped},
      {"granite_speech_plus", hf::read_wrapped},
      {"granite_swa", hf::read_granite_swa},
      {"granitemoe", hf::read_granitemoe},
      {"granitemoe_swa", hf::read_granite_swa},
      {"granitemoehybrid", hf::read_granitemoehybrid},
      {"granitemoeshared", hf::read_granitemoe},
      {"gte", hf::read_gte},
      {"helium", hf::read_helium},
      {"hunyuan_v1_dense", hf::read_hunyuan_dense},
      {"hunyuan_v1_moe", hf::read_hunyuan_moe},
      {"hunyuan_vl", hf::read_wrapped},
      {"hunyuan_vl_text", hf::read_hunyuan_dense},
      {"hy_v3", hf::read_hy_v3},
      {"hyperclovax", hf::read_hyperclovax},
      {"hyperclovax_vision_v2", hf::read_wrapped},
      {"ibert", hf::read_ibert},
      {"idefics2", hf::read_wrapped},
      {"idefics3", hf::read_wrapped},
      {"instructblip", hf::read_wrapped},
      {"instructblipvideo", hf::read_wrapped},
      {"internlm2", hf::read_internlm},
      {"internlm3", hf::read_internlm},
      {"internvl", hf::read_wrapped},
      {"internvl_chat", hf::read_wrapped},
      {"iquestcoder", hf::read_llama},
      {"jais2", hf::read_jais2},
      {"jamba", hf::read_jamba},
      {"janus", hf::read_wrapped},
      {"jina_embeddings_v3", hf::read_jina_embeddings_v3},
      {"kimi_k2", hf::read_deepseek_v3},
      {"kimi_k25", hf::read_wrapped},
      {"kimi_linear", hf::read_kimi_linear},
      {"kimi_vl", hf::read_wrapped},
      {"layoutlm", hf::read_layoutlm},
      {"lfm2", hf::read_lfm2},
      {"lfm2_moe", hf::read_lfm2},
      {"lfm2_vl", hf::read_wrapped},
      {"lighton_ocr", hf::read_wrapped},
      {"llama", hf::read_llama},
      {"llama4", hf::read_llama4},
      {"llama4_text", hf::read_llama4},
      {"llava", hf::read_wrapped},
      {"llava_next", hf::read_wrapped},
      {"llava_next_video", hf::read_wrapped},
      {"llava_onevision", hf::read_wrapped},
      {"longformer", hf::read_longformer},
      {"longt5", hf::read_longt5},
      {"m2m_100", hf::read_m2m_100},
      {"mamba", hf::read_mamba},
      {"mamba2", hf::read_mamba2},
      {"marian", hf::read_marian},
      {"mbart", hf::read_mbart},
      {"megatron-bert", hf::read_megatron_bert},
      {"mellum", hf::read_mellum},
      {"metaclip_2", hf::read_clip},
      {"mimo", hf::read_mimo},
      {"mimo_v2_flash", hf::read_mimo_v2_flash},
      {"minicpm", hf::read_minicpm},
      {"minicpm3", hf::read_minicpm3},
      {"minicpm_ocr", hf::read_wrapped},
      {"minicpmv4_6", hf::read_wrapped},
      {"minicpmv4_7", hf::read_wrapped},
      {"minimax_m2", hf::read_minimax_m2},
      {"minimax_m3", hf::read_minimax_m3},
      {"minimax_m3_vl", hf::read_wrapped},
      {"minimax_m3_vl_text", hf::read_minimax_m3},
      {"ministral", hf::read_ministral},
      {"ministral3", hf::read_mistral3},
      {"mistral", hf::read_mistral},
      {"mistral3", hf::read_mistral3},
      {"mistral4", hf::read_mistral4},
      {"mixtral", hf::read_mixtral},
      {"mllama", hf::read_mllama},
      {"mllama_text_model", hf::read_mllama},
      {"modernbert", hf::read_modernbert},
      {"modernbert-decoder", hf::read_modernbert},
      {"modernvbert", hf::read_wrapped},
      {"moss_transcribe_diarize", hf::read_wrapped},
      {"mpnet", hf::read_mpnet},
      {"mpt", hf::read_mpt},
      {"mt5", hf::read_t5},
      {"musicflamingo", hf::read_wrapped},
      {"mvp", hf::read_bart},
      {"nanochat", hf::read_nanochat},
      {"nemotron", hf::read_nemotron},
      {"nemotron-nas", hf::read_nemotron_nas},
      {"nemotron_h", hf::read_nemotron_h},
      {"nemotron_h_omni", hf::read_wrapped},
      {"nomic_bert", hf::read_nomic_bert},
      {"olmo", hf::read_olmo},
      {"olmo2", hf::read_olmo2},
      {"olmo3", hf::read_olmo3},
      {"olmo_hybrid", hf::read_olmo_hybrid},
      {"olmoe", hf::read_olmoe},
      {"omniasr", hf::read_wrapped},
      {"openai-gpt", hf::read_openai_gpt},
      {"opt", hf::read_opt},
      {"ovis2", hf::read_wrapped},
      {"paddleocr_vl", hf::read_wrapped},
      {"paddleocr_vl_text", hf::read_ernie4_5},
      {"paligemma", hf::read_wrapped},
      {"pegasus", hf::read_pegasus},
      {"perception_lm", hf::read_wrapped},
      {"persimmon", hf::read_persimmon},
      {"phi", hf::read_phi},
      {"phi3", hf::read_phi3},
      {"phi4_multimodal", hf::read_phi3},
      {"phimoe", hf::read_phimoe},
      {"plbart", hf::read_bart},
      {"pp_chart2table", hf::read_wrapped},
      {"qianfan_ocr", hf::read_wrapped},
      {"qwen2", hf::read_qwen2},
      {"qwen2_5_omni", hf::read_wrapped},
      {"qwen2_5_omni_text", hf::read_qwen2},
      {"qwen2_5_omni_thinker", hf::read_wrapped},
      {"qwen2_5_vl", hf::read_qwen2_vl},
      {"qwen2_5_vl_text", hf::read_qwen2},
      {"qwen2_audio", hf::read_wrapped},
      {"qwen2_moe", hf::read_qwen2_moe},
      {"qwen2_vl", hf::read_qwen2_vl},
      {"qwen2_vl_text", hf::read_qwen2},
      {"qwen3", hf::read_qwen3},
      {"qwen3_5", hf::read_qwen3_next},
      {"qwen3_5_moe", hf::read_qwen3_next},
      {"qwen3_5_moe_text", hf::read_qwen3_next},
      {"qwen3_5_text", hf::read_qwen3_next},
      {"qwen3_asr", hf::read_wrapped},
      {"qwen3_moe", hf::read_qwen3_moe},
      {"qwen3_next", hf::read_qwen3_next},
      {"qwen3_omni_moe", hf::read_wrapped},
      {"qwen3_omni_moe_text", hf::read_qwen3_moe},
      {"qwen3_omni_moe_thinker", hf::read_wrapped},
      {"qwen3_vl", hf::read_qwen3_vl},
      {"qwen3_vl_moe", hf::read_qwen3_vl_moe},
      {"qwen3_vl_moe_text", hf::read_qwen3_vl_moe},
      {"qwen3_vl_text", hf::read_qwen3_vl},
      {"rembert", hf::read_rembert},
      {"resnet", hf::read_resnet},
      {"roberta", hf::read_roberta},
      {"roberta-prelayernorm", hf::read_roberta_norm_first},
      {"roformer", hf::read_roformer},
      {"sarvam_mla", hf::read_deepseek_v3},
      {"sarvam_moe", hf::read_sarvam_moe},
      {"seed_oss", hf::read_seed_oss},
      {"shieldgemma2", hf::read_wrapped},
      {"siglip", hf::read_siglip},
      {"siglip2", hf::read_siglip},
      {"smollm3", hf::read_smollm3},
      {"smolvlm", hf::read_wrapped},
      {"solar_open", hf::read_solar_open},
      {"stablelm", hf::read_stablelm},
      {"starcoder2", hf::read_starcoder2},
      {"step3p5", hf::read_step3p7},
      {"step3p7", hf::read_step3p7},
      {"swin", hf::read_swin},
      {"switch_transformers", hf::read_switch_transformers},
      {"t5", hf::read_t5},
      {"umt5", hf::read_t5},
      {"vaultgemma", hf::read_gemma2},
      {"vibevoice", hf::read_wrapped},
      {"vibevoice_asr", hf::read_wrapped},
      {"video_llama_3", hf::read_wrapped},
      {"video_llava", hf::read_wrapped},
      {"vipllava", hf::read_wrapped},
      {"vit", hf::read_vit},
      {"vit_msn", hf::read_vit},
      {"voxtral", hf::read_wrapped},
      {"whisper", hf::read_whisper},
      {"xglm", hf::read_xglm},
      {"xlm-roberta", hf::read_roberta},
      {"xlm-roberta-xl", hf::read_roberta_norm_first},
      {"youtu", hf::read_youtu},
  };
  return all;
}

const HfFamily& hf_family_of(const HfReader& config) {
  const std::string type = config.text_or("model_type", "");
  require(!type.empty() || !describes_quantisation_alone(config),
          "{}: it describes how the weights of a model are quantised, and no model; give the config.json beside it.",
          config.place());
  require(!type.empty(),
          "{}: 'model_type' is missing; it names the family, as \"llama\" does; docs/models.md lists all.",
          config.place());
  for (const HfFamily& family : hf_families())
    if (type == family.model_type) return family;
  for (const LackingFamily& lacking : kLackingFamilies)
    require(type != lacking.model_type,
            "{}: models of the family '{}' are not supported: its layers {}, and no op here does these. The nearest "
            "family is {}.",
            config.place(), type, lacking.layers, lacking.nearest);
  throw InputError(fmt::format(
      "{}: models of the family '{}' are not supported; the nearest that are: {}. docs/models.md lists all.",
      config.place(), type, join(nearest_types(type), ", ")));
}

}  // namespace meshwright
