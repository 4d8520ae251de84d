// SPDX-License-Identifier: Apache-2.0
// YAML and JSON of frameworks whose files stand alone.
#include <algorithm>
#include <map>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/readers.h"
#include "launch/read/text_reader.h"
#include "launch/syntax/numbers.h"
#include "launch/syntax/yaml.h"

namespace meshwright {

namespace {

ConfigValue truth_of(const ConfigValue& value) { return ConfigValue::scalar("true", value.line); }

}  // namespace

void TextReader::megatron_test(const ConfigValue& root, const std::string& place) {
  set_target("megatron");
  if (const ConfigValue* environment = root.find("ENV_VARS"))
    for (const auto& [key, value] : environment->members)
      if (value.is_scalar()) text_.environment[key] = value.text;
  add_flag_map(*root.find("MODEL_ARGS"), place);
}

void TextReader::add_flag_map(const ConfigValue& map, const std::string& place) {
  for (const auto& [given, value] : map.members) {
    if (value.is_map()) {
      add_flag_map(value, place);
      continue;
    }
    std::string key = given;
    while (key.starts_with('-')) key.erase(0, 1);
    std::replace(key.begin(), key.end(), '_', '-');
    // Numbers are values, also 0 and 1.
    const bool word = value.is_scalar() && !value.quoted && !value.text.empty() &&
                      std::isalpha(static_cast<unsigned char>(value.text[0])) != 0;
    const std::string truth = word ? lower_case(value.text) : "";
    if (value.kind == ConfigValue::Kind::Null || truth == "false" || truth == "no" || truth == "off") continue;
    ConfigValue held = value;
    if (truth == "true" || truth == "yes" || truth == "on") held.kind = ConfigValue::Kind::Null;
    // "$NAME" and "${a.b}" are filled in by whoever runs the file.
    if (value.is_scalar()) held.text = with_variables(value.text, value.line);
    text_.settings.add(key,
                       given.starts_with('-') ? given
                       : key == given         ? "--" + key
                                              : given,
                       std::move(held), fmt::format("{}:{}", place, value.line));
  }
}

std::string TextReader::with_variables(const std::string& text, int line) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '$') {
      out += text[at];
      continue;
    }
    const bool braces = at + 1 < text.size() && text[at + 1] == '{';
    std::size_t end = at + (braces ? 2 : 1);
    std::string name;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_' ||
                                 (braces && text[end] != '}')))
      name += text[end++];
    if (braces && end < text.size()) ++end;
    name = name.substr(0, name.find(':'));
    if (const auto known = input_.variables.find(name); known != input_.variables.end()) {
      out += known->second;
    } else {
      text_.unresolved.emplace(name, line);
      out += std::string(1, kUnresolved) + "{" + name + "}";
    }
    at = end - 1;
  }
  return out;
}

void TextReader::megatron_map(const ConfigValue& root, const std::string& place) {
  set_target("megatron");
  add_flag_map(root, place);
}

void TextReader::megatron_yaml(const ConfigValue& root, const std::string& place) {
  set_target("megatron");
  static const std::map<std::string, std::string> kNames = {
      {"layernorm_epsilon", "norm_epsilon"},
      {"layernorm_zero_centered_gamma", "apply_layernorm_1p"},
      {"num_moe_experts", "num_experts"},
      {"virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank"}};
  ConfigValue flags = ConfigValue::map(root.line);
  const auto is = [](const ConfigValue& value, const char* text) {
    return value.is_scalar() && lower_case(value.text) == text;
  };
  const auto add = [&](const std::string& key, const ConfigValue& value) {
    if (key.starts_with("cpu_offloading") && is(value, "0")) return;
    // Megatron-core's fields that its flags say the other way round, or by a word.
    if (key == "add_bias_linear" && is(value, "false")) return flags.set("disable_bias_linear", truth_of(value));
    if (key == "activation_func" && is(value, "swiglu")) return flags.set("swiglu", truth_of(value));
    if (key == "activation_func" && is(value, "squared_relu")) return flags.set("squared_relu", truth_of(value));
    if (key == "gated_linear_unit" && is(value, "true")) return flags.set("swiglu", truth_of(value));
    const auto own = kNames.find(key);
    flags.set(own == kNames.end() ? key : own->second, value);
  };
  for (const auto& [key, value] : root.members) {
    if (!value.is_map())
      add(key, value);
    else
      for (const auto& [inner, of_group] : value.members) add(inner, of_group);
  }
  add_flag_map(flags, place);
}

void TextReader::bridge(const ConfigValue& root, const std::string& place) {
  set_target("megatron-bridge");
  text_.settings.add_all(root, "", place);
}

