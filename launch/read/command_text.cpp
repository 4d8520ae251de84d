// SPDX-License-Identifier: Apache-2.0
// Scripts: the command that launches the training, and the settings that it and its files give.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/readers.h"
#include "launch/read/text_reader.h"
#include "launch/syntax/numbers.h"
#include "launch/syntax/toml.h"
#include "launch/syntax/yaml.h"

namespace meshwright {

namespace {

bool is_script(const std::string& path) { return ends_with_any(path, {".sh", ".slurm", ".sbatch", ".bash", ".env"}); }

}  // namespace

std::map<std::string, std::string> TextReader::variables() const {
  std::map<std::string, std::string> all = input_.variables;
  all.insert(script_.environment.begin(), script_.environment.end());
  all.insert(beside_.begin(), beside_.end());
  return all;
}

std::map<std::string, std::string> TextReader::exported_beside(const GivenFile& but) const {
  std::map<std::string, std::string> exported;
  for (std::size_t i = 1; i < input_.files.size(); ++i) {
    const GivenFile& other = input_.files[i];
    if (!is_script(other.path) || but.text.find(file_name(other.path)) != std::string::npos) continue;
    ShellInput shell{.variables = input_.variables, .arguments = {}, .files = {}, .beside = input_.beside};
    shell.variables.insert(exported.begin(), exported.end());
    for (const auto& [name, value] : read_shell(other.text, place_of(other), shell).environment)
      if (is_resolved(value)) exported.insert_or_assign(name, value);
  }
  for (const auto& [name, value] : input_.variables) exported.erase(name);
  return exported;
}

bool TextReader::configuration_of_variables() {
  for (const ShellCommand& command : script_.commands)
    if (!why_not_read(program_call(command.words)).empty()) return false;
  for (std::size_t i = 1; i < input_.files.size(); ++i) {
    const GivenFile& other = input_.files[i];
    if (!ends_with_any(other.path, {".yml", ".yaml"}) || (script_.environment.empty() && beside_.empty())) continue;
    add_launcher(text_, script_.directives);
    read_yaml(other);
    return true;
  }
  return false;
}

void TextReader::read_shell_of(const GivenFile& file) {
  beside_ = exported_beside(file);
  ShellInput shell{.variables = input_.variables, .arguments = input_.arguments, .files = {}, .beside = input_.beside};
  shell.variables.insert(beside_.begin(), beside_.end());
  shell.variables.insert(given_.begin(), given_.end());
  for (const GivenFile& other : input_.files)
    if (is_script(other.path) && &other != &input_.files.front()) shell.files[file_name(other.path)] = other.text;
  script_ = read_shell(file.text, place_of(file), shell);
  text_.environment = script_.environment;
  text_.unresolved = script_.unresolved;
  text_.notes = script_.notes;
}

void TextReader::read_script(const GivenFile& file) {
  read_shell_of(file);
  const std::optional<Launch> launch = chosen_launch();
  if (!launch || launch->target.empty()) {
    if (read_by_file(place_of(file)) || configuration_of_variables()) return;
    refuse_script(place_of(file));
  }
  const ProgramCall* found = &launch->call;
  program_file_ = script_.commands[launch->command].file;
  // Programs that fine-tune are DeepSpeed's or accelerate's by what they are told.
  if (trainer_of(*found).empty()) set_target(launch->target.c_str());
  add_launcher(text_, script_.directives);
  const auto tells_hosts = [](const std::string& name) {
    return name == "srun" || name == "mpirun" || name == "mpiexec";
  };
  for (const ShellCommand& command : script_.commands) {
    const std::string name = file_name(command.words[0].text);
    const bool starts_script = name == "torchrun" && program_call(command.words).program.empty();
    if (starts_script || tells_hosts(name)) add_launcher(text_, command.words);
  }
  add_launcher(text_, found->launcher);
  if (!text_.devices && starts_one_process(found->launcher))
    text_.devices_per_host = text_.devices_per_host.value_or(1);
  // One host unless it is told of more; what starts it on several hosts says so itself.
  const bool once = std::none_of(script_.commands.begin(), script_.commands.end(), [&](const ShellCommand& command) {
    const std::string name = file_name(command.words[0].text);
    return tells_hosts(name) || name == "pdsh" || name == "ssh" || name == "jsrun" || name == "aprun";
  });
  const std::string open = open_hosts(found->launcher);
  if (!open.empty() && !text_.hosts) text_.open_hosts = fmt::format("{}:{}: {}", program_file_, found->line, open);
  if (!text_.hosts && once && open.empty() && script_.directives.empty() && is_torchrun(found->launcher))
    text_.hosts = 1;
  text_.program = fmt::format("{}:{}: {}", program_file_, found->line,
                              found->program.empty() ? "the command" : file_name(shown(found->program)));
  call(*found, program_file_);
}

void TextReader::refuse_script(const std::string& place) const {
  for (const ShellCommand& command : script_.commands) {
    const ProgramCall call = program_call(command.words);
    const std::string why = why_not_read(call);
    require(why.empty(), "{}:{}: {} {}.", command.file, call.line,
            call.program.empty() ? file_name(shown(command.words[0].text)) : shown(call.program), why);
  }
  const auto count = std::min<std::ptrdiff_t>(3, std::ssize(text_.notes));
  const std::vector<std::string> notes(text_.notes.begin(), text_.notes.begin() + count);
  throw InputError(fmt::format(
      "{}: no command of it launches a framework that is known (Megatron-LM, Megatron-Bridge, torchtitan, DeepSpeed, "
      "accelerate, MaxText){}.",
      place, notes.empty() ? "" : "; left out were: " + shown(join(notes, "; "))));
}

void TextReader::call(const ProgramCall& found, const std::string& place) {
  const FlagStyle style = text_.target == "megatron"          ? FlagStyle::Alone
                          : text_.target == "megatron-bridge" ? FlagStyle::Dashes
                                                              : FlagStyle::Own;
  add_flags(text_.settings, found.arguments, place, style);
  if (is_nemo_call(found)) {
    nemo_call(found, place);
  } else if (text_.target == "megatron") {
    if (text_.settings.has("deepspeed") || text_.settings.has("deepspeed-config")) text_.variant = "Megatron-DeepSpeed";
    if (found.program.empty() && is_swift(found.launcher)) swift_call(found, place);
    drop_words();
    load_yaml_arguments();
    load_json("deepspeed-config", place);
  } else if (text_.target == "megatron-bridge") {
    bridge_call(found.line);
  } else if (text_.target == "torchtitan") {
    torchtitan_call(place);
  } else if (text_.target == "maxtext") {
    maxtext_call(place);
  } else if (!trainer_of(found).empty()) {
    trainer_call(found, place);
  } else if (text_.target == "accelerate") {
    accelerate_call(found, place);
  } else if (text_.target == "deepspeed") {
    deepspeed_call(place);
  }
}

void TextReader::swift_call(const ProgramCall& found, const std::string& place) {
  text_.variant = "ms-swift";
  require(found.launcher[1].text != "rlhf",
          "{}:{}: trains against further models (megatron rlhf), and only trainings of one model are predicted.", place,
          found.line);
  const Settings flags = std::exchange(text_.settings, {});
  for (const Setting& word : flags.all())
    if (word.key == "(word)" && word.value.is_scalar() && ends_with_any(word.value.text, {".yml", ".yaml"}))
      add_flag_map(settings_file(word), file_name(word.value.text));
  for (const Setting& flag : flags.all()) text_.settings.add(flag.key, flag.shown, flag.value, flag.place);
  count_swift();
}

void TextReader::drop_words() { text_.settings.no_effect_of_words(); }

std::optional<std::string> TextReader::written_or_named(const std::string& name) const {
  if (const auto found = script_.written.find(name); found != script_.written.end()) return found->second;
  return is_resolved(name) ? file_named(name) : std::nullopt;
}

void TextReader::load_json(const std::string& key, const std::string& place) {
  const std::string name = raw_text(key);
  if (name.empty()) return;
  const auto found = written_or_named(name);
  require(found || text_.settings.has("zero-stage"),
          "{}: names DeepSpeed's file '{}', without which the ZeRO level is not known; give it as a further file.",
          place, file_name(shown(name)));
  const std::string file = file_name(shown(name));
  if (!found)
    return text_.notes.push_back(fmt::format("{}: {} is not there: what it offloads is not read", place, file));
  const ConfigValue root = value_from_yaml(*found, file);
  text_.settings.add_all(root, "ds", file);
  if (const ConfigValue* zero = root.find("zero_optimization"); zero != nullptr && zero->find("stage") != nullptr)
    text_.settings.add("zero-stage", "zero_optimization.stage", *zero->find("stage"),
                       fmt::format("{}:{}", file, zero->find("stage")->line));
}

void TextReader::load_yaml_arguments() {
  const Setting* named = text_.settings.take("yaml-cfg");
  if (named == nullptr || !named->value.is_scalar()) return;
  const std::string name = named->value.text, where = named->place;
  const auto found = written_or_named(name);
  require(found.has_value(), "{}: --yaml-cfg names the file '{}' of all arguments; give it as a further file.", where,
          shown(name));
  text_.notes.push_back(
      fmt::format("{}: the flags beside --yaml-cfg are not read, as Megatron-LM reads the file alone", where));
  text_.settings = {};
  megatron_yaml(value_from_yaml(*found, file_name(shown(name))), file_name(shown(name)));
}

std::string TextReader::raw_text(const std::string& key) {
  const Setting* setting = text_.settings.take(key);
  return setting == nullptr || !setting->value.is_scalar() ? "" : setting->value.text;
}

void TextReader::torchtitan_call(const std::string& place) {
  drop_words();
  std::string name = raw_text("job.config_file");
  if (name.empty()) name = raw_text("job.config-file");
  if (const auto file = text_.environment.find("CONFIG_FILE"); name.empty() && file != text_.environment.end())
    name = file->second;
  const Settings given = std::exchange(text_.settings, {});
  if (const auto found = name.empty() ? std::nullopt : written_or_named(name))
    text_.settings.add_all(value_from_toml(*found, file_name(name)), "", file_name(name));
  else if (!name.empty())
    text_.notes.push_back(fmt::format("{}: {} is not there; give it as a further file", place, shown(name)));
  for (std::size_t i = 1; i < input_.files.size(); ++i) {
    const GivenFile& other = input_.files[i];
    if (other.path.ends_with(".py")) read_python(other, flag_text(given, "config"));
    if (other.path.ends_with(".toml") && name.empty())
      text_.settings.add_all(value_from_toml(other.text, file_name(other.path)), "", file_name(other.path));
  }
  for (const Setting& setting : given.all()) {
    Setting copy = setting;
    text_.settings.add(copy.key, copy.shown, copy.value, copy.place);
  }
  text_.settings.no_effect_of_words();
}

std::string TextReader::flag_text(const Settings& settings, const std::string& key) {
  for (const Setting& setting : settings.all())
    if (setting.key == key && setting.value.is_scalar()) return setting.value.text;
  return "";
}

void TextReader::maxtext_call(const std::string& place) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const Setting& setting : text_.settings.all())
    if (setting.key == "(word)" && ends_with_any(setting.value.text, {".yml", ".yaml"}))
      files.emplace_back(setting.value.text, setting.place);
  text_.settings.no_effect_where([&](const Setting& setting) {
    return setting.key == "(word)" && ends_with_any(setting.value.text, {".yml", ".yaml"});
  });
  for (const auto& [name, where] : files) {
    // Its own defaults are those of this reader, wherever they lie.
    auto found = file_name(name) == "base.yml" ? std::nullopt : written_or_named(name);
    if (!found) found = written_or_named(file_name(name));
    if (found)
      add_maxtext(value_from_yaml(*found, file_name(name)), file_name(name), 0);
    else if (file_name(name) != "base.yml")
      text_.notes.push_back(fmt::format("{}: {} is not there; give it as a further file", where, shown(name)));
  }
  ConfigValue given = ConfigValue::map(0);
  for (const char* key : {"base_config", "model_name"})
    for (const Setting& setting : text_.settings.all())
      if (setting.key == key) given.set(key, setting.value);
  inherit(given, place, 0);
  for (std::size_t i = 1; i < input_.files.size(); ++i)
    if (ends_with_any(input_.files[i].path, {".yml", ".yaml"}))
      add_missing(value_from_yaml(input_.files[i].text, file_name(input_.files[i].path)),
                  file_name(input_.files[i].path));
  count_maxtext();
}

