// SPDX-License-Identifier: Apache-2.0
// VeOmni (d9774494): YAML of its trainings of texts, as FSDP2 splits them, with the older names of its degrees.
// Defaults are those of veomni/arguments.
#include <algorithm>

#include "core/base/errors.h"
#include "launch/read/trainers/fine_tuning.h"

namespace meshwright {

namespace {

// The first that is given; the last where none is.
std::string given_of(const Settings& s, std::initializer_list<const char*> keys) {
  std::string last;
  for (const char* key : keys) {
    last = key;
    if (s.has(last)) return last;
  }
  return last;
}

}  // namespace

void read_veomni(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  LaunchSetup& setup = job.reading.setup;
  use_plain_fsdp(job, "VeOmni d9774494", "veomni");
  Framework& framework = job.reading.framework;
  framework.contexts = true;
  framework.context_exchanges = {ContextExchange::AllToAll};
  for (const Setting& setting : s.all())
    if (setting.key.find("lora") != std::string::npos && setting.key.find("rank") != std::string::npos)
      expect_whole_model(job, setting.key, "adapters");
  for (const Setting& setting : s.all())
    if (setting.key.starts_with("dpo_config.") || setting.key.starts_with("rl_config."))
      expect_whole_model(job, setting.key, "against further models or samples");
  for (const char* part : {"model.lora_config", "model.lora"})
    if (s.has(part)) expect_whole_model(job, part, "adapters");
  d.tp = degree_of(job, given_of(s, {"train.accelerator.tp_size", "train.tensor_parallel_size"}));
  const int pp = degree_of(job, given_of(s, {"train.accelerator.pp_size", "train.pipeline_parallel_size"}));
  const int ring = degree_of(job, given_of(s, {"train.accelerator.cp_size", "train.context_parallel_size"}));
  require(d.tp == 1 && pp == 1 && ring == 1, "{}: splits tensors, layers or rings, which VeOmni's models do not.",
          job.text.program);
  d.cp = degree_of(job, given_of(s, {"train.accelerator.ulysses_size", "train.ulysses_parallel_size"}));
  if (d.cp > 1) d.context = ContextExchange::AllToAll;
  const int ep = degree_of(job, given_of(s, {"train.accelerator.ep_size", "train.expert_parallel_size"}));
  if (ep > 1)
    job.no_plan(fmt::format("experts split over ep={} beside FSDP2's shards of them, as no plan of ours has", ep));
  share_devices(job);
  take_tuned_model(job, given_of(s, {"model.model_path", "model.config_path"}), "data.max_seq_len", 2048);
  const std::string mode =
      s.text_or_nothing(given_of(s, {"train.accelerator.fsdp_config.fsdp_mode", "train.data_parallel_mode"}));
  const std::string resharded =
      given_of(s, {"train.accelerator.fsdp_config.reshard_after_forward", "train.enable_reshard_after_forward"});
  const int level = mode == "ddp" ? 0 : switched_on(s, resharded, true) ? 3 : 2;
  d.zero = d.dp * d.cp > 1 ? level : 0;
  job.reading.software = mode == "fsdp1" ? "fsdp" : "fsdp2";
  const std::int64_t shard =
      s.integer(given_of(s, {"train.accelerator.dp_shard_size", "train.data_parallel_shard_size"}), -1).value_or(-1);
  if (shard > 0 && shard < d.dp && d.zero > 0) setup.shard = as_degree(shard);
  if (switched_on(s, given_of(s, {"train.gradient_checkpointing.enable", "train.enable_gradient_checkpointing"}), true))
    d.recompute = Recompute::Full;
  for (const char* key : {"train.accelerator.fsdp_config.offload", "train.enable_fsdp_offload"})
    if (switched_on(s, key)) offload_shards(job);
  keep_to(job, {}, {Recompute::None, Recompute::Full});
  setup.overlap_gradients = setup.overlap_weights = true;
  setup.dtype =
      switched_on(s,
                  given_of(s, {"train.accelerator.fsdp_config.mixed_precision.enable", "train.enable_mixed_precision"}),
                  true)
          ? DType::BF16
          : DType::F32;
  setup.optimizer.weight_decay =
      std::max(0.0, s.number(given_of(s, {"train.optimizer.weight_decay", "train.weight_decay"})).value_or(0.0));
  setup.optimizer.max_norm =
      std::max(0.0, s.number(given_of(s, {"train.optimizer.max_grad_norm", "train.max_grad_norm"})).value_or(1.0));
  const std::string optimizer = s.text_or_nothing(given_of(s, {"train.optimizer.type", "train.optimizer"}));
  if (!optimizer.empty() && optimizer.find("adam") == std::string::npos)
    job.assume(fmt::format("Adam in the place of {}", optimizer));
  job.assume("samples of the whole length, packed or not");
  const std::int64_t micro = job.answers.micro_batch.value_or(s.integer("train.micro_batch_size").value_or(1));
  share_batch(job, micro, s.integer("train.global_batch_size").value_or(micro * d.dp));
  const std::string loss = s.text_or_nothing("model.ops_implementation.cross_entropy_loss_implementation");
  if (loss == "chunk_loss" || loss == "npu")
    take_loss_by_tokens(job, 1024);
  else if (loss != "eager")
    setup.software_setup.loss_chunks = kFittingLossChunks;
  s.no_effect([](const std::string& key) {
    return begins_with_any(key, {"data.", "train.", "model.ops_implementation", "model.attn_", "model.moe_",
                                 "model.tokenizer", "model.config_path", "model.safetensor", "model.basic_modules"});
  });
}

}  // namespace meshwright
