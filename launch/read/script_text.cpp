// SPDX-License-Identifier: Apache-2.0
#include "launch/read/script_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/text.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

namespace {

std::string file_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }
bool has_part(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

bool is_launcher_module(const std::string& module) {
  return module == "torch.distributed.run" || module == "torch.distributed.launch" ||
         module == "accelerate.commands.launch" || module == "deepspeed.launcher.runner";
}

bool has_flag(const std::vector<ShellWord>& words, const std::string& flag) {
  std::string other = flag;
  std::replace(other.begin() + 2, other.end(), '-', '_');
  return std::any_of(words.begin(), words.end(), [&](const ShellWord& word) {
    const std::string name = word.text.substr(0, word.text.find('='));
    return name == flag || name == other;
  });
}

constexpr std::string_view kActorWords = "actor_rollout_ref.actor.";

bool is_nanochat(const std::string& program, const std::string& script) {
  return program == "scripts." + script || program == "nanochat.scripts." + script ||
         program.ends_with("scripts/" + script + ".py");
}

// The program whose command these words are ("swift sft ..."), as trainer_of() calls it; "": none.
std::string trainer_command(const std::vector<ShellWord>& words) {
  if (words.size() < 2) return "";
  const std::string name = file_of(words[0].text), &verb = words[1].text;
  if (name == "swift" && (verb == "sft" || verb == "pt")) return "ms-swift";
  if ((name == "llamafactory-cli" || name == "lmf") && verb == "train") return "LLaMA-Factory";
  if (name == "axolotl" && verb == "train") return "axolotl";
  if (name == "trl" && verb == "sft") return "TRL";
  return "";
}

}  // namespace

bool is_swift(const std::vector<ShellWord>& words) {
  return words.size() > 1 && file_of(words[0].text) == "megatron" &&
         (words[1].text == "sft" || words[1].text == "pt" || words[1].text == "rlhf");
}

std::string trainer_of(const ProgramCall& call) {
  if (has_part(call.program, "swift") && (call.program.ends_with("cli.sft") || call.program.ends_with("cli/sft.py")))
    return "ms-swift";
  if (call.program == "axolotl.cli.train") return "axolotl";
  if (has_part(call.program, "verl") && has_part(call.program, "sft_trainer")) return "verl";
  const bool actor = std::any_of(call.arguments.begin(), call.arguments.end(), [](const ShellWord& word) {
    const std::size_t begin = std::min(word.text.find_first_not_of('+'), word.text.size());
    return word.text.compare(begin, kActorWords.size(), kActorWords) == 0;
  });
  if (actor && !call.program.empty()) return "verl actor";
  if (is_nanochat(call.program, "base_train")) return "nanochat";
  return call.program.empty() ? trainer_command(call.launcher) : "";
}

ProgramCall program_call(const std::vector<ShellWord>& words) {
  ProgramCall call;
  std::size_t program = words.size();
  // Python files among the words of such a command are values of its flags.
  const bool command = is_swift(words) || !trainer_command(words).empty();
  for (std::size_t i = 0; i < words.size() && program == words.size() && !command; ++i) {
    // "numactl -m 0" names memory.
    const std::string first = file_of(words[0].text);
    const bool names = i > 0 && (words[i - 1].text == "-m" ||
                                 (words[i - 1].text == "--module" && (first == "deepspeed" || first == "accelerate")));
    const bool module = names && !is_launcher_module(words[i].text) &&
                        std::isdigit(static_cast<unsigned char>(words[i].text.c_str()[0])) == 0;
    const std::string file = file_of(words[i].text);
    // Not the value of a launcher's flag, such as --config_file x.py.
    const bool script = file.ends_with(".py") &&
                        !(i > 0 && words[i - 1].text.starts_with("--") && has_part(words[i - 1].text, "config"));
    if (module || script || file == "run_train.sh" || (file == "train.sh" && i == 0)) program = i;
  }
  call.line = words.empty() ? 0 : words.front().line;
  if (program == words.size()) {
    call.arguments.assign(words.empty() ? words.begin() : words.begin() + 1, words.end());
    call.launcher = words;
    return call;
  }
  call.launcher.assign(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(program));
  call.program = words[program].text;
  call.arguments.assign(words.begin() + static_cast<std::ptrdiff_t>(program) + 1, words.end());
  return call;
}

