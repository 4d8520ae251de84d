// SPDX-License-Identifier: Apache-2.0
// YAML of NeMo's first trainer, as its launcher has it (NeMo-Framework-Launcher): groups of a trainer and of a model
// whose keys are Megatron-LM's by other names.
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/models/model_names.h"
#include "launch/read/text_reader.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

namespace {

// {NeMo's, Megatron-LM's}
constexpr std::pair<const char*, const char*> kModelKeys[] = {
    {"micro_batch_size", "micro_batch_size"},
    {"global_batch_size", "global_batch_size"},
    {"rampup_batch_size", "rampup_batch_size"},
    {"tensor_model_parallel_size", "tensor_model_parallel_size"},
    {"pipeline_model_parallel_size", "pipeline_model_parallel_size"},
    {"virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank"},
    {"context_parallel_size", "context_parallel_size"},
    {"expert_model_parallel_size", "expert_model_parallel_size"},
    {"sequence_parallel", "sequence_parallel"},
    {"encoder_seq_length", "seq_length"},
    {"max_position_embeddings", "max_position_embeddings"},
    {"num_layers", "num_layers"},
    {"hidden_size", "hidden_size"},
    {"ffn_hidden_size", "ffn_hidden_size"},
    {"num_attention_heads", "num_attention_heads"},
    {"num_query_groups", "num_query_groups"},
    {"kv_channels", "kv_channels"},
    {"make_vocab_size_divisible_by", "make_vocab_size_divisible_by"},
    {"override_vocab_size", "vocab_size"},
    {"padded_vocab_size", "padded_vocab_size"},
    {"position_embedding_type", "position_embedding_type"},
    {"rotary_percentage", "rotary_percent"},
    {"rotary_base", "rotary_base"},
    {"hidden_dropout", "hidden_dropout"},
    {"attention_dropout", "attention_dropout"},
    {"num_moe_experts", "num_experts"},
    {"moe_router_topk", "moe_router_topk"},
    {"moe_ffn_hidden_size", "moe_ffn_hidden_size"},
    {"moe_grouped_gemm", "moe_grouped_gemm"},
    {"moe_expert_capacity_factor", "moe_expert_capacity_factor"},
    {"moe_pad_expert_input_to_capacity", "moe_pad_expert_input_to_capacity"},
    {"qk_layernorm", "qk_layernorm"},
    {"window_size", "window_size"},
    {"account_for_embedding_in_pipeline_split", "account_for_embedding_in_pipeline_split"},
    {"account_for_loss_in_pipeline_split", "account_for_loss_in_pipeline_split"},
    {"expert_tensor_parallel_size", "expert_tensor_parallel_size"},
    {"use_tp_pp_dp_mapping", "use_tp_pp_dp_mapping"},
    {"qkv_bias", "add_qkv_bias"},
    {"activations_checkpoint_granularity", "recompute_granularity"},
    {"activations_checkpoint_method", "recompute_method"},
    {"activations_checkpoint_num_layers", "recompute_num_layers"}};

bool is_given(const ConfigValue* value) {
  return value != nullptr && value->kind != ConfigValue::Kind::Null &&
         !(value->is_scalar() && (lower_case(value->text) == "null" || value->text.empty()));
}
std::string text_of(const ConfigValue& map, const char* key) {
  const ConfigValue* value = map.find(key);
  return is_given(value) && value->is_scalar() ? value->text : "";
}
bool is_off(const ConfigValue& map, const char* key) { return truth_value(text_of(map, key)).value_or(true) == false; }

ConfigValue flag(bool on) { return ConfigValue::scalar(on ? "true" : "false", 0); }

// Of T5, whose sizes are those of its encoder and of its decoder: a model with the encoder's, where both have the same.
ConfigValue with_sizes_of_stacks(const ConfigValue& model, const std::string& place) {
  const ConfigValue *encoder = model.find("encoder"), *decoder = model.find("decoder");
  if (encoder == nullptr && decoder == nullptr) return model;
  require(encoder != nullptr && decoder != nullptr && encoder->is_map() && decoder->is_map(),
          "{}: model.encoder and model.decoder: expected the sizes of both.", place);
  for (const char* key : {"hidden_size", "ffn_hidden_size", "num_attention_heads", "kv_channels", "activation"})
    require(text_of(*encoder, key) == text_of(*decoder, key),
            "{}: model.decoder.{}: is not the encoder's, and only models whose stacks are alike are read of NeMo's "
            "first trainer.",
            place, key);
  for (const ConfigValue* stack : {encoder, decoder}) {
    const std::string arch = text_of(*stack, "arch");
    require(arch.empty() || arch == "transformer",
            "{}: stacks of '{}' are in no model here; `meshwright plan --model` takes a config.json.", place,
            printable(arch));
  }
  ConfigValue all = model;
  for (const auto& [key, value] : encoder->members)
    if (!is_given(all.find(key))) all.set(key, value);
  all.set("encoder_seq_length", model.find("seq_length") != nullptr ? *model.find("seq_length") : ConfigValue{});
  all.set("decoder_num_layers", decoder->find("num_layers") != nullptr ? *decoder->find("num_layers") : ConfigValue{});
  if (const ConfigValue* data = model.find("data"); data != nullptr && is_given(data->find("seq_length_dec")))
    all.set("decoder_seq_length", *data->find("seq_length_dec"));
  if (is_off(model, "share_decoder_tokens_head_embeddings"))
    all.set("share_embeddings_and_output_weights", flag(false));
  return all;
}

}  // namespace

