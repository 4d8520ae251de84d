// SPDX-License-Identifier: Apache-2.0
#include "launch/read/launch_text.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/script_text.h"
#include "launch/setup/launch_target.h"
#include "launch/syntax/interpolation.h"
#include "launch/syntax/numbers.h"
#include "launch/syntax/python_config.h"
#include "launch/syntax/shell.h"
#include "launch/syntax/toml.h"
#include "launch/syntax/yaml.h"

namespace meshwright {

namespace {

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }
bool ends_with_any(const std::string& name, const std::vector<const char*>& endings) {
  return std::any_of(endings.begin(), endings.end(), [&](const char* ending) { return name.ends_with(ending); });
}

class TextReader {
 public:
  explicit TextReader(const LaunchInput& input) : input_(input) {
    if (!input.as.empty()) text_.target = find_launch_target(input.as).name;
  }

  LaunchText read() && {
    const GivenFile& file = input_.files.front();
    const std::string name = lower_case(file.path);
    if (ends_with_any(name, {".json", ".yaml", ".yml"}))
      read_yaml(file);
    else if (name.ends_with(".toml"))
      read_toml(file);
    else if (name.ends_with(".py"))
      read_python(file, input_.function);
    else
      read_script(file);
    return std::move(text_);
  }

 private:
  // The framework of the file unless the caller names one.
  void set_target(const char* target) {
    if (text_.target.empty()) text_.target = target;
  }
  [[nodiscard]] std::string place_of(const GivenFile& file) const { return file_name(file.path); }

  std::optional<std::string> file_named(const std::string& name) const {
    for (std::size_t i = 1; i < input_.files.size(); ++i)
      if (file_name(input_.files[i].path) == file_name(name)) return input_.files[i].text;
    return input_.beside ? input_.beside(name) : std::nullopt;
  }

  // --- YAML and JSON ---

  void read_yaml(const GivenFile& file) {
    const std::string place = place_of(file);
    ConfigValue root = value_from_yaml(file.text, place);
    resolve_interpolations(root);
    require(root.is_map(), "{}:1: expected a map of settings, and this is {}.", place, to_text(root));
    text_.program = place;
    const auto has = [&](const char* key) { return root.find(key) != nullptr; };
    const auto any = [&](const std::vector<const char*>& keys) { return std::any_of(keys.begin(), keys.end(), has); };
    if (has("MODEL_ARGS")) return megatron_test(root, place);
    if (has("distributed_type") || has("compute_environment")) return accelerate(root, place);
    require(text_.target == "accelerate" || text_.target == "fsdp2" || !has("fsdp_config"),
            "{}: has settings of FSDP and no distributed_type: it is the file of a program that starts accelerate by "
            "itself, whose other settings are not known here; give the file of accelerate, or --as accelerate.",
            place);
    if (any({"pipe_parallel_size", "pipe-parallel-size", "model_parallel_size", "model-parallel-size"}))
      return neox(root, place);
    if (has("system") || has("experiment")) return flagscale(root, place);
    if (any({"base_config", "base_emb_dim", "model_name", "per_device_batch_size", "mesh_axes", "logical_axis_rules",
             "ici_fsdp_parallelism"}))
      return maxtext_file(root, place);
    if (any({"train_batch_size", "train_micro_batch_size_per_gpu", "zero_optimization"})) return deepspeed(root, place);
    if (any({"tensor_model_parallel_size", "num_layers", "tensor-model-parallel-size"}))
      return megatron_map(root, place);
    if (const ConfigValue* model = root.find("model");
        model != nullptr && model->find("tensor_model_parallel_size") != nullptr)
      return bridge(root, place);
    by_target(root, place);
  }

  void by_target(const ConfigValue& root, const std::string& place) {
    const std::string& target = text_.target;
    if (target == "megatron") return megatron_map(root, place);
    if (target == "accelerate" || target == "fsdp2") return accelerate(root, place);
    if (target == "maxtext") return maxtext_file(root, place);
    if (target == "deepspeed") return deepspeed(root, place);
    if (target == "flagscale") return flagscale(root, place);
    throw InputError(fmt::format(
        "{}: none of its keys shows what framework it is for; give --as with one of megatron, megatron-bridge, "
        "torchtitan, deepspeed, accelerate, maxtext or flagscale.",
        place));
  }