namespace {

// What `accelerate launch` calls the keys of its file.
std::string accelerate_key(const std::string& flag) {
  static const std::map<std::string, std::string> kNames = {
      {"mixed_precision", "mixed_precision"},
      {"zero_stage", "deepspeed_config.zero_stage"},
      {"offload_optimizer_device", "deepspeed_config.offload_optimizer_device"},
      {"offload_param_device", "deepspeed_config.offload_param_device"},
      {"gradient_accumulation_steps", "deepspeed_config.gradient_accumulation_steps"}};
  if (const auto found = kNames.find(flag); found != kNames.end()) return found->second;
  for (const char* group : {"fsdp", "megatron_lm", "parallelism_config"})
    if (flag.starts_with(std::string(group) + "_"))
      return fmt::format("{}{}.{}", group, group == std::string_view("parallelism_config") ? "" : "_config", flag);
  return "";
}

}  // namespace

void TextReader::accelerate_call(const ProgramCall& found, const std::string& place) {
  const Settings own = std::exchange(text_.settings, {});
  Settings launcher;
  add_flags(launcher, found.launcher, place, FlagStyle::Own);
  if (const Setting* named = launcher.take("config_file"); named != nullptr && named->value.is_scalar()) {
    const std::string name = named->value.text;
    const auto file = written_or_named(name);
    require(
        file.has_value() || !input_.as.empty(),
        "{}: names accelerate's file '{}', without which it is not known how states are split; give it as a further "
        "file.",
        named->place, shown(name));
    if (file) accelerate(value_from_yaml(*file, file_name(name)), file_name(name));
  }
  for (const Setting& flag : launcher.all()) {
    std::string key = flag.key;
    std::replace(key.begin(), key.end(), '-', '_');
    const auto is_kind = [&](const char* name, const char* kind) {
      if (key == name) text_.settings.add("distributed_type", flag.shown, ConfigValue::scalar(kind, 0), flag.place);
    };
    is_kind("use_fsdp", "FSDP");
    is_kind("use_deepspeed", "DEEPSPEED");
    is_kind("use_megatron_lm", "MEGATRON_LM");
    if (const std::string of_file = accelerate_key(key); !of_file.empty())
      text_.settings.add(of_file, flag.shown, flag.value, flag.place);
    if (key == "deepspeed_config_file" && flag.value.is_scalar()) {
      const auto file = written_or_named(flag.value.text);
      require(file.has_value(),
              "{}: names DeepSpeed's file '{}', without which its ZeRO level is not known; give it as a further file.",
              flag.place, shown(flag.value.text));
      text_.settings.add_all(value_from_yaml(*file, file_name(flag.value.text)), "deepspeed",
                             file_name(flag.value.text));
    }
  }
  add_program(own);
  if (const auto text = found.program.ends_with(".py") ? written_or_named(found.program) : std::nullopt;
      text && is_torch_program(*text))
    add_torch_constants({found.program, *text});
}

