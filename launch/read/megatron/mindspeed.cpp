// SPDX-License-Identifier: Apache-2.0
#include "launch/read/megatron/mindspeed.h"

#include <algorithm>
#include <numeric>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr const char* kRelease = "MindSpeed-LLM c77308a1";

bool is_mindspeed(const Settings& settings) {
  for (const char* key :
       {"use-fused-rmsnorm", "use-fused-swiglu", "use-fused-rotary-pos-emb", "context-parallel-algo", "noop-layers",
        "num-layer-list", "handler-name", "ai-framework", "enable-hf2mg-convert", "n-shared-experts"})
    if (settings.has(key)) return true;
  return false;
}

// Kernels and checks that change neither the model nor where it lies.
bool tells_no_plan(const std::string& key) {
  for (const char* start : {"use-fused-", "use-ascend-", "coc-", "rope-scaling-", "enable-hf2mg", "enable-mg2hf",
                            "fix-", "npu-", "prompt-", "use-sparse-flash", "indexer-loss", "use-triton-"})
    if (key.starts_with(start)) return true;
  for (const char* word : {"handler-name",
                           "no-shared-storage",
                           "model-type-hf",
                           "ai-framework",
                           "is-instruction-dataset",
                           "beta-fast",
                           "beta-slow",
                           "disable-gloo-group",
                           "no-pad-to-seq-lengths",
                           "variable-seq-lengths",
                           "norm-topk-prob",
                           "shape-order",
                           "seq-aux",
                           "high-freq-factor",
                           "low-freq-factor",
                           "original-max-position-embeddings",
                           "mla-fa-without-pad",
                           "mla-mm-split",
                           "enable-thinking",
                           "padded-samples",
                           "no-shuffle",
                           "neat-pack",
                           "pack",
                           "gemm-gradient-accumulation-fusion",
                           "router-gating-in-fp32",
                           "shared-expert-gate",
                           "add-rmsnorm-offset",
                           "use-glm-rope",
                           "attention-mask-type",
                           "use-cp-send-recv-overlap",
                           "hf-cfg-dir",
                           "workers"})
    if (key == word) return true;
  return false;
}

// Every one is a sentence's end for what the prediction leaves out.
constexpr std::pair<const char*, const char*> kLeftOut[] = {
    {"swap-optimizer", "with the optimizer's states on the devices (--swap-optimizer moves them to the host)"},
    {"swap-attention", "without moving what attention keeps to the host (--swap-attention)"},
    {"reuse-fp32-param", "with weights beside their copies of 32 bits (--reuse-fp32-param keeps one of them)"},
    {"moe-alltoall-overlap-comm", "without --moe-alltoall-overlap-comm"},
    {"moe-allgather-overlap-comm", "without --moe-allgather-overlap-comm"},
    {"moe-fb-overlap", "without --moe-fb-overlap"},
    {"moe-zero-memory", "without --moe-zero-memory"},
    {"tp-2d", "tensor parallelism over one axis, not two (--tp-2d)"}};

void read_context_kind(Settings& s) {
  const std::string kind = s.text_or_nothing("context-parallel-algo");
  if (kind.empty() || s.has("cp-comm-type")) return;
  const char* as = kind == "ulysses_cp_algo"       ? "a2a"
                   : kind == "kvallgather_cp_algo" ? "all_gather"
                   : kind == "hybrid_cp_algo"      ? "a2a+p2p"
                                                   : "p2p";
  s.add("cp-comm-type", "--context-parallel-algo", ConfigValue::scalar(as, 0), s.where("context-parallel-algo"));
  (void)s.take("context-parallel-algo");
}

}  // namespace

