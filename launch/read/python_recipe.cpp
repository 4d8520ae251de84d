// SPDX-License-Identifier: Apache-2.0
// Recipes of Megatron-Bridge and NeMo 2 as Python functions: Megatron-Bridge's set members of a configuration, NeMo's
// construct a model, a trainer with a strategy, and data.
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/models/model_names.h"
#include "launch/read/text_reader.h"
#include "launch/syntax/numbers.h"
#include "launch/syntax/python_config.h"

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
  if (value.kind == ConfigValue::Kind::Null) value = ConfigValue::scalar("None", value.line);
  if (value.is_map() && value.members.empty() && !value.text.empty())
    value = ConfigValue::scalar(value.text, value.line);
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

}  // namespace

bool is_python_recipe(const std::string& text) { return has(text, "megatron.bridge") || is_nemo_recipe(text); }

void TextReader::python_recipe(const GivenFile& file, const std::string& function) {
  set_target("megatron-bridge");
  const std::string place = place_of(file);
  const std::vector<std::string> functions = functions_of_python(file.text, place);
  const std::string chosen = function.empty() ? chosen_function(functions) : function;
  require(!chosen.empty(), "{}: has no function that is a recipe; give a file that has one.", place);
  PythonConfig config = config_from_python(file.text, chosen, place);
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
  for (const std::string& line : config.ignored) text_.notes.push_back(line + " (not understood)");
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
    name = named_by(config.values.find("model"));
    if (name.empty()) name = config.name_of_model.empty() ? chosen : config.name_of_model;
    // A function of one's own over a recipe of the framework's.
    if (!builtin_model_like(name) && builtin_model_like(config.base)) name = config.base;
    text_.devices = devices_in(chosen);
    for (auto& [key, member] : config.values.members)
      if (key == "model") drop_makers(member);
  }
  for (auto& [key, member] : config.values.members)
    if (key == "peft" && member.is_map()) member = ConfigValue::scalar(to_text(member), member.line);
  config.values.set("recipe", ConfigValue::scalar(name, 1));
  bridge(config.values, place);
}

}  // namespace meshwright
