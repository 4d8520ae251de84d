// SPDX-License-Identifier: Apache-2.0
#include "launch/read/trainers/trainer_arguments.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/adapters.h"
#include "launch/read/trainers/fine_tuning.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

std::string argument_of_program(const Settings& settings, const std::vector<const char*>& names) {
  for (const std::string name : names)
    for (const char dash : {'_', '-'}) {
      std::string key = "program." + name;
      std::replace(key.begin(), key.end(), '_', dash);
      if (settings.has(key)) return key;
    }
  return "";
}

namespace {

// A flag without a value, or one that is no way of saying no.
bool argument_is_on(Settings& s, const std::vector<const char*>& names) {
  const std::string key = argument_of_program(s, names);
  if (key.empty()) return false;
  const Setting* given = s.take(key);
  if (given->value.kind == ConfigValue::Kind::Null) return true;
  return truth_value(s.text_or_nothing(key)).value_or(false);
}

// A flag that says so, or a rank above 0; those of DeepSpeed-Chat are of every product.
void read_adapters(ReadingJob& job) {
  Settings& s = job.settings();
  constexpr std::int64_t kRankOfTrl = 16;
  std::string said_by;
  for (const char* flag :
       {"use_peft", "use_peft_lora", "use_lora", "enable_lora", "lora_enable", "lora", "peft", "low_rank_training"})
    if (said_by.empty() && argument_is_on(s, {flag})) said_by = argument_of_program(s, {flag});
  std::optional<std::int64_t> rank;
  for (const char* key_of_rank : {"lora_rank", "lora_r", "lora_dim", "ds.lora.rank"})
    if (const std::string key = argument_of_program(s, {key_of_rank}); !key.empty()) {
      rank = s.integer(key, 0);
      if (rank.value_or(0) > 0 && said_by.empty()) said_by = key;
    }
  if (said_by.empty()) return;
  std::vector<std::string> targets = listed_words(
      s, argument_of_program(
             s, {"lora_target_modules", "lora_targets", "target_modules", "lora_module_name", "lora_target"}));
  const bool of_llava = !argument_of_program(s, {"mm_projector_type", "vision_tower"}).empty();
  if (targets.empty() && (of_llava || said_by.find("lora_dim") != std::string::npos)) targets = {"all-linear"};
  take_adapters(job, said_by, std::max<std::int64_t>(1, rank.value_or(kRankOfTrl)), std::move(targets));
}

void expect_tuned_weights(ReadingJob& job) {
  Settings& s = job.settings();
  for (const char* flag : {"use_qlora", "qlora", "q_lora"})
    if (argument_is_on(s, {flag}))
      expect_whole_model(job, argument_of_program(s, {flag}), "adapters of a quantised model");
  for (const char* quantised : {"load_in_4bit", "load_in_8bit"})
    if (argument_is_on(s, {quantised}))
      expect_whole_model(job, argument_of_program(s, {quantised}), "a quantised model");
  read_adapters(job);
  for (const char* part : {"use_lisa", "freeze_backbone", "tune_mm_mlp_adapter", "freeze_llm", "freeze_lm"})
    if (argument_is_on(s, {part})) expect_whole_model(job, argument_of_program(s, {part}), "a part of the weights");
  const std::string type = argument_of_program(s, {"finetuning_type"}), kind = s.text_or_nothing(type);
  if (kind == "lora" && !job.adapters)
    take_adapters(job, type, 8, {"all"});
  else if (!kind.empty() && kind != "full" && kind != "lora")
    expect_whole_model(job, type, kind);
  const std::string of_stage = argument_of_program(s, {"stage"}), stage = s.text_or_nothing(of_stage);
  for (const char* other : {"rm", "ppo", "dpo", "kto", "orpo"})
    if (stage == other) expect_whole_model(job, of_stage, "against further models or samples");
}

// "dpo.py": pairs of samples, a second model, or samples that the model makes itself.
void expect_plain_losses(ReadingJob& job) {
  const std::string& program = job.text.program;
  const std::string name = lower_case(program.substr(program.rfind(' ') + 1));
  for (const char* method : {"dpo", "ppo", "grpo", "kto", "orpo", "rlhf", "reward"})
    require(name.find(method) == std::string::npos || !name.ends_with(".py"),
            "{}: trains with further models or samples, and only trainings of one model are predicted; give the launch "
            "of one.",
            program);
  for (const char* of_preferences : {"beta", "max_prompt_length", "num_generations", "reward_funcs",
                                     "reward_model_path", "ref_model", "orpo_alpha", "kl_coef"})
    if (const std::string key = argument_of_program(job.reading.settings, {of_preferences}); !key.empty())
      expect_whole_model(job, key, "against further models or samples");
}

bool is_openrlhf(const ReadingJob& job) { return job.text.program.find("openrlhf.cli.") != std::string::npos; }

}  // namespace