void name_mindspeed_as_megatron(ReadingJob& job) {
  Settings& s = job.settings();
  s.rename({{"moe-intermediate-size", "moe-ffn-hidden-size"},
            {"n-group", "moe-router-num-groups"},
            {"topk-group", "moe-router-group-topk"},
            {"routed-scaling-factor", "moe-router-topk-scaling-factor"},
            {"qk-rope-head-dim", "qk-pos-emb-head-dim"},
            {"qk-nope-head-dim", "qk-head-dim"},
            {"multi-head-latent-attention", "multi-latent-attention"}});
  if (!is_mindspeed(s)) return;
  job.reading.setup.release = kRelease;
  read_context_kind(s);
  // Whole experts, also over the ranks of tp.
  if (s.flag("moe-tp-extend-ep") && !s.has("expert-tensor-parallel-size")) {
    const std::int64_t tp = s.integer("tensor-model-parallel-size").value_or(1);
    const std::int64_t ep = s.integer("expert-model-parallel-size").value_or(1);
    const std::string place = s.where("moe-tp-extend-ep");
    const std::string ranks = std::to_string(std::min(tp, kMaxDegree) * std::min(ep, kMaxDegree));
    s.add("expert-model-parallel-size", "--moe-tp-extend-ep", ConfigValue::scalar(ranks, 0), place);
    s.add("expert-tensor-parallel-size", "--moe-tp-extend-ep", ConfigValue::scalar("1", 0), place);
  }
  const bool some = s.flag("recompute-activation-function") || s.flag("recompute-norm");
  if (some && !s.has("recompute-granularity"))
    s.add("recompute-granularity", "--recompute-activation-function", ConfigValue::scalar("selective", 0), "");
  for (const auto& [key, what] : kLeftOut)
    if (s.take(key) != nullptr) job.assume(what);
  s.no_effect(tells_no_plan);
}

std::vector<std::int64_t> noop_layers(ReadingJob& job) {
  Settings& s = job.settings();
  const Setting* given = s.take("noop-layers");
  if (given == nullptr) return {};
  std::vector<std::int64_t> layers;
  for (const std::string& item : split(to_text(given->value), ','))
    layers.push_back(parse_integer(item, s.where("noop-layers"), 0, 1'000'000));
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

bool read_mindspeed_stages(ReadingJob& job, std::int64_t layers) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  if (s.text_or_nothing("schedules-method") == "dualpipev" && d.pp > 1) {
    (void)s.take("schedules-method");
    d.chunks = 2;
    d.schedule = ScheduleKind::DualPipeV;
    job.reading.framework.schedules.push_back(ScheduleKind::DualPipeV);
  }
  const std::vector<std::int64_t> noops = noop_layers(job);
  const Setting* list = s.take("num-layer-list");
  if ((noops.empty() && list == nullptr) || d.pp == 1) return false;
  const auto all = layers + std::ssize(noops);
  std::vector<int> blocks;
  if (list != nullptr) {
    for (const std::string& item : split(to_text(list->value), ','))
      blocks.push_back(static_cast<int>(parse_integer(item, s.where("num-layer-list"), 1, 1'000'000)));
    if (std::ssize(blocks) != d.stages() || std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0}) != all) {
      job.broken_without_plan(
          fmt::format("--num-layer-list {} are not the {} layers of {} stages", to_text(list->value), all, d.stages()));
      return false;
    }
  } else if (all % d.stages() != 0) {
    job.broken_without_plan(fmt::format("{} layers, of which {} do nothing, are not a multiple of pp={} x vpp={}", all,
                                        noops.size(), d.pp, d.chunks));
    return false;
  } else {
    blocks.assign(static_cast<std::size_t>(d.stages()), static_cast<int>(all / d.stages()));
  }
  std::int64_t end = 0;
  for (int& stage : blocks) {
    const std::int64_t begin = std::exchange(end, end + stage);
    stage -= static_cast<int>(
        std::count_if(noops.begin(), noops.end(), [&](std::int64_t layer) { return layer >= begin && layer < end; }));
  }
  job.reading.setup.stage_blocks = std::move(blocks);
  return true;
}

}  // namespace meshwright