  void megatron_test(const ConfigValue& root, const std::string& place) {
    set_target("megatron");
    if (const ConfigValue* environment = root.find("ENV_VARS"))
      for (const auto& [key, value] : environment->members)
        if (value.is_scalar()) text_.environment[key] = value.text;
    add_flag_map(*root.find("MODEL_ARGS"), place);
  }

  // "--flag: value" or "flag_name: value"; `true` is a flag without a value, `false` and null are not given.
  void add_flag_map(const ConfigValue& map, const std::string& place) {
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

  // "${NAME}" of a file: from the caller, or unresolved.
  std::string with_variables(const std::string& text, int line) {
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

  void megatron_map(const ConfigValue& root, const std::string& place) {
    set_target("megatron");
    add_flag_map(root, place);
  }

  // Recipes of NeMo 2 and Megatron-Bridge: groups of keys, of which Megatron-LM knows most by the same names.
  void bridge(const ConfigValue& root, const std::string& place) {
    set_target("megatron-bridge");
    text_.settings.add_all(root, "", place);
  }

  void accelerate(const ConfigValue& root, const std::string& place) {
    set_target("accelerate");
    text_.settings.add_all(root, "", place);
    const auto number = [&](const char* key) -> std::optional<std::int64_t> {
      const ConfigValue* value = root.find(key);
      return value == nullptr ? std::nullopt : whole_number(value->text);
    };
    text_.devices = number("num_processes");
    text_.hosts = number("num_machines");
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

  void deepspeed(const ConfigValue& root, const std::string& place) {
    set_target("deepspeed");
    text_.settings.add_all(root, "", place);
  }

  void neox(const ConfigValue& root, const std::string& place) {
    set_target("deepspeed");
    text_.variant = "GPT-NeoX";
    add_neox(root, place);
    for (std::size_t i = 1; i < input_.files.size(); ++i)
      if (ends_with_any(input_.files[i].path, {".yml", ".yaml", ".json"}))
        add_neox(value_from_yaml(input_.files[i].text, file_name(input_.files[i].path)),
                 file_name(input_.files[i].path));
  }
  // Its keys may have dashes or underscores.
  void add_neox(const ConfigValue& root, const std::string& place) {
    ConfigValue plain = root;
    for (auto& [key, value] : plain.members) std::replace(key.begin(), key.end(), '-', '_');
    text_.settings.add_all(plain, "", place);
  }

  // An experiment file, the training file that it names, or both.
  void flagscale(const ConfigValue& root, const std::string& place) {
    set_target("flagscale");
    const ConfigValue* train = &root;
    ConfigValue other;
    std::string of = place;
    if (const ConfigValue* experiment = root.find("experiment")) {
      flagscale_runner(*experiment);
      if (root.find("system") == nullptr) {
        const std::string name = train_of(root);
        // Hydra's "defaults: - train: NAME" is train/NAME.yaml.
        std::optional<std::string> found = file_named("train/" + name + ".yaml");
        of = name + ".yaml";
        for (std::size_t i = 1; !found && i < input_.files.size(); ++i) {
          found = input_.files[i].text;
          of = file_name(input_.files[i].path);
        }
        require(found.has_value(), "{}: names the training file '{}'; give it as a further file.", place, name);
        other = value_from_yaml(*found, of);
        resolve_interpolations(other);
        train = &other;
      }
    } else {
      for (std::size_t i = 1; i < input_.files.size(); ++i)
        if (const ConfigValue more = value_from_yaml(input_.files[i].text, file_name(input_.files[i].path));
            more.find("experiment") != nullptr)
          flagscale_runner(*more.find("experiment"));
    }
    for (const auto& [group, value] : train->members)
      if (group == "system" || group == "model" || group == "data") add_flag_map(value, of);
    if (text_.settings.has("hetero-process-meshes")) count_meshes();
  }
  // The ranks of the meshes are the devices.
  void count_meshes() {
    std::vector<std::int64_t> numbers;
    for (const Setting& setting : text_.settings.all())
      if (setting.key == "hetero-process-meshes")
        for (const ConfigValue& item : setting.value.items) numbers.push_back(whole_number(item.text).value_or(0));
    std::int64_t ranks = 0;
    for (std::size_t m = 0; m + 4 < numbers.size() && ranks < 1 << 20; m += 5)
      ranks += std::clamp<std::int64_t>(numbers[m], 0, 4096) * std::clamp<std::int64_t>(numbers[m + 1], 0, 4096) *
               std::clamp<std::int64_t>(numbers[m + 3], 0, 4096) * std::clamp<std::int64_t>(numbers[m + 4], 0, 4096);
    if (!text_.hosts && ranks >= 1 && ranks <= 1 << 20) text_.devices = ranks;
  }
  static std::string train_of(const ConfigValue& root) {
    const ConfigValue* defaults = root.find("defaults");
    if (defaults != nullptr)
      for (const ConfigValue& item : defaults->items)
        if (item.find("train") != nullptr) return item.find("train")->text;
    return "train";
  }
  void flagscale_runner(const ConfigValue& experiment) {
    if (const ConfigValue* task = experiment.find("task"))
      if (const ConfigValue* program = task->find("entrypoint"); program != nullptr && !program->text.empty())
        text_.program += ": " + file_name(program->text);
    if (const ConfigValue* runner = experiment.find("runner")) {
      if (const ConfigValue* hosts = runner->find("nnodes")) text_.hosts = whole_number(hosts->text);
      if (const ConfigValue* devices = runner->find("nproc_per_node"))
        text_.devices_per_host = whole_number(devices->text);
    }
    const ConfigValue* environment = experiment.find("envs");
    if (environment == nullptr) return;
    for (const auto& [key, value] : environment->members)
      if (value.is_scalar()) text_.environment[key] = value.text;
    const ConfigValue* visible = environment->find("CUDA_VISIBLE_DEVICES");
    if (visible != nullptr && !text_.devices_per_host)
      text_.devices_per_host = static_cast<std::int64_t>(split(visible->text, ',').size());
  }

  // A run configuration inherits from others; the shapes are in those of models.
  void maxtext_file(const ConfigValue& root, const std::string& place) {
    set_target("maxtext");
    add_maxtext(root, place, 0);
    for (std::size_t i = 1; i < input_.files.size(); ++i) {
      const std::string name = file_name(input_.files[i].path);
      if (ends_with_any(name, {".yml", ".yaml"}) && !text_.settings.has("from " + name)) {
        ConfigValue more = value_from_yaml(input_.files[i].text, name);
        add_missing(more, name);
      }
    }
    count_maxtext();
  }
  // What is set already stays: a file overrides what it inherits from.
  void add_missing(const ConfigValue& map, const std::string& place) {
    ConfigValue fresh = ConfigValue::map(map.line);
    for (const auto& [key, value] : map.members)
      if (!text_.settings.has(key)) fresh.set(key, value);
    text_.settings.add_all(fresh, "", place);
  }
  void add_maxtext(const ConfigValue& root, const std::string& place, int depth) {
    require(depth < 16, "{}: its base_config files inherit from one another without end.", place);
    add_missing(root, place);
    inherit(root, place, depth);
  }
  void inherit(const ConfigValue& root, const std::string& place, int depth) {
    for (const char* key : {"base_config", "model_name"}) {
      const ConfigValue* named = root.find(key);
      if (named == nullptr || !named->is_scalar() || named->text.empty()) continue;
      const bool model = std::string(key) == "model_name";
      const auto found = file_named(model ? named->text + ".yml" : named->text);
      if (found)
        add_maxtext(value_from_yaml(*found, file_name(named->text)), file_name(named->text) + (model ? ".yml" : ""),
                    depth + 1);
      else if (!model && file_name(named->text) != "base.yml")
        text_.notes.push_back(
            fmt::format("{}:{}: {} is not there; give it as a further file", place, named->line, named->text));
    }
  }

  // Hosts and their devices from the axes between and within them, where none of these is left open.
  void count_maxtext() {
    const auto product = [&](const char* group) {
      std::optional<std::int64_t> all;
      for (const Setting& setting : text_.settings.all()) {
        if (!setting.key.starts_with(group) || !setting.key.ends_with("_parallelism") || !setting.value.is_scalar())
          continue;
        const auto number = whole_number(setting.value.text);
        if (!number || *number < 1 || *number > 1 << 20 || all.value_or(1) > 1 << 20)
          return std::optional<std::int64_t>{};
        all = all.value_or(1) * *number;
      }
      return all;
    };
    text_.hosts = product("dcn_");
    if (text_.hosts) text_.devices_per_host = product("ici_");
  }

  // --- TOML and Python ---

  void read_toml(const GivenFile& file) {
    set_target("torchtitan");
    text_.program = place_of(file);
    text_.settings.add_all(value_from_toml(file.text, place_of(file)), "", place_of(file));
  }

  void read_python(const GivenFile& file, const std::string& function) {
    set_target("torchtitan");
    const PythonConfig config = config_from_python(file.text, function, place_of(file));
    text_.program = config.function.empty() ? place_of(file) : fmt::format("{} of {}", config.function, place_of(file));
    text_.settings.add_all(config.values, "", place_of(file));
    text_.variant = "Python";
    const std::string& named = !config.base.empty()            ? config.base
                               : !config.name_of_model.empty() ? config.name_of_model
                                                               : config.function;
    if (!config.base.empty())
      text_.notes.push_back(fmt::format(
          "{}: {}() is not in the file: what it sets and the file does not change is taken as torchtitan's defaults",
          place_of(file), config.base));
    if (!named.empty()) text_.settings.add("(base)", named, ConfigValue::scalar(named, 1), place_of(file) + ":1");
    for (const std::string& line : config.ignored) text_.notes.push_back(line + " (not understood)");
  }

  // --- scripts ---

  void read_script(const GivenFile& file) {
    ShellInput shell{
        .variables = input_.variables, .arguments = input_.arguments, .files = {}, .beside = input_.beside};
    for (const GivenFile& other : input_.files)
      if (ends_with_any(other.path, {".sh", ".slurm", ".sbatch", ".bash", ".env"}) && &other != &input_.files.front())
        shell.files[file_name(other.path)] = other.text;
    script_ = read_shell(file.text, place_of(file), shell);
    text_.environment = script_.environment;
    text_.unresolved = script_.unresolved;
    text_.notes = script_.notes;
    const std::optional<ProgramCall> found = launched();
    if (!found) refuse_script(place_of(file));
    add_launcher(text_, script_.directives);
    for (const ShellCommand& command : script_.commands) {
      const std::string name = file_name(command.words[0].text);
      if (name == "srun" || name == "mpirun" || name == "mpiexec") add_launcher(text_, command.words);
    }
    add_launcher(text_, found->launcher);
    text_.program = fmt::format("{}:{}: {}", place_of(file), found->line,
                                found->program.empty() ? "the command" : file_name(shown(found->program)));
    call(*found, place_of(file));
  }

  [[noreturn]] void refuse_script(const std::string& place) const {
    const auto count = std::min<std::ptrdiff_t>(3, std::ssize(text_.notes));
    const std::vector<std::string> notes(text_.notes.begin(), text_.notes.begin() + count);
    throw InputError(fmt::format(
        "{}: no command of it launches a framework that is known (Megatron-LM, Megatron-Bridge, torchtitan, DeepSpeed, "
        "accelerate, MaxText){}.",
        place, notes.empty() ? "" : "; left out were: " + shown(join(notes, "; "))));
  }

  // The command that launches the training: of those that are known the one with the most words.
  std::optional<ProgramCall> launched() {
    std::optional<ProgramCall> best;
    std::string target;
    for (const ShellCommand& command : script_.commands) {
      ProgramCall found = program_call(command.words);
      const std::string of = target_of(found);
      if (of.empty() || (best && found.arguments.size() < best->arguments.size())) continue;
      best = std::move(found);
      target = of;
    }
    if (best) set_target(target.c_str());
    return best;
  }

  void call(const ProgramCall& found, const std::string& place) {
    const bool megatron = text_.target == "megatron" || text_.target == "megatron-bridge";
    add_flags(text_.settings, found.arguments, place, megatron);
    if (text_.target == "megatron") {
      if (text_.settings.has("deepspeed") || text_.settings.has("deepspeed-config"))
        text_.variant = "Megatron-DeepSpeed";
      drop_words();
      load_json("deepspeed-config", place);
    } else if (text_.target == "torchtitan") {
      torchtitan_call(place);
    } else if (text_.target == "maxtext") {
      maxtext_call(place);
    } else if (text_.target == "accelerate") {
      Settings launcher;
      add_flags(launcher, found.launcher, place, false);
      load_named(launcher, "config_file", place);
    } else if (text_.target == "deepspeed") {
      deepspeed_call(place);
    }
  }

  // Words that no flag takes are the program's own arguments.
  void drop_words() {
    text_.settings.no_effect([](const std::string& key) { return key == "(word)"; });
  }

  std::optional<std::string> written_or_named(const std::string& name) const {
    if (const auto found = script_.written.find(name); found != script_.written.end()) return found->second;
    return is_resolved(name) ? file_named(name) : std::nullopt;
  }

  void load_json(const std::string& key, const std::string&) {
    const std::string name = raw_text(key);
    if (name.empty()) return;
    if (const auto found = written_or_named(name))
      for (const auto& [member, value] : value_from_yaml(*found, file_name(shown(name))).members)
        if (const ConfigValue* stage = member == "zero_optimization" ? value.find("stage") : nullptr)
          text_.settings.add("zero-stage", "zero_optimization.stage", *stage,
                             fmt::format("{}:{}", file_name(shown(name)), stage->line));
  }

  // As it is written, with what is unresolved.
  std::string raw_text(const std::string& key) {
    const Setting* setting = text_.settings.take(key);
    return setting == nullptr || !setting->value.is_scalar() ? "" : setting->value.text;
  }

  void torchtitan_call(const std::string& place) {
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
    text_.settings.no_effect([](const std::string& key) { return key == "(word)"; });
  }
  static std::string flag_text(const Settings& settings, const std::string& key) {
    for (const Setting& setting : settings.all())
      if (setting.key == key && setting.value.is_scalar()) return setting.value.text;
    return "";
  }

  void maxtext_call(const std::string& place) {
    std::vector<std::pair<std::string, std::string>> files;
    for (const Setting& setting : text_.settings.all())
      if (setting.key == "(word)" && ends_with_any(setting.value.text, {".yml", ".yaml"}))
        files.emplace_back(setting.value.text, setting.place);
    text_.settings.no_effect_where([&](const Setting& setting) {
      return setting.key == "(word)" && ends_with_any(setting.value.text, {".yml", ".yaml"});
    });
    for (const auto& [name, where] : files) {
      if (const auto found = written_or_named(file_name(name)))
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

  // A file that the launcher names holds the settings.
  void load_named(Settings& from, const std::string& key, const std::string& place) {
    const Setting* setting = from.take(key);
    if (setting == nullptr || !setting->value.is_scalar()) return;
    const std::string name = setting->value.text;
    const auto found = written_or_named(name);
    if (!found) {
      text_.notes.push_back(fmt::format("{}: {} is not there; give it as a further file", setting->place, shown(name)));
      return;
    }
    const Settings own = std::exchange(text_.settings, {});
    accelerate(value_from_yaml(*found, file_name(name)), file_name(name));
    for (const Setting& more : own.all()) text_.settings.add("program." + more.key, more.shown, more.value, more.place);
    (void)place;
  }

  void deepspeed_call(const std::string& place) {
    std::vector<std::string> names;
    for (const char* key : {"deepspeed_config", "deepspeed-config", "deepspeed"})
      if (std::string name = raw_text(key); !name.empty()) names.push_back(std::move(name));
    for (const Setting& setting : text_.settings.all())
      if (setting.key == "(word)" && ends_with_any(setting.value.text, {".yml", ".yaml", ".json"}))
        names.push_back(setting.value.text);
    const Settings own = std::exchange(text_.settings, {});
    for (const std::string& name : names) {
      const auto found = written_or_named(name);
      if (!found) {
        text_.notes.push_back(fmt::format("{}: {} is not there; give it as a further file", place, shown(name)));
        continue;
      }
      const ConfigValue root = value_from_yaml(*found, file_name(shown(name)));
      if (root.find("pipe_parallel_size") != nullptr || root.find("num_layers") != nullptr)
        neox(root, file_name(shown(name)));
      else
        text_.settings.add_all(root, "", file_name(shown(name)));
    }
    for (const Setting& more : own.all()) text_.settings.add("program." + more.key, more.shown, more.value, more.place);
  }

  const LaunchInput& input_;
  LaunchText text_;
  ShellResult script_;
};

}  // namespace

LaunchText read_launch_text(const LaunchInput& input) { return TextReader(input).read(); }

}  // namespace meshwright
