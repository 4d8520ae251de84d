// SPDX-License-Identifier: Apache-2.0
// Commands of Megatron-Bridge: a recipe by its name, and what the command changes of it. The recipe itself is read
// where its Python file is a further file, or where the script lies in its repository.
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/readers.h"
#include "launch/read/text_reader.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

namespace {

// "model.tensor_model_parallel_size" and "--tensor_model_parallel_size" are one.
std::string name_without_group(const std::string& key) {
  std::string name = key.substr(key.rfind('.') + 1);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

// The function that scripts/performance calls: "llama3_8b_pretrain_16gpu_h100_fp8cs_config".
std::string performance_function(const std::function<std::string(const char*)>& word) {
  const auto given = [&](const char* key, const char* otherwise) {
    const std::string text = word(key);
    return text.empty() ? std::string(otherwise) : text;
  };
  std::string type = lower_case(given("compute-dtype", "bf16"));
  std::erase(type, '_');
  const std::string variant = word("config-variant");
  const bool plain = variant.empty() || variant == "v1" || variant == "v2" || variant == "v3";
  return fmt::format("{}_{}_{}gpu_{}_{}{}_config", word("model-recipe-name"), given("task", "pretrain"),
                     word("num-gpus"), word("gpu"), type, plain ? "" : "_" + variant);
}

// The files of a package that may have a model's recipes: "llama3_8b" is in llama3, "qwen3_30b_a3b" in qwen3_moe.
std::vector<std::string> files_of_model(const std::string& package, std::string model, const std::string& family) {
  std::vector<std::string> files;
  for (;;) {
    files.push_back(package + model);
    files.push_back(package + model + "_moe");
    const std::size_t end = model.rfind('_');
    if (end == std::string::npos) break;
    model.resize(end);
  }
  files.push_back(package + family);
  return files;
}

}  // namespace

std::optional<GivenFile> TextReader::recipe_file(const std::string& function,
                                                 const std::vector<std::string>& modules) const {
  for (std::size_t i = 1; i < input_.files.size(); ++i) {
    const GivenFile& more = input_.files[i];
    if (!more.path.ends_with(".py") || !is_python_recipe(more.text)) continue;
    const std::vector<std::string> names = functions_of_python(more.text, place_of(more));
    if (std::find(names.begin(), names.end(), function) != names.end()) return more;
  }
  for (const std::string& name : modules) {
    const auto found = python_module(input_.files.front().path, 0, name);
    if (!found) continue;
    try {
      (void)config_from_python(found->text, function, found->place, python_surroundings(found->path, {}));
      return GivenFile{found->path, found->text};
    } catch (const InputError& error) {
      if (std::string(error.what()).find("has no function") == std::string::npos) throw;
    }
  }
  return std::nullopt;
}

// What the command says is in the place of what the recipe says.
bool TextReader::with_recipe(const std::string& function, const std::vector<std::string>& modules, int line) {
  const auto file = function.empty() || !is_resolved(function) ? std::nullopt : recipe_file(function, modules);
  if (!file) return false;
  const LaunchText command = text_;
  text_.settings = {};
  python_recipe(*file, function);
  const Settings recipe = std::exchange(text_.settings, {});
  std::vector<std::string> given;
  for (const Setting& setting : command.settings.all()) given.push_back(name_without_group(setting.key));
  const auto changes = [&](const char* key) { return std::find(given.begin(), given.end(), key) != given.end(); };
  const bool length = changes("seq-length"), tensors = command.settings.has("tensor-model-parallel-size");
  for (const Setting& setting : recipe.all()) {
    const std::string name = name_without_group(setting.key);
    if (std::find(given.begin(), given.end(), name) != given.end() && name != "recipe") continue;
    if ((length && name == "seq-length") || (tensors && name == "sequence-parallel")) continue;
    text_.settings.add(setting.key, setting.shown, setting.value, setting.place);
  }
  for (const Setting& setting : command.settings.all())
    if (setting.key != "recipe") text_.settings.add(setting.key, setting.shown, setting.value, setting.place);
  text_.notes.insert(text_.notes.begin(), command.notes.begin(), command.notes.end());
  text_.notes.push_back(fmt::format("{}:{}: the recipe is {}", program_file_, line, text_.program));
  text_.program = command.program;
  if (command.devices || command.hosts || command.devices_per_host) {
    text_.devices = command.devices;
    text_.hosts = command.hosts;
    text_.devices_per_host = command.devices_per_host;
  }
  return true;
}

void TextReader::bridge_call(int line) {
  if (!text_.settings.has("model-recipe-name")) {
    (void)with_recipe(raw_text("recipe"), {"megatron.bridge.recipes"}, line);
    return;
  }
  const std::string function = performance_function([this](const char* key) { return raw_text(key); });
  const std::string package =
      fmt::format("megatron.bridge.perf_recipes.{}.{}.", raw_text("model-family-name"), raw_text("gpu"));
  (void)with_recipe(function, files_of_model(package, raw_text("model-recipe-name"), raw_text("model-family-name")),
                    line);
  performance_call();
}

// Megatron-Bridge's scripts/performance, whose arguments are its recipe's and the devices.
void TextReader::performance_call() {
  Settings& s = text_.settings;
  const bool has_recipe = s.has("recipe");
  const auto known_text = [&](const char* key) {
    std::string text = raw_text(key);
    expect_resolved(text, s.where(key));
    return text;
  };
  const auto count = [&](const char* key) -> std::optional<std::int64_t> {
    const auto number = whole_number(known_text(key));
    return number && *number >= 1 && *number <= kMaxDegree ? number : std::nullopt;
  };
  if (const auto devices = count("num-gpus")) text_.devices = devices;
  if (const auto of_host = count("gpus-per-node")) text_.devices_per_host = of_host;
  if (text_.devices && text_.devices_per_host && *text_.devices % *text_.devices_per_host == 0)
    text_.hosts = *text_.devices / *text_.devices_per_host;
  if (const std::string device = raw_text("gpu"); !device.empty()) text_.device = device;
  const bool says_step = has_recipe || s.has("tensor-model-parallel-size") || s.has("pipeline-model-parallel-size") ||
                         s.has("expert-model-parallel-size") || s.has("global-batch-size");
  require(says_step,
          "{}: its degrees and batch are those of the program's own recipe, not in the file; add "
          "--tensor_model_parallel_size and the like, or give the recipe's Python file and its --function.",
          s.where("model-recipe-name"));
  const auto place_of_key = [&](const char* key) { return s.where(key).substr(0, s.where(key).find(": --")); };
  const auto say = [&](const char* from, const char* key, const std::string& value) {
    s.add(key, fmt::format("--{}", from), ConfigValue::scalar(value, 0), place_of_key(from));
  };
  if (!has_recipe) say("model-recipe-name", "recipe", raw_text("model-recipe-name"));
  const std::string type = known_text("compute-dtype");
  if (!type.empty() && !has_recipe) say("compute-dtype", "mixed-precision", "bf16_with_" + type + "_mixed");
  if (known_text("task") == "peft") say("task", "peft", "lora");
  // As the script says it to the recipe.
  const auto degree = count("tensor-model-parallel-size");
  if (degree && *degree > 1) say("tensor-model-parallel-size", "sequence-parallel", "true");
  if (s.has("use-megatron-fsdp")) say("use-megatron-fsdp", "data-parallel-sharding-strategy", "optim_grads_params");
  if (s.has("recompute-modules")) say("recompute-modules", "recompute-granularity", "selective");
  if (s.has("recompute-num-layers")) {
    say("recompute-num-layers", "recompute-granularity", "full");
    say("recompute-num-layers", "recompute-method", "block");
  }
  // "log-": no effect of their own.
  s.rename({{"virtual-pipeline-model-parallel-size", "num-virtual-stages-per-pipeline-rank"},
            {"max-steps", "train-iters"},
            {"max-step", "train-iters"},
            {"num-moe-experts", "num-experts"},
            {"activation-offload-layers", "cpu-offloading-num-layers"},
            {"model-recipe-name", "log-model-recipe-name"},
            {"model-family-name", "log-model-family-name"},
            {"compute-dtype", "log-compute-dtype"},
            {"num-gpus", "log-num-gpus"},
            {"gpus-per-node", "log-gpus-per-node"},
            {"gpu", "log-gpu"},
            {"task", "log-task"},
            {"domain", "log-domain"},
            {"config-variant", "log-config-variant"},
            {"list-config-variants", "log-list-config-variants"}});
}

}  // namespace meshwright
