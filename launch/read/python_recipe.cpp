// SPDX-License-Identifier: Apache-2.0
// Recipes of Megatron-Bridge and NeMo 2 as Python functions: Megatron-Bridge's set members of a configuration, NeMo's
// construct a model, a trainer with a strategy, and data.
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/models/model_names.h"
#include "launch/read/text_reader.h"
#include "launch/syntax/numbers.h"
#include "launch/syntax/python/python_config.h"

namespace meshwright {

namespace {

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }
bool is_nemo_recipe(const std::string& text) { return has(text, "nemo.collections.llm") || has(text, "nemo_run"); }

// The first that pre-trains, else the first that is not for its own file alone.
std::string chosen_function(const std::vector<std::string>& functions) {
  const auto is_open = [](const std::string& name) { return !name.starts_with("_"); };
  for (const char* part : {"pretrain_recipe", "pretrain", "config", "recipe"})
    for (const std::string& name : functions)
      if (is_open(name) && has(name, part)) return name;
  const auto open = std::find_if(functions.begin(), functions.end(), is_open);
  return open == functions.end() ? "" : *open;
}

// As a command line gives it: "bf16_mixed()" by its name, None as a word, not as a flag.
void name_calls(ConfigValue& value) {
  const bool called = value.is_map() && value.members.empty() && !value.text.empty();
  if (called || value.kind == ConfigValue::Kind::Null) {
    ConfigValue named = ConfigValue::scalar(called ? value.text : "None", value.line);
    named.file = value.file;
    value = std::move(named);
  }
  for (auto& [key, member] : value.members) name_calls(member);
}

// The first quoted text that a call was given, or one whose result it was asked of: "meta-llama/Meta-Llama-3-70B".
std::string named_by(const ConfigValue* call) {
  while (call != nullptr) {
    const ConfigValue* first = call->find("#0");
    if (first != nullptr && first->is_scalar() && first->quoted) return first->text;
    call = call->find("(of)");
  }
  return "";
}

// What says nothing but how a part is made.
void drop_makers(ConfigValue& map) {
  std::erase_if(map.members,
                [](const auto& member) { return member.first == "(of)" || member.first.starts_with("#"); });
  map.text.clear();
}

void take_members(ConfigValue& into, const ConfigValue* from) {
  if (from == nullptr) return;
  for (const auto& [key, value] : from->members) into.set(key, value);
}

// "..._32gpu_h100_...": 32.
std::optional<std::int64_t> devices_in(const std::string& function) {
  const std::size_t end = function.find("gpu_");
  if (end == std::string::npos) return std::nullopt;
  std::size_t begin = end;
  while (begin > 0 && function[begin - 1] >= '0' && function[begin - 1] <= '9') --begin;
  return whole_number(function.substr(begin, end - begin));
}

// The first GPU that a recipe's name has: "..._gb200_...".
std::string device_in(const std::string& function) {
  for (const std::string& word : split(function, '_'))
    for (const char* known : {"a100", "h100", "h200", "b200", "b300", "gb200", "gb300"})
      if (word == known) return word;
  return "";
}

// What recipes ask of PyTorch and of the model that they take from a hub.
PythonKnown known_to_recipes(const std::string& function) {
  const std::string device = device_in(function);
  return [device](const std::string& of, const std::string& name) -> std::optional<ConfigValue> {
    if (of.empty() && name == "torch.cuda.is_available") return ConfigValue::scalar("True", 0);
    if (of == "torch.cuda.get_device_properties") {
      if (device.empty()) return std::nullopt;
      std::string upper = device;
      for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      if (name == "name") return ConfigValue::scalar("NVIDIA " + upper, 0, true);
      if (name == "major") return ConfigValue::scalar(device[0] == 'a' ? "8" : device[0] == 'h' ? "9" : "10", 0);
      return std::nullopt;
    }
    // Megatron-Core's defaults.
    for (const char* degree : {"tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size",
                               "expert_model_parallel_size"})
      if (name == degree) return ConfigValue::scalar("1", 0);
    if (name == "virtual_pipeline_model_parallel_size" || name == "pipeline_model_parallel_layout")
      return ConfigValue{};
    const bool asks = name == "num_moe_experts" || name == "num_layers" || name == "hidden_size" ||
                      name == "num_attention_heads" || name == "vocab_size" || name == "mtp_num_layers";
    const auto model = asks ? builtin_model_like(of) : std::nullopt;
    if (!model) return std::nullopt;
    const std::int64_t experts = shape_of(*model).experts;
    if (name == "mtp_num_layers") {
      const auto further = model->more.find("mtp");
      if (further == model->more.end()) return std::nullopt;
      return further->second == 0 ? ConfigValue{} : ConfigValue::scalar(fmt::format("{}", further->second), 0);
    }
    if (name == "num_moe_experts" && experts == 0) return ConfigValue{};
    const std::int64_t size = name == "num_moe_experts" ? experts
                              : name == "num_layers"    ? model->layers
                              : name == "hidden_size"   ? model->hidden
                              : name == "vocab_size"    ? model->vocab
                                                        : model->heads;
    return ConfigValue::scalar(fmt::format("{}", size), 0);
  };
}

// Stages as lists of their layers ([["embedding", "decoder"], ["decoder", "loss"]]) in the letters that a layout has:
// "Et|tL". Other values stay.
void name_layout(ConfigValue& value) {
  if (!value.is_list()) return;
  std::string text;
  for (const ConfigValue& stage : value.items) {
    if (!stage.is_list()) return;
    if (&stage != &value.items.front()) text += '|';
    for (const ConfigValue& layer : stage.items) {
      const char letter = layer.text == "embedding" ? 'E'
                          : layer.text == "decoder" ? 't'
                          : layer.text == "mtp"     ? 'm'
                          : layer.text == "loss"    ? 'L'
                                                    : ' ';
      if (letter == ' ') return;
      text += letter;
    }
  }
  ConfigValue named = ConfigValue::scalar(text, value.line, true);
  named.file = value.file;
  value = std::move(named);
}

// What is constructed is what its group is made of in every recipe; a function that is not there says more
// ("bf16_with_fp8_current_scaling_mixed", of which members are set).
void settle_groups(ConfigValue& config) {
  for (auto& [group, value] : config.members) {
    if (!value.is_map() || value.text.empty() || group == "peft") continue;
    const bool is_class = value.text[value.text.rfind('.') + 1] <= 'Z';
    if (!is_class && group == "mixed_precision" && !value.members.empty())
      value.set("mixed_precision", ConfigValue::scalar(value.text, value.line));
    if (is_class && !value.members.empty()) value.text.clear();
    if (group == "model")
      for (auto& [key, member] : value.members)
        if (key == "pipeline_model_parallel_layout") name_layout(member);
    // CommOverlapConfig has both on unless it is told otherwise; how its kernels split products changes no plan.
    if (group == "comm_overlap") {
      std::erase_if(value.members, [](const auto& member) { return member.first == "tp_comm_overlap_cfg"; });
      for (const char* key : {"overlap_grad_reduce", "overlap_param_gather"})
        if (const ConfigValue* given = value.find(key); given == nullptr || given->text == "None")
          value.set(key, ConfigValue::scalar("True", value.line));
    }
  }
}

// Samples are as long as the model says, where the data say otherwise; words that a tokenizer may add, and what a loss
// weighs, may not be known.
// `is_whole`: all that the recipe begins with is there.
void settle_sizes(ConfigValue& config, bool is_whole, const std::string& place, std::vector<std::string>& notes) {
  ConfigValue* model = nullptr;
  ConfigValue* dataset = nullptr;
  for (auto& [group, value] : config.members) {
    if (group == "model" && value.is_map()) model = &value;
    if (group == "dataset" && value.is_map()) dataset = &value;
  }
  if (model == nullptr) return;
  const auto remove = [](ConfigValue& from, const char* key) {
    std::erase_if(from.members, [key](const auto& member) { return member.first == key; });
  };
  const auto at = [&](const ConfigValue& value) {
    return fmt::format("{}:{}", value.file.empty() ? place : value.file, value.line);
  };
  // Without a granularity Megatron-Core recomputes no modules; where a base is not there, it may have one.
  const ConfigValue* granularity = model->find("recompute_granularity");
  const ConfigValue* modules = model->find("recompute_modules");
  const bool none = granularity == nullptr ? is_whole : granularity->text == "None";
  if (modules != nullptr && (none || (modules->is_list() && modules->items.empty())))
    remove(*model, "recompute_modules");
  for (const char* key : {"vocab_size", "mtp_loss_scaling_factor"}) {
    const ConfigValue* value = model->find(key);
    if (value == nullptr || !value->is_scalar() || value->text.find(" if ") == std::string::npos) continue;
    notes.push_back(fmt::format("{}: model.{} is '{}', which is not known: the model's own is taken", at(*value), key,
                                value->text));
    remove(*model, key);
  }
  const ConfigValue* seq = model->find("seq_length");
  const ConfigValue* data = dataset == nullptr ? nullptr : dataset->find("seq_length");
  if (seq == nullptr || data == nullptr || !seq->is_scalar() || !data->is_scalar() || seq->text == data->text) return;
  if (!whole_number(seq->text) || !whole_number(data->text)) return;
  notes.push_back(
      fmt::format("{}: dataset.seq_length is {} and model.seq_length {}, which have to be equal: the "
                  "model's is taken",
                  at(*data), data->text, seq->text));
  remove(*dataset, "seq_length");
}

// A NeMo recipe as the groups that Megatron-Bridge has.
ConfigValue as_bridge(const ConfigValue& recipe) {
  ConfigValue root = ConfigValue::map(1), model = ConfigValue::map(1), train = ConfigValue::map(1),
              dataset = ConfigValue::map(1);
  const auto part = [](const ConfigValue* of, const char* key) { return of == nullptr ? nullptr : of->find(key); };
  const ConfigValue* trainer = recipe.find("trainer");
  const ConfigValue* strategy = part(trainer, "strategy");
  take_members(model, strategy);
  take_members(model, part(recipe.find("model"), "config"));
  drop_makers(model);
  for (const char* key : {"ddp", "fsdp", "ckpt_async_save", "ckpt_parallel_load", "gradient_as_bucket_view"})
    std::erase_if(model.members, [key](const auto& member) { return member.first == key; });
  const auto move = [](ConfigValue& into, const ConfigValue* from, const char* key, const char* name) {
    if (const ConfigValue* value = from == nullptr ? nullptr : from->find(key)) into.set(name, *value);
  };
  const ConfigValue* data = recipe.find("data");
  move(train, data, "global_batch_size", "global_batch_size");
  move(train, data, "micro_batch_size", "micro_batch_size");
  move(dataset, data, "seq_length", "seq_length");
  move(train, trainer, "max_steps", "train_iters");
  root.set("model", std::move(model));
  root.set("train", std::move(train));
  root.set("dataset", std::move(dataset));
  if (const ConfigValue* ddp = part(strategy, "ddp"); ddp != nullptr && ddp->is_map()) {
    ConfigValue own = *ddp;
    drop_makers(own);
    root.set("ddp", std::move(own));
  }
  move(root, trainer, "plugins", "mixed_precision");
  move(root, &recipe, "peft", "peft");
  return root;
}

// LoRA(dim=8, target_modules=["linear_qkv"]) as flags of adapters, by the members' names; its own defaults are of rank
// 32 and of every product. Other classes stay, to be refused.
ConfigValue taken_adapters(ConfigValue& config) {
  ConfigValue flags = ConfigValue::map(0);
  const ConfigValue* peft = config.find("peft");
  if (peft == nullptr || !peft->is_map()) return flags;
  const ConfigValue given = *peft;
  const std::string name = given.text.substr(given.text.rfind('.') + 1);
  if (name != "LoRA" && name != "CanonicalLoRA" && name != "lora") {
    config.set("peft", ConfigValue::scalar(to_text(given), given.line));
    return flags;
  }
  const auto take = [&](const char* key, const char* flag, const char* otherwise) {
    const ConfigValue* value = given.find(key);
    const bool known = value != nullptr && !(value->is_scalar() && (value->text == "None" || value->text.empty()));
    flags.set(flag, known ? *value : ConfigValue::scalar(otherwise, given.line));
  };
  take("dim", "lora-r", "32");
  take("target_modules", "lora-target-modules", "all");
  std::erase_if(config.members, [](const auto& member) { return member.first == "peft"; });
  return flags;
}

}  // namespace

