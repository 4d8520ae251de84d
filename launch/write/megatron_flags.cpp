// SPDX-License-Identifier: Apache-2.0
#include "launch/write/megatron_flags.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/planner/method/layer_options.h"
#include "core/planner/method/stage_layout.h"

namespace meshwright {

namespace {

void add_attention(FlagGroup& flags, const Decoder& d) {
  if (d.latent) {
    flags.add("--multi-latent-attention");
    if (d.latent->q_rank > 0) flags.add("--q-lora-rank", d.latent->q_rank);
    flags.add("--kv-lora-rank", d.latent->kv_rank);
    flags.add("--qk-head-dim", d.latent->nope);
    flags.add("--qk-pos-emb-head-dim", d.latent->rope);
    flags.add("--v-head-dim", d.latent->value);
    // Latent vectors are normalised.
    flags.add("--qk-layernorm");
    return;
  }
  if (d.head_dim * d.heads != d.hidden) flags.add("--kv-channels", d.head_dim);
  if (d.kv_heads != d.heads) {
    flags.add("--group-query-attention");
    flags.add("--num-query-groups", d.kv_heads);
  }
  if (d.qk_norm) flags.add("--qk-layernorm");
  if (d.window > 0) flags.add("--window-size", fmt::format("{},0", d.window - 1));
}

void add_positions(FlagGroup& flags, const Decoder& d) {
  switch (d.positions) {
    case Decoder::Positions::Learned:
      flags.add("--position-embedding-type", "learned_absolute");
      return;
    case Decoder::Positions::Absent:
      flags.add("--position-embedding-type", "none");
      return;
    case Decoder::Positions::Rotary:
      flags.add("--position-embedding-type", "rope");
      flags.add("--rotary-base", static_cast<std::int64_t>(d.rotary_base));
      if (d.rotary_share != 1.0) flags.add("--rotary-percent", decimal(d.rotary_share));
      if (has_megatron_scaling(d)) {
        flags.add("--use-rope-scaling");
        flags.add("--rope-scaling-factor", decimal(d.rotary_scaling->factor));
      }
      return;
  }
}

void add_further_tokens(FlagGroup& flags, const Decoder& d) {
  if (d.further == 0) return;
  flags.add("--mtp-num-layers", d.further);
  flags.add("--mtp-loss-scaling-factor", decimal(d.further_weight));
}

}  // namespace

bool has_megatron_scaling(const Decoder& d) {
  return d.rotary_scaling && !d.latent &&
         *d.rotary_scaling == RotaryScaling{.kind = RotaryScaling::Kind::Llama3,
                                            .factor = d.rotary_scaling->factor,
                                            .original = 8192.0,
                                            .low = 1.0,
                                            .high = 4.0};
}

std::vector<std::string> megatron_rotation_difference(const Decoder& d) {
  return has_megatron_scaling(d) ? std::vector<std::string>() : plain_rotation_difference(d);
}

FlagGroup megatron_model_flags(const Decoder& d) {
  FlagGroup flags{"MODEL_ARGS", "The model, of random weights."};
  flags.add("--transformer-impl", "transformer_engine");
  flags.add("--num-layers", d.layers);
  flags.add("--hidden-size", d.hidden);
  flags.add("--ffn-hidden-size", d.ffn);
  flags.add("--num-attention-heads", d.heads);
  add_attention(flags, d);
  flags.add("--seq-length", d.seq);
  flags.add("--max-position-embeddings", std::max(d.seq, d.position_rows));
  add_positions(flags, d);
  flags.add("--normalization", d.rms_norm ? "RMSNorm" : "LayerNorm");
  flags.add("--norm-epsilon", decimal(d.epsilon));
  if (d.gated) flags.add("--swiglu");
  if (!d.bias) flags.add("--disable-bias-linear");
  if (d.qkv_bias && !d.bias) flags.add("--add-qkv-bias");
  if (!d.tied) flags.add("--untie-embeddings-and-output-weights");
  add_further_tokens(flags, d);
  flags.add("--hidden-dropout", "0.0");
  flags.add("--attention-dropout", "0.0");
  return flags;
}

std::string moe_layer_pattern(const Decoder& d) {
  std::string text;
  for (std::int64_t layer = 0; layer < d.layers;) {
    std::int64_t end = layer;
    while (end < d.layers && d.has_experts(end) == d.has_experts(layer)) ++end;
    if (layer == 0 && end == d.layers) return "";
    text += fmt::format("{}[{}]*{}", text.empty() ? "" : "+", d.has_experts(layer) ? 1 : 0, end - layer);
    layer = end;
  }
  return "(" + text + ")";
}

FlagGroup megatron_expert_flags(const Decoder& d, const LaunchSetup& setup) {
  const Degrees& degrees = setup.degrees;
  FlagGroup flags{"MOE_ARGS", "Experts. The router's load is forced even, as it is predicted."};
  if (!d.experts) return flags;
  const Decoder::Experts& e = *d.experts;
  flags.add("--num-experts", e.count);
  flags.add("--moe-router-topk", e.top_k);
  flags.add("--moe-ffn-hidden-size", e.ffn);
  if (e.shared_ffn > 0) flags.add("--moe-shared-expert-intermediate-size", e.shared_ffn);
  const std::string pattern = moe_layer_pattern(d);
  if (!pattern.empty()) flags.add("--moe-layer-freq", pattern);
  if (e.sigmoid) flags.add("--moe-router-score-function", "sigmoid");
  if (!e.sigmoid && !e.normalized) flags.add("--moe-router-pre-softmax");
  if (e.selection_bias) flags.add("--moe-router-enable-expert-bias");
  if (e.scale != 1.0) flags.add("--moe-router-topk-scaling-factor", decimal(e.scale));
  flags.add("--moe-router-load-balancing-type", "none");
  flags.add("--moe-router-force-load-balancing");
  flags.add("--moe-grouped-gemm");
  flags.add("--moe-token-dispatcher-type", megatron_dispatcher(setup.software_setup.dispatch));
  flags.add("--expert-model-parallel-size", degrees.ep);
  flags.add("--expert-tensor-parallel-size", degrees.whole_experts ? 1 : degrees.tp);
  return flags;
}

bool ends_count_as_layers(const LaunchSetup& setup) {
  const Degrees& d = setup.degrees;
  if (d.pp == 1 || d.split.uneven()) return false;
  const std::int64_t stages = d.stages();
  if (setup.model.layers % stages == 0 || (setup.model.layers + 2) % stages != 0) return false;
  return setup.stage_blocks.empty() ||
         setup.stage_blocks == blocks_of_stages(d.split, setup.model.layers, d.pp, d.chunks);
}

std::string megatron_layout(const LaunchSetup& setup) {
  const Degrees& d = setup.degrees;
  if (d.pp == 1) return "";
  if (setup.stage_blocks.empty()) return d.split.layout;
  const bool even = setup.model.layers % d.stages() == 0 || ends_count_as_layers(setup);
  const bool by_itself = d.split.layout.empty() && !setup.further_stage && (d.split.uneven() || even) &&
                         setup.stage_blocks == blocks_of_stages(d.split, setup.model.layers, d.pp, d.chunks);
  const auto further = static_cast<int>(shape_of(setup.model).further);
  return by_itself ? "" : layout_of(setup.stage_blocks, {further, setup.further_stage});
}

FlagGroup megatron_parallel_flags(const LaunchSetup& setup) {
  const Degrees& d = setup.degrees;
  FlagGroup flags{"PARALLEL_ARGS", fmt::format("How the job is split; dp {} is what is left.", d.dp)};
  flags.add("--tensor-model-parallel-size", d.tp);
  if (d.sequence_parallel) flags.add("--sequence-parallel");
  flags.add("--pipeline-model-parallel-size", d.pp);
  const std::string layout = megatron_layout(setup);
  if (!layout.empty()) {
    flags.add("--pipeline-model-parallel-layout", layout);
  } else {
    if (d.chunks > 1) flags.add("--num-virtual-stages-per-pipeline-rank", d.chunks);
    if (d.split.first > 0) flags.add("--decoder-first-pipeline-num-layers", d.split.first);
    if (d.split.last > 0) flags.add("--decoder-last-pipeline-num-layers", d.split.last);
    if (ends_count_as_layers(setup)) {
      flags.add("--account-for-embedding-in-pipeline-split");
      flags.add("--account-for-loss-in-pipeline-split");
    }
  }
  flags.add("--context-parallel-size", d.cp);
  if (d.cp > 1)
    flags.add("--cp-comm-type", d.context == ContextExchange::AllGather ? "all_gather" : name_of(d.context));
  // Offloading is the distributed optimizer's, also of a single replica.
  if (d.zero > 0 || has(setup.offload, Offload::Optimizer)) flags.add("--use-distributed-optimizer");
  if (setup.shard && d.zero > 0) flags.add("--num-distributed-optimizer-instances", d.dp * d.cp / *setup.shard);
  if (setup.overlap_gradients) flags.add("--overlap-grad-reduce");
  if (setup.overlap_weights && setup.overlap_gradients && d.zero > 0) flags.add("--overlap-param-gather");
  if (setup.overlap_tensor_parallel && d.sequence_parallel) flags.add("--tp-comm-overlap");
  return flags;
}

int blocks_recomputed_first(const LaunchSetup& setup) {
  const Degrees& d = setup.degrees;
  int most = 0, from = 0;
  for (const int own : blocks_of_stages(setup)) {
    int recomputed = d.recompute == Recompute::Full ? own : 0;
    for (const LayerRecompute& run : setup.recompute_layers) {
      const int change = (run.recompute == Recompute::Full) - (d.recompute == Recompute::Full);
      recomputed += change * std::max(0, std::min(run.last, from + own - 1) - std::max(run.first, from) + 1);
    }
    most = std::max(most, recomputed);
    from += own;
  }
  return most;
}

FlagGroup megatron_recompute_flags(const LaunchSetup& setup) {
  FlagGroup flags{"RECOMPUTE_ARGS", "What the backward recomputes."};
  Recompute recompute = setup.degrees.recompute;
  if (!setup.recompute_layers.empty()) {
    // The first blocks of every stage (rules/: nothing else can be told).
    flags.add("--recompute-granularity", "full");
    flags.add("--recompute-method", "block");
    flags.add("--recompute-num-layers", blocks_recomputed_first(setup));
    return flags;
  }
  if (recompute == Recompute::Full) {
    flags.add("--recompute-granularity", "full");
    flags.add("--recompute-method", "uniform");
    flags.add("--recompute-num-layers", "1");
  } else if (recompute == Recompute::Selective) {
    flags.add("--recompute-granularity", "selective");
    flags.add("--recompute-modules", "core_attn");
  } else if (setup.degrees.recompute_modules != RecomputeModules::None) {
    flags.add("--recompute-granularity", "selective");
    const std::vector<std::string> modules = split(name_of(setup.degrees.recompute_modules), ',');
    flags.add("--recompute-modules", modules.front());
    for (std::size_t m = 1; m < modules.size(); ++m) flags.add(modules[m]);
  }
  return flags;
}

FlagGroup megatron_training_flags(const LaunchSetup& setup) {
  const Degrees& d = setup.degrees;
  FlagGroup flags{"TRAINING_ARGS",
                  fmt::format("{} micro-batches of {} on each of {} replicas.", d.micro_batches, d.micro_batch, d.dp)};
  flags.add("--micro-batch-size", d.micro_batch);
  flags.add("--global-batch-size", setup.global_batch());
  flags.add("--train-iters", setup.steps);
  flags.add("--eval-iters", "0");
  if (setup.dtype == DType::BF16) flags.add("--bf16");
  if (setup.dtype == DType::F16) flags.add("--fp16");
  if (setup.matmul_dtype == "fp8") flags.add("--fp8-format", "hybrid");
  const Optimizer& o = setup.optimizer;
  flags.add("--optimizer", o.kind == Optimizer::Kind::Adam ? "adam" : "sgd");
  if (o.kind != Optimizer::Kind::Adam)
    flags.add("--sgd-momentum", decimal(o.kind == Optimizer::Kind::Momentum ? o.momentum : 0.0));
  flags.add("--lr", decimal(o.learning_rate));
  flags.add("--min-lr", decimal(o.learning_rate));
  flags.add("--lr-decay-style", "constant");
  flags.add("--weight-decay", decimal(o.weight_decay));
  flags.add("--clip-grad", decimal(o.max_norm));
  const bool offloads = has(setup.offload, Offload::Optimizer);
  const int bits = setup.software_setup.moment_bits;
  if (offloads) flags.add("--optimizer-cpu-offload");
  if (offloads || bits < 32) flags.add("--use-precision-aware-optimizer");
  if (bits < 32)
    for (const char* moment : {"--exp-avg-dtype", "--exp-avg-sq-dtype"}) flags.add(moment, bits == 16 ? "bf16" : "fp8");
  flags.add("--log-interval", "1");
  flags.add("--log-throughput");
  return flags;
}

FlagGroup megatron_data_flags(const Decoder& decoder) {
  FlagGroup flags{"DATA_ARGS", "No data: random tokens, so that the job runs as a benchmark at once."};
  flags.add("--tokenizer-type", "NullTokenizer");
  flags.add("--vocab-size", decoder.vocab);
  flags.add("--mock-data");
  flags.add("--no-create-attention-mask-in-dataloader");
  return flags;
}

}  // namespace meshwright
