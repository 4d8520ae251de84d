// SPDX-License-Identifier: Apache-2.0
#include "launch/read/trainers/trainer_arguments.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
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

void expect_no_adapters(ReadingJob& job) {
  Settings& s = job.settings();
  for (const char* flag : {"use_peft", "use_peft_lora", "use_lora", "enable_lora", "qlora", "lora", "peft"})
    if (argument_is_on(s, {flag})) expect_whole_model(job, argument_of_program(s, {flag}), "adapters");
  for (const char* part : {"use_lisa", "freeze_backbone", "tune_mm_mlp_adapter", "freeze_llm", "freeze_lm"})
    if (argument_is_on(s, {part})) expect_whole_model(job, argument_of_program(s, {part}), "a part of the weights");
  for (const char* rank : {"lora_rank", "lora_r", "lora_dim"})
    if (const std::string key = argument_of_program(s, {rank}); !key.empty() && s.integer(key, 0).value_or(0) > 0)
      expect_whole_model(job, key, "adapters");
  const std::string type = argument_of_program(s, {"finetuning_type"}), kind = s.text_or_nothing(type);
  if (!kind.empty() && kind != "full") expect_whole_model(job, type, kind);
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

bool is_degree_of_program(const Setting& setting) {
  if (setting.key.find("parallel") == std::string::npos || !setting.value.is_scalar()) return false;
  const auto number = whole_number(setting.value.text);
  return number && *number > 1;
}

TrainerArguments trainer_arguments(ReadingJob& job) {
  Settings& s = job.settings();
  expect_plain_losses(job);
  expect_no_adapters(job);
  TrainerArguments found;
  const auto number = [&](const std::vector<const char*>& names) -> std::optional<std::int64_t> {
    const std::string key = argument_of_program(s, names);
    return key.empty() ? std::nullopt : s.integer(key);
  };
  found.micro_batch = number({"per_device_train_batch_size", "micro_train_batch_size"});
  if (is_openrlhf(job)) found.batch = number({"train_batch_size"});
  found.accumulation = number({"gradient_accumulation_steps"});
  if (is_openrlhf(job)) found.zero = 2;  // its default
  if (const std::string key = argument_of_program(s, {"zero_stage"}); !key.empty()) found.zero = s.integer(key, 0);
  found.recompute =
      argument_is_on(s, {"gradient_checkpointing", "use_gradient_checkpointing", "gradient_checkpointing_enable"});
  found.offloads_update = argument_is_on(s, {"adam_offload"});
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
  found.hybrid = says("hybrid_shard");
  found.offloads = says("offload");
  return found;
}

}  // namespace meshwright
