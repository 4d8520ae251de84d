// SPDX-License-Identifier: Apache-2.0
#include "launch/read/megatron/megatron_older.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/graph.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

void rename_old_flags(Settings& settings) {
  // Their flag of groups needs no second one.
  for (const char* key : {"num-key-value-heads", "num-attention-heads-kv"})
    if (settings.has(key) && !settings.has("group-query-attention"))
      settings.add("group-query-attention", std::string("--") + key, ConfigValue::scalar("true", 0),
                   settings.where(key));
  // It stands for a module of selective recomputation, which Megatron-core still makes of it.
  if (settings.has("moe-layer-recompute") && !settings.has("recompute-granularity")) {
    const std::string place = settings.where("moe-layer-recompute");
    (void)settings.take("moe-layer-recompute");
    settings.add("recompute-granularity", "--moe-layer-recompute", ConfigValue::scalar("selective", 0), place);
    if (!settings.has("recompute-modules"))
      settings.add("recompute-modules", "--moe-layer-recompute", ConfigValue::scalar("moe", 0), place);
  }
  settings.rename({{"RMSNorm", "rmsnorm"},
                   {"use-rms-norm", "rmsnorm"},
                   {"use-qk-norm", "qk-layernorm"},
                   {"no-tie-embed-logits", "untie-embeddings-and-output-weights"},
                   {"num-attention-heads-kv", "num-query-groups"},
                   {"overlapped-distributed-optimizer", "use-distributed-optimizer"},
                   {"model-parallel-size", "tensor-model-parallel-size"},
                   {"moe-expert-parallel-size", "expert-model-parallel-size"},
                   {"topk", "moe-router-topk"},
                   {"moe-num-experts", "num-experts"},  // MegaBlocks
                   {"moe-top-k", "moe-router-topk"},
                   {"batch-size", "micro-batch-size"},
                   {"distribute-checkpointed-activations", "distribute-saved-activations"},
                   {"ffn-hidden-dim", "ffn-hidden-size"},
                   {"num-key-value-heads", "num-query-groups"},
                   {"encoder-num-layers", "num-layers"},
                   {"encoder-seq-length", "seq-length"}});
}

void expect_known_experts(ReadingJob& job) {
  if (job.answers.model || shape_of(job.reading.setup.model).experts > 0) return;
  for (const Setting& setting : job.settings().all()) {
    if (setting.state != Setting::State::Unread || setting.key.find("expert") == std::string::npos) continue;
    const auto number = setting.value.is_scalar() ? whole_number(setting.value.text) : std::nullopt;
    require(
        !number || *number <= 1,
        "{}: {}: may give the model experts, by a flag that is not known; give --model with a built-in model, sizes "
        "or a config.json.",
        setting.place, setting.shown);
  }
}

OldRecompute old_recompute(ReadingJob& job) {
  Settings& s = job.settings();
  OldRecompute old;
  for (const char* flag :
       {"checkpoint-activations", "activations-checkpoint-method", "deepspeed-activation-checkpointing"})
    if (s.has(flag)) old.flags.push_back(fmt::format("--{}", flag));
  const bool by_deepspeed = s.flag("deepspeed-activation-checkpointing");
  old.given = s.flag("checkpoint-activations") || by_deepspeed;
  if (const auto method = s.text("activations-checkpoint-method")) {
    old.given = true;
    old.method = *method;
  }
  for (const char* key : {"activations-checkpoint-num-layers", "checkpoint-num-layers"})
    if (const auto layers = s.integer(key)) old.layers = layers;
  if (old.given && old.method.empty()) old.method = "uniform";
  if (old.given && !old.layers) old.layers = 1;
  return old;
}

void read_old_experts(ReadingJob& job, ModelFacts& facts) {
  Settings& s = job.settings();
  if (const auto interval = s.integer("expert-interval"))
    facts.mixture_every = *interval;
  else if (job.text.variant == "Megatron-DeepSpeed" && !s.has("moe-layer-freq"))
    facts.mixture_every = 2;
  const std::vector<std::string> counts = s.words("num-experts");
  require(std::all_of(counts.begin(), counts.end(), [&](const std::string& count) { return count == counts[0]; }),
          "{}: its layers have unequal numbers of experts, as no model here has; give --model with one that has.",
          s.where("num-experts"));
  if (s.text("mlp-type").value_or("standard") != "residual") return;
  facts.shared_ffn = facts.ffn.value_or(4 * facts.hidden);
  job.assume("the dense layer beside the experts (--mlp-type residual) added to them without weights of its own");
}

}  // namespace meshwright
