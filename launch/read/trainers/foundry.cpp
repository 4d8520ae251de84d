// SPDX-License-Identifier: Apache-2.0
// llm-foundry (8c8dd48f): YAML of a model, a batch and FSDP. Defaults are those of llmfoundry/models/mpt and of
// llmfoundry/command_utils/train.py.
#include <algorithm>

#include "core/base/errors.h"
#include "launch/read/trainers/fine_tuning.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

namespace {

void read_mpt_experts(ReadingJob& job, ModelFacts& facts, const std::string& kind) {
  Settings& s = job.settings();
  require(kind == "mb_moe" || kind == "mb_dmoe",
          "{}: '{}' is a feed-forward layer that this reader does not have; give --model.",
          s.where("model.ffn_config.ffn_type"), kind);
  facts.experts = s.integer("model.ffn_config.moe_num_experts").value_or(1);
  facts.top_k = s.integer("model.ffn_config.moe_top_k").value_or(1);
  facts.gated = s.text("model.ffn_config.mlp_type").value_or("mlp") == "glu";
  facts.expert_ffn = facts.ffn;
  if (const auto ranks = s.integer("model.ffn_config.moe_world_size"); ranks && *ranks > 1)
    job.no_plan(fmt::format("{}: experts are split over {} devices apart from FSDP; give --model and a method",
                            s.where("model.ffn_config.moe_world_size"), *ranks));
}

ModelFacts mpt_facts(ReadingJob& job) {
  Settings& s = job.settings();
  using Positions = ModelFacts::Positions;
  const auto size = [&](const char* key, std::int64_t otherwise) {
    return s.integer(std::string("model.") + key).value_or(otherwise);
  };
  const auto on = [&](const char* key, bool otherwise) {
    return s.boolean(std::string("model.") + key).value_or(otherwise);
  };
  for (const Setting& setting : s.all())
    require(!setting.key.starts_with("model.block_overrides"),
            "{}: {}: blocks that differ from one another are in no model that this reader makes; give --model.",
            setting.place, setting.shown);
  ModelFacts facts;
  facts.layers = size("n_layers", 24);
  facts.hidden = size("d_model", 2048);
  facts.heads = size("n_heads", 16);
  const double ratio = s.number("model.expansion_ratio").value_or(4.0);
  require(ratio > 0.0 && ratio < 1e4, "{}: {:g} is no width of a feed-forward layer; give a few times d_model.",
          s.where("model.expansion_ratio"), ratio);
  facts.ffn =
      s.integer("model.ffn_config.ffn_hidden_size")
          .value_or(std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(facts.hidden) * ratio)));
  const std::string kind = s.text("model.attn_config.attn_type").value_or("multihead_attention");
  if (kind == "multiquery_attention") facts.kv_heads = 1;
  if (kind == "grouped_query_attention") facts.kv_heads = needed(job, "model.attn_config.kv_n_heads", "kv_n_heads");
  facts.positions = on("attn_config.alibi", false)  ? Positions::Alibi
                    : on("attn_config.rope", false) ? Positions::Rotary
                    : on("learned_pos_emb", true)   ? Positions::Learned
                                                    : Positions::None;
  facts.rotary_base = s.number("model.attn_config.rope_theta").value_or(10000.0);
  facts.qk_norm = on("attn_config.qk_ln", false) || on("attn_config.qk_gn", false);
  if (const auto window = s.integer("model.attn_config.sliding_window_size", -1); window && *window > 0)
    facts.window = *window;
  facts.bias = !on("no_bias", false);
  facts.tied = on("tie_word_embeddings", true);
  facts.rms_norm = s.text("model.norm_type").value_or("low_precision_layernorm").find("rms") != std::string::npos;
  const std::string activation = s.text("model.ffn_config.ffn_act_fn.name").value_or("gelu");
  facts.activation = activation == "silu"   ? ModelFacts::Activation::Silu
                     : activation == "relu" ? ModelFacts::Activation::Relu
                                            : ModelFacts::Activation::Gelu;
  const std::string layer = s.text("model.ffn_config.ffn_type").value_or("mptmlp");
  facts.gated = layer == "mptglu";
  if (layer != "mptmlp" && layer != "mptglu" && layer != "te_ln_mlp") read_mpt_experts(job, facts, layer);
  facts.vocab = job.answers.vocab ? *job.answers.vocab : size("vocab_size", 50368);
  return facts;
}

