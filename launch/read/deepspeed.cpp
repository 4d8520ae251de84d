// SPDX-License-Identifier: Apache-2.0
// DeepSpeed 0.19: its JSON, alone, below another program, or as GPT-NeoX extends it with a model and a pipeline.
#include <algorithm>

#include "core/base/errors.h"
#include "launch/read/readers.h"
#include "launch/read/trainers/trainer_arguments.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

namespace {

bool is_on(Settings& s, const std::string& key) {
  for (const Setting& setting : s.all())
    if (setting.key == key && setting.value.is_scalar() && setting.value.text == "auto") {
      (void)s.take(key);
      return false;
    }
  return s.flag(key);
}

bool is_off(const Settings& s, const std::string& key) {
  return std::any_of(s.all().begin(), s.all().end(), [&](const Setting& setting) {
    return setting.key == key && setting.value.is_scalar() && truth_value(setting.value.text) == false;
  });
}

}  // namespace

std::optional<std::int64_t> number_or_auto(Settings& s, const std::string& key) {
  for (const Setting& setting : s.all())
    if (setting.key == key && setting.value.is_scalar() && setting.value.text == "auto") {
      (void)s.take(key);
      return std::nullopt;
    }
  return s.integer(key);
}

void offload_update(ReadingJob& job) {
  job.reading.setup.offload = job.reading.setup.offload | Offload::Optimizer;
  job.assume(
      "the update by the devices, which fetch its states from the host and send them back, not by the host's "
      "processors");
}

void offload_shards(ReadingJob& job) {
  offload_update(job);
  if (job.degrees().zero == 3) job.reading.setup.offload = job.reading.setup.offload | Offload::Weights;
}

namespace {

void expect_no_drives(ReadingJob& job, const std::string& device, const std::string& device_key, const char* what) {
  if (device != "nvme") return;
  job.no_plan(fmt::format("{}: {} on NVMe drives, whose rate no cluster tells; give a file with cpu",
                          job.settings().where(device_key), what));
}

}  // namespace

void offload_weights(ReadingJob& job, const std::string& device_key) {
  const std::string device = job.settings().text(device_key).value_or("none");
  if (device == "none") return;
  // DeepSpeed does so where ZeRO 3 splits them.
  if (job.degrees().zero < 3)
    return job.assume(fmt::format("weights kept on the devices: without ZeRO 3 {} does nothing",
                                  device_key.substr(device_key.find("offload_param"))));
  job.reading.setup.offload = job.reading.setup.offload | Offload::Weights;
  expect_no_drives(job, device, device_key, "weights lie");
}

void offload_optimizer(ReadingJob& job, const std::string& device_key) {
  const std::string device = job.settings().text(device_key).value_or("none");
  if (device == "none") return;
  offload_update(job);
  expect_no_drives(job, device, device_key, "optimizer state lies");
}

void read_deepspeed_offload(ReadingJob& job, const std::string& prefix) {
  Settings& s = job.settings();
  LaunchSetup& setup = job.reading.setup;
  const std::string zero = prefix + "zero_optimization.";
  // Its names before release 0.3.16, which it still takes.
  const bool states = is_on(s, zero + "cpu_offload"), weights = is_on(s, zero + "cpu_offload_params");
  offload_optimizer(job, zero + "offload_optimizer.device");
  if (states && !has(setup.offload, Offload::Optimizer)) offload_update(job);
  if (const auto ratio = s.number(zero + "offload_optimizer.ratio"); ratio && *ratio != 1.0)
    job.assume(fmt::format("all of the optimizer state on the host, not {:g} of it (offload_optimizer.ratio)", *ratio));
  offload_weights(job, zero + "offload_param.device");
  if (weights && job.degrees().zero == 3) setup.offload = setup.offload | Offload::Weights;
}