bool is_python_recipe(const std::string& text) { return has(text, "megatron.bridge") || is_nemo_recipe(text); }

void TextReader::python_recipe(const GivenFile& file, const std::string& function) {
  set_target("megatron-bridge");
  const std::string place = place_of(file);
  const std::vector<std::string> functions = functions_of_python(file.text, place);
  const std::string chosen = function.empty() ? chosen_function(functions) : function;
  require(!chosen.empty(), "{}: has no function that is a recipe; give a file that has one.", place);
  PythonConfig config = python_config(file, chosen, known_to_recipes(chosen));
  name_calls(config.values);
  text_.program = fmt::format("{} of {}", chosen, place);
  const auto recipes = std::count_if(functions.begin(), functions.end(), [](const std::string& name) {
    return !name.starts_with("_") && (name.ends_with("_config") || name.ends_with("_recipe"));
  });
  if (function.empty() && recipes > 1)
    text_.notes.push_back(
        fmt::format("{}: has {} recipes, of which {} is read; --function names another", place, recipes, chosen));
  if (!config.base.empty())
    text_.notes.push_back(
        fmt::format("{}: {}() is not in the file: what it sets and the file does not change is taken as the "
                    "framework's defaults",
                    place, config.base));
  note_python(config, place);
  std::string name;
  if (is_nemo_recipe(file.text)) {
    text_.variant = "NeMo";
    name = place.substr(0, place.rfind('.'));
    const ConfigValue* model = config.values.find("model");
    const ConfigValue* sizes = model == nullptr ? nullptr : model->find("config");
    if (const ConfigValue* type = sizes == nullptr ? nullptr : sizes->find("#0"); type && !builtin_model_like(name))
      name = type->text;
    const ConfigValue* trainer = config.values.find("trainer");
    const auto count = [&](const char* key) {
      const ConfigValue* value = trainer == nullptr ? nullptr : trainer->find(key);
      return value == nullptr ? std::nullopt : whole_number(value->text);
    };
    const auto hosts = count("num_nodes"), of_host = count("devices");
    if (hosts && of_host && *hosts > 0 && *of_host > 0 && *hosts < 1 << 20 && *of_host < 1 << 10) {
      text_.hosts = hosts;
      text_.devices = *hosts * *of_host;
    }
    config.values = as_bridge(config.values);
  } else {
    text_.variant = "Python";
    const std::string own = config.function.empty() ? chosen : config.function;
    name = named_by(config.values.find("model"));
    if (name.empty()) name = builtin_model_like(config.name_of_model) ? config.name_of_model : own;
    // A function of one's own over a recipe of the framework's.
    if (!builtin_model_like(name) && builtin_model_like(config.base)) name = config.base;
    text_.devices = devices_in(own);
    text_.device = device_in(own);
    settle_groups(config.values);
    settle_sizes(config.values, config.base.empty(), place, text_.notes);
    for (auto& [key, member] : config.values.members)
      if (key == "model") drop_makers(member);
    std::erase_if(config.values.members, [](const auto& member) {
      return member.first == "model" && member.second.is_map() && member.second.members.empty();
    });
  }
  const ConfigValue adapters = taken_adapters(config.values);
  config.values.set("recipe", ConfigValue::scalar(name, 1));
  bridge(config.values, place);
  for (const auto& [flag, value] : adapters.members)
    text_.settings.add(flag, "peft", value, fmt::format("{}:{}", place, value.line));
}

}  // namespace meshwright
