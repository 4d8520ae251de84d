// SPDX-License-Identifier: Apache-2.0
#include "launch/advise/trainer_setting_text.h"

#include <fmt/format.h>

namespace meshwright {

namespace {

std::string llama_factory_text(LaunchProperty property, const Degrees& d) {
  switch (property) {
    case LaunchProperty::Tensor:
      return fmt::format("tensor_parallel.autotp_size of its DeepSpeed file: {}", d.tp);
    case LaunchProperty::Zero:
      return fmt::format("ZeRO {} of its DeepSpeed or FSDP file", d.zero);
    case LaunchProperty::Recompute:
      return fmt::format("disable_gradient_checkpointing: {}", d.recompute == Recompute::None);
    case LaunchProperty::MicroBatch:
      return fmt::format("per_device_train_batch_size: {}, gradient_accumulation_steps: {}", d.micro_batch,
                         d.micro_batches);
    default:
      return "";
  }
}

std::string llama_factory_v1_text(LaunchProperty property, const Degrees& d) {
  switch (property) {
    case LaunchProperty::Context:
      return fmt::format("cp_size: {}", d.cp);
    case LaunchProperty::Expert:
      return fmt::format("dist_config.ep_size: {}", d.ep);
    case LaunchProperty::Zero:
      return d.zero == 0 ? "no dist_config" : fmt::format("dist_config of ZeRO {}", d.zero);
    case LaunchProperty::Recompute:
      return fmt::format("enable_activation_checkpointing: {}", d.recompute == Recompute::Full);
    case LaunchProperty::MicroBatch:
      return fmt::format("micro_batch_size: {}", d.micro_batch);
    default:
      return "";
  }
}

std::string ms_swift_text(LaunchProperty property, const Degrees& d) {
  switch (property) {
    case LaunchProperty::Tensor:
      return fmt::format("--deepspeed_autotp_size {}", d.tp);
    case LaunchProperty::Context:
      return fmt::format("--sequence_parallel_size {}", d.cp);
    case LaunchProperty::Zero:
      return fmt::format("--deepspeed zero{}", d.zero);
    case LaunchProperty::Recompute:
      return fmt::format("--gradient_checkpointing {}", d.recompute == Recompute::Full);
    case LaunchProperty::MicroBatch:
      return fmt::format("--per_device_train_batch_size {} --gradient_accumulation_steps {}", d.micro_batch,
                         d.micro_batches);
    default:
      return "";
  }
}

std::string axolotl_text(LaunchProperty property, const Degrees& d) {
  switch (property) {
    case LaunchProperty::Tensor:
      return fmt::format("tensor_parallel_size: {}", d.tp);
    case LaunchProperty::Context:
      return fmt::format("context_parallel_size: {}", d.cp);
    case LaunchProperty::Expert:
      return fmt::format("expert_parallel_size: {}", d.ep);
    case LaunchProperty::Zero:
      return d.zero == 0 ? "no fsdp_config" : fmt::format("fsdp_config.reshard_after_forward: {}", d.zero == 3);
    case LaunchProperty::Recompute:
      return fmt::format("gradient_checkpointing: {}", d.recompute == Recompute::Full);
    case LaunchProperty::MicroBatch:
      return fmt::format("micro_batch_size: {}, gradient_accumulation_steps: {}", d.micro_batch, d.micro_batches);
    default:
      return "";
  }
}

std::string verl_text(LaunchProperty property, const Degrees& d) {
  switch (property) {
    case LaunchProperty::Context:
      return fmt::format("ulysses_sequence_parallel_size={}", d.cp);
    case LaunchProperty::Recompute:
      return fmt::format("model.enable_gradient_checkpointing={}", d.recompute == Recompute::Full);
    case LaunchProperty::MicroBatch:
      return fmt::format("data.micro_batch_size_per_gpu={}", d.micro_batch);
    default:
      return "";
  }
}

std::string foundry_text(LaunchProperty property, const Degrees& d) {
  switch (property) {
    case LaunchProperty::Zero:
      return d.zero == 0
                 ? "no fsdp_config"
                 : fmt::format("fsdp_config.sharding_strategy: {}", d.zero == 2 ? "SHARD_GRAD_OP" : "FULL_SHARD");
    case LaunchProperty::Recompute:
      return fmt::format("fsdp_config.activation_checkpointing: {}", d.recompute == Recompute::Full);
    case LaunchProperty::MicroBatch:
      return fmt::format("device_train_microbatch_size: {}", d.micro_batch);
    default:
      return "";
  }
}

std::string litgpt_text(LaunchProperty property, const Degrees& d) {
  return property == LaunchProperty::MicroBatch ? fmt::format("train.micro_batch_size: {}", d.micro_batch) : "";
}

std::string nanogpt_text(LaunchProperty property, const Degrees& d) {
  return property == LaunchProperty::MicroBatch
             ? fmt::format("batch_size = {}, gradient_accumulation_steps = {}", d.micro_batch, d.micro_batches * d.dp)
             : "";
}

std::string torchtune_text(LaunchProperty property, const Degrees& d) {
  switch (property) {
    case LaunchProperty::Tensor:
      return fmt::format("tensor_parallel_dim: {}", d.tp);
    case LaunchProperty::Context:
      return fmt::format("context_parallel_dim: {}", d.cp);
    case LaunchProperty::Zero:
      return fmt::format("fsdp_reshard_after_forward: {}", d.zero == 3);
    case LaunchProperty::Recompute:
      return fmt::format("enable_activation_checkpointing: {}", d.recompute == Recompute::Full);
    case LaunchProperty::MicroBatch:
      return fmt::format("batch_size: {}, gradient_accumulation_steps: {}", d.micro_batch, d.micro_batches);
    default:
      return "";
  }
}

const char* automodel_schedule(ScheduleKind kind) {
  return kind == ScheduleKind::GPipe ? "GPipe" : kind == ScheduleKind::Interleaved ? "Interleaved1F1B" : "1F1B";
}

std::string automodel_text(LaunchProperty property, const Degrees& d) {
  switch (property) {
    case LaunchProperty::Tensor:
      return fmt::format("distributed.tp_size: {}", d.tp);
    case LaunchProperty::Pipeline:
      return fmt::format("distributed.pp_size: {}", d.pp);
    case LaunchProperty::Stages:
      return d.pp == 1 ? ""
                       : fmt::format("distributed.pipeline.pp_schedule: {}{}", automodel_schedule(d.schedule),
                                     d.chunks > 1 ? fmt::format(" with {} stages on each rank", d.chunks) : "");
    case LaunchProperty::Context:
      return fmt::format("distributed.cp_size: {}", d.cp);
    case LaunchProperty::Expert:
      return fmt::format("distributed.ep_size: {}", d.ep);
    case LaunchProperty::Sequence:
      return fmt::format("distributed.sequence_parallel: {}", d.sequence_parallel);
    case LaunchProperty::Zero:
      return d.zero >= 2 ? fmt::format("distributed.reshard_after_forward: {}", d.zero == 3)
                         : fmt::format("ZeRO {}", d.zero);
    case LaunchProperty::Recompute:
      return fmt::format("distributed.activation_checkpointing: {}", d.recompute == Recompute::None   ? "false"
                                                                     : d.recompute == Recompute::Full ? "true"
                                                                                                      : "selective");
    case LaunchProperty::MicroBatch:
      return d.pp > 1 ? fmt::format("distributed.pipeline.pp_microbatch_size: {}, step_scheduler.local_batch_size: {}",
                                    d.micro_batch, d.micro_batch * d.micro_batches)
                      : fmt::format("step_scheduler.local_batch_size: {}", d.micro_batch);
  }
  return "";
}

// Programs whose settings are one key for each property.
struct KeyedWords {
  const char *tensor = "", *pipeline = "", *context = "", *expert = "", *sequence = "";
  const char *recompute = "", *micro_batch = "", *micro_batches = "";
};

std::string keyed_text(const KeyedWords& keys, const char* between, LaunchProperty property, const Degrees& d) {
  const auto say = [&](const char* key, const auto& value) {
    return *key == '\0' ? std::string() : fmt::format("{}{}{}", key, between, value);
  };
  switch (property) {
    case LaunchProperty::Tensor:
      return say(keys.tensor, d.tp);
    case LaunchProperty::Pipeline:
      return say(keys.pipeline, d.pp);
    case LaunchProperty::Context:
      return say(keys.context, d.cp);
    case LaunchProperty::Expert:
      return say(keys.expert, d.ep);
    case LaunchProperty::Sequence:
      return say(keys.sequence, d.sequence_parallel);
    case LaunchProperty::Recompute:
      return say(keys.recompute, d.recompute != Recompute::None);
    case LaunchProperty::MicroBatch: {
      const std::string more = say(keys.micro_batches, d.micro_batches);
      return say(keys.micro_batch, d.micro_batch) + (more.empty() ? "" : ", " + more);
    }
    default:
      return "";
  }
}

std::string picotron_text(LaunchProperty property, const Degrees& d) {
  if (property == LaunchProperty::Stages)
    return d.pp == 1 ? "" : fmt::format("pp_engine: {}", d.schedule == ScheduleKind::GPipe ? "afab" : "1f1b");
  return keyed_text({.tensor = "tp_size",
                     .pipeline = "pp_size",
                     .context = "cp_size",
                     .micro_batch = "micro_batch_size",
                     .micro_batches = "gradient_accumulation_steps"},
                    ": ", property, d);
}

std::string prime_rl_text(LaunchProperty property, const Degrees& d) {
  if (property == LaunchProperty::Zero) return fmt::format("model.reshard_after_forward = {}", d.zero == 3);
  if (property == LaunchProperty::Recompute)
    return d.recompute == Recompute::None   ? "model.ac = \"None\""
           : d.recompute == Recompute::Full ? "model.ac.mode = \"full\""
                                            : "model.ac.mode = \"selective\"";
  return keyed_text({.context = "model.cp", .expert = "model.ep", .micro_batch = "data.micro_batch_size"}, " = ",
                    property, d);
}

std::string nanochat_text(LaunchProperty property, const Degrees& d) {
  return keyed_text({.micro_batch = "--device-batch-size"}, "=", property, d);
}

std::string fast_llm_text(LaunchProperty property, const Degrees& d) {
  if (property == LaunchProperty::Zero) return fmt::format("model.multi_stage.zero_stage: {}", d.zero);
  if (property == LaunchProperty::Recompute)
    return fmt::format("recompute_level: {}", d.recompute == Recompute::None ? "none" : "activation");
  return keyed_text({.tensor = "model.distributed.tensor_parallel",
                     .pipeline = "model.distributed.pipeline_parallel",
                     .context = "model.distributed.sequence_data_parallel",
                     .sequence = "model.distributed.sequence_tensor_parallel",
                     .micro_batch = "documents of data.micro_batch_size",
                     .micro_batches = "schedule.depth_first_micro_batches"},
                    ": ", property, d);
}

std::string nemo_rl_text(LaunchProperty property, const Degrees& d) {
  if (property == LaunchProperty::Zero) return fmt::format("ZeRO {}", d.zero);
  return keyed_text({.tensor = "policy.dtensor_cfg.tensor_parallel_size",
                     .context = "policy.dtensor_cfg.context_parallel_size",
                     .expert = "policy.dtensor_cfg.expert_parallel_size",
                     .sequence = "policy.dtensor_cfg.sequence_parallel",
                     .recompute = "policy.dtensor_cfg.activation_checkpointing",
                     .micro_batch = "policy.train_micro_batch_size"},
                    ": ", property, d);
}

std::string lingua_text(LaunchProperty property, const Degrees& d) {
  if (property == LaunchProperty::Zero)
    return fmt::format("distributed.fsdp_type: {}", d.zero == 3 ? "full_shard" : "no_shard");
  return keyed_text({.tensor = "distributed.tp_size",
                     .recompute = "distributed.selective_activation_checkpointing",
                     .micro_batch = "data.batch_size",
                     .micro_batches = "grad_acc_steps"},
                    ": ", property, d);
}

std::string veomni_text(LaunchProperty property, const Degrees& d) {
  if (property == LaunchProperty::Zero)
    return fmt::format("train.accelerator.fsdp_config.reshard_after_forward: {}", d.zero == 3);
  return keyed_text({.context = "train.accelerator.ulysses_size",
                     .recompute = "train.gradient_checkpointing.enable",
                     .micro_batch = "train.micro_batch_size"},
                    ": ", property, d);
}

std::string levanter_text(LaunchProperty property, const Degrees& d) {
  if (property == LaunchProperty::Zero) return fmt::format("ZeRO {}", d.zero);
  return keyed_text({.tensor = "trainer.model_axis_size",
                     .recompute = "model.gradient_checkpointing",
                     .micro_batch = "trainer.per_device_parallelism"},
                    ": ", property, d);
}

std::string llm_c_text(LaunchProperty property, const Degrees& d) {
  if (property == LaunchProperty::Zero) return fmt::format("-z {}", d.zero);
  if (property == LaunchProperty::Recompute) return fmt::format("-r {}", d.recompute == Recompute::None ? 0 : 2);
  return keyed_text({.micro_batch = "-b"}, " ", property, d);
}

}  // namespace

std::optional<std::string> trainer_setting_text(const std::string& dialect, LaunchProperty property,
                                                const Degrees& degrees) {
  using Words = std::string (*)(LaunchProperty, const Degrees&);
  static constexpr std::pair<const char*, Words> kTrainers[] = {{"llama-factory", llama_factory_text},
                                                                {"llama-factory-v1", llama_factory_v1_text},
                                                                {"axolotl", axolotl_text},
                                                                {"ms-swift", ms_swift_text},
                                                                {"verl", verl_text},
                                                                {"llm-foundry", foundry_text},
                                                                {"litgpt", litgpt_text},
                                                                {"nanogpt", nanogpt_text},
                                                                {"torchtune", torchtune_text},
                                                                {"automodel", automodel_text},
                                                                {"picotron", picotron_text},
                                                                {"prime-rl", prime_rl_text},
                                                                {"nanochat", nanochat_text},
                                                                {"fast-llm", fast_llm_text},
                                                                {"nemo-rl", nemo_rl_text},
                                                                {"lingua", lingua_text},
                                                                {"veomni", veomni_text},
                                                                {"levanter", levanter_text},
                                                                {"llm.c", llm_c_text}};
  for (const auto& [name, words] : kTrainers)
    if (dialect == name) return words(property, degrees);
  return std::nullopt;
}

}  // namespace meshwright
