// SPDX-License-Identifier: Apache-2.0
// nanotron (00708b80): YAML of a model, its tokens, its optimizer and the degrees. Defaults and checks are those of its
// classes of configurations and of ParallelContext.
#include <algorithm>

#include "core/base/errors.h"
#include "launch/read/readers.h"

namespace meshwright {

namespace {

const std::string kModel = "model.model_config.";

Framework nanotron_framework() {
  Framework framework = find_framework("megatron");
  framework.name = "nanotron";
  framework.release = "nanotron 00708b80";
  framework.software = "nanotron";
  framework.schedules = {ScheduleKind::OneFOneB, ScheduleKind::GPipe};
  framework.recompute = {Recompute::None, Recompute::Full};
  framework.splits_ends = false;
  framework.divides_kv_heads = true;
  framework.context_exchanges = {ContextExchange::PointToPoint};
  framework.further = Framework::FurtherTokens::Never;
  return framework;
}

void read_mixture(ReadingJob& job, ModelFacts& facts) {
  Settings& s = job.settings();
  const std::string key = kModel + "moe_config.";
  facts.experts = s.integer(key + "num_experts", 0).value_or(s.has(key + "top_k") ? 8 : 0);
  if (facts.experts == 0) return;
  facts.top_k = s.integer(key + "top_k").value_or(2);
  facts.expert_ffn = s.integer(key + "moe_intermediate_size");
  if (s.flag(key + "enable_shared_expert"))
    facts.shared_ffn =
        s.integer(key + "shared_expert_intermediate_size").value_or(facts.expert_ffn.value_or(*facts.ffn));
  if (const Setting* layers = s.take(key + "layers"); layers != nullptr && layers->value.is_list() &&
                                                      to_text(layers->value) != "[-1]" &&
                                                      std::ssize(layers->value.items) != facts.layers)
    job.assume(fmt::format("experts in every layer, not in the {} of {}layers", layers->value.items.size(), key));
}

ModelFacts nanotron_facts(ReadingJob& job) {
  Settings& s = job.settings();
  for (const std::string part :
       {"is_llama_config", "is_qwen2_config", "is_starcoder2_config", "is_mamba_config", "is_llamoe_config"})
    if (s.has(kModel + part) && part != "is_llama_config" && part != "is_qwen2_config")
      throw InputError(fmt::format("{}: is a model that this reader does not have; give --model with its config.json.",
                                   s.where(kModel + part)));
    else
      (void)s.take(kModel + part);
  ModelFacts facts;
  const auto size = [&](const char* key, std::int64_t otherwise) {
    return s.integer(kModel + key).value_or(otherwise);
  };
  facts.layers = size("num_hidden_layers", 32);
  facts.hidden = size("hidden_size", 4096);
  facts.heads = size("num_attention_heads", 32);
  facts.kv_heads = s.integer(kModel + "num_key_value_heads");
  facts.head_dim = s.integer(kModel + "head_dim");
  if (facts.head_dim && *facts.head_dim * facts.heads == facts.hidden) facts.head_dim.reset();
  facts.ffn = size("intermediate_size", 11008);
  facts.vocab = size("vocab_size", 32000);
  facts.positions = ModelFacts::Positions::Rotary;
  facts.rotary_base = s.number(kModel + "rope_theta").value_or(10000.0);
  facts.activation = s.text(kModel + "hidden_act").value_or("silu") == "gelu" ? ModelFacts::Activation::Gelu
                                                                              : ModelFacts::Activation::Silu;
  facts.gated = facts.rms_norm = true;
  facts.bias = false;
  facts.qkv_bias = s.boolean(kModel + "attention_bias").value_or(false);
  facts.tied = s.boolean(kModel + "tie_word_embeddings").value_or(false);
  facts.window = s.integer(kModel + "sliding_window_size").value_or(0);
  read_mixture(job, facts);
  if (s.integer(kModel + "no_rope_layer")) job.assume("rotated positions also in the layers of no_rope_layer");
  return facts;
}

void read_model(ReadingJob& job) {
  Settings& s = job.settings();
  const auto seq = sequence_of(job, "tokens.sequence_length");
  if (take_given_model(job, seq)) return;
  require(seq.has_value(), "{}: 'tokens.sequence_length' is missing; add it, or give --seq.", job.text.program);
  ModelFacts facts = nanotron_facts(job);
  facts.seq = *seq;
  if (job.answers.vocab) facts.vocab = *job.answers.vocab;
  const std::int64_t unit = s.integer("model.make_vocab_size_divisible_by").value_or(1) * job.degrees().tp;
  facts.vocab = vocabulary(job, facts.vocab, std::min<std::int64_t>(unit, 1 << 20));
  job.reading.setup.model = model_of(facts, "", job.text.program, job.reading.assumed);
  if (const auto positions = s.integer(kModel + "max_position_embeddings"); positions && *positions < facts.seq)
    job.broken(fmt::format("max_position_embeddings {} is less than sequence_length {}", *positions, facts.seq));
}

void read_degrees_of_experts(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  d.ep = degree_of(job, "parallelism.expert_parallel_size");
  const std::int64_t etp = s.integer("parallelism.expert_tensor_parallel_size").value_or(1);
  if (d.ep == 1) return;
  if (const std::int64_t ranks = etp * d.ep * d.pp; job.devices.devices() % ranks != 0) {
    const std::string why = fmt::format(
        "expert_tensor_parallel_size {} x expert_parallel_size {} x pp {} does not divide "
        "the {} devices",
        etp, d.ep, d.pp, job.devices.devices());
    job.broken_without_plan(why);
  }
  d.whole_experts = etp == 1 && d.tp > 1 && d.ep % d.tp == 0;
  if (etp == 1 && d.tp > 1 && !d.whole_experts) job.assume(fmt::format("every expert split over tp={}", d.tp));
}

}  // namespace

void read_nanotron(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  LaunchSetup& setup = job.reading.setup;
  setup.release = "nanotron 00708b80";
  setup.dialect = "nanotron";
  job.reading.framework = nanotron_framework();
  job.reading.software = "nanotron";
  d.tp = degree_of(job, "parallelism.tp");
  d.pp = degree_of(job, "parallelism.pp");
  d.cp = degree_of(job, "parallelism.context_parallel_size");
  d.context = ContextExchange::PointToPoint;
  share_devices(job);
  const auto dp = s.integer("parallelism.dp");
  if (dp && *dp != d.dp && job.reading.why_no_plan.empty()) {
    const std::string why = fmt::format("tp {} x cp {} x dp {} x pp {} = {} is not the number of devices, {}", d.tp,
                                        d.cp, *dp, d.pp, d.tp * d.cp * *dp * d.pp, job.devices.devices());
    job.broken_without_plan(why, "; give --cluster or --nodes with as many");
  }
  read_model(job);
  read_degrees_of_experts(job);
  d.schedule =
      s.text("parallelism.pp_engine").value_or("afab") == "1f1b" ? ScheduleKind::OneFOneB : ScheduleKind::GPipe;
  const std::string mode = s.text("parallelism.tp_mode").value_or("ALL_REDUCE");
  d.sequence_parallel = d.tp > 1 && (mode == "REDUCE_SCATTER" || mode == "reduce_scatter");
  d.recompute = s.boolean("parallelism.recompute_layer").value_or(false) ? Recompute::Full : Recompute::None;
  if (s.boolean("parallelism.moe_layer_recompute").value_or(false) && d.recompute == Recompute::None)
    job.assume("without moe_layer_recompute");
  if (d.pp > 1 && setup.model.layers % d.pp != 0) job.assume("stages of nearly equal numbers of blocks");
  const std::int64_t stage = s.integer("optimizer.zero_stage", 0).value_or(0);
  if (stage > 1) job.broken(fmt::format("zero_stage {} is unknown; expected 0 or 1", stage));
  d.zero = stage > 0 && d.dp * d.cp > 1 ? 1 : 0;
  const std::string type = s.text("model.dtype").value_or("bfloat16");
  setup.dtype = type == "float16" ? DType::F16 : type == "float32" ? DType::F32 : DType::BF16;
  if (type == "float8" || type == "fp8") setup.matmul_dtype = "fp8";
  const std::string optimizer = s.text("optimizer.optimizer_factory.name").value_or("adamW");
  if (optimizer == "sgd")
    setup.optimizer.kind = Optimizer::Kind::Sgd;
  else if (optimizer != "adamW")
    job.assume(fmt::format("Adam in the place of {}", optimizer));
  setup.optimizer.weight_decay = std::max(0.0, s.number("optimizer.weight_decay").value_or(0.0));
  setup.optimizer.max_norm = std::max(0.0, s.number("optimizer.clip_grad").value_or(0.0));
  if (!s.boolean("optimizer.accumulate_grad_in_fp32").value_or(true))
    job.assume("gradients that are summed in 32 bits");
  setup.overlap_tensor_parallel =
      d.sequence_parallel && s.boolean("parallelism.tp_linear_async_communication").value_or(false);
  const std::int64_t micro = job.answers.micro_batch
                                 ? *job.answers.micro_batch
                                 : needed(job, "tokens.micro_batch_size", "'tokens.micro_batch_size'");
  (void)s.take("tokens.micro_batch_size");
  const std::int64_t steps = s.integer("tokens.batch_accumulation_per_replica").value_or(1);
  share_batch(job, micro, micro * steps * d.dp);
  s.no_effect([](const std::string& key) {
    for (const char* group :
         {"checkpoints", "data_stages", "data.", "general", "lighteval", "logging", "metrics_logging", "profiler",
          "s3_upload", "tokenizer", "optimizer.", "model.init_method", "kill_switch", "experiment_logger"})
      if (key.starts_with(group)) return true;
    for (const char* word :
         {"_attn_implementation", "_fused_rms_norm", "_fused_rotary_emb", "_use_doc_masking", "_use_qkv_packed",
          "bos_token_id", "eos_token_id", "pad_token_id", "initializer_range", "pretraining_tp", "rms_norm_eps",
          "rope_interleaved", "rope_scaling", "use_cache", "z_loss_coefficient", "z_loss_enabled",
          "flex_attention_mask", "moe_config", "moe_config.token_dispatcher_type"})
      if (key == kModel + word) return true;
    return key == "model.ddp_bucket_cap_mb" || key.starts_with("tokens.limit_") || key == "tokens.val_check_interval" ||
           key == "tokens.train_steps" || key == "parallelism.tp_recompute_allgather" ||
           key == "parallelism.tp_linear_async_communication";
  });
}

}  // namespace meshwright