namespace {

// "maxtext.trainers.pre_train.train", "MaxText/train.py": the last part of its name.
std::string plain_name(const std::string& program) {
  const std::string file = file_of(program);
  if (file.ends_with(".py")) return file.substr(0, file.size() - 3);
  return file.substr(file.rfind('.') + 1);
}

// MaxText's programs beside trainings of one model: decoding, checkpoints, preferences, tokenizers, tests.
bool trains_one_model(const std::string& program) {
  const std::string name = plain_name(program);
  if (name != "train" && name != "elastic_train" && !name.starts_with("train_")) return false;
  for (const char* other : {"rl", "grpo", "dpo", "distill", "tokenizer"})
    if (has_part(name, other)) return false;
  return true;
}

bool sets_axes(const std::vector<ShellWord>& words) {
  return std::any_of(words.begin(), words.end(), [](const ShellWord& word) {
    return (word.text.starts_with("ici_") || word.text.starts_with("dcn_") ||
            word.text.starts_with("per_device_batch_size")) &&
           has_part(word.text, "=");
  });
}

}  // namespace

bool is_nemo_call(const ProgramCall& call) {
  if (!call.program.ends_with(".py")) return false;
  const auto sets = [&](std::initializer_list<const char*> keys) {
    return std::any_of(call.arguments.begin(), call.arguments.end(), [&](const ShellWord& word) {
      const std::size_t begin = std::min(word.text.find_first_not_of('+'), word.text.size());
      return std::any_of(keys.begin(), keys.end(),
                         [&](const char* key) { return word.text.compare(begin, std::string(key).size(), key) == 0; });
    });
  };
  const bool of_gpt = plain_name(call.program).starts_with("megatron_gpt_");
  return of_gpt ? sets({"trainer.", "model."})
                : sets({"trainer.devices=", "trainer.num_nodes=", "trainer.precision="}) &&
                      sets({"model.micro_batch_size=", "model.global_batch_size=", "model.tensor_model_parallel_size=",
                            "model.encoder_seq_length=", "model.megatron_amp_O2="});
}

bool has_file_of_settings(const ProgramCall& call) {
  const std::string program = lower_case(call.program);
  return program.starts_with("lingua.") || program.starts_with("apps.main.") || has_part(program, "apps/main/") ||
         program.starts_with("levanter.") || has_part(program, "/levanter/");
}

std::string why_not_read(const ProgramCall& call) {
  if (trainer_of(call) == "verl actor") return "";
  const std::string program = lower_case(call.program), name = plain_name(program);
  const std::vector<ShellWord>& words = call.arguments;
  const auto flagged = [&](std::initializer_list<const char*> flags) {
    return std::any_of(flags.begin(), flags.end(), [&](const char* flag) { return has_flag(words, flag); });
  };
  const bool learns =
      (program.starts_with("verl.") && (has_part(name, "ppo") || has_part(name, "grpo"))) ||
      (has_part(program, "openrlhf.cli.train_") && name != "train_sft") ||
      flagged({"--rollout-batch-size", "--rollout-num-gpus", "--actor-num-nodes", "--advantage-estimator"});
  if (learns)
    return "learns by reinforcement, from samples that it makes itself, and only trainings of one model on given "
           "samples are predicted";
  const auto launched_by = [&](const char* launcher) {
    return !call.launcher.empty() && file_of(call.launcher[0].text) == launcher;
  };
  if (program == "oneflow.distributed.launch") return "is started by OneFlow, whose programs (LiBai) are not read";
  if (launched_by("colossalai"))
    return "is started by Colossal-AI, whose programs hold their own parallelism (plugins), which is not read; give "
           "the model with --model to `meshwright plan`, and its degrees with --method";
  if (has_file_of_settings(call))
    return fmt::format("is a program of {}, whose settings are in the YAML that it names; give that as a further file",
                       has_part(program, "levanter") ? "Levanter" : "lingua");
  if (program.starts_with("verl.") && trainer_of(call).empty())
    return "is a trainer of verl, whose settings are not read";
  if (flagged({"--plan-ngpus"}))
    return "is split by nnScaler's search, whose result is not in the command (--plan_ngpus); `meshwright plan --for "
           "nnscaler` searches as it does";
  for (const char* later : {"mid_train", "chat_sft", "chat_rl"})
    if (is_nanochat(call.program, later))
      return "trains nanochat's checkpoint further, whose sizes are in the checkpoint alone; give the launch of "
             "base_train, which makes it";
  if (name == "benchmark_runner")
    return "takes the model and its settings from a table of its own (--model_name); give the command of MaxText's "
           "train that it runs";
  if ((has_part(program, "maxtext") || (sets_axes(words) && !program.empty())) && !trains_one_model(program))
    return "trains no model from given samples, which of MaxText's programs train, train_compile and train_sft do";
  if (!call.launcher.empty() && file_of(call.launcher[0].text) == "xpk" && has_flag(call.launcher, "--command"))
    return "runs what --command says on a cluster of TPUs, whose costs nobody has measured here; give that command as "
           "a script of its own, and --cluster with the devices it is to be predicted for";
  return "";
}

bool is_unread_training(const ProgramCall& call) {
  const std::string why = why_not_read(call);
  return !why.empty() && !has_file_of_settings(call) && !has_part(why, "trains no model") &&
         !has_part(why, "runs what");
}

