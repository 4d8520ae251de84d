// SPDX-License-Identifier: Apache-2.0
// LLaMA-Factory (e8deda53), which fine-tunes all weights over Hugging Face's trainer.
#include "core/base/errors.h"
#include "launch/read/adapters.h"
#include "launch/read/trainers/fine_tuning.h"

namespace meshwright {

void read_llama_factory(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  LaunchSetup& setup = job.reading.setup;
  setup.release = "LLaMA-Factory e8deda53";
  setup.dialect = "llama-factory";
  const std::string tuned = s.text_or_nothing("finetuning_type");
  if (tuned.empty() || tuned == "lora") {
    std::vector<std::string> targets = listed_words(s, "lora_target");
    if (targets.empty()) targets = {"all"};
    take_adapters(job, "finetuning_type", s.integer("lora_rank").value_or(8), std::move(targets));
  } else if (tuned != "full") {
    expect_whole_model(job, "finetuning_type", tuned);
  }
  const std::string stage = s.text_or_nothing("stage").empty() ? "sft" : s.text_or_nothing("stage");
  if (stage != "sft" && stage != "pt") expect_whole_model(job, "stage", "by " + stage);
  if (s.has("quantization_bit")) expect_whole_model(job, "quantization_bit", "a quantised model");
  const bool deepspeed = has_deepspeed(s);
  const auto tensors = deepspeed ? s.integer("ds.tensor_parallel.autotp_size") : std::nullopt;
  d.tp = as_degree(tensors.value_or(1));
  // Of its fork 360-LLaMA-Factory.
  d.cp = degree_of(job, "sequence_parallel_size");
  const bool all_to_all = s.text_or_nothing("sequence_parallel_mode") == "ulysses";
  if (d.cp > 1) d.context = all_to_all ? ContextExchange::AllToAll : ContextExchange::PointToPoint;
  if (switched_on(s, "use_badam")) expect_whole_model(job, "use_badam", "a part of the weights at a time");
  require(!s.has("mixture_of_depths") || job.answers.model,
          "{}: lets some tokens pass layers by, which no model here does; give --model for one without.",
          s.where("mixture_of_depths"));
  share_devices(job);
  take_tuned_model(job, "model_name_or_path", "cutoff_len", 2048);
  const bool bf16 = switched_on(s, "bf16") || switched_on(s, "pure_bf16"), fp16 = switched_on(s, "fp16");
  if (bf16 && fp16) job.broken("bf16 and fp16 exclude each other");
  setup.dtype = bf16 ? DType::BF16 : fp16 ? DType::F16 : DType::F32;
  setup.software_setup.narrow_states = switched_on(s, "pure_bf16") && !deepspeed;  // which has its own copies
  if (switched_on(s, "fp8")) setup.matmul_dtype = "fp8";
  take_liger(job, "enable_liger_kernel");
  if (s.text_or_nothing("flash_attn") == "disabled") setup.software_setup.fused_attention = false;
  // Its models recompute every block unless they are told otherwise.
  d.recompute = switched_on(s, "disable_gradient_checkpointing") ? Recompute::None : Recompute::Full;
  const std::string fsdp = s.has("fsdp") ? to_text(s.take("fsdp")->value) : "";
  if (deepspeed) {
    use_deepspeed(job);
    read_deepspeed_below(job, setup.dtype);
  } else {
    job.reading.framework.tensors = job.reading.framework.contexts = false;
    job.reading.software = "fsdp";
    const bool own = s.has("fsdp_config.fsdp_version") || s.text_or_nothing("distributed_type") == "FSDP";
    if (own) {
      if (s.integer("fsdp_config.fsdp_version").value_or(1) >= 2) job.reading.software = "fsdp2";
      read_fsdp_keys(job, "fsdp_config.fsdp_");
      d.recompute = switched_on(s, "disable_gradient_checkpointing") ? Recompute::None : Recompute::Full;
    } else if (!fsdp.empty()) {
      read_fsdp_keys(job, "fsdp_config.");
      if (fsdp.find("grad_op") != std::string::npos) d.zero = 2;
    } else {
      d.zero = 0;
    }
    if (d.dp == 1) d.zero = 0;
  }
  if (d.cp > 1) {
    job.reading.framework.contexts = true;
    job.reading.framework.context_exchanges = {d.context};
  }
  read_optimizer_of_trainer(job, "optim");
  for (const char* other : {"use_galore", "use_apollo", "use_adam_mini", "use_muon"})
    if (switched_on(s, other)) job.assume(fmt::format("Adam in the place of {}", std::string(other).substr(4)));
  share_trainer_batch(job, "per_device_train_batch_size", 8);
  if (!switched_on(s, "packing", stage == "pt") && !switched_on(s, "neat_packing"))
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

}  // namespace meshwright
