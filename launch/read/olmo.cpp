// SPDX-License-Identifier: Apache-2.0
// OLMo's first trainer (2737d332): YAML of a model, a batch and FSDP. Defaults are those of olmo/config.py.
#include <algorithm>

#include "core/base/errors.h"
#include "launch/read/readers.h"

namespace meshwright {

namespace {

ModelFacts olmo_facts(ReadingJob& job) {
  Settings& s = job.settings();
  ModelFacts facts;
  const auto size = [&](const char* key, std::int64_t otherwise) {
    return s.integer(std::string("model.") + key).value_or(otherwise);
  };
  const auto on = [&](const char* key, bool otherwise) {
    return s.boolean(std::string("model.") + key).value_or(otherwise);
  };
  facts.layers = size("n_layers", 12);
  facts.hidden = size("d_model", 768);
  facts.heads = size("n_heads", 12);
  facts.kv_heads = s.integer("model.n_kv_heads");
  if (on("multi_query_attention", false)) facts.kv_heads = 1;
  const std::string activation = s.text("model.activation_type").value_or("swiglu");
  facts.gated = activation == "swiglu";
  facts.activation = activation == "swiglu" ? ModelFacts::Activation::Silu
                     : activation == "relu" ? ModelFacts::Activation::Relu
                                            : ModelFacts::Activation::Gelu;
  // What is written is the width of both halves of a gated layer.
  const double ratio = s.number("model.mlp_ratio").value_or(4.0);
  const auto given = s.integer("model.mlp_hidden_size");
  const std::int64_t width = given ? *given : static_cast<std::int64_t>(ratio * static_cast<double>(facts.hidden));
  facts.ffn = std::max<std::int64_t>(1, facts.gated ? width / 2 : width);
  facts.positions = on("alibi", false)  ? ModelFacts::Positions::Alibi
                    : on("rope", false) ? ModelFacts::Positions::Rotary
                                        : ModelFacts::Positions::Learned;
  facts.rotary_base = s.number("model.rope_theta").value_or(10000.0);
  facts.rms_norm = s.text("model.layer_norm_type").value_or("default") == "rms";
  facts.bias = on("include_bias", true);
  facts.qk_norm = on("attention_layer_norm", false);
  facts.tied = on("weight_tying", true);
  const std::string block = s.text("model.block_type").value_or("sequential");
  require(block == "sequential" || block == "llama" || block == "moe",
          "{}: blocks of '{}' are in no model that these files are read as; give --model.", s.where("model.block_type"),
          block);
  if (block == "moe") {
    facts.experts = size("moe_num_experts", 8);
    facts.top_k = size("moe_top_k", 2);
    facts.expert_ffn = facts.ffn;
    if (on("moe_shared_expert", false)) facts.shared_ffn = facts.ffn;
  }
  const std::int64_t words = size("vocab_size", 50257);
  facts.vocab = job.answers.vocab ? *job.answers.vocab : s.integer("model.embedding_size").value_or(words);
  (void)s.take("model.embedding_size");
  return facts;
}

void read_sharding(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  const std::string strategy = s.text("distributed_strategy").value_or("fsdp");
  const std::string sharding = s.text("fsdp.sharding_strategy").value_or("FULL_SHARD");
  d.zero = strategy == "ddp" || sharding == "NO_SHARD"                        ? 0
           : sharding == "SHARD_GRAD_OP" || sharding == "_HYBRID_SHARD_ZERO2" ? 2
                                                                              : 3;
  const auto copies = s.integer("fsdp.hybrid_sharding_num_model_replicas");
  if (d.zero > 0 && sharding.find("HYBRID") != std::string::npos) {
    if (copies && d.dp % *copies != 0)
      job.broken(fmt::format("hybrid_sharding_num_model_replicas {} does not divide the {} devices", *copies, d.dp));
    else
      job.reading.setup.shard = copies ? static_cast<int>(d.dp / *copies) : job.devices.devices_per_host;
  }
  if (d.dp == 1) d.zero = 0;
  job.reading.setup.overlap_gradients = job.reading.setup.overlap_weights = true;
}

void read_olmo_recompute(ReadingJob& job) {
  Settings& s = job.settings();
  const std::string what = s.text("activation_checkpointing").value_or("");
  if (what.empty() || what == "null" || what == "false") return;
  if (what == "fine_grained") {
    job.degrees().recompute = Recompute::Selective;
    job.assume("norms, activations and attention recomputed for activation_checkpointing fine_grained");
    return;
  }
  // "one_in_two" to "three_in_four": of so many blocks so many are recomputed.
  static constexpr std::pair<const char*, std::pair<int, int>> kParts[] = {
      {"one_in_two", {1, 2}},   {"one_in_three", {1, 3}}, {"one_in_four", {1, 4}},
      {"one_in_eight", {1, 8}}, {"two_in_three", {2, 3}}, {"three_in_four", {3, 4}}};
  if (what == "whole_layer") {
    job.degrees().recompute = Recompute::Full;
    return;
  }
  for (const auto& [name, part] : kParts)
    if (what == name) {
      const auto [some, of] = part;
      for (int b = 0; b < static_cast<int>(job.reading.setup.model.layers); ++b)
        // As olmo/model.py picks: the first of every group, or all but the first.
        if (some == 1 ? b % of == 0 : b % of != 0)
          job.reading.setup.recompute_layers.push_back({b, b, Recompute::Full});
      return;
    }
  throw InputError(
      fmt::format("{}: '{}' is unknown; expected whole_layer, one_in_two to three_in_four, or fine_grained.",
                  s.where("activation_checkpointing"), what));
}

}  // namespace

void read_olmo(ReadingJob& job) {
  Settings& s = job.settings();
  LaunchSetup& setup = job.reading.setup;
  use_plain_fsdp(job, "OLMo 2737d332", "olmo");
  share_devices(job);
  const std::int64_t seq = sequence_of(job, "model.max_sequence_length").value_or(1024);
  if (!take_given_model(job, seq)) {
    ModelFacts facts = olmo_facts(job);
    facts.seq = seq;
    setup.model = model_of(facts, "", job.text.program, job.reading.assumed);
  }
  read_sharding(job);
  read_olmo_recompute(job);
  const std::string precision = s.text("precision").value_or("fp32");
  setup.dtype = precision.find("bf16") != std::string::npos   ? DType::BF16
                : precision.find("fp16") != std::string::npos ? DType::F16
                                                              : DType::F32;
  const std::string optimizer = s.text("optimizer.name").value_or("lionw");
  if (optimizer != "adamw") job.assume(fmt::format("Adam in the place of {}", optimizer));
  setup.optimizer.weight_decay = std::max(0.0, s.number("optimizer.weight_decay").value_or(0.01));
  setup.optimizer.max_norm = std::max(0.0, s.number("max_grad_norm").value_or(0.0));
  const std::int64_t global = s.integer("global_train_batch_size").value_or(512);
  const std::int64_t micro = s.integer("device_train_microbatch_size").value_or(16);
  share_batch(job, job.answers.micro_batch.value_or(micro), global);
  if (const Setting* compiled = s.take("compile");
      compiled != nullptr && compiled->value.kind != ConfigValue::Kind::Null)
    job.assume("blocks that are not compiled");
  s.no_effect([](const std::string& key) {
    for (const char* group : {"run_name",
                              "seed",
                              "epoch",
                              "dry_run",
                              "wandb",
                              "optimizer.",
                              "scheduler",
                              "tokenizer",
                              "save_",
                              "remote_save",
                              "load_",
                              "max_duration",
                              "stop_at",
                              "speed_monitor",
                              "eval",
                              "device_eval_batch_size",
                              "data.",
                              "max_grad_norm",
                              "console_log",
                              "gen1_gc",
                              "no_pre_train",
                              "sharded_checkpointer",
                              "restore_",
                              "reset_",
                              "new_style",
                              "fast_",
                              "fused_loss",
                              "early_stopping",
                              "time_limit",
                              "extra_steps",
                              "python_prof",
                              "torch_prof",
                              "compile.",
                              "canceled_check",
                              "softmax_aux",
                              "auxiliary_loss",
                              "fsdp.wrapping_strategy",
                              "fsdp.precision",
                              "fsdp.use_orig_params",
                              "ddp.",
                              "single.",
                              "module_outputs",
                              "hf_datasets",
                              "instance_filter",
                              "try_load",
                              "force_save"})
      if (key.starts_with(group)) return true;
    for (const char* word : {"flash_attention",
                             "attention_dropout",
                             "residual_dropout",
                             "embedding_dropout",
                             "clip_qkv",
                             "eos_token_id",
                             "pad_token_id",
                             "init_device",
                             "init_fn",
                             "init_std",
                             "init_cutoff_factor",
                             "layer_norm_with_affine",
                             "bias_for_layer_norm",
                             "attention_layer_norm_with_affine",
                             "rope_full_precision",
                             "moe_dropless",
                             "moe_mlp_impl",
                             "moe_zloss_weight",
                             "moe_loss_weight",
                             "moe_lbl_in_fp32",
                             "moe_log_expert_assignment",
                             "moe_capacity_factor",
                             "scale_logits",
                             "layer_norm_eps",
                             "norm_after",
                             "low_cpu_fsdp",
                             "precision",
                             "emb_init_std",
                             "scale_emb_init",
                             "vocab_size"})
      if (key == std::string("model.") + word) return true;
    return false;
  });
}

}  // namespace meshwright
