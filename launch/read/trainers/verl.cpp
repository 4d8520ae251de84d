// SPDX-License-Identifier: Apache-2.0
// verl's trainers on given samples (fsdp_sft_trainer, sft_trainer; b178a3cd): words of Hydra over the defaults of its
// sft_trainer.yaml. FSDP over all devices, and sequences split over some of them as DeepSpeed-Ulysses does.
#include <algorithm>

#include "core/base/errors.h"
#include "launch/read/adapters.h"
#include "launch/read/trainers/fine_tuning.h"

namespace meshwright {

namespace {

// The first of the names that is given; the last where none is.
const char* given_of(const Settings& s, const char* older, const char* newer) { return s.has(older) ? older : newer; }

// Micro-batches of the newer trainer hold as many tokens as a device is allowed, unless it counts samples.
std::int64_t micro_batch_of(ReadingJob& job, bool by_engine) {
  Settings& s = job.settings();
  const std::int64_t samples = s.integer("data.micro_batch_size_per_gpu").value_or(4);
  if (!by_engine || !switched_on(s, "data.use_dynamic_bsz", true)) return samples;
  const std::int64_t tokens = s.integer("data.max_token_len_per_gpu").value_or(8192);
  job.assume(fmt::format("micro-batches of {} tokens, in samples of the whole length", tokens));
  return std::max<std::int64_t>(1, tokens * job.degrees().cp / job.reading.setup.model.seq);
}

}  // namespace

void read_verl(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  LaunchSetup& setup = job.reading.setup;
  setup.release = "verl b178a3cd";
  setup.dialect = "verl";
  Framework& framework = job.reading.framework;
  framework.name = "verl";
  framework.tensors = false;
  framework.context_exchanges = {ContextExchange::AllToAll};
  const bool by_engine = s.has("model.path") || s.has("engine");
  const std::string engine = s.text_or_nothing("engine");
  require(engine.empty() || engine.starts_with("fsdp"),
          "{}: verl's engine '{}' is not read, only fsdp; give the launch of one.", s.where("engine"),
          printable(engine));
  if (const auto rank = s.integer("model.lora_rank", 0); rank && *rank > 0) {
    std::vector<std::string> targets = listed_words(s, "model.target_modules");
    if (targets.empty()) targets = {"all-linear"};
    take_adapters(job, "model.lora_rank", *rank, std::move(targets));
  }
  d.cp = degree_of(job, given_of(s, "ulysses_sequence_parallel_size", "engine.ulysses_sequence_parallel_size"));
  if (d.cp > 1) d.context = ContextExchange::AllToAll;
  share_devices(job);
  take_tuned_model(job, given_of(s, "model.partial_pretrain", "model.path"), "data.max_length", 1024);
  d.zero = d.dp * d.cp > 1 ? 3 : 0;
  job.reading.software =
      s.text_or_nothing(given_of(s, "model.strategy", "engine.strategy")) == "fsdp" ? "fsdp" : "fsdp2";
  setup.dtype = DType::BF16;
  if (switched_on(s, "model.enable_gradient_checkpointing", true)) d.recompute = Recompute::Full;
  for (const char* key : {"model.fsdp_config.cpu_offload", "model.fsdp_config.offload_params", "engine.param_offload",
                          "engine.optimizer_offload"})
    if (switched_on(s, key)) offload_shards(job);
  keep_to(job, {}, {Recompute::None, Recompute::Full});
  const std::int64_t samples = micro_batch_of(job, by_engine);
  share_batch(job, job.answers.micro_batch ? *job.answers.micro_batch : samples,
              s.integer("data.train_batch_size").value_or(256));
  setup.optimizer.weight_decay = std::max(0.0, s.number("optim.weight_decay").value_or(0.01));
  setup.optimizer.max_norm = std::max(0.0, s.number("optim.clip_grad").value_or(1.0));
  setup.overlap_gradients = setup.overlap_weights = true;
  s.no_effect([](const std::string& key) {
    return begins_with_any(
        key, {"data.", "trainer.", "optim.", "model.lora", "model.target_modules", "checkpoint.", "model.trust_remote",
              "model.external_lib", "model.use_shm", "model.use_liger", "model.use_remove_padding",
              "use_remove_padding", "engine.", "optim", "profiler.", "model.tokenizer_path",
              "model.fsdp_config.model_dtype", "model.fsdp_config.wrap_policy"});
  });
}

}  // namespace meshwright
