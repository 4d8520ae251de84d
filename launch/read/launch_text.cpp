// SPDX-License-Identifier: Apache-2.0
#include "launch/read/launch_text.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/readers.h"
#include "launch/read/text_reader.h"
#include "launch/setup/launch_target.h"
#include "launch/syntax/interpolation.h"
#include "launch/syntax/numbers.h"
#include "launch/syntax/python/python_config.h"
#include "launch/syntax/toml.h"
#include "launch/syntax/yaml.h"

namespace meshwright {

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }
bool ends_with_any(std::string_view name, const std::vector<const char*>& endings) {
  return std::any_of(endings.begin(), endings.end(), [&](const char* ending) { return name.ends_with(ending); });
}

namespace {

bool is_nanotron(const ConfigValue& root) {
  const ConfigValue* degrees = root.find("parallelism");
  return degrees != nullptr && degrees->is_map() && degrees->find("tp") != nullptr && root.find("model") != nullptr;
}

// NeMo's first trainer: beside its model a trainer of Lightning.
bool is_nemo(const ConfigValue& root) {
  const ConfigValue *model = root.find("model"), *trainer = root.find("trainer");
  return model != nullptr && model->is_map() && trainer != nullptr && trainer->is_map() &&
         (trainer->find("num_nodes") != nullptr || trainer->find("precision") != nullptr) &&
         (model->find("encoder_seq_length") != nullptr || model->find("megatron_amp_O2") != nullptr ||
          model->find("activations_checkpoint_granularity") != nullptr);
}

// llm-foundry's files name their model by its kind, in the map itself or below `variables`; files of other programs
// over Composer have the same loaders and models of their own.
bool is_foundry(const ConfigValue& root) {
  const ConfigValue* model = root.find("model");
  const ConfigValue* name = model == nullptr ? nullptr : model->find("name");
  const bool own =
      name != nullptr && name->is_scalar() && (name->text.ends_with("_causal_lm") || name->text == "hf_t5");
  return root.find("train_loader") != nullptr &&
         (own || (name != nullptr && name->is_scalar() && model->find("d_model") != nullptr));
}

// "_component_: torchtune.models.llama3.llama3_8b" below one of the keys.
bool names_component_of(const ConfigValue& root, const char* package) {
  return std::any_of(root.members.begin(), root.members.end(), [&](const auto& member) {
    const ConfigValue* of = member.second.is_map() ? member.second.find("_component_") : nullptr;
    return of != nullptr && of->is_scalar() && of->text.starts_with(package);
  });
}

}  // namespace

bool is_picotron(const ConfigValue& root) {
  const ConfigValue *degrees = root.find("distributed"), *training = root.find("training");
  return degrees != nullptr && degrees->is_map() && degrees->find("pp_engine") != nullptr &&
         degrees->find("tp_size") != nullptr && training != nullptr && training->is_map() &&
         training->find("micro_batch_size") != nullptr;
}

