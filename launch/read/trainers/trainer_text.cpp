// SPDX-License-Identifier: Apache-2.0
// Files and commands of programs that fine-tune over Hugging Face's trainer: LLaMA-Factory, axolotl, ms-swift, TRL.
#include <algorithm>
#include <utility>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/text_reader.h"
#include "launch/read/trainers/fine_tuning.h"
#include "launch/syntax/numbers.h"
#include "launch/syntax/yaml.h"

namespace meshwright {

namespace {

bool is_yaml(const std::string& name) { return ends_with_any(name, {".yml", ".yaml"}); }

ConfigValue word(const char* text, int line) { return ConfigValue::scalar(text, line); }

// The settings of DeepSpeed that ms-swift carries by name: "zero2", "zero3_offload".
std::optional<ConfigValue> deepspeed_of_swift(const std::string& name, int line) {
  const bool offloads = name.ends_with("_offload");
  const std::string level = offloads ? name.substr(0, name.rfind('_')) : name;
  if (level.size() != 5 || !level.starts_with("zero") || level[4] < '0' || level[4] > '3') return std::nullopt;
  ConfigValue zero = ConfigValue::map(line);
  zero.set("stage", ConfigValue::scalar(level.substr(4), line));
  ConfigValue host = ConfigValue::map(line);
  host.set("device", word("cpu", line));
  if (offloads) zero.set("offload_optimizer", host);
  if (offloads && level == "zero3") zero.set("offload_param", host);
  ConfigValue root = ConfigValue::map(line);
  root.set("zero_optimization", std::move(zero));
  return root;
}

// The files of accelerate that TRL carries by name.
std::optional<ConfigValue> accelerate_of_trl(const std::string& name, int line) {
  ConfigValue root = ConfigValue::map(line);
  root.set("mixed_precision", word("bf16", line));
  ConfigValue keys = ConfigValue::map(line);
  if (name == "fsdp1" || name == "fsdp2") {
    root.set("distributed_type", word("FSDP", line));
    keys.set("fsdp_version", ConfigValue::scalar(name.substr(4), line));
    keys.set("fsdp_reshard_after_forward", word("true", line));
    root.set("fsdp_config", std::move(keys));
  } else if (name == "zero1" || name == "zero2" || name == "zero3") {
    root.set("distributed_type", word("DEEPSPEED", line));
    keys.set("zero_stage", ConfigValue::scalar(name.substr(4), line));
    root.set("deepspeed_config", std::move(keys));
  } else if (name == "multi_gpu") {
    root.set("distributed_type", word("MULTI_GPU", line));
  } else if (name == "single_gpu") {
    root.set("distributed_type", word("NO", line));
  } else {
    return std::nullopt;
  }
  root.set("num_machines", word("1", line));
  root.set("num_processes", word(name == "single_gpu" ? "1" : "8", line));
  return root;
}

}  // namespace

void TextReader::trainer(const ConfigValue& root, const std::string& place, const char* variant) {
  text_.variant = variant;
  add_trainer(root, place);
  const ConfigValue* config = root.find("deepspeed");
  add_accelerate_files(config != nullptr && config->is_scalar() ? config->text : "");
  set_trainer_target();
}

void TextReader::set_trainer_target() { set_target(has_deepspeed(text_.settings) ? "deepspeed" : "accelerate"); }

void TextReader::add_trainer(const ConfigValue& root, const std::string& place) {
  for (const auto& [key, value] : root.members)
    if (key == "deepspeed")
      add_deepspeed_file(value, place);
    else if (key == "dist_config" && value.find("config_file") != nullptr)  // of LLaMA-Factory v1
      add_deepspeed_file(*value.find("config_file"), place);
    else if (value.is_map() && !value.members.empty())
      text_.settings.add_all(value, key, place);
    else
      text_.settings.add(key, key, value, fmt::format("{}:{}", place, value.line));
}

void TextReader::add_deepspeed_file(const ConfigValue& named, const std::string& place) {
  if (named.is_map()) return text_.settings.add_all(named, "ds", place);
  if (!named.is_scalar() || named.text.empty() || named.text == "null") return;
  if (text_.variant == "ms-swift")
    if (const auto carried = deepspeed_of_swift(named.text, named.line))
      return text_.settings.add_all(*carried, "ds", place);
  const auto found = written_or_named(named.text);
  require(found.has_value(),
          "{}:{}: names DeepSpeed's file '{}', without which its ZeRO level is not known; give it as a further file.",
          place, named.line, shown(named.text));
  text_.settings.add_all(value_from_yaml(*found, file_name(named.text)), "ds", file_name(named.text));
}

// accelerate's own files among those that are given; `but` is another one's name.
void TextReader::add_accelerate_files(const std::string& but) {
  for (std::size_t i = 1; i < input_.files.size(); ++i) {
    const GivenFile& other = input_.files[i];
    if ((!but.empty() && file_name(other.path) == file_name(but)) || !is_yaml(other.path)) continue;
    const ConfigValue more = value_from_yaml(other.text, file_name(other.path));
    if (more.find("distributed_type") == nullptr && more.find("compute_environment") == nullptr) continue;
    text_.settings.add_all(more, "", file_name(other.path));
    count_processes(more);
  }
}

void TextReader::trainer_call(const ProgramCall& found, const std::string& place) {
  text_.variant = trainer_of(found);
  const Settings given = std::exchange(text_.settings, {});
  if (text_.variant == "TRL") return trl_call(given, found.line, place);
  if (text_.variant == "nanochat") {
    for (const Setting& flag : given.all())
      if (flag.key != "(word)" || is_printed(flag.value.text))
        text_.settings.add(flag.key, flag.shown, flag.value, flag.place);
    return set_target("accelerate");
  }
  if (text_.variant == "ms-swift" && found.program.empty()) count_swift();
  ConfigValue flags = ConfigValue::map(found.line);
  for (const Setting& setting : given.all()) {
    std::string key = setting.key;
    std::replace(key.begin(), key.end(), '-', '_');
    const bool file = (key == "(word)" || key == "config") && setting.value.is_scalar() && is_yaml(setting.value.text);
    if (file)
      add_trainer(settings_file(setting), file_name(setting.value.text));
    else if (key != "(word)")
      flags.set(key, setting.value);
  }
  add_trainer(flags, place);
  if (text_.variant.starts_with("verl")) settle_verl();
  set_trainer_target();
}

ConfigValue TextReader::settings_file(const Setting& naming) const {
  const std::string& name = naming.value.text;
  const auto file = written_or_named(name);
  require(file.has_value(),
          "{}: names the file '{}', which has the settings of the training; give it as a further file.", naming.place,
          shown(name));
  return value_from_yaml(*file, file_name(name));
}

void TextReader::count_swift() {
  const auto number = [&](const char* name, std::optional<std::int64_t>& into) {
    const auto set = text_.environment.find(name);
    if (set == text_.environment.end()) return false;
    if (const auto value = whole_number(set->second)) into = value;
    return true;
  };
  const bool of_host = number("NPROC_PER_NODE", text_.devices_per_host), hosts = number("NNODES", text_.hosts);
  if (of_host && !hosts) text_.hosts = 1;
  if (!of_host && !hosts) text_.devices = 1;
}

void TextReader::trl_call(const Settings& given, int line, const std::string& place) {
  for (const Setting& setting : given.all()) {
    if (setting.key != "accelerate_config" || !setting.value.is_scalar()) continue;
    const std::string& name = setting.value.text;
    const auto file = is_yaml(name) ? written_or_named(name) : std::nullopt;
    const auto carried = file ? value_from_yaml(*file, file_name(name)) : accelerate_of_trl(name, line);
    require(carried.has_value(), "{}:{}: accelerate's file '{}' is not there; give it as a further file.", place, line,
            shown(name));
    accelerate(*carried, file ? file_name(name) : place);
  }
  Settings program;
  for (const Setting& setting : given.all()) {
    const auto count = setting.value.is_scalar() ? whole_number(setting.value.text) : std::nullopt;
    if (setting.key == "num_processes" && count) text_.devices = count;
    if (setting.key == "num_machines" && count) text_.hosts = count;
    const bool launchers = setting.key == "accelerate_config" || setting.key.starts_with("num_processes") ||
                           setting.key.starts_with("num_machines") || setting.key == "(word)";
    if (!launchers) program.add(setting.key, setting.shown, setting.value, setting.place);
  }
  add_program(program);
  add_defaults_of_trl();
  set_target("accelerate");
}

void TextReader::trl_file(const ConfigValue& root, const std::string& place) {
  // Loops over accelerate itself, as open-instruct's and those of examples without the Trainer, have words of their
  // own.
  const bool own_loop = root.find("with_tracking") != nullptr || root.find("checkpointing_steps") != nullptr;
  text_.variant = own_loop ? "own loop" : "TRL";
  text_.settings.add_all(root, "program", place);
  add_accelerate_files("");
  if (!own_loop) add_defaults_of_trl();
  if (own_loop) {
    add_default("gradient_checkpointing", "false", "the default of loops over accelerate");
    if (!text_.settings.has("mixed_precision") && !text_.settings.has("program.fp16"))
      add_default("bf16", "true", "assumed, as no file of accelerate is given");
  }
  set_target("accelerate");
  add_deepspeed_of_program();
}

void TextReader::add_default(const std::string& name, const char* value, const char* whose) {
  Settings& s = text_.settings;
  if (s.has("program." + name)) return;
  s.add("program." + name, name, word(value, 0), whose);
  text_.notes.push_back(fmt::format("{}: {}, which the file does not say ({})", name, value, whose));
}

void TextReader::add_defaults_of_trl() {
  const auto add = [&](const std::string& name, const char* value) { add_default(name, value, "TRL's default"); };
  if (!text_.settings.has("program.max_seq_length")) add("max_length", "1024");  // its name before
  add("per_device_train_batch_size", "8");
  add("gradient_checkpointing", "true");
  if (!text_.settings.has("program.fp16")) add("bf16", "true");
}

}  // namespace meshwright
