// SPDX-License-Identifier: Apache-2.0
// torchtune (bd2a0fc7): configurations of its recipes that fine-tune all weights over FSDP2.
#include <algorithm>

#include "core/base/errors.h"
#include "launch/read/adapters.h"
#include "launch/read/trainers/fine_tuning.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

namespace {

void expect_full_recipe(ReadingJob& job, const std::string& builder) {
  Settings& s = job.settings();
  for (const char* part : {"qlora", "dora"})
    if (builder.find(part) != std::string::npos)
      expect_whole_model(job, "model._component_", "adapters of another kind than LoRA");
  if (builder.find("lora_") != std::string::npos) {
    std::vector<std::string> targets = listed_words(s, "model.lora_attn_modules");
    if (switched_on(s, "model.apply_lora_to_mlp")) targets.emplace_back("mlp");
    take_adapters(job, "model._component_", s.integer("model.lora_rank").value_or(8), std::move(targets));
  }
  for (const Setting& setting : s.all()) {
    const bool other =
        begins_with_any(setting.key, {"teacher_", "ref_", "ppo_", "reward_", "value_", "kd_", "policy_"});
    if (other || (setting.key == "loss._component_" && to_text(setting.value).find("DPO") != std::string::npos))
      expect_whole_model(job, setting.key, "against further models or samples");
    if (setting.key.starts_with("quantizer.")) expect_whole_model(job, setting.key, "a quantised model");
  }
  require(s.has("optimizer._component_"),
          "{}: has no optimizer: it is the file of a program of torchtune that trains nothing; give one of a training.",
          job.text.program);
  require(builder.find("vision") == std::string::npos && builder.find("clip") == std::string::npos,
          "{}: '{}' reads images, too, and only trainings on text are read of torchtune.", s.where("model._component_"),
          builder);
}

void take_torchtune_model(ReadingJob& job, const std::string& builder) {
  Settings& s = job.settings();
  const auto longest = s.integer("tokenizer.max_seq_len");
  const auto seq = job.answers.seq ? job.answers.seq : longest;
  require(seq.has_value(), "{}: says no length of the samples (tokenizer.max_seq_len); give --seq.", job.text.program);
  if (!switched_on(s, "dataset.packed") && !job.answers.seq)
    job.assume(fmt::format("samples of {} tokens each, as the longest are (tokenizer.max_seq_len)", *seq));
  if (take_given_model(job, seq)) return;
  for (const Setting& setting : s.all())
    require(!setting.key.starts_with("model.") || setting.key.starts_with("model.lora_") ||
                !whole_number(to_text(setting.value)),
            "{}: {}: sets a size of the model itself, which is read by its name; give --model.", setting.place,
            setting.shown);
  std::string name = builder.substr(builder.rfind('.') + 1);
  if (name.starts_with("lora_")) name.erase(0, 5);
  job.reading.setup.model = model_by_name(name, s.where("model._component_"));
  job.reading.setup.model_name = name;
  job.reading.setup.model.seq = *seq;
  job.assume(fmt::format("the sizes of {} for '{}'", job.reading.setup.model.name, name));
}

void read_torchtune_sharding(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  d.zero = d.dp * d.cp == 1 ? 0 : switched_on(s, "fsdp_reshard_after_forward", true) ? 3 : 2;
  const auto shard = s.integer("data_parallel_shard_dim", -1), copies = s.integer("data_parallel_replicate_dim");
  if (copies && *copies > 1) {
    if (d.dp % *copies != 0 || (shard && *shard > 0 && *shard * *copies != d.dp)) {
      const std::string why = fmt::format("data_parallel_replicate_dim {} x data_parallel_shard_dim {} is not dp={}",
                                          *copies, shard.value_or(-1), d.dp);
      return job.broken_without_plan(why, "; give --cluster or --nodes with as many devices");
    }
    job.reading.setup.shard = static_cast<int>(d.dp / *copies);
    if (d.tp * d.cp > 1)
      job.assume(fmt::format("weights split over all {} replicas, not over groups of {}", d.dp, d.dp / *copies));
  }
  if (switched_on(s, "fsdp_cpu_offload")) offload_shards(job);
  job.reading.setup.overlap_gradients = job.reading.setup.overlap_weights = d.zero > 0;
}

}  // namespace

void read_torchtune(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  LaunchSetup& setup = job.reading.setup;
  setup.release = "torchtune bd2a0fc7";
  setup.dialect = "torchtune";
  job.reading.framework.name = "torchtune";
  job.reading.framework.sequences = Framework::Sequences::Either;
  job.reading.software = "fsdp2";
  const std::string builder = s.text("model._component_").value_or("");
  expect_full_recipe(job, builder);
  d.tp = degree_of(job, "tensor_parallel_dim");
  d.cp = degree_of(job, "context_parallel_dim");
  share_devices(job);
  take_torchtune_model(job, builder);
  read_torchtune_sharding(job);
  const std::string type = s.text("dtype").value_or("bf16");
  setup.dtype = type == "fp32" ? DType::F32 : type == "fp16" ? DType::F16 : DType::BF16;
  setup.software_setup.narrow_states = setup.dtype != DType::F32;
  d.recompute = switched_on(s, "enable_activation_checkpointing") ? Recompute::Full : Recompute::None;
  if (const std::string mode = s.text_or_nothing("ac_mode"); !mode.empty() && mode != "full")
    job.assume(fmt::format("all blocks recomputed (ac_mode {})", mode));
  if (switched_on(s, "enable_activation_offloading"))
    job.assume("activations kept on the devices (enable_activation_offloading)");
  if (switched_on(s, "optimizer_in_bwd")) job.assume("the update behind the backward, not in it (optimizer_in_bwd)");
  if (switched_on(s, "compile")) job.assume("blocks that are not compiled");
  keep_to(job, {2, 3}, {Recompute::None, Recompute::Full});
  const std::string optimizer = s.text("optimizer._component_").value_or("");
  take_narrow_moments(job, lower_case(optimizer));
  if (optimizer.find("SGD") != std::string::npos)
    setup.optimizer.kind = Optimizer::Kind::Sgd;
  else if (optimizer.find("Adam") == std::string::npos)
    job.assume(fmt::format("Adam in the place of {}", optimizer));
  setup.optimizer.weight_decay = std::max(0.0, s.number("optimizer.weight_decay").value_or(0.01));
  setup.optimizer.max_norm = std::max(0.0, s.number("clip_grad_norm").value_or(0.0));
  share_trainer_batch(job, "batch_size", 2);
  s.no_effect([](const std::string& key) {
    return begins_with_any(key, {"output_dir",     "tokenizer.",
                                 "dataset",        "seed",
                                 "shuffle",        "run_val_every",
                                 "batch_size_val", "checkpointer.",
                                 "resume_",        "epochs",
                                 "optimizer.",     "lr_scheduler",
                                 "loss.",          "max_steps",
                                 "device",         "custom_sharded_layers",
                                 "metric_logger.", "log_",
                                 "profiler.",      "collate_fn",
                                 "save_",          "tensor_parallel_plan",
                                 "low_cpu_ram",    "cudnn",
                                 "compile.",       "package",
                                 "use_clean_up",   "model_type",
                                 "name",           "base_model_path",
                                 "model."});
  });
}

}  // namespace meshwright