namespace {

bool is_levanter(const ConfigValue& root) {
  const ConfigValue* trainer = root.find("trainer");
  return trainer != nullptr && trainer->is_map() &&
         (trainer->find("fsdp_axis") != nullptr || trainer->find("num_train_steps") != nullptr ||
          trainer->find("per_device_parallelism") != nullptr);
}

// Groups of a model, of data and of a training whose parts have VeOmni's names.
bool is_veomni(const ConfigValue& root) {
  const ConfigValue *train = root.find("train"), *model = root.find("model"), *data = root.find("data");
  const auto is_map = [](const ConfigValue* value) { return value != nullptr && value->is_map(); };
  if (!is_map(train) || !is_map(model) || !is_map(data)) return false;
  const bool named = model->find("model_path") != nullptr || model->find("config_path") != nullptr;
  return named && data->find("max_seq_len") != nullptr && train->find("micro_batch_size") != nullptr;
}

bool is_fast_llm(const ConfigValue& root) {
  const ConfigValue* model = root.find("model");
  if (model == nullptr || !model->is_map() || root.find("optimizer") == nullptr) return false;
  return model->find("base_model") != nullptr || model->find("multi_stage") != nullptr;
}

// A file that changes others names them with their ending ("defaults: ../sft.yaml"); Hydra's name them without.
bool is_nemo_rl(const ConfigValue& root) {
  const ConfigValue *policy = root.find("policy"), *below = root.find("defaults");
  const auto is_file = [](const ConfigValue& name) { return name.is_scalar() && name.text.ends_with(".yaml"); };
  if (below != nullptr && (is_file(*below) || (below->is_list() && !below->items.empty() &&
                                               std::all_of(below->items.begin(), below->items.end(), is_file))))
    return true;
  if (policy == nullptr || !policy->is_map()) return false;
  const auto has = [&](const char* key) { return policy->find(key) != nullptr; };
  return has("train_micro_batch_size") || has("train_global_batch_size") || has("dtensor_cfg") || has("megatron_cfg");
}

bool is_prime_rl(const ConfigValue& root) {
  const ConfigValue *data = root.find("data"), *model = root.find("model");
  const bool samples =
      data != nullptr && data->is_map() && (data->find("seq_len") != nullptr || data->find("batch_size") != nullptr);
  return samples && (model == nullptr || model->find("flavor") == nullptr) && root.find("training") == nullptr &&
         root.find("parallelism") == nullptr && root.find("job") == nullptr;
}

// Groups that every file of torchtitan has one of.
bool is_torchtitan(const ConfigValue& root) {
  const ConfigValue* model = root.find("model");
  if (model != nullptr && model->find("flavor") != nullptr) return true;
  return std::any_of(root.members.begin(), root.members.end(), [](const auto& member) {
    for (const char* group : {"training", "parallelism", "job", "experimental", "activation_checkpoint", "lr_scheduler",
                              "checkpoint", "float8", "quantize", "profiling", "metrics", "optimizer"})
      if (member.first == group) return true;
    return false;
  });
}

bool is_olmo(const ConfigValue& root) {
  const ConfigValue* model = root.find("model");
  return model != nullptr && model->find("d_model") != nullptr && root.find("train_loader") == nullptr &&
         (root.find("global_train_batch_size") != nullptr || root.find("device_train_microbatch_size") != nullptr ||
          root.find("train_module") != nullptr);
}

}  // namespace

TextReader::TextReader(const LaunchInput& input) : input_(input) {
  if (!input.as.empty()) text_.target = find_launch_target(input.as).name;
}

LaunchText TextReader::read() && {
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
  if (text_.target == "torchtitan") {
    count_torchtitan();
    load_schedule();
  }
  return std::move(text_);
}

void TextReader::set_target(const char* target) {
  if (text_.target.empty()) text_.target = target;
}

std::string TextReader::place_of(const GivenFile& file) const { return file_name(file.path); }

std::optional<std::string> TextReader::file_named(const std::string& name) const {
  for (std::size_t i = 1; i < input_.files.size(); ++i)
    if (file_name(input_.files[i].path) == file_name(name)) return input_.files[i].text;
  return input_.beside ? input_.beside(name) : std::nullopt;
}

