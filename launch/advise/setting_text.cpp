// SPDX-License-Identifier: Apache-2.0
// Changes in the frameworks' own words.
#include "core/base/text.h"
#include "launch/advise/advice.h"
#include "launch/advise/trainer_setting_text.h"
#include "launch/setup/maxtext_mesh.h"
#include "launch/setup/torchtitan_stages.h"

namespace meshwright {

namespace {

std::string megatron_stages(const Degrees& d) {
  if (!d.split.layout.empty()) return fmt::format("--pipeline-model-parallel-layout '{}'", d.split.layout);
  std::vector<std::string> flags;
  if (d.chunks > 1) flags.push_back(fmt::format("--num-virtual-stages-per-pipeline-rank {}", d.chunks));
  if (d.split.first > 0) flags.push_back(fmt::format("--decoder-first-pipeline-num-layers {}", d.split.first));
  if (d.split.last > 0) flags.push_back(fmt::format("--decoder-last-pipeline-num-layers {}", d.split.last));
  return join(flags, " ");
}

std::string megatron_recompute(const Degrees& d) {
  if (d.recompute_modules != RecomputeModules::None)
    return "--recompute-granularity selective --recompute-modules " +
           join(split(name_of(d.recompute_modules), ','), " ");
  switch (d.recompute) {
    case Recompute::None:
      return "";
    case Recompute::Full:
      return "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1";
    case Recompute::Selective:
      break;
  }
  return "--recompute-granularity selective";
}

std::string megatron_zero(int zero) {
  if (zero == 0) return "";
  if (zero == 1) return "--use-distributed-optimizer";
  return fmt::format("--use-megatron-fsdp --data-parallel-sharding-strategy {}",
                     zero == 2 ? "optim_grads" : "optim_grads_params");
}

std::string megatron_text(LaunchProperty property, const Degrees& d) {
  switch (property) {
    case LaunchProperty::Tensor:
      return fmt::format("--tensor-model-parallel-size {}", d.tp);
    case LaunchProperty::Pipeline:
      return fmt::format("--pipeline-model-parallel-size {}", d.pp);
    case LaunchProperty::Stages:
      return megatron_stages(d);
    case LaunchProperty::Context:
      return fmt::format(
          "--context-parallel-size {}{}", d.cp,
          d.cp == 1 ? ""
                    : fmt::format(" --cp-comm-type {}",
                                  d.context == ContextExchange::AllGather ? "all_gather" : name_of(d.context)));
    case LaunchProperty::Expert:
      return fmt::format("--expert-model-parallel-size {}{}", d.ep,
                         d.whole_experts ? " --expert-tensor-parallel-size 1" : "");
    case LaunchProperty::Sequence:
      return d.sequence_parallel ? "--sequence-parallel" : "";
    case LaunchProperty::Zero:
      return megatron_zero(d.zero);
    case LaunchProperty::Recompute:
      return megatron_recompute(d);
    case LaunchProperty::MicroBatch:
      break;
  }
  return fmt::format("--micro-batch-size {}", d.micro_batch);
}

// The same words as keys: "--a-b 2" is "GROUP.a_b=2", "--a-b" alone "GROUP.a_b=true".
std::string as_keys(const std::string& flags, const std::string& group, const std::string& equals) {
  std::vector<std::string> keys;
  for (const std::string& word : split(flags, ' ')) {
    if (word.empty()) continue;
    if (!word.starts_with("--")) {
      if (!keys.empty()) keys.back() += (keys.back().find(equals) == std::string::npos ? equals : " ") + word;
      continue;
    }
    std::string key = word.substr(2);
    for (char& c : key)
      if (c == '-') c = '_';
    keys.push_back(group + key);
  }
  for (std::string& key : keys)
    if (key.find(equals) == std::string::npos) key += equals + "true";
  return join(keys, " ");
}

const char* torchtitan_schedule(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::GPipe:
      return "GPipe";
    case ScheduleKind::Interleaved:
      return "Interleaved1F1B";
    case ScheduleKind::ZeroBubbleV:
      return "ZBVZeroBubble";
    case ScheduleKind::DualPipeV:
      return "DualPipeV";
    case ScheduleKind::OneFOneB:
      return "1F1B";
    default:
      return "PipelineScheduleSingle with a schedule file";
  }
}

std::string torchtitan_text(LaunchProperty property, const Degrees& d) {
  switch (property) {
    case LaunchProperty::Tensor:
      return fmt::format("parallelism.tensor_parallel_degree = {}", d.tp);
    case LaunchProperty::Pipeline:
      return fmt::format("parallelism.pipeline_parallel_degree = {}", d.pp);
    case LaunchProperty::Stages:
      return d.pp == 1
                 ? ""
                 : fmt::format("parallelism.pipeline_parallel_schedule = \"{}\"{}", torchtitan_schedule(d.schedule),
                               d.chunks > 1 ? fmt::format(" with {} stages on each rank", d.chunks) : "");
    case LaunchProperty::Context:
      return fmt::format("parallelism.context_parallel_degree = {}", d.cp);
    case LaunchProperty::Expert:
      return fmt::format("parallelism.expert_parallel_degree = {}", d.ep);
    case LaunchProperty::Sequence:
      return d.sequence_parallel ? "parallelism.enable_sequence_parallel = true" : "";
    case LaunchProperty::Zero:
      return d.zero == 0   ? "parallelism.data_parallel_replicate_degree = -1"
             : d.zero == 2 ? "parallelism.fsdp_reshard_after_forward = \"never\""
                           : "parallelism.fsdp_reshard_after_forward = \"always\"";
    case LaunchProperty::Recompute:
      return fmt::format("activation_checkpoint.mode = \"{}\"", name_of(d.recompute));
    case LaunchProperty::MicroBatch:
      break;
  }
  return d.pp > 1 ? fmt::format("training.local_batch_size = {}, parallelism.pipeline_parallel_microbatch_size = {}",
                                d.micro_batch * d.micro_batches, d.micro_batch)
                  : fmt::format("training.local_batch_size = {}, training.global_batch_size = {}", d.micro_batch,
                                d.micro_batch * d.micro_batches * d.dp);
}

std::string deepspeed_text(LaunchProperty property, const Degrees& d) {
  switch (property) {
    case LaunchProperty::Tensor:
      return fmt::format("tensor_parallel.autotp_size: {}", d.tp);
    case LaunchProperty::Pipeline:
      return fmt::format("PipelineModule(num_stages={})", d.pp);
    case LaunchProperty::Expert:
      return fmt::format("expert_parallel.autoep_size: {}", d.ep);
    case LaunchProperty::Sequence:  // as GPT-NeoX calls it
      return fmt::format("sequence_parallel: {}", d.sequence_parallel);
    case LaunchProperty::Zero:
      return fmt::format("zero_optimization.stage: {}", d.zero);
    case LaunchProperty::Recompute:
      return fmt::format("activation checkpoints: {}", name_of(d.recompute));
    case LaunchProperty::MicroBatch:
      return fmt::format("train_micro_batch_size_per_gpu: {}, gradient_accumulation_steps: {}", d.micro_batch,
                         d.micro_batches);
    default:
      return "";
  }
}

std::string accelerate_text(LaunchProperty property, const Degrees& d) {
  switch (property) {
    case LaunchProperty::Tensor:
      return fmt::format("parallelism_config_tp_size: {}", d.tp);
    case LaunchProperty::Context:
      return fmt::format("parallelism_config_cp_size: {}", d.cp);
    case LaunchProperty::Zero:
      return d.zero == 0 ? "distributed_type: MULTI_GPU"
                         : fmt::format("distributed_type: FSDP with fsdp_reshard_after_forward: {}", d.zero == 3);
    case LaunchProperty::Recompute:  // of the trainer, where nothing is sharded
      return fmt::format("{}: {}", d.zero == 0 ? "gradient_checkpointing" : "fsdp_activation_checkpointing",
                         d.recompute == Recompute::Full);
    case LaunchProperty::MicroBatch:
      return fmt::format("per-device batch of {}, accumulated {}", d.micro_batch,
                         d.micro_batches == 1 ? "once" : fmt::format("{} times", d.micro_batches));
    default:
      return "";
  }
}

// Constants of the script that export writes.
std::string fsdp2_text(LaunchProperty property, const Degrees& d) {
  switch (property) {
    case LaunchProperty::Tensor:
      return fmt::format("TP = {}", d.tp);
    case LaunchProperty::Context:
      return fmt::format("CP = {}", d.cp);
    case LaunchProperty::Zero:
      return fmt::format("ZERO = {}", d.zero);
    case LaunchProperty::Recompute:
      return fmt::format("RECOMPUTE = {}", d.recompute == Recompute::Full ? "True" : "False");
    case LaunchProperty::MicroBatch:
      return fmt::format("MICRO_BATCH = {}, MICRO_BATCHES = {}", d.micro_batch, d.micro_batches);
    default:
      return "";
  }
}

// Its degrees are axes of the mesh (maxtext_axes_text).
std::string maxtext_text(LaunchProperty property, const Degrees& d) {
  switch (property) {
    case LaunchProperty::Zero:
      return d.zero == 1 ? "shard_optimizer_over_data=true" : "";
    case LaunchProperty::Recompute:
      return d.recompute == Recompute::Full   ? "remat_policy=full"
             : d.recompute == Recompute::None ? "remat_policy=minimal_with_context"
                                              : "remat_policy=minimal";
    case LaunchProperty::MicroBatch:
      return fmt::format("gradient_accumulation_steps={}", d.micro_batches);
    default:
      return "";
  }
}

// In the words of programs that launch what a target does. "" where a property has none there.
std::string nanotron_text(LaunchProperty property, const Degrees& d) {
  switch (property) {
    case LaunchProperty::Tensor:
      return fmt::format("parallelism.tp: {}", d.tp);
    case LaunchProperty::Pipeline:
      return fmt::format("parallelism.pp: {}", d.pp);
    case LaunchProperty::Stages:
      return d.pp == 1 ? ""
                       : fmt::format("parallelism.pp_engine: {}", d.schedule == ScheduleKind::GPipe ? "afab" : "1f1b");
    case LaunchProperty::Context:
      return fmt::format("parallelism.context_parallel_size: {}", d.cp);
    case LaunchProperty::Expert:
      return fmt::format("parallelism.expert_parallel_size: {}", d.ep);
    case LaunchProperty::Sequence:
      return fmt::format("parallelism.tp_mode: {}", d.sequence_parallel ? "REDUCE_SCATTER" : "ALL_REDUCE");
    case LaunchProperty::Zero:
      return fmt::format("optimizer.zero_stage: {}", d.zero);
    case LaunchProperty::Recompute:
      return fmt::format("parallelism.recompute_layer: {}", d.recompute == Recompute::Full);
    case LaunchProperty::MicroBatch:
      return fmt::format("tokens.micro_batch_size: {}, tokens.batch_accumulation_per_replica: {}", d.micro_batch,
                         d.micro_batches);
  }
  return "";
}

std::string olmo_text(LaunchProperty property, const Degrees& d) {
  switch (property) {
    case LaunchProperty::Zero:
      return d.zero == 0 ? "distributed_strategy: ddp"
                         : fmt::format("fsdp.sharding_strategy: {}", d.zero == 2 ? "SHARD_GRAD_OP" : "FULL_SHARD");
    case LaunchProperty::Recompute:
      return fmt::format("activation_checkpointing: {}", d.recompute == Recompute::Full ? "whole_layer" : "null");
    case LaunchProperty::MicroBatch:
      return fmt::format("device_train_microbatch_size: {}", d.micro_batch);
    default:
      return "";
  }
}

std::string olmo_core_text(LaunchProperty property, const Degrees& d) {
  switch (property) {
    case LaunchProperty::Tensor:
      return fmt::format("train_module.tp_config.degree: {}", d.tp);
    case LaunchProperty::Pipeline:
      return fmt::format("train_module.pp_config.degree: {}", d.pp);
    case LaunchProperty::Context:
      return fmt::format("train_module.cp_config.degree: {}", d.cp);
    case LaunchProperty::Expert:
      return fmt::format("train_module.ep_config.degree: {}", d.ep);
    case LaunchProperty::Zero:
      return fmt::format("train_module.dp_config.name: {}", d.zero == 0 ? "ddp" : "fsdp");
    case LaunchProperty::Recompute:
      return d.recompute == Recompute::None ? "train_module.ac_config: null"
                                            : fmt::format("train_module.ac_config.mode: {}",
                                                          d.recompute == Recompute::Full ? "full" : "selected_modules");
    case LaunchProperty::MicroBatch:
      return fmt::format("train_module.rank_microbatch_size: {} sequences", d.micro_batch);
    default:
      return "";
  }
}

std::string neox_text(LaunchProperty property, const Degrees& d) {
  switch (property) {
    case LaunchProperty::Tensor:
      return fmt::format("model_parallel_size: {}", d.tp);
    case LaunchProperty::Pipeline:
      return fmt::format("pipe_parallel_size: {}", d.pp);
    case LaunchProperty::Recompute:
      return fmt::format("checkpoint_activations: {}", d.recompute == Recompute::Full);
    default:
      return deepspeed_text(property, d);
  }
}

// The keys of accelerate's megatron_lm_config.
std::string accelerate_megatron_text(LaunchProperty property, const Degrees& d) {
  switch (property) {
    case LaunchProperty::Tensor:
      return fmt::format("megatron_lm_tp_degree: {}", d.tp);
    case LaunchProperty::Pipeline:
      return fmt::format("megatron_lm_pp_degree: {}", d.pp);
    case LaunchProperty::Sequence:
      return fmt::format("megatron_lm_sequence_parallelism: {}", d.sequence_parallel);
    case LaunchProperty::Zero:
      return fmt::format("megatron_lm_use_distributed_optimizer: {}", d.zero > 0);
    case LaunchProperty::Recompute:
      return fmt::format("megatron_lm_recompute_activations: {}", d.recompute == Recompute::Selective);
    case LaunchProperty::MicroBatch:
      return fmt::format("megatron_lm_num_micro_batches: {}", d.micro_batches);
    default:
      return "";
  }
}

}  // namespace