std::string target_of(const ProgramCall& call) {
  if (!why_not_read(call).empty()) return "";
  const std::vector<ShellWord>& words = call.arguments;
  const std::string program = lower_case(call.program);
  const auto launched_by = [&](std::string_view name) {
    return std::any_of(call.launcher.begin(), call.launcher.end(),
                       [&](const ShellWord& word) { return file_of(word.text) == name; });
  };
  if (has_part(program, "maxtext")) return "maxtext";
  if (!trainer_of(call).empty()) return "accelerate";
  if (is_nemo_call(call)) return "megatron";
  if (program.starts_with("torchtitan") || has_flag(words, "--job.config-file") || file_of(program) == "run_train.sh" ||
      (has_flag(words, "--module") && has_flag(words, "--config")))
    return "torchtitan";
  if (has_flag(words, "--recipe") || has_flag(words, "--model-recipe-name") ||
      std::any_of(words.begin(), words.end(),
                  [](const ShellWord& word) { return word.text.starts_with("model.") && has_part(word.text, "="); }))
    return "megatron-bridge";
  if (file_of(program) == "deepy.py") return "deepspeed";
  if (has_flag(words, "--num-layers") || has_flag(words, "--encoder-num-layers") ||
      has_flag(words, "--tensor-model-parallel-size") || has_flag(words, "--hybrid-layer-pattern") ||
      has_flag(words, "--yaml-cfg"))
    return "megatron";
  if (call.program.empty() && is_swift(call.launcher)) return "megatron";
  if (sets_axes(words)) return "maxtext";
  // DeepSpeed's file among the arguments of the trainer, in the place of accelerate's own.
  const bool by_trainer = has_flag(words, "--deepspeed") && !has_flag(call.launcher, "--config-file") &&
                          !has_flag(call.launcher, "--use-deepspeed");
  if (launched_by("accelerate")) return by_trainer ? "deepspeed" : "accelerate";
  const bool trainer = has_flag(words, "--per-device-train-batch-size") || has_flag(words, "--fsdp");
  if (launched_by("torchrun") && trainer && !has_flag(words, "--deepspeed")) return "accelerate";
  if (launched_by("deepspeed") || has_flag(words, "--deepspeed") || has_flag(words, "--deepspeed-config"))
    return "deepspeed";
  return "";
}

namespace {

bool is_flag(const std::string& word) {
  return word.starts_with("--") ||
         (word.size() > 1 && word[0] == '-' && std::isalpha(static_cast<unsigned char>(word[1])) != 0);
}

// "key=value", "group.key=value", "+key=value".
bool is_assignment(const std::string& word) {
  const std::size_t equal = word.find('=');
  if (equal == std::string::npos || equal == 0) return false;
  return std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equal), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '+' || c == '-';
  });
}

// The words behind the flag at `i`, which moves to the last of them. Where programs take no assignments
// (`flags_alone`), one is a value ("--wandb-name tp=8"), and a variable that nothing sets may hold further flags.
ConfigValue values_behind(const std::vector<ShellWord>& words, std::size_t& i, bool flags_alone) {
  ConfigValue list = ConfigValue::list(words[i].line);
  while (i + 1 < words.size() && !is_flag(words[i + 1].text) && (flags_alone || !is_assignment(words[i + 1].text))) {
    // What stands behind a whole value and is not known may be assignments.
    if (!flags_alone && !list.items.empty() && is_unknown_variable(words[i + 1].text)) break;
    ++i;
    if (!flags_alone || list.items.empty() || !is_unknown_variable(words[i].text))
      list.items.push_back(ConfigValue::scalar(words[i].text, words[i].line));
  }
  if (list.items.size() > 1) return list;
  ConfigValue none;
  none.line = list.line;
  return list.items.empty() ? none : list.items[0];
}

void add_word(Settings& settings, const ShellWord& word, const std::string& place) {
  if (!is_assignment(word.text) || word.text[0] == '-') {
    settings.add("(word)", shown(word.text), ConfigValue::scalar(word.text, word.line), place);
    return;
  }
  const std::string plain = word.text.substr(word.text.find_first_not_of('+'));
  const std::size_t equal = plain.find('=');
  const std::string key = plain.substr(0, equal);
  settings.add(key, key, ConfigValue::scalar(plain.substr(equal + 1), word.line), place);
}

}  // namespace