void TextReader::expect_nemo_gpt(const ConfigValue& model, const std::string& place) const {
  const ConfigValue* blocks = model.find("mcore_customization_config");  // Falcon's, where they say yes
  const bool other_blocks = blocks != nullptr && blocks->is_map() &&
                            std::any_of(blocks->members.begin(), blocks->members.end(), [](const auto& member) {
                              return !member.second.is_scalar() || truth_value(member.second.text) != false;
                            });
  require(!other_blocks,
          "{}: model.mcore_customization_config: is of a model that is no plain GPT, and only those are read of NeMo's "
          "first trainer.",
          place);
  for (const char* part : {"mm_cfg", "retro", "unet_config", "language_model_path", "vision", "patch_dim", "img_h",
                           "hyena", "mamba_ssm_ngroups", "activations_checkpoint_recurrent"})
    require(!is_given(model.find(part)),
            "{}: model.{}: is of a model that is no plain GPT, and only those are read of NeMo's first trainer.", place,
            part);
  require(!truth_value(text_of(model, "fsdp")).value_or(false),
          "{}: model.fsdp: NeMo's FSDP is not read; give a file with its distributed optimizer.", place);
  if (const ConfigValue* peft = model.find("peft"); peft != nullptr && peft->is_map()) {
    const std::string scheme = lower_case(text_of(*peft, "peft_scheme"));
    require(scheme.empty() || scheme == "none" || scheme == "lora",
            "{}: model.peft.peft_scheme: trains {}, and only trainings of all weights are predicted; give a file "
            "without it.",
            place, printable(scheme));
  }
  const std::string block = text_of(model, "transformer_block_type");
  require(block.empty() || block == "pre_ln",
          "{}: model.transformer_block_type: blocks of '{}' are in no model that these files are read as; `meshwright "
          "plan --model` takes a config.json.",
          place, printable(block));
}