namespace {

// "--parallel_mode zigzag_ring_attn": over as many devices as the program itself decides.
void expect_no_split_by_name(ReadingJob& job) {
  for (const Setting& setting : job.settings().all()) {
    if (!setting.key.starts_with("program.") || !setting.value.is_scalar()) continue;
    const std::string name = lower_case(setting.key), value = lower_case(setting.value.text);
    const bool splits = value.find("ring") != std::string::npos || value.find("ulysses") != std::string::npos ||
                        value.find("dist_flash") != std::string::npos;
    require(name.find("parallel") == std::string::npos || !splits || whole_number(value),
            "{}: {}: '{}' splits sequences over devices in a way that only the program knows, which is not read; give "
            "the plan to `meshwright plan --method context:cp=N`.",
            setting.place, setting.shown, printable(value));
  }
}

}  // namespace

void take_contexts_of_program(ReadingJob& job) {
  Settings& s = job.settings();
  const std::string ring = argument_of_program(s, {"ring_attn_size"});
  const std::string key =
      !ring.empty() ? ring
                    : argument_of_program(s, {"sequence_parallel_size", "sequence_parallel_degree", "ulysses_size",
                                              "ulysses_sequence_parallel_size", "context_parallel_size"});
  if (key.empty()) return;
  job.degrees().cp = as_degree(s.integer(key, 0).value_or(1));
  if (job.degrees().cp > 1 && ring.empty()) job.degrees().context = ContextExchange::AllToAll;
}

