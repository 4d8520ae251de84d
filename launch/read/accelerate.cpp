// SPDX-License-Identifier: Apache-2.0
// accelerate 1.x: FSDP, DeepSpeed or Megatron-LM below it, or plain replicas.
#include <algorithm>

#include "core/base/errors.h"
#include "launch/read/readers.h"
#include "launch/read/trainers/trainer_arguments.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

namespace {

void read_fsdp(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  const std::string strategy = s.text("fsdp_config.fsdp_sharding_strategy").value_or("FULL_SHARD");
  const std::string resharded = s.text("fsdp_config.fsdp_reshard_after_forward").value_or("true");
  // FSDP of version 1 has the names of its strategies there.
  const bool reshard =
      resharded == "FULL_SHARD" || resharded == "HYBRID_SHARD" || truth_value(resharded).value_or(false);
  int zero = strategy.starts_with("NO_SHARD") || strategy == "3"     ? 0
             : strategy.starts_with("SHARD_GRAD") || strategy == "2" ? 2
                                                                     : 3;
  if (!reshard) zero = 2;
  if (strategy.starts_with("HYBRID")) job.reading.setup.shard = job.devices.devices_per_host;
  const int groups = job.reading.setup.shard.value_or(d.dp * d.cp);
  d.zero = groups > 1 ? zero : 0;
  if (s.flag("fsdp_config.fsdp_activation_checkpointing")) d.recompute = Recompute::Full;
  if (s.flag("fsdp_config.fsdp_offload_params")) offload_shards(job);
  const auto version = s.integer("fsdp_config.fsdp_version").value_or(1);
  // Whole replicas are of neither version.
  if (version == 1 && s.text_or_nothing("distributed_type") != "MULTI_GPU") job.reading.software = "fsdp";
  job.reading.setup.overlap_gradients = job.reading.setup.overlap_weights = true;
}

// What DeepSpeed does below accelerate.
void read_below_accelerate(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  job.reading.framework = find_framework("deepspeed");
  job.reading.software = job.reading.framework.software;
  job.reading.setup.dialect = "deepspeed";
  if (s.has("deepspeed.zero_optimization.stage")) {
    read_deepspeed_keys(job, "deepspeed.");
  } else {
    const std::int64_t stage = s.integer("deepspeed_config.zero_stage", 0).value_or(1);
    if (!s.has("deepspeed_config.zero_stage")) job.assume("ZeRO 1: the file that says it is not there");
    d.zero = d.dp > 1 ? static_cast<int>(std::min<std::int64_t>(stage, 3)) : 0;
    offload_optimizer(job, "deepspeed_config.offload_optimizer_device");
    offload_weights(job, "deepspeed_config.offload_param_device");
  }
}

// Megatron-LM below accelerate: its degrees are keys of megatron_lm_config, what is left is as the script's.
void read_megatron_degrees(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  const auto degree = [&](const char* name) {
    const auto value = s.integer(std::string("megatron_lm_config.megatron_lm_") + name + "_degree").value_or(1);
    return as_degree(value);
  };
  Framework& framework = job.reading.framework = find_framework("megatron");
  framework.schedules = {ScheduleKind::OneFOneB};
  framework.recompute = {Recompute::None, Recompute::Selective};
  framework.contexts = framework.experts = framework.splits_ends = framework.uneven_stages = false;
  job.reading.software = job.reading.framework.software;
  job.reading.setup.dialect = "accelerate-megatron";
  d.tp = degree("tp");
  d.pp = degree("pp");
  share_devices(job);
}

void read_below_megatron(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  const auto on = [&](const char* name, bool otherwise) {
    return s.boolean(std::string("megatron_lm_config.megatron_lm_") + name).value_or(otherwise);
  };
  d.sequence_parallel = on("sequence_parallelism", false) && d.tp > 1;
  d.zero = on("use_distributed_optimizer", false) && d.dp > 1 ? 1 : 0;
  d.recompute = on("recompute_activations", false) ? Recompute::Selective : Recompute::None;
  if (const auto norm = s.number("megatron_lm_config.megatron_lm_gradient_clipping"))
    job.reading.setup.optimizer.max_norm = std::max(0.0, *norm);
}

}  // namespace

