// SPDX-License-Identifier: Apache-2.0
// axolotl (39226623), which fine-tunes all weights over Hugging Face's trainer.
#include <algorithm>

#include "launch/read/adapters.h"
#include "launch/read/trainers/fine_tuning.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

void read_axolotl(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  LaunchSetup& setup = job.reading.setup;
  setup.release = "axolotl 39226623";
  setup.dialect = "axolotl";
  if (const std::string adapter = s.text_or_nothing("adapter"); adapter == "lora") {
    std::vector<std::string> targets = listed_words(s, "lora_target_modules");
    if (switched_on(s, "lora_target_linear")) targets = {"all-linear"};
    take_adapters(job, "adapter", s.integer("lora_r").value_or(8), std::move(targets));
  } else if (!adapter.empty()) {
    expect_whole_model(job, "adapter", adapter);
  }
  if (const std::string by = s.text_or_nothing("rl"); !by.empty()) expect_whole_model(job, "rl", "by " + by);
  for (const char* key : {"load_in_8bit", "load_in_4bit"})
    if (switched_on(s, key)) expect_whole_model(job, key, "a quantised model");
  if (const Setting* part = s.take("unfrozen_parameters"); part != nullptr && !part->value.items.empty())
    expect_whole_model(job, "unfrozen_parameters", "a part of the weights");
  for (const char* key : {"relora", "relora_steps", "jagged_restart_steps"})
    if (s.has(key) && truth_value(s.text_or_nothing(key)).value_or(true)) expect_whole_model(job, key, "adapters");
  d.tp = degree_of(job, "tensor_parallel_size");
  d.cp = std::max(degree_of(job, "context_parallel_size"), degree_of(job, "sequence_parallel_degree"));
  d.ep = degree_of(job, "expert_parallel_size");
  if (d.cp > 1) d.context = ContextExchange::PointToPoint;
  share_devices(job);
  const auto shard = s.integer("dp_shard_size"), copies = s.integer("dp_replicate_size");
  if ((shard || copies) && job.reading.why_no_plan.empty() && shard.value_or(1) * copies.value_or(1) * d.ep != d.dp) {
    const std::string why = fmt::format(
        "dp_replicate_size {} x dp_shard_size {} x expert_parallel_size {} x context_parallel_size {} x "
        "tensor_parallel_size {} is not the number of devices, {}",
        copies.value_or(1), shard.value_or(1), d.ep, d.cp, d.tp, job.devices.devices());
    job.broken_without_plan(why, "; give --cluster or --nodes with as many");
  }
  take_tuned_model(job, "base_model", "sequence_len", 2048);
  const bool bf16 = switched_on(s, "bf16"), fp16 = switched_on(s, "fp16");
  if (bf16 && fp16) job.broken("bf16 and fp16 exclude each other");
  setup.dtype = bf16 ? DType::BF16 : fp16 ? DType::F16 : DType::F32;
  if (switched_on(s, "fp8")) setup.matmul_dtype = "fp8";
  take_attention_kernel(job, "attn_implementation");
  if (switched_on(s, "eager_attention")) setup.software_setup.fused_attention = false;
  take_liger(job, "liger_fused_linear_cross_entropy");
  const std::vector<std::string> plugins = s.words("plugins");
  const bool cuts = std::any_of(plugins.begin(), plugins.end(), [](const std::string& plugin) {
    return plugin.find("cut_cross_entropy") != std::string::npos;
  });
  if (switched_on(s, "cut_cross_entropy", cuts)) setup.software_setup.loss_chunks = kFittingLossChunks;
  const std::string again = s.text_or_nothing("gradient_checkpointing");
  d.recompute = switched_on(s, "gradient_checkpointing") ? Recompute::Full : Recompute::None;
  if (again.starts_with("offload")) job.assume(fmt::format("activations kept on the devices ({})", again));
  const std::string fsdp = s.has("fsdp") ? to_text(s.take("fsdp")->value) : "";
  const bool by_fsdp = (!fsdp.empty() && fsdp != "[]") || s.has("fsdp_version") ||
                       std::any_of(s.all().begin(), s.all().end(),
                                   [](const Setting& one) { return one.key.starts_with("fsdp_config."); });
  const bool deepspeed = has_deepspeed(s);
  if (deepspeed && by_fsdp) job.broken("fsdp and deepspeed exclude each other");
  if (deepspeed) {
    use_deepspeed(job);
    job.reading.framework.contexts = true;
    job.reading.framework.context_exchanges = {ContextExchange::PointToPoint};
    read_deepspeed_below(job, setup.dtype);
  } else {
    job.reading.framework.name = "axolotl";
    job.reading.framework.experts = true;
    job.reading.framework.zero_with_experts = {0, 2, 3};  // without FSDP its experts are split over replicas, too
    job.reading.framework.context_exchanges = {ContextExchange::PointToPoint};
    job.reading.software =
        s.integer("fsdp_version").value_or(s.integer("fsdp_config.fsdp_version").value_or(1)) >= 2 ? "fsdp2" : "fsdp";
    const Recompute own = d.recompute;
    if (by_fsdp) {
      for (const char* key :
           {"sharding_strategy", "reshard_after_forward", "activation_checkpointing", "offload_params"})
        if (s.has(std::string("fsdp_config.fsdp_") + key))
          s.rename({{std::string("fsdp_config.fsdp_") + key, std::string("fsdp_config.") + key}});
      read_fsdp_keys(job, "fsdp_config.");
      if (own == Recompute::Full) d.recompute = own;
    }
    if (copies && shard && *copies > 1 && *shard > 1) setup.shard = as_degree(*shard);
    if (d.dp * d.cp == 1) d.zero = 0;
  }
  if (d.tp * d.cp > 1 && setup.shard)
    job.assume(fmt::format("weights split over all {} replicas, not over groups of {}", d.dp, *setup.shard));
  read_optimizer_of_trainer(job, "optimizer");
  share_trainer_batch(job, "micro_batch_size", 1);
  if (d.cp > 1 && d.micro_batch > 1)
    job.broken(fmt::format("micro_batch_size {} with context_parallel_size {}, which needs 1", d.micro_batch, d.cp));
  if (!switched_on(s, "sample_packing"))
    job.assume(
        fmt::format("samples of {} tokens each, which are padded and not packed (sample_packing)", setup.model.seq));
  if (switched_on(s, "use_mup")) job.assume("learning rates that do not bear on the step");
  s.no_effect([](const std::string& key) {
    return begins_with_any(key, {"datasets",
                                 "dataset_",
                                 "test_datasets",
                                 "val_set_size",
                                 "output_dir",
                                 "sequence_len",
                                 "eval_",
                                 "pad_to",
                                 "wandb_",
                                 "num_epochs",
                                 "max_steps",
                                 "lr_",
                                 "learning_rate",
                                 "train_on_inputs",
                                 "group_by",
                                 "tf32",
                                 "logging_",
                                 "flash_attention",
                                 "attn_implementation",
                                 "sdp_attention",
                                 "xformers",
                                 "warmup_",
                                 "evals_per",
                                 "saves_per",
                                 "save_",
                                 "special_tokens",
                                 "tokens",
                                 "plugins",
                                 "chat_template",
                                 "gradient_checkpointing_kwargs",
                                 "seed",
                                 "strict",
                                 "resume_",
                                 "hub_",
                                 "push_",
                                 "tokenizer_",
                                 "model_type",
                                 "trust_remote",
                                 "adam_",
                                 "cosine_",
                                 "local_rank",
                                 "early_",
                                 "debug",
                                 "mlflow",
                                 "comet",
                                 "remove_unused",
                                 "shuffle",
                                 "skip_",
                                 "is_",
                                 "liger_",
                                 "cut_cross",
                                 "use_tensorboard",
                                 "fsdp_config.",
                                 "fsdp_version",
                                 "fsdp_final",
                                 "deepspeed",
                                 "experts_implementation",
                                 "ddp_",
                                 "dataloader_",
                                 "bfloat16",
                                 "overrides_of_model",
                                 "unfrozen",
                                 "type_of_model",
                                 "tokenizer",
                                 "torch_",
                                 "heads_k_stride",
                                 "ring_attn",
                                 "s2_",
                                 "flash_attn",
                                 "processor",
                                 "revision",
                                 "base_model_config",
                                 "axolotl_config",
                                 "sample_packing_"});
  });
}

}  // namespace meshwright