void TextReader::read_yaml(const GivenFile& file) {
  const std::string place = place_of(file);
  ConfigValue root = value_from_yaml(file.text, place);
  // A job of MosaicML's platform has the file of its program within it.
  if (const ConfigValue* own = root.find("parameters"); own != nullptr && own->is_map() && is_foundry(*own)) {
    const ConfigValue* job = root.find("compute");
    const ConfigValue* devices = job != nullptr && job->is_map() ? job->find("gpus") : nullptr;
    if (devices != nullptr) text_.devices = whole_number(devices->text);
    root = ConfigValue(*own);
  }
  if (input_.as.empty() && root.is_map() && is_wrapped(root)) return read_script(unwrapped(root, place));
  if (&file == &input_.files.front()) beside_ = exported_beside(file);
  resolve_environment(root, variables());
  resolve_interpolations(root);
  require(root.is_map(), "{}:1: expected a map of settings, and this is {}.", place, to_text(root));
  text_.program = place;
  const auto has = [&](const char* key) { return root.find(key) != nullptr; };
  const auto any = [&](const std::vector<const char*>& keys) { return std::any_of(keys.begin(), keys.end(), has); };
  const bool open = input_.as.empty();
  if (open && has("actor_rollout_ref")) return verl_actor(root, place);
  require(!open || !has("kind") || !has("apiVersion"),
          "{}: is a manifest of Kubernetes; give the script or the command that its containers run, as a script.",
          place);
  require(!open || !has("distributed_strategy") || !any({"trainer", "model_source"}),
          "{}: is a file of NxD Training, for Trainium devices (distributed_strategy), which is not read.", place);
  if (open && is_nemo_rl(root)) return nemo_rl(root, place);
  if (open && is_picotron(root)) return picotron(root, place);
  if (open && is_fast_llm(root)) return fsdp_trainer(root, place, "Fast-LLM");
  const ConfigValue* distributed = root.find("distributed");
  if (open && distributed != nullptr && distributed->is_map() && distributed->find("fsdp_type") != nullptr)
    return lingua(root, place);
  const ConfigValue* training = root.find("training");
  require(!open || training == nullptr || !training->is_map() || training->find("trainer_type") == nullptr,
          "{}: is a file of oumi, whose settings are not read; give its model, batch and degrees to `meshwright plan`, "
          "with --model, --batch and --method.",
          place);
  if (open && is_levanter(root)) return fsdp_trainer(root, place, "Levanter");
  if (open && is_veomni(root)) return fsdp_trainer(root, place, "VeOmni");
  if (open && is_nanotron(root)) return nanotron(root, place);
  if (open && is_nemo(root)) return nemo(root, place);
  if (open && (has("language_model") || has("model_parallel"))) return megatron_yaml(root, place);
  require(!open || !has("encoder_seq_length") || !any({"megatron_amp_O2", "mcore_gpt", "make_vocab_size_divisible_by"}),
          "{}: is a model of NeMo's first trainer alone; give the file that has its trainer, too.", place);
  if (open && has("modules") && any({"work_group", "exp_name"})) return primus(root, place);
  if (open && is_foundry(root)) return fsdp_trainer(root, place, "llm-foundry");
  if (open && has("step_scheduler") && any({"model", "recipe"})) return automodel(root, place);
  if (open && names_component_of(root, "torchtune.")) {
    if (place.find("single_device") != std::string::npos) text_.devices = 1;  // the recipe's name
    return fsdp_trainer(root, place, "torchtune");
  }
  if (open && root.find("train") != nullptr && root.find("train")->is_map() && any({"model_name", "checkpoint_dir"}) &&
      any({"out_dir", "devices", "precision"}))
    return litgpt(root, place);
  if (open && is_olmo(root)) return fsdp_trainer(root, place, has("train_module") ? "OLMo-core" : "OLMo");
  if (open && has("model_name_or_path") && any({"finetuning_type", "cutoff_len", "dataset", "stage"}))
    return trainer(root, place, "LLaMA-Factory");
  if (open && has("model") && has("cutoff_len") && any({"train_dataset", "dist_config"}))
    return trainer(root, place, "LLaMA-Factory v1");
  if (open && has("base_model") && any({"sequence_len", "datasets", "micro_batch_size"}))
    return trainer(root, place, "axolotl");
  if (has("compute_config")) return nnscaler(root, place);
  if (has("MODEL_ARGS")) return megatron_test(root, place);
  if (has("distributed_type") || has("compute_environment")) return accelerate(root, place);
  require(text_.target == "accelerate" || text_.target == "fsdp2" || !has("fsdp_config"),
          "{}: has settings of FSDP and no distributed_type: it is the file of a program that starts accelerate by "
          "itself, whose other settings are not known here; give the file of accelerate, or --as accelerate.",
          place);
  if (open && has("model_name_or_path") &&
      any({"dataset_name", "dataset_mixture", "dataset_mixer", "datasets", "per_device_train_batch_size"}))
    return trl_file(root, place);
  if (any({"pipe_parallel_size", "pipe-parallel-size", "model_parallel_size", "model-parallel-size"}))
    return neox(root, place);
  if (has("system") || has("experiment")) return flagscale(root, place);
  const bool sizes_axes = any({"base_config", "base_emb_dim", "per_device_batch_size", "mesh_axes",
                               "logical_axis_rules", "ici_fsdp_parallelism"});
  const bool of_trainer = any({"per_device_train_batch_size", "num_train_epochs"});
  require(!open || sizes_axes || !has("model_name") || !of_trainer,
          "{}: has the arguments of a program over Hugging Face's trainer, which none of its keys names; give the "
          "script that starts it, and this file as a further one.",
          place);
  if (sizes_axes || has("model_name")) return maxtext_file(root, place);
  if (any({"train_batch_size", "train_micro_batch_size_per_gpu", "zero_optimization"})) return deepspeed(root, place);
  if (any({"tensor_model_parallel_size", "num_layers", "tensor-model-parallel-size"})) return megatron_map(root, place);
  if (const ConfigValue* model = root.find("model");
      model != nullptr && model->find("tensor_model_parallel_size") != nullptr)
    return bridge(root, place);
  by_target(root, place);
}