void take_foundry_model(ReadingJob& job, std::int64_t seq) {
  Settings& s = job.settings();
  for (const Setting& setting : s.all())
    if (setting.key.starts_with("model.peft_config.") || setting.key.starts_with("peft_config."))
      expect_whole_model(job, setting.key, "adapters");
  const std::string kind = s.text("model.name").value_or("");
  if (take_given_model(job, seq)) return;
  if (kind == "mpt_causal_lm") {
    ModelFacts facts = mpt_facts(job);
    facts.seq = seq;
    job.reading.setup.model = model_of(facts, "", job.text.program, job.reading.assumed);
    return;
  }
  require(kind == "hf_causal_lm",
          "{}: models of '{}' are not read; expected mpt_causal_lm or hf_causal_lm, or give --model.",
          s.where("model.name"), kind);
  const std::string overrides = "model.config_overrides.";
  for (const char* length : {"max_seq_len", "max_position_embeddings", "n_positions", "attn_config.attn_impl",
                             "attn_config.attn_uses_sequence_id"})
    (void)s.take(overrides + length);
  for (const Setting& setting : s.all())
    require(!setting.key.starts_with(overrides) || setting.state == Setting::State::Understood,
            "{}: {}: may change the sizes of the model, which is read by its name; give --model with a config.json.",
            setting.place, setting.shown);
  take_tuned_model(job, "model.pretrained_model_name_or_path", "max_seq_len", seq);
}

void read_foundry_sharding(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  const bool given = std::any_of(s.all().begin(), s.all().end(),
                                 [](const Setting& one) { return one.key.starts_with("fsdp_config."); });
  for (const Setting& setting : s.all())
    require(!setting.key.starts_with("deepspeed_config") && !setting.key.starts_with("tp_config"),
            "{}: {}: only replicas and FSDP are read of llm-foundry; give a file without it.", setting.place,
            setting.shown);
  if (!given) return;  // replicas
  read_fsdp_keys(job, "fsdp_config.");
  (void)s.take("fsdp_config.mixed_precision");
  if (switched_on(s, "fsdp_config.activation_cpu_offload"))
    job.assume("activations kept on the devices (activation_cpu_offload)");
  if (s.has("fsdp_config.activation_checkpointing_target"))
    job.assume("whole blocks recomputed (activation_checkpointing_target)");
  (void)s.take("fsdp_config.activation_checkpointing_target");
  if (d.dp == 1) d.zero = 0;
}

void read_foundry_batch(ReadingJob& job) {
  Settings& s = job.settings();
  const std::int64_t global = needed(job, "global_train_batch_size", "global_train_batch_size");
  const std::string text = s.text_or_nothing("device_train_microbatch_size");
  require(text != "auto" || job.answers.micro_batch,
          "{}: the samples of a micro-batch are found as it runs; give --micro-batch.",
          s.where("device_train_microbatch_size"));
  const std::int64_t micro = job.answers.micro_batch
                                 ? *job.answers.micro_batch
                                 : needed(job, "device_train_microbatch_size", "device_train_microbatch_size");
  // Composer cuts a device's samples into micro-batches of at most so many.
  const std::int64_t of_device = std::max<std::int64_t>(1, job.answers.batch.value_or(global) / job.degrees().dp);
  share_batch(job, std::min(micro, of_device), global);
}

}  // namespace

