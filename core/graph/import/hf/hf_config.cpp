// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/hf/hf_config.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/analysis_config.h"
#include "core/graph/import/hf/hf_families.h"
#include "core/graph/models/families.h"

namespace meshwright {

namespace {

// Python writes numbers that JSON does not have. Outside of texts they become empty arrays, which no member that is
// read may be, of the same length, so that errors keep their columns.
std::string without_python_numbers(std::string text) {
  constexpr std::array<std::string_view, 3> kWords = {"-Infinity", "Infinity", "NaN"};
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (quoted && text[at] == '\\') {
      ++at;
      continue;
    }
    if (text[at] == '"') quoted = !quoted;
    if (quoted) continue;
    for (const std::string_view word : kWords) {
      if (text.compare(at, word.size(), word) != 0) continue;
      std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(at), word.size(), ' ');
      text[at] = '[';
      text[at + word.size() - 1] = ']';
      break;
    }
  }
  return text;
}

DType dtype_of(const HfReader& config) {
  const char* key = config.has("torch_dtype") ? "torch_dtype" : "dtype";
  const std::string name = config.text_or(key, "bfloat16");
  constexpr std::array<std::pair<const char*, DType>, 4> kTypes = {
      {{"bfloat16", DType::BF16}, {"float16", DType::F16}, {"float32", DType::F32}, {"float64", DType::F64}}};
  for (const auto& [known, type] : kTypes)
    if (name == known) return type;
  throw InputError(fmt::format("{}: '{}' is \"{}\"; bfloat16, float16, float32 or float64 was expected.",
                               config.place(), key, name));
}

std::string name_of_file(const std::string& path) {
  std::vector<std::string> parts = split(path, '/');
  if (parts.back() == "config.json") parts.pop_back();
  std::string name =
      parts.empty() || parts.back().empty() || parts.back() == "." || parts.back() == ".." ? "config" : parts.back();
  for (const std::string_view end : {".json", "_config"})
    if (name.size() > end.size() && name.ends_with(end)) name.resize(name.size() - end.size());
  return name;
}

