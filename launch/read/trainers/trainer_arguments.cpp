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

}  // namespace

TrainerArguments trainer_arguments(ReadingJob& job) {
  Settings& s = job.settings();
  expect_plain_losses(job);
  expect_no_adapters(job);
  TrainerArguments found;
  const auto number = [&](const std::vector<const char*>& names) -> std::optional<std::int64_t> {
    const std::string key = argument_of_program(s, names);
    return key.empty() ? std::nullopt : s.integer(key);
  };
  found.micro_batch = number({"per_device_train_batch_size"});
  found.accumulation = number({"gradient_accumulation_steps"});
  if (const std::string key = argument_of_program(s, {"zero_stage"}); !key.empty()) found.zero = s.integer(key, 0);
  found.recompute = argument_is_on(s, {"gradient_checkpointing", "use_gradient_checkpointing"});
  if (argument_is_on(s, {"bf16"}))
    found.dtype = DType::BF16;
  else if (argument_is_on(s, {"fp16"}))
    found.dtype = DType::F16;
  if (const std::string key = argument_of_program(s, {"dtype"}); !key.empty()) {
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