void TextReader::lingua(const ConfigValue& root, const std::string& place) {
  fsdp_trainer(root, place, "lingua");
  std::int64_t devices = 1;
  for (const char* degree : {"dp_replicate", "dp_shard", "tp_size"}) {
    const ConfigValue* value = root.find("distributed")->find(degree);
    const auto count = value == nullptr ? std::optional<std::int64_t>(1) : whole_number(value->text);
    if (!count || *count < 1 || *count > kMaxDegree || devices > kMaxDegree) return;
    devices *= *count;
  }
  // Copies are as many as there are devices for, where the file says no number of them.
  if (root.find("distributed")->find("dp_replicate") != nullptr) text_.devices = devices;
}

void TextReader::by_target(const ConfigValue& root, const std::string& place) {
  const std::string& target = text_.target;
  if (target == "megatron") return megatron_map(root, place);
  if (target == "accelerate" || target == "fsdp2") return accelerate(root, place);
  if (target == "maxtext") return maxtext_file(root, place);
  if (target == "deepspeed") return deepspeed(root, place);
  if (target == "flagscale") return flagscale(root, place);
  if (target == "nnscaler") return nnscaler(root, place);
  throw InputError(fmt::format(
      "{}: none of its keys shows what framework it is for; give --as with one of megatron, megatron-bridge, "
      "torchtitan, deepspeed, accelerate, maxtext, nnscaler or flagscale.",
      place));
}

void TextReader::read_toml(const GivenFile& file) {
  const std::string place = place_of(file);
  const ConfigValue root = value_from_toml(file.text, place);
  text_.program = place;
  if (input_.as.empty()) {
    const bool rewarded = root.find("orchestrator") != nullptr || root.find("trainer") != nullptr;
    require(!rewarded || is_torchtitan(root),
            "{}: is a file of prime-rl, which learns by reinforcement from samples that it makes itself "
            "(orchestrator), and only trainings of one model on given samples are predicted.",
            place);
    if (is_prime_rl(root)) return prime_rl(root, place);
    require(is_torchtitan(root),
            "{}: none of its keys shows what framework it is for; give --as torchtitan, or the file that it changes.",
            place);
  }
  set_target("torchtitan");
  text_.settings.add_all(root, "", place);
}

void TextReader::picotron(const ConfigValue& root, const std::string& place) {
  fsdp_trainer(root, place, "picotron");
  std::int64_t devices = 1;
  for (const char* degree : {"tp_size", "cp_size", "pp_size", "dp_size"}) {
    const ConfigValue* value = root.find("distributed")->find(degree);
    const auto count = value == nullptr ? std::optional<std::int64_t>(1) : whole_number(value->text);
    if (!count || *count < 1 || *count > kMaxDegree || devices > kMaxDegree) return;
    devices *= *count;
  }
  text_.devices = devices;
}