// The program's arguments, behind those of the file that they name (TRL's "--config sft.yaml"): later ones hold.
void TextReader::add_program(const Settings& own) {
  for (const Setting& more : own.all()) {
    const bool yaml = more.value.is_scalar() && ends_with_any(more.value.text, {".yml", ".yaml"});
    const bool json =
        more.value.is_scalar() && more.value.text.ends_with(".json") && more.key.find("args") != std::string::npos;
    // "sft.py --config sft.yaml", or as recipes have it "sft.py sft.yaml".
    const bool named = more.key == "config" || (more.key == "(word)" && text_.target == "accelerate");
    if (!(named && yaml) && !json) continue;
    if (const auto file = written_or_named(more.value.text))
      text_.settings.add_all(value_from_yaml(*file, file_name(more.value.text)), "program", file_name(more.value.text));
    else
      text_.notes.push_back(
          fmt::format("{}: {} is not there; give it as a further file", more.place, shown(more.value.text)));
  }
  for (const Setting& more : own.all()) text_.settings.add("program." + more.key, more.shown, more.value, more.place);
  add_deepspeed_of_program();
}

namespace {

// The last of this name, or nullptr; it is not taken.
const Setting* last_named(const Settings& settings, const std::string& key) {
  const Setting* named = nullptr;
  for (const Setting& setting : settings.all())
    if (setting.key == key) named = &setting;
  return named;
}

}  // namespace

