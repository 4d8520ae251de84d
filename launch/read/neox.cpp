// SPDX-License-Identifier: Apache-2.0
// GPT-NeoX (ea7aefd8): DeepSpeed's keys beside those of a model and a pipeline.
#include <algorithm>

#include "core/base/errors.h"
#include "launch/read/readers.h"
#include "launch/read/trainers/trainer_arguments.h"

namespace meshwright {

namespace {

// Keys without effect on a plan.
constexpr const char* kNeoxWords[] = {"vocab_file",
                                      "merge_file",
                                      "save",
                                      "load",
                                      "data_path",
                                      "data_impl",
                                      "split",
                                      "norm",
                                      "rope_fusion",
                                      "layernorm_fusion",
                                      "init_method",
                                      "init_method_std",
                                      "output_layer_init_method",
                                      "output_layer_parallelism",
                                      "min_lr",
                                      "hidden_dropout",
                                      "attention_dropout",
                                      "train_iters",
                                      "lr_decay_iters",
                                      "distributed_backend",
                                      "lr_decay_style",
                                      "warmup",
                                      "checkpoint_factor",
                                      "eval_interval",
                                      "eval_iters",
                                      "log_interval",
                                      "tokenizer_type",
                                      "tensorboard_dir",
                                      "log_dir",
                                      "synchronize_each_layer",
                                      "partition_activations",
                                      "num_workers",
                                      "deepspeed_slurm",
                                      "launcher",
                                      "hostfile",
                                      "deepspeed_mpi",
                                      "extra_save_iters",
                                      "keep_last_n_checkpoints",
                                      "use_wandb",
                                      "wandb_project",
                                      "wandb_team",
                                      "wandb_group",
                                      "wandb_host",
                                      "checkpoint_scale",
                                      "weight_by_num_documents",
                                      "seed",
                                      "layernorm_epsilon",
                                      "rms_norm_epsilon",
                                      "rotary_save_freqs_buffer",
                                      "train_data_paths",
                                      "valid_data_paths",
                                      "test_data_paths",
                                      "scalenorm_epsilon",
                                      "label_data_paths",
                                      "train_dataset_name",
                                      "zero_allow_untested_optimizer",
                                      "no_load_optim",
                                      "no_load_rng"};

// Its gated layers have two thirds of what is written, in two halves, rounded up (megatron/model/transformer.py).
std::int64_t neox_width(Settings& s, std::int64_t hidden, bool gated) {
  const auto given = s.integer("intermediate_size");
  const double factor = s.number("expansion_factor").value_or(4.0);
  const std::int64_t width = given ? *given : static_cast<std::int64_t>(factor * static_cast<double>(hidden));
  const std::int64_t unit = s.integer("mlp_multiple_of").value_or(1);
  const std::int64_t own = gated ? 2 * width / 3 / 2 : width;
  return std::max<std::int64_t>(1, (own + unit - 1) / unit * unit);
}

// attention_config: [[["global", "local"], "all"]], [[["flash"], 48]]; [[["mamba"], 48]] of a model without attention.
bool has_mamba_layers(ReadingJob& job) {
  const Setting* kinds = job.settings().take("attention_config");
  if (kinds == nullptr) return false;
  std::string text = to_text(kinds->value);
  std::erase_if(text, [](char c) { return c == ' ' || c == '"' || c == '\''; });
  const std::int64_t layers = job.settings().integer("num_layers").value_or(0);
  if (text == "[[[mamba],all]]" || text == fmt::format("[[[mamba],{}]]", layers)) return true;
  for (const char* other : {"rwkv", "mamba", "gmlp", "amlp"})
    require(text.find(other) == std::string::npos,
            "{}: layers of '{}' are in no model that these files are read as; give --model.",
            job.settings().where("attention_config"), other);
  if (text.find("flash") != std::string::npos) job.reading.setup.software_setup.fused_attention = true;
  for (const char* sparse : {"local", "sparse", "bigbird", "bslongformer"})
    if (text.find(sparse) != std::string::npos) {
      job.assume("attention to all tokens before, also in sparse layers");
      break;
    }
  return false;
}

// Its block of Mamba is the first (A. Gu, T. Dao, 2023), whose sizes but one no key changes.
ModelConfig mamba_model(ReadingJob& job, const ModelFacts& facts) {
  Settings& s = job.settings();
  Json config = config_of(facts, "mamba");
  config["expand"] = 2;
  config["intermediate_size"] = 2 * facts.hidden;
  config["state_size"] = 16;
  config["conv_kernel"] = 4;
  config["time_step_rank"] = (facts.hidden + 15) / 16;
  config["use_conv_bias"] = s.boolean("mamba_use_bias_in_conv").value_or(true);
  config["use_bias"] = s.boolean("mamba_use_bias_in_linears").value_or(false);
  if (!facts.rms_norm) job.assume("RMS norms in the place of layer norms");
  for (const char* fused : {"mamba_selective_scan_fusion", "mamba_causal_conv_fusion", "mamba_inner_func_fusion",
                            "mamba_selective_fp32_params"})
    (void)s.take(fused);
  return model_of_config(config, "", facts, job.text.program);
}

ModelFacts neox_facts(ReadingJob& job) {
  Settings& s = job.settings();
  ModelFacts facts;
  const auto need = [&](const char* key) { return needed(job, key, fmt::format("'{}'", key)); };
  facts.layers = need("num_layers");
  facts.hidden = need("hidden_size");
  facts.heads = need("num_attention_heads");
  facts.seq = job.answers.seq ? *job.answers.seq : need("seq_length");
  (void)s.take("seq_length");
  facts.positions_learned = s.integer("max_position_embeddings");
  const std::string positions = s.text("pos_emb").value_or("learned");
  facts.positions = positions == "rotary"  ? ModelFacts::Positions::Rotary
                    : positions == "alibi" ? ModelFacts::Positions::Alibi
                    : positions == "none"  ? ModelFacts::Positions::None
                                           : ModelFacts::Positions::Learned;
  facts.rotary_share = s.number("rotary_pct").value_or(1.0);
  facts.rotary_base = s.number("rotary_emb_base").value_or(10000.0);
  facts.rms_norm = s.text("norm").value_or("layernorm") == "rmsnorm";
  facts.tied = !s.flag("no_weight_tying");
  facts.parallel = s.flag("gpt_j_residual");
  const std::string activation = s.text("activation").value_or("gelu"), kind = s.text("mlp_type").value_or("regular");
  facts.gated = activation == "swiglu" || activation == "geglu" || kind == "llama";
  facts.activation = activation == "swiglu" || activation == "silu" ? ModelFacts::Activation::Silu
                     : activation == "relu"                         ? ModelFacts::Activation::Relu
                                                                    : ModelFacts::Activation::Gelu;
  facts.ffn = neox_width(s, facts.hidden, facts.gated);
  facts.kv_heads = s.integer("num_kv_heads");
  const bool bias = s.boolean("use_bias_in_mlp").value_or(true);
  facts.bias = s.boolean("use_bias_in_attn_linear").value_or(true) && bias;
  facts.experts = s.integer("moe_num_experts", 0).value_or(0);
  if (facts.experts <= 1) facts.experts = 0;
  if (facts.experts > 0) facts.top_k = s.integer("moe_top_k").value_or(1);
  return facts;
}

}  // namespace

void read_neox(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  const auto degree = [&](const char* key) {
    return as_degree(std::max<std::int64_t>(1, s.integer(key, 0).value_or(1)));
  };
  job.reading.setup.dialect = "gpt-neox";
  const std::string by = s.text_or_nothing("train_impl");
  if (!by.empty() && by != "normal") expect_whole_model(job, "train_impl", "by " + by);
  d.tp = degree("model_parallel_size");
  d.pp = degree("pipe_parallel_size");
  share_devices(job);
  if (!take_given_model(job, s.integer("seq_length"))) {
    ModelFacts facts = neox_facts(job);
    const std::int64_t unit = s.integer("make_vocab_size_divisible_by").value_or(128) * d.tp;
    const auto padded = s.integer("padded_vocab_size");
    facts.vocab = padded && !job.answers.vocab ? *padded : vocabulary(job, std::nullopt, unit);
    job.reading.setup.model =
        has_mamba_layers(job) ? mamba_model(job, facts) : model_of(facts, "", job.text.program, job.reading.assumed);
  }
  if (d.pp > 1 && job.reading.setup.model.layers % d.pp != 0) job.assume("stages of nearly equal numbers of blocks");
  read_deepspeed_keys(job, "");
  read_deepspeed_batch(job, "", TrainerArguments{});
  if (s.flag("checkpoint_activations")) d.recompute = Recompute::Full;
  (void)s.take("checkpoint_num_layers");
  d.sequence_parallel = s.flag("sequence_parallel") && d.tp > 1;
  const std::string precision = s.text("precision").value_or("");
  if (precision == "bfloat16" || precision == "bf16") job.reading.setup.dtype = DType::BF16;
  job.reading.framework.sequences = Framework::Sequences::Either;
  job.reading.setup.optimizer.weight_decay = std::max(0.0, s.number("weight_decay").value_or(0.01));
  s.no_effect([](const std::string& key) {
    for (const char* word : kNeoxWords)
      if (key == word) return true;
    return key.ends_with("_fusion") || key.starts_with("log_") || key.starts_with("wandb");
  });
}

}  // namespace meshwright