void TextReader::read_python(const GivenFile& file, const std::string& function) {
  require(
      file.text.find("olmo_core") == std::string::npos,
      "{}: is a script of OLMo-core, which makes its settings as it runs; give the config.json that a run of it saves.",
      place_of(file));
  const auto has = [&](const char* part) { return file.text.find(part) != std::string::npos; };
  require(!text_.target.empty() || !(has("libai") && has("LazyCall")),
          "{}: is a configuration of LiBai (OneFlow) over files of its own, which is not read; give its model to "
          "`meshwright plan` with --model, and its degrees with --method.",
          place_of(file));
  require(!text_.target.empty() || !has("BenchmarkCase"),
          "{}: is a table of cases that Alpa's benchmark.py runs one by one, which is not read; give a program with a "
          "PipeshardParallel, or search with `meshwright plan --for alpa`.",
          place_of(file));
  const bool bridge = text_.target.empty() ? is_python_recipe(file.text) : text_.target == "megatron-bridge";
  if (bridge) return python_recipe(file, function);
  if (is_torch_program(file.text)) return torch_program(file);
  if (is_mesh_program(file.text, text_.target)) return mesh_program(file);
  if (text_.target.empty() && nanogpt(file)) return;
  set_target("torchtitan");
  const PythonConfig config = python_config(file, function, {});
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
  note_python(config, place_of(file));
}

void TextReader::count_torchtitan() {
  name_as_torchtitan_now(text_.settings);
  if (text_.hosts || text_.devices || text_.devices_per_host) return;
  std::int64_t devices = 1;
  for (const char* degree :
       {"data_parallel_shard", "data_parallel_replicate", "context_parallel", "tensor_parallel", "pipeline_parallel"}) {
    const std::string text = flag_text(text_.settings, std::string("parallelism.") + degree + "_degree");
    const auto count = whole_number(text);
    if (text.empty() && std::string_view(degree) != "data_parallel_shard") continue;
    if (!count || *count < 1 || *count > kMaxDegree || devices > kMaxDegree) return;
    devices *= *count;
  }
  text_.devices = devices;
}

bool TextReader::nanogpt(const GivenFile& file) {
  ConfigValue root = ConfigValue::map(1);
  for (const PythonValue& value : values_from_python(file.text, place_of(file)))
    if (!value.name.empty() && value.value.is_scalar()) root.set(value.name, value.value);
  const auto has = [&](const char* name) { return root.find(name) != nullptr; };
  const bool own = has("batch_size") && (has("block_size") || has("init_from")) &&
                   (has("max_iters") || has("eval_iters")) && file.text.find("def ") == std::string::npos;
  if (!own) return false;
  fsdp_trainer(root, place_of(file), "nanoGPT");
  text_.program = place_of(file);
  return true;
}

bool TextReader::nanogpt_call() {
  for (const ShellCommand& command : looked_at()) {
    const ProgramCall call = program_call(command.words);
    if (!call.program.ends_with(".py") || text_.target == "torchtitan") continue;
    for (const ShellWord& word : call.arguments) {
      const auto file = word.text.ends_with(".py") ? written_or_named(word.text) : std::nullopt;
      if (!file || !nanogpt({word.text, *file})) continue;
      text_.program = fmt::format("{}:{}: {}", command.file, call.line, file_name(call.program));
      add_launcher(text_, script_.directives);
      add_launcher(text_, call.launcher);
      if (!text_.devices && starts_one_process(call.launcher))
        text_.devices_per_host = text_.devices_per_host.value_or(1);
      Settings more;
      add_flags(more, call.arguments, command.file, FlagStyle::Own);
      for (const Setting& flag : more.all())
        if (flag.key != "(word)") text_.settings.add(flag.key, flag.shown, flag.value, flag.place);
      return true;
    }
  }
  return false;
}

void TextReader::load_schedule() {
  const Setting* named = nullptr;
  for (const Setting& setting : text_.settings.all())
    if (setting.key == "parallelism.pipeline_parallel_schedule_csv" && setting.value.is_scalar()) named = &setting;
  if (named == nullptr || named->value.text.empty()) return;
  const std::string name = named->value.text;
  if (const auto found = file_named(name))
    text_.settings.add("(schedule)", name, ConfigValue::scalar(*found, 1), file_name(name));
}

LaunchText read_launch_text(const LaunchInput& input) { return TextReader(input).read(); }

std::vector<std::string> launches_of(const LaunchInput& input) { return TextReader(input).launches(); }

}  // namespace meshwright
