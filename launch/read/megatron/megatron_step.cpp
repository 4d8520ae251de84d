// SPDX-License-Identifier: Apache-2.0
#include "launch/read/megatron/megatron_step.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/planner/method/stage_layout.h"
#include "launch/read/megatron/megatron_older.h"

namespace meshwright {

namespace {

// "moe_act", "[moe_act,layernorm]" of an override.
std::vector<std::string> module_names(Settings& s) {
  std::vector<std::string> names;
  for (std::string word : s.words("recompute-modules")) {
    std::erase_if(word, [](char c) { return c == '[' || c == ']' || c == '"' || c == '\''; });
    for (std::string& name : split(word, ','))
      if (!name.empty()) names.push_back(std::move(name));
  }
  return names;
}

// Those that the model's blocks have; the others have no effect.
RecomputeModules modules_of_model(ReadingJob& job, const std::vector<std::string>& given) {
  if (given.empty() || given == std::vector<std::string>{"core_attn"}) return RecomputeModules::None;
  const auto& sizes = job.reading.setup.model.more;
  const auto size_of = [&](const char* name) {
    const auto found = sizes.find(name);
    return found == sizes.end() ? 0 : found->second;
  };
  const bool mixture = size_of("experts") > 0;
  RecomputeModules modules = RecomputeModules::None;
  for (const std::string& name : given) {
    const std::optional<RecomputeModules> one = recompute_module(name);
    if (!one) {
      job.broken(fmt::format("--recompute-modules knows no {}", name));
      continue;
    }
    if (!mixture && has(RecomputeModules::Mixture | RecomputeModules::ExpertActivations, *one)) continue;
    if (one == RecomputeModules::SharedExperts && size_of("shared_intermediate") == 0) continue;
    if (one == RecomputeModules::LatentProjections && size_of("kv_rank") == 0) continue;
    if (one == RecomputeModules::FeedForward && mixture && size_of("dense_layers") == 0) continue;
    modules = modules | *one;
  }
  return modules;
}

}  // namespace

void read_recompute(ReadingJob& job, std::int64_t layers) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  // Helpers that a recipe calls, and a file does not have, set the granularity.
  const bool of_recipe = job.text.target == "megatron-bridge" && s.has("recompute-modules");
  std::string granularity = s.text("recompute-granularity").value_or(of_recipe ? "selective" : "");
  std::string method = s.text("recompute-method").value_or("");
  auto count = s.integer("recompute-num-layers");
  const std::vector<std::string> modules = module_names(s);
  std::string& words = job.reading.setup.own_recompute;
  if (s.flag("recompute-activations")) {
    words = granularity.empty() ? "--recompute-activations"
                                : fmt::format("--recompute-activations --recompute-granularity {}", granularity);
    granularity = "selective";
  }
  if (const OldRecompute old = old_recompute(job); old.given) {
    if (job.text.variant.empty())
      job.broken(
          "--checkpoint-activations and --activations-checkpoint-method are no longer flags: --recompute-granularity "
          "full");
    words = join(old.flags, " ");
    granularity = "full";
    method = old.method;
    count = old.layers;
  } else if (granularity == "full" && (method.empty() || !count)) {
    job.broken("--recompute-granularity full needs --recompute-method and --recompute-num-layers");
  } else if (granularity == "selective" && (!method.empty() || count)) {
    job.broken("--recompute-granularity selective takes neither --recompute-method nor --recompute-num-layers");
  }
  if (granularity == "selective") {
    job.reading.setup.degrees.recompute_modules = modules_of_model(job, modules);
    const bool attention_alone = modules.empty() || modules == std::vector<std::string>{"core_attn"};
    if (attention_alone)
      d.recompute = Recompute::Selective;
    else
      words = fmt::format("--recompute-granularity selective --recompute-modules {}", join(modules, " "));
  }
  if (granularity != "full") return;
  d.recompute = Recompute::Full;
  if (method != "block" || !count) return;
  std::vector<int> blocks = job.reading.setup.stage_blocks;
  if (blocks.empty() && !d.split.uneven() && layers < d.stages()) return;  // a broken rule, which is said
  if (blocks.empty()) blocks = blocks_of_stages(d.split, layers, d.pp, d.chunks);
  if (std::all_of(blocks.begin(), blocks.end(), [&](int own) { return own <= *count; })) return;
  d.recompute = Recompute::None;
  int from = 0;
  for (const int own : blocks) {
    const int whole = static_cast<int>(std::min<std::int64_t>(*count, own));
    if (whole > 0) job.reading.setup.recompute_layers.push_back({from, from + whole - 1, Recompute::Full});
    from += own;
  }
}