void TextReader::count_processes(const ConfigValue& root) {
  const auto number = [&](const char* key) -> std::optional<std::int64_t> {
    const ConfigValue* value = root.find(key);
    return value == nullptr ? std::nullopt : whole_number(value->text);
  };
  text_.devices = number("num_processes");
  text_.hosts = number("num_machines");
}

void TextReader::accelerate(const ConfigValue& root, const std::string& place) {
  set_target("accelerate");
  text_.settings.add_all(root, "", place);
  count_processes(root);
  // Beside it, the arguments of the program that it starts.
  if (script_.commands.empty())
    for (std::size_t i = 1; i < input_.files.size(); ++i) {
      const GivenFile& more = input_.files[i];
      if (!ends_with_any(more.path, {".yml", ".yaml"})) continue;
      const ConfigValue arguments = value_from_yaml(more.text, place_of(more));
      if (arguments.find("per_device_train_batch_size") != nullptr || arguments.find("model_name_or_path") != nullptr)
        text_.settings.add_all(arguments, "program", place_of(more));
    }
  if (const ConfigValue* config = root.find("deepspeed_config");
      config != nullptr && config->find("deepspeed_config_file") != nullptr) {
    const std::string name = config->find("deepspeed_config_file")->text;
    const auto more = file_named(name);
    if (!more)
      text_.notes.push_back(fmt::format("{}:{}: {} is not there; give it as a further file", place,
                                        config->find("deepspeed_config_file")->line, name));
    else
      text_.settings.add_all(value_from_yaml(*more, file_name(name)), "deepspeed", file_name(name));
  }
}

void TextReader::nanotron(const ConfigValue& root, const std::string& place) {
  set_target("megatron");
  text_.variant = "nanotron";
  text_.settings.add_all(root, "", place);
  const ConfigValue* degrees = root.find("parallelism");
  std::int64_t devices = 1;
  for (const char* key : {"dp", "pp", "tp", "context_parallel_size"}) {
    const ConfigValue* value = degrees->find(key);
    const auto number = value == nullptr ? std::optional<std::int64_t>(1) : whole_number(value->text);
    if (!number || *number < 1 || *number > 1 << 20 || devices > 1 << 20) return;
    devices *= *number;
  }
  text_.devices = devices;
}

void TextReader::fsdp_trainer(const ConfigValue& root, const std::string& place, const char* variant) {
  set_target("accelerate");
  text_.variant = variant;
  text_.settings.add_all(root, "", place);
}

void TextReader::litgpt(const ConfigValue& root, const std::string& place) {
  fsdp_trainer(root, place, "LitGPT");
  const auto number = [&](const char* key) -> std::optional<std::int64_t> {
    const ConfigValue* value = root.find(key);
    const auto found = value == nullptr ? std::nullopt : whole_number(value->text);
    return found && *found >= 1 && *found <= kMaxDegree ? found : std::nullopt;
  };
  text_.hosts = number("num_nodes");
  text_.devices_per_host = number("devices");
}

void TextReader::automodel(const ConfigValue& root, const std::string& place) {
  fsdp_trainer(root, place, "NeMo Automodel");
  const auto number = [&](const char* group, const char* key) -> std::optional<std::int64_t> {
    const ConfigValue* map = root.find(group);
    const ConfigValue* value = map == nullptr ? nullptr : map->find(key);
    const auto found = value == nullptr ? std::nullopt : whole_number(value->text);
    return found && *found >= 1 && *found <= kMaxDegree ? found : std::nullopt;
  };
  text_.hosts = number("benchmark", "num_nodes");
  // The replicas are said where they are not what is left of the devices.
  const auto replicas = number("distributed", "dp_size");
  if (text_.hosts || !replicas) return;
  std::int64_t devices = *replicas;
  for (const char* degree : {"tp_size", "cp_size", "pp_size"}) {
    devices *= number("distributed", degree).value_or(1);
    if (devices > kMaxDegree) return;
  }
  text_.devices = devices;
}

void TextReader::deepspeed(const ConfigValue& root, const std::string& place) {
  set_target("deepspeed");
  text_.settings.add_all(root, "", place);
}

void TextReader::neox(const ConfigValue& root, const std::string& place) {
  set_target("deepspeed");
  text_.variant = "GPT-NeoX";
  add_neox(root, place);
  for (std::size_t i = 1; i < input_.files.size(); ++i)
    if (ends_with_any(input_.files[i].path, {".yml", ".yaml", ".json"}))
      add_neox(value_from_yaml(input_.files[i].text, file_name(input_.files[i].path)), file_name(input_.files[i].path));
}

void TextReader::add_neox(const ConfigValue& root, const std::string& place) {
  ConfigValue plain = root;
  for (auto& [key, value] : plain.members) std::replace(key.begin(), key.end(), '-', '_');
  text_.settings.add_all(plain, "", place);
}

}  // namespace meshwright
