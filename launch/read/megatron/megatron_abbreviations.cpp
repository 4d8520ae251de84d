// SPDX-License-Identifier: Apache-2.0
#include "launch/read/megatron/megatron_abbreviations.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/base/text.h"

namespace meshwright {

namespace {

// Those that bear on a plan.
constexpr auto kFlags = std::to_array<std::string_view>({"account-for-embedding-in-pipeline-split",
                                                         "account-for-loss-in-pipeline-split",
                                                         "add-qkv-bias",
                                                         "clip-grad",
                                                         "context-parallel-size",
                                                         "cp-comm-type",
                                                         "cpu-offloading-num-layers",
                                                         "data-parallel-sharding-strategy",
                                                         "decoder-first-pipeline-num-layers",
                                                         "decoder-last-pipeline-num-layers",
                                                         "disable-bias-linear",
                                                         "expert-model-parallel-size",
                                                         "expert-tensor-parallel-size",
                                                         "ffn-hidden-size",
                                                         "global-batch-size",
                                                         "group-query-attention",
                                                         "hidden-dropout",
                                                         "hidden-size",
                                                         "hybrid-layer-pattern",
                                                         "kv-channels",
                                                         "kv-lora-rank",
                                                         "make-vocab-size-divisible-by",
                                                         "max-position-embeddings",
                                                         "max-tokens-to-oom",
                                                         "micro-batch-size",
                                                         "microbatch-group-size-per-virtual-pipeline-stage",
                                                         "moe-ffn-hidden-size",
                                                         "moe-layer-freq",
                                                         "moe-router-topk",
                                                         "moe-router-topk-scaling-factor",
                                                         "moe-shared-expert-intermediate-size",
                                                         "mtp-loss-scaling-factor",
                                                         "mtp-num-layers",
                                                         "multi-latent-attention",
                                                         "normalization",
                                                         "num-attention-heads",
                                                         "num-dataset-builder-threads",
                                                         "num-distributed-optimizer-instances",
                                                         "num-experts",
                                                         "num-layers",
                                                         "num-layers-per-virtual-pipeline-stage",
                                                         "num-query-groups",
                                                         "num-virtual-stages-per-pipeline-rank",
                                                         "num-workers",
                                                         "optimizer",
                                                         "optimizer-cpu-offload",
                                                         "optimizer-offload-fraction",
                                                         "overlap-grad-reduce",
                                                         "overlap-moe-expert-parallel-comm",
                                                         "overlap-p2p-communication-warmup-flush",
                                                         "overlap-param-gather",
                                                         "padded-vocab-size",
                                                         "pipeline-model-parallel-layout",
                                                         "pipeline-model-parallel-size",
                                                         "position-embedding-type",
                                                         "q-lora-rank",
                                                         "qk-head-dim",
                                                         "qk-layernorm",
                                                         "qk-pos-emb-head-dim",
                                                         "rampup-batch-size",
                                                         "recompute-activations",
                                                         "recompute-granularity",
                                                         "recompute-method",
                                                         "recompute-modules",
                                                         "recompute-num-layers",
                                                         "rotary-base",
                                                         "rotary-percent",
                                                         "seq-length",
                                                         "sequence-parallel",
                                                         "squared-relu",
                                                         "step-batch-size-schedule",
                                                         "swiglu",
                                                         "tensor-model-parallel-size",
                                                         "tp-comm-overlap",
                                                         "untie-embeddings-and-output-weights",
                                                         "use-distributed-optimizer",
                                                         "use-megatron-fsdp",
                                                         "use-torch-fsdp2",
                                                         "v-head-dim",
                                                         "vocab-size",
                                                         "window-attn-skip-freq",
                                                         "window-size"});

// Shorter words may be a fork's own.
constexpr std::size_t kShortest = 5;

// Where several flags fit, the one that adds "-size" is meant.
std::vector<std::string_view> flags_begun_by(const std::string& key) {
  std::vector<std::string_view> found;
  if (key.size() < kShortest || std::find(kFlags.begin(), kFlags.end(), key) != kFlags.end()) return found;
  for (const std::string_view flag : kFlags) {
    if (flag == key + "-size") return {flag};
    if (flag.starts_with(key)) found.push_back(flag);
  }
  return found;
}

}  // namespace

void name_abbreviations(ReadingJob& job) {
  std::map<std::string, std::string> whole;
  for (const Setting& setting : job.settings().all()) {
    const std::vector<std::string_view> flags = flags_begun_by(setting.key);
    if (flags.empty()) continue;
    if (flags.size() == 1) {
      whole.emplace(setting.key, flags[0]);
      job.broken(
          fmt::format("{} is read as --{}: Megatron-LM's parser takes no abbreviations", setting.shown, flags[0]));
      continue;
    }
    std::vector<std::string> names;
    for (const std::string_view flag : flags) names.push_back(fmt::format("--{}", flag));
    job.broken(fmt::format("{} is no flag, and {} begin so", setting.shown, join(names, ", ")));
  }
  job.settings().rename(whole);
}

}  // namespace meshwright