// What changes neither the graph of a training step nor its work: names, tokens, generation, dropout, initial values,
// auxiliary losses, how weights are stored, and what another member switches off.
bool is_known_to_do_nothing(const std::string& key) {
  static const std::set<std::string> kNames = {"_name_or_path",
                                               "activation_dropout",
                                               "add_bos_token",
                                               "architectures",
                                               "attention_dropout",
                                               "attention_probs_dropout_prob",
                                               "attn_implementation",
                                               "attn_pdrop",
                                               "auto_map",
                                               "aux_loss_alpha",
                                               "bad_words_ids",
                                               "begin_suppress_tokens",
                                               "block_mlp_init_scale",
                                               "block_out_init_scale",
                                               "block_use_xavier_init",
                                               "bos_token_id",
                                               "cache_implementation",
                                               "calc_logits_for_entire_prompt",
                                               "chunk_size_feed_forward",
                                               "classif_dropout",
                                               "classifier_dropout",
                                               "classifier_dropout_prob",
                                               "classifier_dropout_rate",
                                               "cls_token_id",
                                               "conv_use_xavier_init",
                                               "cross_attention_hidden_size",
                                               "decoder_layerdrop",
                                               "decoder_start_token_id",
                                               "diversity_penalty",
                                               "dropout",
                                               "dropout_rate",
                                               "dtype",
                                               "early_stopping",
                                               "emb_pdrop",
                                               "embd_pdrop",
                                               "embed_dropout",
                                               "embedding_dropout",
                                               "embedding_initializer_range",
                                               "encoder_layerdrop",
                                               "encoder_no_repeat_ngram_size",
                                               "eod_token_id",
                                               "eos_token_id",
                                               "ep_size",
                                               "expert_dtype",
                                               "finetuning_task",
                                               "for_llm_compressor",
                                               "forced_bos_token_id",
                                               "forced_eos_token_id",
                                               "fused_add_norm",
                                               "gradient_checkpointing",
                                               "hidden_dropout",
                                               "hidden_dropout_prob",
                                               "id2label",
                                               "init_std",
                                               "initializer_factor",
                                               "initializer_range",
                                               "is_encoder_decoder",
                                               "label2id",
                                               "layerdrop",
                                               "length_penalty",
                                               "mamba_ssm_cache_dtype",
                                               "mamba_ssm_dtype",
                                               "mask_token_id",
                                               "masked_softmax_fusion",
                                               "max_length",
                                               "max_window_layers",
                                               "min_length",
                                               "mlp_dropout",
                                               "model_type",
                                               "mrope_interleaved",
                                               "mrope_section",
                                               "n_ctx",
                                               "no_repeat_ngram_size",
                                               "num_beam_groups",
                                               "num_beams",
                                               "num_labels",
                                               "num_logits_to_keep",
                                               "num_return_sequences",
                                               "output_attention",
                                               "output_attentions",
                                               "output_hidden_states",
                                               "output_past",
                                               "output_router_logits",
                                               "output_scores",
                                               "pad_token_id",
                                               "pad_vocab_size_multiple",
                                               "prefix",
                                               "pretraining_tp",
                                               "problem_type",
                                               "qa_dropout",
                                               "quantization_config",
                                               "reinit_lm_head",
                                               "reorder_and_upcast_attn",
                                               "repetition_penalty",
                                               "rescale_prenorm_residual",
                                               "resid_dropout",
                                               "resid_pdrop",
                                               "residual_dropout",
                                               "residual_in_fp32",
                                               "return_dict",
                                               "return_dict_in_generate",
                                               "rope_scaling",
                                               "rope_type",
                                               "router_aux_loss_coef",
                                               "router_jitter_noise",
                                               "sep_token_id",
                                               "seq_aux",
                                               "seq_classif_dropout",
                                               "skip_bias_add",
                                               "slow_but_exact",
                                               "ssm_cfg",
                                               "summary_activation",
                                               "summary_first_dropout",
                                               "summary_proj_to_labels",
                                               "summary_type",
                                               "summary_use_proj",
                                               "suppress_tokens",
                                               "task_specific_params",
                                               "temperature",
                                               "tf_legacy_loss",
                                               "tie_encoder_decoder",
                                               "time_step_floor",
                                               "time_step_init_scheme",
                                               "time_step_max",
                                               "time_step_min",
                                               "time_step_rank",
                                               "time_step_scale",
                                               "tokenizer_class",
                                               "top_k",
                                               "top_p",
                                               "topk_method",
                                               "torch_dtype",
                                               "torchscript",
                                               "transformers_version",
                                               "typical_p",
                                               "unk_token_id",
                                               "use_associative_scan",
                                               "use_bfloat16",
                                               "use_cache",
                                               "use_mamba_kernels",
                                               "use_mambapy",
                                               "vocab_file"};
  return kNames.contains(key.substr(key.rfind('.') + 1));
}

// In the file, its text part, or what these say of a kind of layer. Types that scale nothing are left out, as are those
// that split a rotation between text and images, which is one of text.
std::optional<std::string> scaled_rotation(const Json& config) {
  constexpr std::array kUnscaled = {"default", "proportional", "mrope"};
  for (const auto& [key, value] : config.items()) {
    if (!value.is_object()) continue;
    if (key == "rope_scaling" || key == "rope_parameters")
      for (const char* name : {"rope_type", "type"})
        if (const auto type = value.find(name); type != value.end() && type->is_string()) {
          const auto& text = type->get_ref<const std::string&>();
          if (std::find(kUnscaled.begin(), kUnscaled.end(), text) == kUnscaled.end())
            return fmt::format("{} ({})", key, printable(text));
          break;
        }
    if (key == "text_config" || key == "rope_parameters" || key.ends_with("_attention"))
      if (auto within = scaled_rotation(value)) return within;
  }
  return std::nullopt;
}