std::string maxtext_axes_text(const LaunchSetup& setup, const LaunchSetup& other) {
  std::vector<std::string> words;
  const std::vector<MaxtextAxis> own = maxtext_axes(setup), others = maxtext_axes(other);
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i].within != others[i].within)
      words.push_back(fmt::format("ici_{}_parallelism={}", own[i].name, own[i].within));
    if (own[i].between != others[i].between)
      words.push_back(fmt::format("dcn_{}_parallelism={}", own[i].name, own[i].between));
  }
  return join(words, " ");
}

std::string torchtitan_stages_text(const LaunchSetup& setup) {
  const Degrees& d = setup.degrees;
  if (d.pp == 1) return "";
  const std::vector<int> blocks = blocks_of_stages(setup);
  const bool several = d.schedule != ScheduleKind::OneFOneB && d.schedule != ScheduleKind::GPipe;
  const auto is_cut = [&](int less) {
    return d.chunks == (several ? 2 : 1) && blocks == torchtitan_stages(setup.model.layers, d.stages(), less, less);
  };
  if (is_cut(1)) return "";  // as it does by itself
  if (is_cut(0))
    return "parallelism.pipeline_parallel_first_stage_less_layers = 0, "
           "parallelism.pipeline_parallel_last_stage_less_layers = 0";
  std::vector<std::string> layers;
  for (const int own : blocks) layers.push_back(fmt::format("{}", own));
  return fmt::format("parallelism.module_fqns_per_model_part with {} layers", join(layers, ", "));
}