void TextReader::nemo(const ConfigValue& root, const std::string& place) {
  set_target("megatron");
  text_.variant = "NeMo";
  const ConfigValue& trainer = *root.find("trainer");
  const ConfigValue model = with_sizes_of_stacks(*root.find("model"), place);
  expect_nemo_gpt(model, place);
  const bool teacher =
      model.find("kd_teacher_restore_from_path") != nullptr || root.find("kd_teacher_restore_from_path") != nullptr;
  require(!teacher,
          "{}: kd_teacher_restore_from_path: trains against a teacher, and only trainings of one model are predicted; "
          "give a file without it.",
          place);
  text_.settings.add_all(root, "", place);
  ConfigValue flags = ConfigValue::map(model.line);
  for (const auto& [own, megatron] : kModelKeys) {
    if (const ConfigValue* value = model.find(own); is_given(value)) flags.set(megatron, *value);
    for (const char* stack : {"", "encoder.", "decoder."})
      (void)text_.settings.take(fmt::format("model.{}{}", stack, own));
  }
  for (const char* key : {"decoder_num_layers", "decoder_seq_length", "bert_binary_head"})
    if (const ConfigValue* value = model.find(key); is_given(value)) flags.set(key, *value);
  // What a file says of it, yes or no, is that it is a BERT.
  if (is_given(model.find("bert_binary_head")) && is_off(model, "bert_binary_head"))
    flags.set("bert_no_binary_head", flag(true));
  const ConfigValue* data = model.find("data");
  if (!is_given(flags.find("seq_length")) && data != nullptr && is_given(data->find("seq_length")))
    flags.set("seq_length", *data->find("seq_length"));
  // Blocks of no layers.
  if (text_of(flags, "recompute_num_layers") == "0" && text_of(flags, "recompute_method") == "block")
    flags.set("recompute_granularity", ConfigValue{});
  if (!is_given(flags.find("recompute_granularity")))
    for (const char* key : {"recompute_method", "recompute_num_layers"}) flags.set(key, ConfigValue{});
  if (text_of(flags, "recompute_granularity") == "selective")
    for (const char* key : {"recompute_method", "recompute_num_layers"}) flags.set(key, ConfigValue{});
  if (is_given(flags.find("num_query_groups"))) flags.set("group_query_attention", flag(true));

  std::string activation = text_of(model, "activation");
  if (activation.starts_with("fast-")) activation = activation.substr(5);
  require(activation.empty() || activation == "gelu" || activation == "geglu" || activation == "swiglu" ||
              activation == "squared-relu",
          "{}: model.activation: '{}' is in no model that these files are read as; `meshwright plan --model` takes a "
          "config.json.",
          place, printable(activation));
  if (activation == "swiglu") flags.set("swiglu", flag(true));
  if (activation == "geglu") flags.set("geglu", flag(true));
  if (activation == "squared-relu") flags.set("squared_relu", flag(true));
  if (text_of(model, "normalization") == "rmsnorm") flags.set("normalization", ConfigValue::scalar("RMSNorm", 0));
  if (is_off(model, "bias")) flags.set("disable_bias_linear", flag(true));
  if (is_off(model, "share_embeddings_and_output_weights"))
    flags.set("untie_embeddings_and_output_weights", flag(true));
  if (!is_off(model, "fp8") && !text_of(model, "fp8").empty())
    flags.set("fp8_format", ConfigValue::scalar("hybrid", 0));

  const std::string precision = text_of(trainer, "precision");
  if (precision.starts_with("bf16")) flags.set("bf16", flag(true));
  if (precision.starts_with("16")) flags.set("fp16", flag(true));
  if (const std::string norm = text_of(trainer, "gradient_clip_val"); !norm.empty())
    flags.set("clip_grad", ConfigValue::scalar(norm, 0));
  if (const ConfigValue* optim = model.find("optim"); optim != nullptr && optim->is_map()) {
    if (text_of(*optim, "name").find("distributed") != std::string::npos)
      flags.set("use_distributed_optimizer", flag(true));
    if (const std::string decay = text_of(*optim, "weight_decay"); !decay.empty())
      flags.set("weight_decay", ConfigValue::scalar(decay, 0));
    for (const auto& [own, megatron] : {std::pair{"overlap_grad_sync", "overlap_grad_reduce"},
                                        std::pair{"overlap_param_sync", "overlap_param_gather"},
                                        std::pair{"overlap_grad_reduce", "overlap_grad_reduce"},
                                        std::pair{"overlap_param_gather", "overlap_param_gather"},
                                        std::pair{"use_distributed_optimizer", "use_distributed_optimizer"}})
      if (truth_value(text_of(*optim, own)).value_or(false)) flags.set(megatron, flag(true));
  }
  if (const ConfigValue* peft = model.find("peft");
      peft != nullptr && peft->is_map() && lower_case(text_of(*peft, "peft_scheme")) == "lora") {
    static const ConfigValue kNothing = ConfigValue::map(0);
    const ConfigValue* tuning = peft->find("lora_tuning");
    const ConfigValue& lora = tuning != nullptr && tuning->is_map() ? *tuning : kNothing;
    flags.set("lora_r", is_given(lora.find("adapter_dim")) ? *lora.find("adapter_dim") : ConfigValue::scalar("32", 0));
    flags.set("lora_target_modules", is_given(lora.find("target_modules")) ? *lora.find("target_modules")
                                                                           : ConfigValue::scalar("attention_qkv", 0));
  }
  const ConfigValue* tokenizer = model.find("tokenizer");
  if (tokenizer != nullptr && tokenizer->is_map() && text_of(*tokenizer, "type").starts_with("BertWordPiece")) {
    flags.set("tokenizer_type", *tokenizer->find("type"));
    if (const ConfigValue* marks = tokenizer->find("num_sentinel_tokens"); is_given(marks))
      flags.set("vocab_extra_ids", *marks);
  }
  if (tokenizer != nullptr && tokenizer->is_map() && !is_given(flags.find("vocab_size")))
    if (const auto known = builtin_model_like(text_of(*tokenizer, "type"))) {
      flags.set("vocab_size", ConfigValue::scalar(fmt::format("{}", known->vocab), 0));
      text_.notes.push_back(fmt::format("{}: the vocabulary of {} for the tokenizer of {}", place, known->name,
                                        printable(text_of(*tokenizer, "type"))));
    }
  // The words of mT5 (L. Xue et al., 2021) are in files of their own.
  constexpr std::int64_t kWordsOfMt5 = 250'100;
  if (tokenizer != nullptr && tokenizer->is_map() && !is_given(flags.find("vocab_size")) &&
      lower_case(text_of(*tokenizer, "model")).find("mt5") != std::string::npos) {
    flags.set("vocab_size", ConfigValue::scalar(fmt::format("{}", kWordsOfMt5), 0));
    text_.notes.push_back(fmt::format("{}: the {} words of mT5 for the tokenizer {}", place, kWordsOfMt5,
                                      printable(text_of(*tokenizer, "model"))));
  }
  const auto count = [&](const char* key) -> std::optional<std::int64_t> {
    const auto number = whole_number(text_of(trainer, key));
    return number && *number >= 1 && *number <= 1 << 20 ? number : std::nullopt;
  };
  text_.hosts = count("num_nodes");
  text_.devices_per_host = count("devices");
  for (const char* key : {"activation", "normalization", "bias", "share_embeddings_and_output_weights", "fp8",
                          "transformer_block_type", "optim.name", "optim.weight_decay", "optim.overlap_grad_sync",
                          "optim.overlap_param_sync", "optim.overlap_grad_reduce", "optim.overlap_param_gather",
                          "optim.use_distributed_optimizer", "tokenizer.type", "data.seq_length"})
    (void)text_.settings.take(fmt::format("model.{}", key));
  for (const char* key :
       {"encoder.activation", "encoder.normalization", "encoder.bias", "encoder.transformer_block_type", "encoder.arch",
        "decoder.activation", "decoder.normalization", "decoder.bias", "decoder.transformer_block_type", "decoder.arch",
        "decoder.num_layers", "pipeline_model_parallel_split_rank", "seq_length", "data.seq_length_dec",
        "bert_binary_head", "tokenizer.num_sentinel_tokens", "share_decoder_tokens_head_embeddings"})
    (void)text_.settings.take(fmt::format("model.{}", key));
  text_.settings.no_effect([](const std::string& given) {
    if (!given.starts_with("model.")) return true;  // the launcher's, the trainer's, the manager's of experiments
    std::string key = given;
    for (const char* stack : {"model.encoder.", "model.decoder."})
      if (given.starts_with(stack)) key = "model." + given.substr(std::string(stack).size());
    for (const char* group : {"tokenizer.",
                              "data.",
                              "optim.",
                              "nsys_profile.",
                              "native_amp",
                              "apply_",
                              "init_",
                              "use_",
                              "layernorm",
                              "layer_norm",
                              "do_layer_norm",
                              "pre_process",
                              "post_process",
                              "persist_",
                              "gradient_",
                              "headscale",
                              "openai",
                              "normalize_",
                              "attention_type",
                              "hysteresis",
                              "fp32_",
                              "fp16_",
                              "megatron_amp",
                              "grad_",
                              "bias_",
                              "masked_",
                              "seed",
                              "resume",
                              "onnx",
                              "apex",
                              "sync_",
                              "num_micro_batches",
                              "activations_checkpoint_layers",
                              "deterministic",
                              "cross_entropy",
                              "transformer_engine",
                              "fp8_",
                              "ub_tp",
                              "mcore_gpt",
                              "name",
                              "ffn_dropout",
                              "embedding_",
                              "disable_",
                              "moe_aux",
                              "moe_z",
                              "moe_router_load",
                              "overlap_",
                              "batch_p2p",
                              "defer_",
                              "barrier",
                              "dist_ckpt",
                              "restore_",
                              "hidden_act",
                              "gc_",
                              "reduce_amax",
                              "tp_comm",
                              "cpu_offloading_num_layers",
                              "seq_len_interpolation",
                              "scale_positional",
                              "precision",
                              "amp_",
                              "add_position",
                              "rotary_interleaved",
                              "peft.",
                              "fsdp",
                              "sharp",
                              "get_attention_mask",
                              "wgrad_deferral",
                              "megatron_legacy",
                              "async_grad",
                              "nccl_comm",
                              "validation_param",
                              "megatron_timer",
                              "enable_megatron_timers",
                              "enable_cuda_graph",
                              "deteministic",
                              "moe_token_disp",
                              "mcore_customization_config.",
                              "mcore_t5",
                              "share_token_embeddings",
                              "relative_"})
      if (key.substr(6).starts_with(group)) return true;
    return false;
  });
  add_flag_map(flags, place);
}

}  // namespace meshwright
