// SPDX-License-Identifier: Apache-2.0
// Programs over Hugging Face's trainer that fine-tune all weights: LLaMA-Factory (e8deda53) and axolotl (39226623).
// Below them DeepSpeed or FSDP splits the states, or nothing does.
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/readers.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

namespace {

// DeepSpeed's file, which the reader of texts put below "ds.".
bool has_deepspeed(Settings& s) {
  return std::any_of(s.all().begin(), s.all().end(), [](const Setting& one) { return one.key.starts_with("ds."); });
}

// The value of `key` where it is a truth value, and `otherwise` where it is absent or a word of its own ("auto").
bool on(Settings& s, const std::string& key, bool otherwise, bool of_words) {
  const std::string text = s.text_or_nothing(key);
  if (text.empty()) return otherwise;
  return truth_value(text).value_or(of_words);
}

// The model that is fine-tuned, by its name unless the caller gives one.
void take_model(ReadingJob& job, const std::string& key, const std::string& seq_key, std::int64_t seq_otherwise) {
  Settings& s = job.settings();
  const auto given = s.integer(seq_key);
  const std::int64_t seq = job.answers.seq ? *job.answers.seq : given.value_or(seq_otherwise);
  const std::string name = s.text_or_nothing(key);
  if (take_given_model(job, seq)) return;
  require(!name.empty(), "{}: '{}' is missing, and no plan can be made without it; add it, or give --model.",
          job.text.program, key);
  ModelConfig& model = job.reading.setup.model = model_by_name(name, s.where(key));
  job.reading.setup.model_name = name;
  model.seq = seq;
  if (job.answers.vocab) model.vocab = *job.answers.vocab;
  job.assume(fmt::format("the sizes of {} for '{}'", model.name, name));
}

// ZeRO 3 or 2 of FSDP, by its own file or the keys of accelerate's.
void read_fsdp_keys(ReadingJob& job, const std::string& prefix) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  const std::string strategy = s.text_or_nothing(prefix + "sharding_strategy");
  const bool reshard = on(s, prefix + "reshard_after_forward", true, true);
  d.zero = strategy.starts_with("NO_SHARD") ? 0 : strategy.starts_with("SHARD_GRAD") || !reshard ? 2 : 3;
  if (strategy.starts_with("HYBRID")) job.reading.setup.shard = job.devices.devices_per_host;
  if (on(s, prefix + "activation_checkpointing", false, true)) d.recompute = Recompute::Full;
  if (on(s, prefix + "offload_params", false, true)) {
    job.reading.setup.offload = Offload::Optimizer;
    job.assume("optimizer state alone on the host, not the weights (offload_params)");
  }
  job.reading.setup.overlap_gradients = job.reading.setup.overlap_weights = true;
}

void use_deepspeed(ReadingJob& job) {
  Framework& framework = job.reading.framework = find_framework("deepspeed");
  framework.pipelines = framework.experts = false;
  job.reading.software = framework.software;
}

// DeepSpeed's keys; the batch is the trainer's.
void read_deepspeed_below(ReadingJob& job, DType type) {
  Settings& s = job.settings();
  for (const char* key :
       {"ds.train_batch_size", "ds.train_micro_batch_size_per_gpu", "ds.gradient_accumulation_steps"}) {
    const std::string text = s.text_or_nothing(key);
    if (!text.empty() && text != "auto")
      job.assume(fmt::format("the trainer's batch, not {}", std::string(key).substr(3)));
  }
  read_deepspeed_keys(job, "ds.", type);
}

void read_optimizer_of_trainer(ReadingJob& job, const std::string& key) {
  Settings& s = job.settings();
  const std::string optimizer = lower_case(s.text_or_nothing(key));
  if (optimizer.find("8bit") != std::string::npos)
    job.assume(fmt::format("optimizer state of 32 bits ({})", optimizer));
  if (optimizer == "sgd")
    job.reading.setup.optimizer.kind = Optimizer::Kind::Sgd;
  else if (!optimizer.empty() && optimizer.find("adam") == std::string::npos)
    job.assume(fmt::format("Adam in the place of {}", optimizer));
  job.reading.setup.optimizer.weight_decay = std::max(0.0, s.number("weight_decay").value_or(0.0));
  job.reading.setup.optimizer.max_norm = std::max(0.0, s.number("max_grad_norm").value_or(1.0));
}

void share_trainer_batch(ReadingJob& job, const std::string& micro_key, std::int64_t otherwise) {
  Settings& s = job.settings();
  const auto given = s.integer(micro_key);
  const std::int64_t micro = job.answers.micro_batch ? *job.answers.micro_batch : given.value_or(otherwise);
  const std::int64_t steps = s.integer("gradient_accumulation_steps").value_or(1);
  share_batch(job, micro, micro * steps * job.degrees().dp);
}

bool begins_with_any(const std::string& key, std::initializer_list<const char*> groups) {
  return std::any_of(groups.begin(), groups.end(), [&](const char* group) { return key.starts_with(group); });
}

}  // namespace

