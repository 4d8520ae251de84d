// SPDX-License-Identifier: Apache-2.0
// AMD's Primus (fd1eeabb): an experiment names a framework, the file of a model and what it changes. Defaults are those
// of primus/configs/modules/megatron/pre_trainer.yaml.
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/models/model_names.h"
#include "launch/read/text_reader.h"
#include "launch/syntax/yaml.h"

namespace meshwright {

namespace {

constexpr int kMaxExtensions = 8;

std::string scalar_text(const ConfigValue& map, const char* key) {
  const ConfigValue* value = map.find(key);
  return value == nullptr || !value->is_scalar() ? "" : value->text;
}

bool says_nothing(const ConfigValue* value) {
  return value == nullptr || value->kind == ConfigValue::Kind::Null || lower_case(value->text) == "null";
}

}  // namespace

void TextReader::fill_variables(ConfigValue& value) const {
  for (ConfigValue& item : value.items) fill_variables(item);
  for (auto& [key, member] : value.members) fill_variables(member);
  if (!value.is_scalar()) return;
  std::string filled;
  for (std::size_t at = 0; at < value.text.size();) {
    const std::size_t end = value.text.compare(at, 2, "${") == 0 ? value.text.find('}', at) : std::string::npos;
    if (end == std::string::npos) {
      filled += value.text[at++];
      continue;
    }
    const std::string inner = value.text.substr(at + 2, end - at - 2);
    const std::size_t colon = inner.find(':');
    const auto given = input_.variables.find(inner.substr(0, colon));
    if (given != input_.variables.end())
      filled += given->second;
    else
      filled += colon == std::string::npos ? value.text.substr(at, end + 1 - at) : inner.substr(colon + 1);
    at = end + 1;
  }
  if (filled != value.text && filled == "null") value.kind = ConfigValue::Kind::Null;
  value.text = filled;
}

std::optional<ConfigValue> TextReader::primus_model(const std::string& folder, const std::string& name, int depth) {
  if (depth > kMaxExtensions) return std::nullopt;
  // Given as a further file, beside the experiment, or where Primus has it from there.
  auto text = file_named(file_name(name));
  if (!text && input_.beside) text = input_.beside(folder + file_name(name));
  if (!text) return std::nullopt;
  ConfigValue own = value_from_yaml(*text, file_name(name));
  ConfigValue all = ConfigValue::map(own.line);
  for (const char* key : {"extends", "bases"})
    if (const ConfigValue* bases = own.find(key); bases != nullptr && bases->is_list())
      for (const ConfigValue& base : bases->items) {
        // What every model has is Megatron-LM's own defaults, but for a few of them.
        if (file_name(base.text) == "language_model.yaml" || file_name(base.text) == "primus_megatron_model.yaml")
          continue;
        const auto below = primus_model(folder, base.text, depth + 1);
        if (!below) return std::nullopt;
        for (const auto& [member, value] : below->members) all.set(member, value);
      }
  for (auto& [member, value] : own.members)
    if (member != "extends" && member != "bases") all.set(member, std::move(value));
  return all;
}

void TextReader::primus_megatron(ConfigValue flags, const std::string& place) {
  static constexpr std::pair<const char*, const char*> kDefaults[] = {{"micro_batch_size", "2"},
                                                                      {"global_batch_size", "16"},
                                                                      {"seq_length", "1024"},
                                                                      {"use_distributed_optimizer", "true"},
                                                                      {"bf16", "true"},
                                                                      {"swiglu", "true"},
                                                                      {"add_bias_linear", "false"},
                                                                      {"untie_embeddings_and_output_weights", "true"},
                                                                      {"sequence_parallel", "true"},
                                                                      {"weight_decay", "0.0"}};
  for (const auto& [key, value] : kDefaults)
    if (flags.find(key) == nullptr) flags.set(key, ConfigValue::scalar(value, 0));
  const std::string type = scalar_text(flags, "model_type");
  require(type.empty() || type == "gpt" || type == "mamba",
          "{}: models of type '{}' are not read of Primus; `meshwright plan --model` takes a config.json.", place,
          printable(type));
  require(says_nothing(flags.find("peft")),
          "{}: peft: trains adapters, and only trainings of all weights are predicted; give a file without it.", place);
  if (const ConfigValue* lora = flags.find("lora"); !says_nothing(lora)) {
    if (truth_value(scalar_text(*lora, "enabled")) != false) {
      const ConfigValue *rank = lora->find("dim"), *targets = lora->find("target_modules");
      flags.set("lora_r", says_nothing(rank) ? ConfigValue::scalar("32", 0) : *rank);
      flags.set("lora_target_modules", says_nothing(targets) ? ConfigValue::scalar("all", 0) : *targets);
    }
    flags.set("lora", ConfigValue{});
  }
  // Fine-tuning of all weights is the same step.
  if (scalar_text(flags, "stage") == "sft") flags.set("stage", ConfigValue{});
  if (scalar_text(flags, "add_bias_linear") == "false")
    flags.set("disable_bias_linear", ConfigValue::scalar("true", 0));
  // It takes one rank of tensor parallelism for none.
  if (const std::string tp = scalar_text(flags, "tensor_model_parallel_size"); tp.empty() || tp == "1")
    flags.set("sequence_parallel", ConfigValue::scalar("false", 0));
  const std::string tokenizer = scalar_text(flags, "tokenizer_model");
  if (const auto known = builtin_model_like(tokenizer); known && says_nothing(flags.find("vocab_size"))) {
    flags.set("vocab_size", ConfigValue::scalar(fmt::format("{}", known->vocab), 0));
    text_.notes.push_back(
        fmt::format("{}: the vocabulary of {} for the tokenizer of {}", place, known->name, printable(tokenizer)));
  }
  // A number says yes or no of a flag, too.
  for (const char* key : {"sequence_parallel", "group_query_attention", "use_distributed_optimizer", "use_torch_fsdp2"})
    if (const std::string text = scalar_text(flags, key); text == "1" || text == "0")
      flags.set(key, ConfigValue::scalar(text == "1" ? "true" : "false", 0));
  if (says_nothing(flags.find("num_query_groups"))) flags.set("group_query_attention", ConfigValue::scalar("false", 0));
  if (scalar_text(flags, "recompute_num_layers") == "0")
    for (const char* key : {"recompute_granularity", "recompute_method", "recompute_num_layers"})
      flags.set(key, ConfigValue{});
  if (const ConfigValue* chunks = flags.find("virtual_pipeline_model_parallel_size"); !says_nothing(chunks))
    flags.set("num_virtual_stages_per_pipeline_rank", *chunks);
  flags.set("virtual_pipeline_model_parallel_size", ConfigValue{});
  if (scalar_text(flags, "use_sink_attention") == "true")
    flags.set("softmax_type", ConfigValue::scalar("learnable", 0));
  // Sizes of latent attention are in the files of models that have it, also where an experiment switches it off.
  if (scalar_text(flags, "multi_latent_attention") != "true")
    for (const char* key : {"q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim"})
      flags.set(key, ConfigValue{});
  add_flag_map(flags, place);
  text_.settings.no_effect([](const std::string& key) {
    for (const char* group : {"wandb",
                              "log-",
                              "stderr",
                              "sink",
                              "file-sink",
                              "disable-",
                              "mock-data",
                              "train-data",
                              "turbo-",
                              "use-turbo",
                              "enable-primus",
                              "profile",
                              "use-pytorch-profiler",
                              "primus-",
                              "auto-continue",
                              "apply-rope-fusion",
                              "no-fp8-weight",
                              "mmap-bin",
                              "masked-softmax",
                              "use-sink",
                              "original-max-position",
                              "moe-shared-expert-overlap",
                              "moe-use-fused",
                              "pp-warmup",
                              "tensorboard",
                              "finetune",
                              "hf-",
                              "mlflow",
                              "test-mode"})
      if (key.starts_with(group)) return true;
    return false;
  });
}

void TextReader::primus(const ConfigValue& root, const std::string& place) {
  ConfigValue filled = root;
  fill_variables(filled);
  const ConfigValue* modules = filled.find("modules");
  const ConfigValue* trainer = modules->find("pre_trainer");
  if (trainer == nullptr) trainer = modules->find("post_trainer");
  require(trainer != nullptr && trainer->is_map(),
          "{}: has no pre_trainer and no post_trainer below `modules`, and other programs of Primus are not read.",
          place);
  const std::string framework = scalar_text(*trainer, "framework");
  require(framework == "megatron" || framework == "torchtitan",
          "{}:{}: the framework '{}' of Primus is not read; expected megatron or torchtitan.", place, trainer->line,
          printable(framework));
  const std::string name = scalar_text(*trainer, "model");
  const std::string folder = fmt::format("../../../../primus/configs/models/{}/", framework);
  const auto model = primus_model(folder, name, 0);
  require(model.has_value(),
          "{}:{}: names the model's file '{}', which is not there, or one that it extends; give them as further files.",
          place, trainer->line, printable(name));
  text_.program = place;
  text_.variant = "Primus";
  const ConfigValue* overrides = trainer->find("overrides");
  if (framework == "torchtitan") {
    set_target("torchtitan");
    text_.settings.add("activation_checkpoint.mode", "activation_checkpoint.mode", ConfigValue::scalar("none", 0),
                       place);
    text_.settings.add_all(*model, "", file_name(name));
    if (overrides != nullptr && overrides->is_map()) text_.settings.add_all(*overrides, "", place);
    for (const Setting& setting : text_.settings.all())
      require(!setting.key.starts_with("model.n_") && setting.key != "model.dim",
              "{}: {}: changes a size of the model, which is read by its flavor; give a file without it.",
              setting.place, setting.shown);
    text_.settings.no_effect([](const std::string& key) {
      return key.starts_with("primus_turbo.") || key.find("sink_level") != std::string::npos ||
             key == "training.mock_data";
    });
    return;
  }
  set_target("megatron");
  ConfigValue flags = *model;
  fill_variables(flags);
  if (overrides != nullptr && overrides->is_map())
    for (const auto& [key, value] : overrides->members) flags.set(key, value);
  primus_megatron(std::move(flags), place);
}

}  // namespace meshwright