void read_accelerate(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  const auto size = [&](const char* name) {
    return s.integer(std::string("parallelism_config.parallelism_config_") + name + "_size").value_or(1);
  };
  const std::int64_t replicate = size("dp_replicate"), shard = size("dp_shard"), tp = size("tp"), cp = size("cp"),
                     sp = size("sp");
  TrainerArguments trainer = trainer_arguments(job);
  (void)read_constants_below_accelerate(job, trainer);
  const std::optional<TrainerFsdp> trainer_splits = trainer_fsdp(job);
  const std::string kind = s.text("distributed_type").value_or(trainer_splits ? "FSDP" : "NO");
  if (kind == "MEGATRON_LM") {
    read_megatron_degrees(job);
  } else {
    d.tp = as_degree(tp);
    d.cp = as_degree(cp * sp);
    share_devices(job);
  }
  if (cp > 1 && sp > 1) job.broken("parallelism_config: cp and sp exclude each other");
  if (sp > 1) d.context = ContextExchange::AllToAll;
  const bool given = s.has("parallelism_config.parallelism_config_dp_shard_size");
  if (given && std::min({replicate, shard, tp, cp, sp}) >= 1 && replicate * shard != d.dp &&
      job.reading.why_no_plan.empty()) {
    const std::string why =
        fmt::format("parallelism_config: dp_replicate {} x dp_shard {} x cp {} x sp {} x tp {} is not num_processes {}",
                    replicate, shard, cp, sp, tp, job.devices.devices());
    job.broken_without_plan(why);
  }
  if (given && replicate > 1 && shard > 1) job.reading.setup.shard = as_degree(shard);
  if ((tp > 1 || cp > 1) && replicate > 1 && shard == 1)
    job.broken("parallelism_config: tp or cp with dp_replicate needs dp_shard above 1");
  const bool file_of_program = job.text.variant == "TRL" || job.text.variant == "own loop";
  if (file_of_program && !s.has("distributed_type") && !trainer_splits)
    job.assume("replicas that split no states: no file of accelerate is given beside it");
  take_model_of_program(job, "accelerate");
  if (kind == "DEEPSPEED") {
    read_below_accelerate(job);
  } else if (kind == "MEGATRON_LM") {
    read_below_megatron(job);
  } else {
    read_fsdp(job);
    if (kind != "FSDP" && !given) d.zero = 0;
    if (trainer_splits) {
      d.zero = d.dp > 1 ? trainer_splits->zero : 0;
      if (trainer_splits->hybrid) job.reading.setup.shard = job.devices.devices_per_host;
      if (trainer_splits->offloads) offload_shards(job);
    }
  }
  if (trainer.recompute) d.recompute = Recompute::Full;
  if (d.tp * d.cp > 1 && job.reading.setup.shard)
    job.assume(
        fmt::format("weights split over all {} replicas, not over groups of {}", d.dp, *job.reading.setup.shard));
  const std::string otherwise = kind == "DEEPSPEED" ? "bf16" : "no";
  if (kind == "DEEPSPEED" && !s.has("mixed_precision") && !trainer.dtype)
    job.assume("bf16, which the file leaves to the trainer");
  const std::string precision = s.text("mixed_precision").value_or(otherwise);
  const DType of_file = precision == "fp16" ? DType::F16 : precision == "no" ? DType::F32 : DType::BF16;
  job.reading.setup.dtype = trainer.dtype.value_or(of_file);
  if (precision == "fp8") job.reading.setup.matmul_dtype = "fp8";
  if (s.has("deepspeed.train_batch_size") || s.has("deepspeed.train_micro_batch_size_per_gpu")) {
    read_deepspeed_batch(job, "deepspeed.", trainer);
  } else {
    auto steps = kind == "MEGATRON_LM" ? s.integer("megatron_lm_config.megatron_lm_num_micro_batches")
                                       : number_or_auto(s, "deepspeed_config.gradient_accumulation_steps");
    if (trainer.accumulation) steps = trainer.accumulation;
    if (trainer.micro_batch && !steps) steps = 1;  // the trainer's own
    if (!job.answers.batch && !job.answers.micro_batch && !trainer.micro_batch)
      throw InputError(fmt::format("{}: the batch is in the training script; give --batch, --micro-batch or both.",
                                   job.text.program));
    const std::int64_t micro = job.answers.micro_batch.value_or(trainer.micro_batch.value_or(1));
    if (!job.answers.micro_batch && !trainer.micro_batch) job.assume("micro-batches of one sample");
    const auto whole = steps ? std::optional(micro * *steps * d.dp) : std::nullopt;
    if (whole && job.answers.batch && job.answers.micro_batch && *whole != *job.answers.batch)
      job.assume(fmt::format("--batch {}, and not the {} x {} x {} samples of the file's accumulation",
                             *job.answers.batch, micro, *steps, d.dp));
    share_batch(job, micro, whole);
  }
  s.no_effect([](const std::string& key) {
    for (const char* group :
         {"compute_environment", "debug", "downcast_bf16", "enable_cpu_affinity", "fsdp_config.", "machine_rank",
          "main_", "num_", "rdzv_backend", "same_network", "tpu_", "use_cpu", "gpu_ids", "deepspeed_config.",
          "dynamo_config", "deepspeed.", "rdzv_conf", "monitor_interval"})
      if (key.starts_with(group)) return true;
    return false;
  });
  s.no_effect_where([](const Setting& one) { return one.value.is_map() && one.value.members.empty(); });
  no_effect_of_program(s);
}

}  // namespace meshwright