// "fsdp_config: fsdp.json", or the text of one, among the arguments of Hugging Face's Trainer.
void TextReader::add_fsdp_of_program() {
  const Setting* named = last_named(text_.settings, "program.fsdp_config");
  if (named == nullptr || !named->value.is_scalar()) return;
  const std::string name = named->value.text, place = named->place;
  const auto found = name.starts_with('{')     ? std::optional(name)
                     : name.ends_with(".json") ? written_or_named(name)
                                               : std::optional<std::string>();
  if (found)
    text_.settings.add_all(value_from_yaml(*found, file_name(name)), "program.fsdp_config", file_name(name));
  else if (name.ends_with(".json"))
    text_.notes.push_back(fmt::format("{}: {} is not there; give it as a further file", place, shown(name)));
}

// "deepspeed: zero3.json" among the arguments of Hugging Face's Trainer.
void TextReader::add_deepspeed_of_program() {
  add_fsdp_of_program();
  if (text_.target == "deepspeed" && text_.settings.has("zero_optimization.stage")) return;
  const Setting* named = last_named(text_.settings, "program.deepspeed");
  if (named == nullptr || !named->value.is_scalar() || !named->value.text.ends_with(".json")) return;
  const std::string name = named->value.text, place = named->place;
  const auto file = written_or_named(name);
  require(file.has_value(),
          "{}: names DeepSpeed's file '{}', without which its ZeRO level is not known; give it as a further file.",
          place, shown(name));
  const bool below = text_.target != "deepspeed";
  if (below) text_.settings.add("distributed_type", "deepspeed", ConfigValue::scalar("DEEPSPEED", 0), place);
  text_.settings.add_all(value_from_yaml(*file, file_name(name)), below ? "deepspeed" : "", file_name(name));
}