namespace {

// An argument that is not read and may bear on the plan all the same: a degree above one, or how often and how much of
// a batch is taken at once.
bool may_bear_on_plan(const std::string& name, const ConfigValue& value) {
  static constexpr const char* kShort[] = {"tp",      "pp",      "cp",      "sp",      "ep",        "tp_size",
                                           "pp_size", "cp_size", "sp_size", "ep_size", "tp_degree", "pp_degree"};
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  const bool degree = has("parallel") || std::find(std::begin(kShort), std::end(kShort), name) != std::end(kShort);
  const bool batch = has("accum") && !has("log") && !has("eval");
  if ((!degree && !batch) || !value.is_scalar()) return false;
  const auto number = whole_number(value.text);
  if (number) return *number > 1;
  return !value.text.empty() && truth_value(value.text) != false && value.text != "None" && value.text != "null" &&
         value.text.find("data_parallel") == std::string::npos && lower_case(value.text) != "none";
}

// Arguments of Hugging Face's Trainer that bear on a plan, and those that begin alike.
constexpr const char* kTrainerFlags[] = {"per_device_train_batch_size",
                                         "per_device_eval_batch_size",
                                         "gradient_accumulation_steps",
                                         "gradient_checkpointing",
                                         "gradient_checkpointing_kwargs",
                                         "model_name",
                                         "model_name_or_path",
                                         "model_max_length",
                                         "max_seq_len",
                                         "max_seq_length",
                                         "max_grad_norm",
                                         "weight_decay"};
constexpr std::size_t kShortestBeginning = 6;

std::vector<std::string> flags_begun_by(const std::string& name) {
  std::vector<std::string> found;
  if (name.size() < kShortestBeginning) return found;
  for (const std::string flag : kTrainerFlags) {
    if (flag == name) return {};
    if (flag.starts_with(name)) found.push_back(flag);
  }
  return found;
}

constexpr std::string_view kProgram = "program.";

std::string name_in_program(const std::string& key) {
  std::string name = key.substr(kProgram.size());
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// argparse takes the beginning of one argument for the whole; what several begin with it refuses.
void name_abbreviations_of_program(ReadingJob& job) {
  Settings& s = job.settings();
  std::map<std::string, std::string> whole;
  for (const Setting& setting : s.all()) {
    if (!setting.key.starts_with(kProgram) || !setting.shown.starts_with("--")) continue;
    const std::vector<std::string> flags = flags_begun_by(name_in_program(setting.key));
    if (flags.size() == 1) {
      whole.emplace(setting.key, std::string(kProgram) + flags[0]);
      job.assume(fmt::format("{} as --{}, which begins so", setting.shown, flags[0]));
    } else if (flags.size() > 1) {
      job.broken(fmt::format("{} is no argument, and --{} begin so", setting.shown, join(flags, ", --")));
    }
  }
  s.rename(whole);
}

void read_optimizer_of_program(ReadingJob& job) {
  Settings& s = job.settings();
  const std::string key = argument_of_program(s, {"optim"});
  const std::string optimizer = key.empty() ? "" : lower_case(s.text_or_nothing(key));
  if (optimizer.empty()) return;
  if (optimizer == "sgd")
    job.reading.setup.optimizer.kind = Optimizer::Kind::Sgd;
  else if (optimizer.find("adam") == std::string::npos || has_other_states(optimizer))
    job.assume(fmt::format("Adam in the place of {}", printable(optimizer)));
  else
    take_narrow_moments(job, optimizer);
}

}  // namespace

void no_effect_of_program(Settings& settings) {
  settings.no_effect_where([](const Setting& one) {
    if (!one.key.starts_with(kProgram)) return false;
    const std::string name = name_in_program(one.key);
    return !may_bear_on_plan(name, one.value) && flags_begun_by(name).empty();
  });
}

TrainerArguments trainer_arguments(ReadingJob& job) {
  Settings& s = job.settings();
  expect_plain_losses(job);
  expect_tuned_weights(job);
  expect_no_split_by_name(job);
  name_abbreviations_of_program(job);
  read_optimizer_of_program(job);
  TrainerArguments found;
  const auto number = [&](const std::vector<const char*>& names) -> std::optional<std::int64_t> {
    const std::string key = argument_of_program(s, names);
    return key.empty() ? std::nullopt : s.integer(key);
  };
  found.micro_batch = number({"per_device_train_batch_size", "micro_train_batch_size"});
  if (is_openrlhf(job)) found.batch = number({"train_batch_size"});
  found.accumulation = number({"gradient_accumulation_steps", "gradient_accumulate_every", "grad_accumulation_steps",
                               "gradient_accumulation", "accumulation_steps", "accumulate_grad_batches",
                               "grad_accum_steps", "grad_accum", "grad_acc_steps", "accum_steps"});
  if (is_openrlhf(job)) {
    found.zero = 2;  // its default
    if (number({"zpg"}).value_or(1) > 1) job.assume("weights split over all replicas (zpg)");
  }
  if (const std::string key = argument_of_program(s, {"zero_stage"}); !key.empty()) found.zero = s.integer(key, 0);
  if (const std::string key = argument_of_program(s, {"attn_implementation"}); !key.empty())
    take_attention_kernel(job, key);
  if (argument_is_on(s, {"use_liger_kernel", "use_liger"})) use_liger(job, "");
  found.recompute =
      argument_is_on(s, {"gradient_checkpointing", "use_gradient_checkpointing", "gradient_checkpointing_enable"});
  const bool by_fsdp =
      argument_is_on(s, {"fsdp_config.activation_checkpointing", "fsdp_config.fsdp_activation_checkpointing"});
  found.recompute = found.recompute || by_fsdp;
  found.offloads_update = argument_is_on(s, {"adam_offload"});
  found.offloads = argument_is_on(s, {"offload"}) && found.zero;
  if (argument_is_on(s, {"bf16"}))
    found.dtype = DType::BF16;
  else if (argument_is_on(s, {"fp16"}))
    found.dtype = DType::F16;
  if (const std::string key = argument_of_program(s, {"dtype", "param_dtype"}); !key.empty()) {
    const std::string type = s.text_or_nothing(key);
    if (type == "bf16" || type == "bfloat16") found.dtype = DType::BF16;
    if (type == "fp16" || type == "float16") found.dtype = DType::F16;
  }
  return found;
}

std::optional<TrainerFsdp> trainer_fsdp(ReadingJob& job) {
  const std::string key = argument_of_program(job.settings(), {"fsdp"});
  if (key.empty()) return std::nullopt;
  const std::string words = join(job.settings().words(key), " ");
  if (words.find_first_not_of(' ') == std::string::npos || truth_value(words) == false) return std::nullopt;
  const auto says = [&](const char* word) { return words.find(word) != std::string::npos; };
  TrainerFsdp found;
  found.zero = says("no_shard") ? 0 : says("shard_grad_op") || says("zero2") ? 2 : 3;
  const std::string again = argument_of_program(job.settings(), {"fsdp_config.reshard_after_forward"});
  if (found.zero == 3 && !again.empty() && truth_value(job.settings().text_or_nothing(again)) == false) found.zero = 2;
  found.hybrid = says("hybrid_shard");
  found.offloads = says("offload");
  return found;
}

}  // namespace meshwright
