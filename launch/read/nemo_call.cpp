// SPDX-License-Identifier: Apache-2.0
// Commands of NeMo's first trainer: words of Hydra ("model.tensor_model_parallel_size=4", "+trainer.num_nodes=2") over
// the YAML that the program names.
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/text_reader.h"
#include "launch/syntax/interpolation.h"
#include "launch/syntax/yaml.h"

namespace meshwright {

namespace {

// What megatron_gpt_config.yaml (8cfedd72) says of a plan.
constexpr std::pair<const char*, const char*> kDefaultsOfGpt[] = {
    {"trainer.devices", "1"},
    {"trainer.num_nodes", "1"},
    {"trainer.precision", "bf16"},
    {"trainer.gradient_clip_val", "1.0"},
    {"model.micro_batch_size", "4"},
    {"model.global_batch_size", "8"},
    {"model.encoder_seq_length", "512"},
    {"model.max_position_embeddings", "${.encoder_seq_length}"},
    {"model.num_layers", "12"},
    {"model.hidden_size", "768"},
    {"model.ffn_hidden_size", "3072"},
    {"model.num_attention_heads", "12"},
    {"model.megatron_amp_O2", "true"},
    {"model.tokenizer.type", "GPT2BPETokenizer"},
    {"model.optim.name", "fused_adam"},
    {"model.optim.weight_decay", "0.01"}};
constexpr const char* kConfigOfGpt = "megatron_gpt_config";

// "a.b.c" of maps, which are made where they are not there.
void set_path(ConfigValue& root, const std::string& path, const ConfigValue& value) {
  ConfigValue* at = &root;
  const std::vector<std::string> parts = split(path, '.');
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    const ConfigValue* next = at->find(parts[i]);
    if (next == nullptr || !next->is_map()) at->set(parts[i], ConfigValue::map(value.line));
    for (auto& [key, member] : at->members)
      if (key == parts[i]) {
        at = &member;
        break;
      }
  }
  at->set(parts.back(), value);
}

void remove_path(ConfigValue& root, const std::string& path) {
  const std::size_t dot = path.find('.');
  if (dot == std::string::npos) {
    std::erase_if(root.members, [&](const auto& member) { return member.first == path; });
    return;
  }
  for (auto& [key, member] : root.members)
    if (key == path.substr(0, dot)) remove_path(member, path.substr(dot + 1));
}

void move_to_line(ConfigValue& value, int line) {
  value.line = line;
  for (ConfigValue& item : value.items) move_to_line(item, line);
  for (auto& [key, member] : value.members) move_to_line(member, line);
}

ConfigValue value_of(const std::string& text, int line, const std::string& place) {
  ConfigValue value = ConfigValue::scalar(text, line);
  if (text.empty() || text == "null") value = ConfigValue{};
  if (text.starts_with('[') && text.ends_with(']')) value = *value_from_yaml("value: " + text, place).find("value");
  move_to_line(value, line);
  return value;
}

// The file that "--config-name NAME" or "--config-name=NAME" says; "": none.
std::string named_config(const std::vector<ShellWord>& words) {
  for (std::size_t i = 0; i < words.size(); ++i)
    for (const std::string flag : {"--config-name", "-cn"}) {
      if (words[i].text == flag && i + 1 < words.size()) return words[i + 1].text;
      if (words[i].text.starts_with(flag + "=")) return words[i].text.substr(flag.size() + 1);
    }
  return "";
}

}  // namespace

ConfigValue TextReader::nemo_base(const ProgramCall& found, const std::string& place) {
  const std::string given = named_config(found.arguments);
  const bool of_gpt = file_name(found.program).starts_with("megatron_gpt_pretraining");
  const std::string name = given.empty() && of_gpt ? kConfigOfGpt : given;
  const std::string file = ends_with_any(name, {".yaml", ".yml"}) ? name : name + ".yaml";
  if (const auto text = name.empty() ? std::nullopt : written_or_named(file)) {
    ConfigValue root = value_from_yaml(*text, file_name(file));
    require(root.is_map(), "{}:1: expected a map of settings, and this is {}.", file_name(file), to_text(root));
    resolve_environment(root, variables());
    move_to_line(root, found.line);
    return root;
  }
  require(name.empty() || name == kConfigOfGpt || !input_.as.empty(),
          "{}:{}: names NeMo's file '{}', without which what no word sets is not known; give it as a further file.",
          place, found.line, shown(file));
  ConfigValue root = ConfigValue::map(found.line);
  root.set("trainer", ConfigValue::map(found.line));
  root.set("model", ConfigValue::map(found.line));
  if (name != kConfigOfGpt) return root;
  for (const auto& [path, value] : kDefaultsOfGpt) set_path(root, path, ConfigValue::scalar(value, found.line));
  text_.notes.push_back(fmt::format(
      "{}:{}: {} is not there: what no word sets is taken as in NeMo's own (tests of 12 layers); give it as a further "
      "file",
      place, found.line, file));
  return root;
}

void TextReader::nemo_call(const ProgramCall& found, const std::string& place) {
  text_.settings = {};
  ConfigValue root = nemo_base(found, place);
  for (const ShellWord& word : found.arguments) {
    const std::size_t equal = word.text.find('=');
    if (word.text.starts_with('~'))
      remove_path(root, word.text.substr(1, equal == std::string::npos ? equal : equal - 1));
    if (word.text.starts_with('-') || word.text.starts_with('~') || equal == std::string::npos || equal == 0) continue;
    const std::string path = word.text.substr(word.text.find_first_not_of('+'), equal);
    const std::string plain = path.substr(0, path.find('='));
    if (plain.find('@') != std::string::npos || plain.empty() || plain.starts_with('.') || plain.ends_with('.') ||
        plain.find("..") != std::string::npos)
      continue;
    set_path(root, plain, value_of(word.text.substr(equal + 1), word.line, place));
  }
  for (const char* group : {"trainer", "model"})
    require(root.find(group) != nullptr && root.find(group)->is_map(), "{}:{}: {} is no map of settings.", place,
            found.line, group);
  resolve_environment(root, variables());
  resolve_interpolations(root);
  const std::optional<std::int64_t> hosts = text_.hosts, of_host = text_.devices_per_host;
  nemo(root, place);
  if (!text_.hosts) text_.hosts = hosts;
  if (!text_.devices_per_host) text_.devices_per_host = of_host;
}

}  // namespace meshwright