namespace {

// The arguments of 2026 as those before, which other programs have, too.
const std::map<std::string, std::string> kOfOpenRlhf = {
    {"data.max_len", "max_len"},
    {"train.batch_size", "train_batch_size"},
    {"train.micro_batch_size", "micro_train_batch_size"},
    {"model.model_name_or_path", "model_name_or_path"},
    {"model.gradient_checkpointing_enable", "gradient_checkpointing"},
    {"ds.zero_stage", "zero_stage"},
    {"ds.param_dtype", "param_dtype"},
    {"ds.adam_offload", "adam_offload"},
    {"ds.tensor_parallel_size", "ds_tensor_parallel_size"},
    {"ds.ring_attn_size", "ring_attn_size"},
    {"ds.lora.rank", "lora_rank"},
    {"lora.rank", "lora_rank"}};

}  // namespace

void TextReader::deepspeed_call(const std::string& place) {
  std::vector<std::string> names;
  for (const char* key : {"deepspeed_config", "deepspeed-config", "deepspeed"})
    if (std::string name = raw_text(key); !name.empty()) names.push_back(std::move(name));
  for (const Setting& setting : text_.settings.all())
    if (setting.key == "(word)" && ends_with_any(setting.value.text, {".yml", ".yaml", ".json"}))
      names.push_back(setting.value.text);
  Settings own = std::exchange(text_.settings, {});
  if (text_.program.find("openrlhf.cli.") != std::string::npos) own.rename(kOfOpenRlhf);
  for (const std::string& name : names) {
    const auto found = written_or_named(name);
    require(
        found.has_value(),
        "{}: names DeepSpeed's file '{}', without which neither the ZeRO level nor the batch is known; give it as a "
        "further file.",
        place, shown(name));
    const ConfigValue root = value_from_yaml(*found, file_name(shown(name)));
    if (root.find("pipe_parallel_size") != nullptr || root.find("num_layers") != nullptr)
      neox(root, file_name(shown(name)));
    else
      text_.settings.add_all(root, "", file_name(shown(name)));
  }
  add_program(own);
}

}  // namespace meshwright