void read_deepspeed_keys(ReadingJob& job, const std::string& prefix, std::optional<DType> type) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  LaunchSetup& setup = job.reading.setup;
  const auto key = [&](const char* name) { return prefix + name; };
  // Its first releases knew one level alone, which is on or off.
  const std::int64_t otherwise = is_on(s, key("zero_optimization")) ? 1 : 0;
  const std::int64_t stage = s.integer(key("zero_optimization.stage"), 0).value_or(otherwise);
  if (stage > 3) job.broken(fmt::format("zero_optimization.stage {} is unknown; expected 0, 1, 2 or 3", stage));
  d.zero = d.dp * d.cp > 1 ? static_cast<int>(std::min<std::int64_t>(stage, 3)) : 0;
  if (d.pp > 1 && stage >= 2) job.broken(fmt::format("ZeRO {} does not go with pipeline stages", stage));
  const bool bf16 = is_on(s, key("bf16.enabled")), fp16 = is_on(s, key("fp16.enabled"));
  if (bf16 && fp16) job.broken("bf16 and fp16 are both enabled");
  // Both switched off; one that is left out, or "auto", is the trainer's.
  const bool neither = is_off(s, key("bf16.enabled")) && is_off(s, key("fp16.enabled"));
  if (!bf16 && !fp16 && !neither && !type) job.assume("bf16, which the file leaves to the trainer");
  setup.dtype = fp16 ? DType::F16 : bf16 ? DType::BF16 : type.value_or(neither ? DType::F32 : DType::BF16);
  read_deepspeed_offload(job, prefix);
  setup.overlap_gradients = is_on(s, key("zero_optimization.overlap_comm"));
  for (const char* plus : {"zero_optimization.zero_quantized_weights", "zero_optimization.zero_quantized_gradients"})
    if (is_on(s, key(plus))) job.assume(fmt::format("without {}", plus));
  if (const auto group = number_or_auto(s, key("zero_optimization.zero_hpz_partition_size")); group && *group > 1)
    job.assume("weights split over all replicas (zero_hpz_partition_size)");
  const std::string optimizer = s.text_or_nothing(key("optimizer.type"));
  if (optimizer == "SGD") {
    const char* momentum = "optimizer.params.momentum";
    use_sgd(setup.optimizer, real_number(s.text_or_nothing(key(momentum))).value_or(0.0), s.where(key(momentum)));
  } else if (!optimizer.empty() && optimizer.find("dam") == std::string::npos)
    job.assume(fmt::format("Adam in the place of {}", optimizer));
  // "auto": the trainer's.
  if (const auto rate = real_number(s.text_or_nothing(key("optimizer.params.lr"))); rate && *rate > 0.0)
    setup.optimizer.learning_rate = *rate;
  if (const auto decay = real_number(s.text_or_nothing(key("optimizer.params.weight_decay"))); decay && *decay >= 0.0)
    setup.optimizer.weight_decay = *decay;
  if (const std::string norm = s.text_or_nothing(key("gradient_clipping")); !norm.empty() && norm != "auto")
    setup.optimizer.max_norm = std::max(0.0, s.number(key("gradient_clipping")).value_or(0.0));
  s.no_effect([&](const std::string& name) {
    for (const char* group :
         {"zero_optimization.", "fp16.", "bf16.", "optimizer.", "scheduler.", "flops_profiler.", "tensorboard.",
          "wandb.", "comms_logger.", "aio.", "monitor_config.", "data_types.", "amp.", "csv_monitor."})
      if (name.starts_with(key(group))) return true;
    for (const char* word :
         {"steps_per_print", "comment", "wall_clock_breakdown", "prescale_gradients", "gradient_clipping",
          "memory_breakdown", "zero_allow_untested_optimizer", "communication_data_type", "zero_force_ds_cpu_optimizer",
          "dump_state", "gradient_predivide_factor", "sparse_gradients", "seed"})
      if (name == key(word)) return true;
    return false;
  });
}