void add_flags(Settings& settings, const std::vector<ShellWord>& words, const std::string& file, FlagStyle style) {
  const bool plain_keys = style != FlagStyle::Own;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i].text;
    const std::string place = fmt::format("{}:{}", file, words[i].line);
    if (word.size() <= 2 || !word.starts_with("--")) {
      add_word(settings, words[i], place);
      continue;
    }
    const std::size_t equal = word.find('=');
    const std::string name = word.substr(0, equal);
    std::string key = name.substr(2);
    if (plain_keys) std::replace(key.begin(), key.end(), '_', '-');
    const std::size_t flag = i;
    ConfigValue value = equal != std::string::npos ? ConfigValue::scalar(word.substr(equal + 1), words[i].line)
                                                   : values_behind(words, i, style == FlagStyle::Alone);
    settings.add(key, name, std::move(value), place);
    // What a command prints behind a whole value is said, as it may be further flags.
    for (std::size_t word_at = flag + 2; style == FlagStyle::Alone && word_at <= i; ++word_at)
      if (is_printed(words[word_at].text)) add_word(settings, words[word_at], place);
  }
}

namespace {

// The value of the last of these flags, as "--flag=V", "--flag V" or "-N4"; "": none.
std::string value_of(const std::vector<ShellWord>& words, const std::vector<std::string>& names) {
  std::string found;
  for (std::size_t i = 0; i < words.size(); ++i)
    for (const std::string& name : names) {
      const std::string& word = words[i].text;
      if (word == name && i + 1 < words.size()) found = words[i + 1].text;
      if (word.starts_with(name + "=")) found = word.substr(name.size() + 1);
      if (name.size() == 2 && word.starts_with(name) && word.size() > 2 && word[2] != '=') found = word.substr(2);
    }
  return found;
}

void set_number(std::optional<std::int64_t>& into, const std::string& text) {
  // "1:4" hosts: as many as there may be.
  const std::size_t colon = text.rfind(':');
  const auto number = whole_number(colon == std::string::npos ? text : text.substr(colon + 1));
  if (number && *number >= 1 && *number <= 1 << 20) into = number;
}

}  // namespace

bool is_torchrun(const std::vector<ShellWord>& launcher) {
  return std::any_of(launcher.begin(), launcher.end(), [](const ShellWord& word) {
    return file_of(word.text) == "torchrun" || word.text == "torch.distributed.run" ||
           word.text == "torch.distributed.launch";
  });
}

bool starts_one_process(const std::vector<ShellWord>& launcher) {
  const bool known =
      std::all_of(launcher.begin(), launcher.end(), [](const ShellWord& word) { return is_resolved(word.text); });
  return is_torchrun(launcher) && known &&
         value_of(launcher, {"--nproc", "--nproc_per_node", "--nproc-per-node"}).empty();
}

namespace {

const std::vector<std::string> kFlagsOfHosts = {"--nodes",        "-N",      "--num_nodes", "--num-nodes",
                                                "--num_machines", "--nnode", "--nnodes"};

// "gpu:a100:8,tmpfs:1T", "a100:8", "8": the part that asks for GPUs.
std::string gpu_request(const std::string& text) {
  for (const std::string& part : split(text, ','))
    if (part.starts_with("gpu")) return part;
  return text;
}

// What Slurm's options say of the devices of a host, and of all.
void set_devices_of_slurm(LaunchText& text, const std::vector<ShellWord>& words) {
  const std::string request = gpu_request(value_of(words, {"--gres", "--gpus-per-node"}));
  set_number(text.devices_per_host, request);
  const std::vector<std::string> parts = split(request, ':');
  if (parts.size() == 3 || (parts.size() == 2 && parts[0] != "gpu")) text.device = parts[parts.size() - 2];
  if (request == "gpu") text.devices_per_host = 1;
  // One task for each device, or each task with so many.
  std::optional<std::int64_t> tasks, of_task;
  set_number(tasks, value_of(words, {"--ntasks-per-node", "--tasks-per-node"}));
  set_number(of_task, value_of(words, {"--gpus-per-task"}));
  if (request.empty() && of_task && (tasks || !text.devices_per_host))
    text.devices_per_host = *of_task * tasks.value_or(1);
  if (!text.devices_per_host && tasks.value_or(1) > 1) text.devices_per_host = tasks;
  set_number(text.devices, value_of(words, {"--gpus", "-G"}));
}

}  // namespace

std::string open_hosts(const std::vector<ShellWord>& launcher) {
  const std::string hosts = value_of(launcher, kFlagsOfHosts);
  return is_resolved(hosts) ? "" : "--nnodes " + shown(hosts);
}

void add_launcher(LaunchText& text, const std::vector<ShellWord>& words) {
  set_number(text.hosts, value_of(words, kFlagsOfHosts));
  set_devices_of_slurm(text, words);
  const std::string constraint = value_of(words, {"--constraint", "-C"});
  if (!constraint.empty() && text.device.empty()) text.device = constraint;
  set_number(text.devices_per_host,
             value_of(words, {"--nproc", "--nproc_per_node", "--nproc-per-node", "--num_gpus", "--num-gpus"}));
  set_number(text.devices, value_of(words, {"--num_processes", "-np"}));
}

}  // namespace meshwright
