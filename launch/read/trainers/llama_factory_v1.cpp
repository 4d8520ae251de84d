// SPDX-License-Identifier: Apache-2.0
// LLaMA-Factory (ff6d4d12), version 1 of its files: a trainer of its own over FSDP2 or DeepSpeed.
#include <algorithm>

#include "launch/read/adapters.h"
#include "launch/read/trainers/fine_tuning.h"

namespace meshwright {

namespace {

void read_splits(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  const std::string by = s.text_or_nothing("dist_config.name");
  if (has_deepspeed(s)) {
    use_deepspeed(job);
    read_deepspeed_below(job, job.reading.setup.dtype);
    return;
  }
  job.reading.software = "fsdp2";
  job.reading.framework.experts = true;
  job.reading.framework.context_exchanges = {ContextExchange::AllToAll};
  job.reading.framework.tensors = false;
  if (by.empty() || by == "ddp") {
    d.zero = 0;
    return;
  }
  const Recompute own = d.recompute;
  read_fsdp_keys(job, "dist_config.");
  d.recompute = own;
  const auto copies = s.integer("mp_replicate_size"), shard = s.integer("mp_shard_size");
  if (copies.value_or(1) > 1 && shard) job.reading.setup.shard = as_degree(*shard);
  if (d.dp * d.cp == 1) d.zero = 0;
}

}  // namespace

void read_llama_factory_v1(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  LaunchSetup& setup = job.reading.setup;
  setup.release = "LLaMA-Factory ff6d4d12";
  setup.dialect = "llama-factory-v1";
  if (const std::string part = s.text_or_nothing("peft_config.name"); part == "lora") {
    std::vector<std::string> targets = listed_words(s, "peft_config.target_modules");
    if (targets.empty()) targets = {"all"};
    take_adapters(job, "peft_config.name", s.integer("peft_config.r").value_or(8), std::move(targets));
  } else if (!part.empty()) {
    expect_whole_model(job, "peft_config.name", part);
  }
  if (const std::string bits = s.text_or_nothing("quant_config.name"); !bits.empty())
    expect_whole_model(job, "quant_config.name", "a quantised model");
  d.cp = degree_of(job, "cp_size");
  d.ep = degree_of(job, "dist_config.ep_size");
  if (d.cp > 1) d.context = ContextExchange::AllToAll;
  share_devices(job);
  take_tuned_model(job, "model", "cutoff_len", 2048);
  setup.dtype = switched_on(s, "bf16", true) ? DType::BF16 : DType::F32;
  d.recompute = switched_on(s, "enable_activation_checkpointing", true) ? Recompute::Full : Recompute::None;
  read_splits(job);
  read_optimizer_of_trainer(job, "optim_config.name");
  const std::int64_t micro = job.answers.micro_batch.value_or(s.integer("micro_batch_size").value_or(1));
  share_batch(job, micro, s.integer("global_batch_size").value_or(micro * d.dp));
  if (s.text_or_nothing("batching_strategy").find("padding_free") == std::string::npos)
    job.assume(fmt::format("samples of {} tokens each, which are not packed (cutoff_len)", setup.model.seq));
  s.no_effect([](const std::string& key) {
    return begins_with_any(
        key, {"model_class",  "trust_remote",   "kernel_config", "quant_config", "init_config",      "train_dataset",
              "eval_",        "output_dir",     "learning_rate", "num_train_",   "max_steps",        "lr_scheduler",
              "optim_config", "seed",           "batching_",     "dist_",        "cp_mode",          "flash_attn",
              "sample_",      "max_new_tokens", "save_",         "resume_",      "full_determinism", "logging_",
              "report_to",    "template",       "dp_size",       "mp_",          "peft_config",      "warmup_",
              "wandb",        "use_cache"});
  });
}

}  // namespace meshwright
