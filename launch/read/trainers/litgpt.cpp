// SPDX-License-Identifier: Apache-2.0
// LitGPT (26857050): configurations of `litgpt pretrain` and `litgpt finetune_full`. Defaults are those of
// litgpt/pretrain.py and litgpt/finetune/full.py.
#include <algorithm>

#include "core/base/errors.h"
#include "launch/read/adapters.h"
#include "launch/read/trainers/fine_tuning.h"

namespace meshwright {

void read_litgpt(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  LaunchSetup& setup = job.reading.setup;
  use_plain_fsdp(job, "LitGPT 26857050", "litgpt");
  if (s.has("adapter_prompt_length")) expect_whole_model(job, "adapter_prompt_length", "adapters");
  if (s.has("lora_r") || s.has("lora_alpha")) {
    std::vector<std::string> targets;
    for (const auto& [key, target] : {std::pair("lora_query", "q_proj"), std::pair("lora_key", "k_proj"),
                                      std::pair("lora_projection", "o_proj"), std::pair("lora_mlp", "mlp")})
      if (switched_on(s, key, std::string(key) == "lora_query")) targets.emplace_back(target);
    (void)switched_on(s, "lora_value");
    take_adapters(job, s.has("lora_r") ? "lora_r" : "lora_alpha", s.integer("lora_r").value_or(8), std::move(targets));
  }
  if (!s.text_or_nothing("quantize").empty()) expect_whole_model(job, "quantize", "a quantised model");
  for (const Setting& setting : s.all())
    require(!setting.key.starts_with("model_config.") || job.answers.model,
            "{}: {}: sizes that are given one by one are not read of LitGPT; give --model.", setting.place,
            setting.shown);
  const bool tuned = s.has("checkpoint_dir");  // of weights that are there
  share_devices(job);
  const auto longest = s.integer("train.max_seq_length");
  require(longest || job.answers.seq, "{}: says no length of the samples (train.max_seq_length); give --seq.",
          job.text.program);
  if (tuned && !job.answers.seq)
    job.assume(fmt::format("samples of {} tokens each, as the longest are (train.max_seq_length)", *longest));
  take_tuned_model(job, tuned ? "checkpoint_dir" : "model_name", "train.max_seq_length", longest.value_or(1));
  if (s.has("train.tie_embeddings") && switched_on(s, "train.tie_embeddings"))
    job.assume("the head apart from the embedding (train.tie_embeddings)");
  d.zero = d.dp > 1 ? 3 : 0;
  // Pretraining shards within hosts, and fine-tuning over all; the latter alone recomputes blocks.
  if (!tuned && job.devices.hosts > 1) setup.shard = job.devices.devices_per_host;
  d.recompute = tuned && d.dp > 1 ? Recompute::Full : Recompute::None;
  keep_to(job, {}, {});
  setup.overlap_gradients = setup.overlap_weights = d.zero > 0;
  const std::string precision = s.text_or_nothing("precision");
  setup.dtype = precision.starts_with("32") ? DType::F32 : precision.starts_with("16") ? DType::F16 : DType::BF16;
  setup.software_setup.narrow_states = precision.ends_with("-true") && setup.dtype != DType::F32;
  const std::string optimizer = s.text_or_nothing(s.has("optimizer") ? "optimizer" : "optimizer.class_path");
  if (!optimizer.empty() && optimizer.find("Adam") == std::string::npos)
    job.assume(fmt::format("Adam in the place of {}", optimizer));
  setup.optimizer.weight_decay = std::max(0.0, s.number("optimizer.init_args.weight_decay").value_or(0.01));
  setup.optimizer.max_norm = std::max(0.0, s.number("train.max_norm").value_or(tuned ? 0.0 : 1.0));
  const auto micro = s.integer("train.micro_batch_size");
  const auto global = s.integer("train.global_batch_size");
  share_batch(job, job.answers.micro_batch.value_or(micro.value_or(tuned ? 1 : 4)), global.value_or(tuned ? 16 : 512));
  if (!tuned) job.assume("blocks that are not compiled");
  s.no_effect([](const std::string& key) {
    return begins_with_any(key, {"out_dir",
                                 "initial_checkpoint_dir",
                                 "resume",
                                 "data",
                                 "train.save_interval",
                                 "train.log_interval",
                                 "train.lr_warmup",
                                 "train.epochs",
                                 "train.max_t",
                                 "train.max_s",
                                 "train.min_lr",
                                 "eval.",
                                 "optimizer.",
                                 "devices",
                                 "num_nodes",
                                 "tokenizer_dir",
                                 "logger_name",
                                 "seed",
                                 "access_token",
                                 "log.",
                                 "ci_"});
  });
}

}  // namespace meshwright
