// SPDX-License-Identifier: Apache-2.0
// ms-swift (3602360a), `swift sft` and `swift pt`: fine-tuning of all weights over Hugging Face's trainer.
#include <algorithm>

#include "core/base/errors.h"
#include "launch/read/adapters.h"
#include "launch/read/trainers/fine_tuning.h"

namespace meshwright {

namespace {

void expect_all_weights(ReadingJob& job) {
  Settings& s = job.settings();
  std::string key = "tuner_type";  // by its name in older versions
  for (const char* older : {"train_type", "sft_type"})
    if (!s.has(key) && s.has(older)) key = older;
  const std::string tuned = s.text_or_nothing(key);
  if (tuned.empty() || tuned == "lora") {
    std::vector<std::string> targets = listed_words(s, "target_modules");
    if (targets.empty()) targets = {"all-linear"};
    take_adapters(job, key, s.integer("lora_rank").value_or(8), std::move(targets));
  } else if (tuned != "full") {
    expect_whole_model(job, key, tuned);
  }
  if (switched_on(s, "freeze_llm")) expect_whole_model(job, "freeze_llm", "what is beside a frozen language model");
  for (const char* some : {"freeze_parameters", "freeze_parameters_regex", "trainable_parameters",
                           "trainable_parameters_regex", "lisa_activated_layers"})
    if (s.has(some)) expect_whole_model(job, some, "a part of the weights");
  if (s.number("freeze_parameters_ratio").value_or(0.0) > 0.0)
    expect_whole_model(job, "freeze_parameters_ratio", "a part of the weights");
  for (const char* quantized : {"quant_bits", "quant_method"})
    if (s.has(quantized)) expect_whole_model(job, quantized, "a quantised model");
  for (const char* other : {"use_galore", "use_dora"})
    if (switched_on(s, other)) expect_whole_model(job, other, "projections of the weights");
}

void read_type(ReadingJob& job) {
  Settings& s = job.settings();
  const std::string type = s.text_or_nothing("torch_dtype");
  const bool half = type == "float16" || type == "float32";  // which it trains in mixed precision of 16 bits
  const bool fp16 = switched_on(s, "fp16", half), bf16 = switched_on(s, "bf16", !half);
  if (fp16 && bf16) job.broken("bf16 and fp16 exclude each other");
  job.reading.setup.dtype = fp16 ? DType::F16 : bf16 ? DType::BF16 : DType::F32;
  take_liger(job, "use_liger_kernel");
  take_attention_kernel(job, "attn_impl");
  if (type.empty() && bf16) job.assume("bf16, the type of most models' files (torch_dtype)");
}

void read_below(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  const std::string fsdp = s.has("fsdp") ? to_text(s.take("fsdp")->value) : "";
  if (has_deepspeed(s)) {
    use_deepspeed(job);
    read_deepspeed_below(job, job.reading.setup.dtype);
    job.reading.framework.contexts = true;
    job.reading.framework.context_exchanges = {ContextExchange::AllToAll};
    return;
  }
  job.reading.framework.context_exchanges = {ContextExchange::AllToAll};
  job.reading.framework.tensors = false;
  job.reading.software = "fsdp";
  if (!fsdp.empty() && fsdp != "null") {
    const Recompute own = d.recompute;
    job.reading.software = "fsdp2";
    read_fsdp_keys(job, "fsdp_config.");
    if (fsdp.find("shard_grad_op") != std::string::npos) d.zero = 2;
    if (fsdp == "fsdp2" || own == Recompute::Full) d.recompute = Recompute::Full;
  } else {
    d.zero = 0;
    job.reading.setup.software_setup.narrow_states = job.reading.setup.dtype == DType::BF16;
  }
  if (d.dp * d.cp == 1) d.zero = 0;
}

void read_batch(ReadingJob& job) {
  Settings& s = job.settings();
  constexpr std::int64_t kUsualBatch = 16;  // samples of a step where the accumulation is not given
  const std::int64_t micro = job.answers.micro_batch.value_or(s.integer("per_device_train_batch_size").value_or(1));
  const std::int64_t at_once = micro * job.devices.devices();
  const auto steps = s.integer("gradient_accumulation_steps");
  if (!steps) job.assume("16 samples a step, its default (gradient_accumulation_steps)");
  share_batch(job, micro, micro * steps.value_or((kUsualBatch + at_once - 1) / at_once) * job.degrees().dp);
}

}  // namespace

void read_ms_swift(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  job.reading.setup.release = "ms-swift 3602360a";
  job.reading.setup.dialect = "ms-swift";
  expect_all_weights(job);
  d.tp = degree_of(job, "deepspeed_autotp_size");
  d.cp = degree_of(job, "sequence_parallel_size");
  if (d.cp > 1) d.context = ContextExchange::AllToAll;
  share_devices(job);
  constexpr std::int64_t kAssumedLength = 2048;
  if (!s.has("max_length") && !job.answers.seq)
    job.assume(fmt::format("samples of {} tokens: max_length is not given", kAssumedLength));
  take_tuned_model(job, "model", "max_length", kAssumedLength);
  read_type(job);
  d.recompute = switched_on(s, "gradient_checkpointing", true) ? Recompute::Full : Recompute::None;
  read_below(job);
  read_optimizer_of_trainer(job, s.has("optim") ? "optim" : "optimizer");
  read_batch(job);
  if (!switched_on(s, "packing") && !switched_on(s, "streaming"))
    job.assume(
        fmt::format("samples of {} tokens each, which are not packed (max_length)", job.reading.setup.model.seq));
  if (s.has("zero_hpz_partition_size") && s.integer("zero_hpz_partition_size").value_or(1) > 1)
    job.assume("weights split over all replicas (zero_hpz_partition_size)");
  if (const std::string head = s.text_or_nothing("task_type"); !head.empty() && head != "causal_lm")
    job.assume(fmt::format("the head of words, not that of {} (task_type)", head));
  s.no_effect([](const std::string& key) {
    return begins_with_any(key, {"model_",
                                 "use_hf",
                                 "dataset",
                                 "val_dataset",
                                 "cached_",
                                 "split_dataset",
                                 "load_from",
                                 "lazy_",
                                 "streaming",
                                 "shuffle",
                                 "num_train_",
                                 "max_steps",
                                 "max_epochs",
                                 "learning_rate",
                                 "lr_",
                                 "warmup_",
                                 "eval_",
                                 "save_",
                                 "logging_",
                                 "output_dir",
                                 "dataloader_",
                                 "report_to",
                                 "attn_impl",
                                 "packing",
                                 "padding_free",
                                 "use_liger",
                                 "system",
                                 "template",
                                 "truncation_",
                                 "per_device_eval",
                                 "freeze_vit",
                                 "freeze_aligner",
                                 "vit_",
                                 "aligner_",
                                 "target_modules",
                                 "lora_",
                                 "agent_",
                                 "loss_",
                                 "use_chat",
                                 "num_labels",
                                 "problem_type",
                                 "label_",
                                 "experts_impl",
                                 "router_",
                                 "seed",
                                 "data_seed",
                                 "resume_",
                                 "ddp_",
                                 "add_version",
                                 "create_checkpoint",
                                 "adam_",
                                 "metric",
                                 "greater_is",
                                 "early_stop",
                                 "push_to",
                                 "hub_",
                                 "swanlab",
                                 "wandb",
                                 "external_",
                                 "custom_",
                                 "group_by",
                                 "use_logits",
                                 "predict_with",
                                 "max_new_tokens",
                                 "temperature",
                                 "remove_unused",
                                 "deepspeed",
                                 "fsdp",
                                 "enable_thinking",
                                 "add_non_thinking",
                                 "rope_scaling",
                                 "new_special",
                                 "max_pixels",
                                 "min_pixels",
                                 "device_map",
                                 "local_repo",
                                 "strict",
                                 "gradient_checkpointing_kwargs",
                                 "neftune",
                                 "load_data_args",
                                 "init_weights",
                                 "to_cached",
                                 "response_prefix",
                                 "norm_bbox",
                                 "enable_dft",
                                 "zero_hpz",
                                 "check_model",
                                 "logprobs",
                                 "acc_"});
  });
}

}  // namespace meshwright