std::string groups_text(const std::string& target, int replicas, int shard) {
  const int groups = shard > 0 ? replicas / shard : 1;
  if (target == "torchtitan")
    return fmt::format("parallelism.data_parallel_replicate_degree = {}, parallelism.data_parallel_shard_degree = {}",
                       groups, groups == 1 ? -1 : shard);
  if (target == "megatron") return fmt::format("--num-distributed-optimizer-instances {}", groups);
  return groups == 1 ? std::string("states split over all replicas")
                     : fmt::format("states split in groups of {} replicas", shard);
}

std::string setting_text(const std::string& target, LaunchProperty property, const Degrees& degrees) {
  if (target == "nanotron") return nanotron_text(property, degrees);
  if (target == "olmo") return olmo_text(property, degrees);
  if (target == "olmo-core") return olmo_core_text(property, degrees);
  if (const auto text = trainer_setting_text(target, property, degrees)) return *text;
  if (target == "gpt-neox") return neox_text(property, degrees);
  if (target == "accelerate-megatron") return accelerate_megatron_text(property, degrees);
  if (target == "torchtitan") return torchtitan_text(property, degrees);
  if (target == "deepspeed") return deepspeed_text(property, degrees);
  if (target == "accelerate") return accelerate_text(property, degrees);
  if (target == "fsdp2") return fsdp2_text(property, degrees);
  if (target == "maxtext") return maxtext_text(property, degrees);
  const std::string flags = megatron_text(property, degrees);
  if (target == "megatron-bridge")
    return as_keys(flags, property == LaunchProperty::MicroBatch ? "train." : "model.", "=");
  if (target == "megatron-deepspeed" && property == LaunchProperty::Zero)
    return fmt::format("zero_optimization.stage: {}", degrees.zero);
  if (target == "megatron-deepspeed" && property == LaunchProperty::Recompute)
    return degrees.recompute == Recompute::Full ? "--checkpoint-activations --deepspeed-activation-checkpointing" : "";
  if (target == "flagscale") return as_keys(flags, "", ": ");
  return flags;
}

}  // namespace meshwright