void read_foundry(ReadingJob& job) {
  Settings& s = job.settings();
  LaunchSetup& setup = job.reading.setup;
  use_plain_fsdp(job, "llm-foundry 8c8dd48f", "llm-foundry");
  share_devices(job);
  const auto top = s.integer("max_seq_len"), of_model = s.integer("model.max_seq_len");
  const auto seq = job.answers.seq ? job.answers.seq : top ? top : of_model;
  require(seq.has_value(), "{}: max_seq_len is missing, and no plan can be made without it; add it, or give --seq.",
          job.text.program);
  take_foundry_model(job, *seq);
  read_foundry_sharding(job);
  const std::string precision = s.text("precision").value_or("amp_bf16");
  setup.dtype = precision.find("bf16") != std::string::npos || precision == "amp_fp8" ? DType::BF16
                : precision.find("fp16") != std::string::npos                         ? DType::F16
                                                                                      : DType::F32;
  if (precision == "amp_fp8") setup.matmul_dtype = "fp8";
  if (s.text_or_nothing("model.attn_config.attn_impl") == "torch") setup.software_setup.fused_attention = false;
  const std::string optimizer = s.text("optimizer.name").value_or("decoupled_adamw");
  if (optimizer.find("adam") == std::string::npos) job.assume(fmt::format("Adam in the place of {}", optimizer));
  setup.optimizer.weight_decay = std::max(0.0, s.number("optimizer.weight_decay").value_or(0.0));
  setup.optimizer.max_norm = std::max(0.0, s.number("algorithms.gradient_clipping.clipping_threshold").value_or(0.0));
  read_foundry_batch(job);
  if (s.flag("compile_config") || s.has("compile_config.mode")) job.assume("blocks that are not compiled");
  s.no_effect([](const std::string& key) {
    return begins_with_any(key, {"variables.",
                                 "tokenizer",
                                 "train_loader.",
                                 "eval_",
                                 "scheduler",
                                 "optimizer.",
                                 "algorithms.gradient_clipping",
                                 "max_duration",
                                 "seed",
                                 "progress_bar",
                                 "log_",
                                 "console_log",
                                 "callbacks.",
                                 "loggers",
                                 "save_",
                                 "load_",
                                 "autoresume",
                                 "run_name",
                                 "dist_timeout",
                                 "python_log_level",
                                 "icl_",
                                 "device_eval",
                                 "global_seed",
                                 "data_local",
                                 "data_remote",
                                 "model.init_",
                                 "model.loss_fn",
                                 "model.pretrained",
                                 "model.use_auth",
                                 "model.use_flash",
                                 "model.attn_config.attn_impl",
                                 "model.attn_config.attn_uses_sequence_id",
                                 "model.attn_config.prefix_lm",
                                 "model.attn_config.attn_pdrop",
                                 "model.attn_config.clip_qkv",
                                 "model.attn_config.softmax_scale",
                                 "model.attn_config.alibi_bias_max",
                                 "model.attn_config.rope_impl",
                                 "model.attn_config.rope_dail",
                                 "model.attn_config.rope_hf",
                                 "model.resid_pdrop",
                                 "model.emb_pdrop",
                                 "model.ffn_config.moe_lbl",
                                 "model.ffn_config.moe_loss",
                                 "model.ffn_config.memory_optimized",
                                 "model.ffn_config.mlp_impl",
                                 "model.ffn_config.moe_normalize",
                                 "model.ffn_config.uniform",
                                 "model.ffn_config.moe_jitter",
                                 "model.additional_train_metrics",
                                 "fsdp_config.backward_prefetch",
                                 "fsdp_config.limit_all_gathers",
                                 "fsdp_config.verbose",
                                 "fsdp_config.state_dict",
                                 "fsdp_config.sync_module",
                                 "fsdp_config.use_orig",
                                 "fsdp_config.forward_prefetch",
                                 "fsdp_config.load_",
                                 "fsdp_config.activation_checkpointing_reentrant",
                                 "expandable_segments",
                                 "compile_config",
                                 "dataset.",
                                 "max_split_size_mb",
                                 "model.max_seq_len",
                                 "metadata"});
  });
}

}  // namespace meshwright