void read_precision(ReadingJob& job) {
  Settings& s = job.settings();
  LaunchSetup& setup = job.reading.setup;
  const bool named = s.has("bf16") || s.has("fp16");
  const bool bf16 = s.flag("bf16") || (job.text.target == "megatron-bridge" && !named), fp16 = s.flag("fp16");
  if (bf16 && fp16) job.broken("--bf16 and --fp16 exclude each other");
  setup.dtype = bf16 ? DType::BF16 : fp16 ? DType::F16 : DType::F32;
  // Megatron-Bridge's names: "bf16_mixed", "fp16_with_fp8_delayed_scaling_mixed".
  if (const std::string mixed = s.text_or_nothing("mixed-precision"); !mixed.empty()) {
    setup.dtype = mixed.find("fp16") != std::string::npos ? DType::F16 : DType::BF16;
    if (mixed.find("fp8") != std::string::npos) setup.matmul_dtype = "fp8";
    if (mixed.find("fp4") != std::string::npos) {
      setup.matmul_dtype = "fp8";
      job.assume("products of 8 bits in the place of 4");
    }
  }
  // NeMo's fp8 switches its fp8_hybrid and fp8_e4m3; Megatron-Bridge's names one of them.
  const std::string switched = lower_case(s.text("fp8").value_or(""));
  const bool off = switched == "false" || switched == "none" || switched == "null";
  const bool formats = s.flag("fp8-hybrid") || s.flag("fp8-e4m3");
  if (s.has("fp8-format") || (!off && (formats || !switched.empty()))) {
    (void)s.take("fp8-format");
    setup.matmul_dtype = "fp8";
  }
  if (s.has("fp4-format") || s.has("fp4")) job.assume("products of 8 bits in the place of 4");
  if (s.has("fp4-format") || s.has("fp4")) setup.matmul_dtype = "fp8";
  (void)s.take("fp4-format");
  (void)s.take("fp4");
  // Without Transformer Engine attention is fused only where it is asked for.
  const std::string backend = s.text_or_nothing("attention-backend");
  const bool flash = s.flag("use-flash-attn") || s.flag("use-flash-attn-v2") || s.flag("use-flash-attn-triton");
  if (backend == "unfused" || backend == "local" ||
      (!flash && backend.empty() && s.text_or_nothing("transformer-impl") == "local"))
    setup.software_setup.fused_attention = false;
  else if (flash || backend == "flash" || backend == "fused")
    setup.software_setup.fused_attention = true;
  if (s.text_or_nothing("cross-entropy-fusion-impl") == "linear") setup.software_setup.loss_chunks = kFittingLossChunks;
}

// Without a flag Megatron-LM gathers the tokens of all; recipes and programs that train by Megatron-Core say what they
// do.
void read_token_dispatch(ReadingJob& job) {
  Settings& s = job.settings();
  SoftwareSetup& setup = job.reading.setup.software_setup;
  const int experts = experts_per_token(job.reading.setup.model);
  if (experts == 0 || job.degrees().ep == 1) return;
  const bool own = job.text.target != "megatron-bridge" && job.text.variant.empty();
  const std::string how = s.text("moe-token-dispatcher-type").value_or(own ? "allgather" : "");
  if (how == "flex")
    set_dispatch(setup, TokenDispatch::ToHosts, experts);
  else if (how == "allgather")
    set_dispatch(setup, TokenDispatch::ToAll, experts);
}

}  // namespace meshwright