void read_deepspeed_batch(ReadingJob& job, const std::string& prefix, const TrainerArguments& trainer) {
  Settings& s = job.settings();
  const auto train = number_or_auto(s, prefix + "train_batch_size");
  auto micro = number_or_auto(s, prefix + "train_micro_batch_size_per_gpu");
  auto steps = number_or_auto(s, prefix + "gradient_accumulation_steps");
  if (!micro) micro = trainer.micro_batch;
  if (!steps) steps = trainer.accumulation;
  if (job.answers.micro_batch) micro = job.answers.micro_batch;
  const std::int64_t dp = job.degrees().dp;
  const auto global = job.answers.batch ? job.answers.batch : train ? train : trainer.batch;
  if (!micro && global && steps && *global % (*steps * dp) == 0) micro = *global / (*steps * dp);
  if (!micro) {
    const bool automatic = s.has(prefix + "train_batch_size") || s.has(prefix + "train_micro_batch_size_per_gpu");
    require(global.has_value(), "{}: the batch is {}; give --batch, --micro-batch or both.", job.text.program,
            automatic ? "left to the trainer (\"auto\")" : "not in it");
    micro = 1;
    job.assume("micro-batches of one sample");
  }
  if (train && !job.answers.batch && steps && *train != *micro * *steps * dp)
    job.broken(fmt::format("train_batch_size {} is not micro-batch x accumulation x dp = {} x {} x {} = {}", *train,
                           *micro, *steps, dp, *micro * *steps * dp));
  share_batch(job, *micro, global ? global : std::optional(*micro * steps.value_or(1) * dp));
}

void read_deepspeed(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  // Degrees that the settings lack are arguments of the script, by the names that GPT-NeoX gives them.
  const auto degree = [&](const std::vector<std::string>& keys) {
    std::int64_t found = 1;
    for (const std::string& key : keys) found = std::max(found, number_or_auto(s, key).value_or(1));
    return as_degree(found);
  };
  d.tp = degree({"tensor_parallel.autotp_size", "program.model-parallel-size", "program.model_parallel_size",
                 "program.ds_tensor_parallel_size"});
  d.pp = degree({"program.pipe-parallel-size", "program.pipe_parallel_size"});
  const std::vector<std::string> of_experts = {"expert_parallel.autoep_size", "program.expert-parallel-size",
                                               "program.expert_parallel_size"};
  const bool splits_experts =
      std::any_of(of_experts.begin(), of_experts.end(), [&](const std::string& key) { return s.has(key); });
  d.ep = degree(of_experts);
  take_contexts_of_program(job);
  share_devices(job);
  take_model_of_program(job, "DeepSpeed");
  if (const std::string blocks = s.text_or_nothing("program.stage-blocks"); d.pp > 1 && !blocks.empty())
    for (const std::string& own : split(blocks, ','))
      job.reading.setup.stage_blocks.push_back(
          static_cast<int>(parse_integer(own, s.where("program.stage-blocks"), 1, 100'000)));
  if (!splits_experts && shape_of(job.reading.setup.model).experts > 0)
    job.assume("all experts on every device: nothing that is given says how they are split");
  (void)s.take("expert_parallel.enabled");
  const TrainerArguments trainer = trainer_arguments(job);
  if (trainer.zero && !s.has("zero_optimization.stage"))
    s.add("zero_optimization.stage", "--zero_stage", ConfigValue::scalar(std::to_string(*trainer.zero), 0), "");
  read_deepspeed_keys(job, "", trainer.dtype);
  if (trainer.offloads_update) offload_update(job);
  if (trainer.offloads) offload_shards(job);
  read_deepspeed_batch(job, "", trainer);
  for (const char* key :
       {"activation_checkpointing.partition_activations", "activation_checkpointing.contiguous_memory_optimization",
        "activation_checkpointing.cpu_checkpointing", "activation_checkpointing.number_checkpoints"})
    if (s.has(key)) {
      (void)s.take(key);
      d.recompute = Recompute::Full;
    }
  if (d.recompute == Recompute::Full)
    job.assume("every block recomputed: the file configures checkpoints of activations");
  if (trainer.recompute) d.recompute = Recompute::Full;
  no_effect_of_program(s);
}

}  // namespace meshwright