void read_llama_factory(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  LaunchSetup& setup = job.reading.setup;
  setup.release = "LLaMA-Factory e8deda53";
  setup.dialect = "llama-factory";
  const std::string tuned = s.text_or_nothing("finetuning_type");
  if (tuned != "full")
    expect_whole_model(job, "finetuning_type", tuned.empty() ? "adapters (lora, its default)" : tuned);
  const std::string stage = s.text_or_nothing("stage").empty() ? "sft" : s.text_or_nothing("stage");
  if (stage != "sft" && stage != "pt") expect_whole_model(job, "stage", "by " + stage);
  if (s.has("quantization_bit")) expect_whole_model(job, "quantization_bit", "a quantised model");
  const bool deepspeed = has_deepspeed(s);
  const auto tensors = deepspeed ? s.integer("ds.tensor_parallel.autotp_size") : std::nullopt;
  d.tp = as_degree(tensors.value_or(1));
  share_devices(job);
  take_model(job, "model_name_or_path", "cutoff_len", 2048);
  const bool bf16 = on(s, "bf16", false, true) || on(s, "pure_bf16", false, true), fp16 = on(s, "fp16", false, true);
  if (bf16 && fp16) job.broken("bf16 and fp16 exclude each other");
  setup.dtype = bf16 ? DType::BF16 : fp16 ? DType::F16 : DType::F32;
  if (on(s, "pure_bf16", false, true)) job.assume("weights and states in 32 bits beside those of bf16 (pure_bf16)");
  if (on(s, "fp8", false, true)) setup.matmul_dtype = "fp8";
  // Its models recompute every block unless they are told otherwise.
  d.recompute = on(s, "disable_gradient_checkpointing", false, true) ? Recompute::None : Recompute::Full;
  const std::string fsdp = s.has("fsdp") ? to_text(s.take("fsdp")->value) : "";
  if (deepspeed) {
    use_deepspeed(job);
    read_deepspeed_below(job, setup.dtype);
  } else {
    job.reading.framework.contexts = false;
    job.reading.why_no_advice = "LLaMA-Factory splits no tensors without DeepSpeed, and degrees are searched with them";
    job.reading.software = "fsdp";
    const bool own = s.has("fsdp_config.fsdp_version") || s.text_or_nothing("distributed_type") == "FSDP";
    if (own) {
      if (s.integer("fsdp_config.fsdp_version").value_or(1) >= 2) job.reading.software = "fsdp2";
      read_fsdp_keys(job, "fsdp_config.fsdp_");
      d.recompute = on(s, "disable_gradient_checkpointing", false, true) ? Recompute::None : Recompute::Full;
    } else if (!fsdp.empty()) {
      read_fsdp_keys(job, "fsdp_config.");
      if (fsdp.find("grad_op") != std::string::npos) d.zero = 2;
    } else {
      d.zero = 0;
    }
    if (d.dp == 1) d.zero = 0;
  }
  read_optimizer_of_trainer(job, "optim");
  share_trainer_batch(job, "per_device_train_batch_size", 8);
  if (!on(s, "packing", stage == "pt", true) && !on(s, "neat_packing", false, true))
    job.assume(fmt::format("samples of {} tokens each, which are padded and not packed (cutoff_len)", setup.model.seq));
  s.no_effect([](const std::string& key) {
    return begins_with_any(key, {"dataset",
                                 "template",
                                 "max_samples",
                                 "overwrite_",
                                 "preprocessing_",
                                 "dataloader_",
                                 "output_dir",
                                 "logging_",
                                 "save_",
                                 "plot_loss",
                                 "report_to",
                                 "learning_rate",
                                 "num_train_epochs",
                                 "lr_scheduler",
                                 "warmup_",
                                 "ddp_",
                                 "resume_",
                                 "val_size",
                                 "per_device_eval",
                                 "eval_",
                                 "trust_remote",
                                 "do_",
                                 "run_name",
                                 "max_steps",
                                 "seed",
                                 "include_",
                                 "hf_",
                                 "tokenized_path",
                                 "streaming",
                                 "buffer_",
                                 "mix_strategy",
                                 "interleave",
                                 "use_fast",
                                 "flash_attn",
                                 "enable_liger",
                                 "freeze_vision",
                                 "freeze_multi",
                                 "image_",
                                 "video_",
                                 "media_dir",
                                 "adam_",
                                 "push_to",
                                 "compute_environment",
                                 "debug",
                                 "machine_",
                                 "main_",
                                 "num_machines",
                                 "num_processes",
                                 "rdzv_",
                                 "same_network",
                                 "tpu_",
                                 "use_cpu",
                                 "mixed_precision",
                                 "enable_cpu",
                                 "downcast_",
                                 "fsdp_config",
                                 "fsdp_transformer",
                                 "distributed_type",
                                 "enable_thinking",
                                 "mask_history",
                                 "train_on_prompt",
                                 "average_tokens",
                                 "use_v1_kernels",
                                 "use_swanlab",
                                 "wandb",
                                 "ignore_pad",
                                 "cache_dir",
                                 "split_special",
                                 "upcast_",
                                 "use_reentrant"});
  });
}

void read_axolotl(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  LaunchSetup& setup = job.reading.setup;
  setup.release = "axolotl 39226623";
  setup.dialect = "axolotl";
  if (const std::string adapter = s.text_or_nothing("adapter"); !adapter.empty())
    expect_whole_model(job, "adapter", adapter);
  if (const std::string by = s.text_or_nothing("rl"); !by.empty()) expect_whole_model(job, "rl", "by " + by);
  for (const char* key : {"load_in_8bit", "load_in_4bit"})
    if (on(s, key, false, true)) expect_whole_model(job, key, "a quantised model");
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
  take_model(job, "base_model", "sequence_len", 2048);
  const bool bf16 = on(s, "bf16", false, true), fp16 = on(s, "fp16", false, true);
  if (bf16 && fp16) job.broken("bf16 and fp16 exclude each other");
  setup.dtype = bf16 ? DType::BF16 : fp16 ? DType::F16 : DType::F32;
  if (on(s, "fp8", false, true)) setup.matmul_dtype = "fp8";
  d.recompute = on(s, "gradient_checkpointing", false, true) ? Recompute::Full : Recompute::None;
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
  if (!on(s, "sample_packing", false, true))
    job.assume(
        fmt::format("samples of {} tokens each, which are padded and not packed (sample_packing)", setup.model.seq));
  if (on(s, "use_mup", false, true)) job.assume("learning rates that do not bear on the step");
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