// Whether experts are chosen among those of some groups alone.
bool chooses_among_groups(const Json& config) {
  const auto number = [&](const char* key) {
    const auto found = config.find(key);
    return found != config.end() && found->is_number_integer() ? found->get<std::int64_t>() : std::int64_t{0};
  };
  const std::int64_t groups = std::max(number("n_group"), number("num_expert_group"));
  if (groups > 1 && number("topk_group") > 0 && number("topk_group") < groups) return true;
  const auto text = config.find("text_config");
  return text != config.end() && text->is_object() && chooses_among_groups(*text);
}

// A token that may go to none of the groups goes to no expert.
void check_groups(const Json& config, const std::string& place) {
  const auto groups = config.find("n_group"), chosen = config.find("topk_group");
  if (groups != config.end() && chosen != config.end() && groups->is_number_integer() && *groups >= 1 &&
      chosen->is_number_integer())
    require(*chosen >= 1 && *chosen <= *groups,
            "{}: 'topk_group' is {}; a whole number from 1 to 'n_group' ({}) was expected.", place, brief(*chosen),
            brief(*groups));
  if (const auto text = config.find("text_config"); text != config.end() && text->is_object())
    check_groups(*text, place + ": text_config");
}

// Whether a step rounds the weights that it reads, as BitNet's files say, and not only those that are stored.
bool rounds_weights(const Json& config) {
  const auto quantised = config.find("quantization_config");
  if (quantised == config.end() || !quantised->is_object()) return false;
  const auto mode = quantised->find("quantization_mode");
  return mode != quantised->end() && *mode == "online";
}

// Whether weights are published with a module for a further token that no member of the file tells of.
bool has_unnamed_module(const Json& config) {
  const auto type = config.find("model_type");
  return type != config.end() && *type == "longcat_flash";
}

Json json_of(const std::string& text, const std::string& place) {
  return parse_json(without_python_numbers(text), place);
}

}  // namespace

std::vector<std::string> hf_model_types() {
  std::vector<std::string> types;
  for (const HfFamily& family : hf_families()) types.push_back(family.model_type);
  return types;
}

ModelConfig model_from_hf_text(const std::string& text, const std::string& name, const std::string& place) {
  const Json json = publishers_config(json_of(text, place));
  const HfReader config(json, place);
  check_groups(json, place);
  ModelConfig model = hf_family_of(config).read(config);
  const Family& family = known_family(model.family, place);
  model.name = name;
  model.default_batch = family.default_batch;
  model.default_dtype = dtype_of(config);
  complete(model, family, place);
  check_sizes(family, model, place);
  return model;
}

std::vector<std::string> not_understood_of_hf_file(const std::string& path) {
  const Json file = json_of(read_file(path), path), json = publishers_config(file);
  const HfReader config(json, path);
  const bool scaled_as_told = hf_family_of(config).read(config).rotary_scaling.has_value();
  (void)dtype_of(config);
  std::vector<std::string> names = unread_of_analysis_config(file, config.unread());
  std::erase_if(names, is_known_to_do_nothing);
  if (!chooses_among_groups(json))
    std::erase_if(names, [](const std::string& name) {
      return name.ends_with("n_group") || name.ends_with("topk_group") || name.ends_with("num_expert_group");
    });
  if (has_unnamed_module(json)) names.emplace_back("the module for a further token that its weights have");
  if (rounds_weights(json)) names.emplace_back("quantization_config (weights rounded in every step)");
  if (auto scaled = scaled_rotation(json); scaled && !scaled_as_told) names.push_back(std::move(*scaled));
  return names;
}

std::vector<std::string> assumed_of_hf_file(const std::string& path) {
  return assumed_of_analysis_config(json_of(read_file(path), path));
}

std::optional<std::string> scaled_rotation_of_hf_file(const std::string& path) {
  const Json json = publishers_config(json_of(read_file(path), path));
  const HfReader config(json, path);
  return hf_family_of(config).read(config).rotary_scaling ? std::nullopt : scaled_rotation(json);
}

ModelConfig model_from_hf_file(const std::string& path) {
  return model_from_hf_text(read_file(path), name_of_file(path), path);
}

}  // namespace meshwright
