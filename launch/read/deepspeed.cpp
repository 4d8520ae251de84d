// SPDX-License-Identifier: Apache-2.0
// DeepSpeed 0.19: its JSON, alone, below accelerate, or as GPT-NeoX extends it with a model and a pipeline.
#include <algorithm>

#include "core/base/errors.h"
#include "launch/read/readers.h"

namespace meshwright {

namespace {

// A number, or nothing where the trainer fills it in ("auto").
std::optional<std::int64_t> number_or_auto(Settings& s, const std::string& key) {
  for (const Setting& setting : s.all())
    if (setting.key == key && setting.value.is_scalar() && setting.value.text == "auto") {
      (void)s.take(key);
      return std::nullopt;
    }
  return s.integer(key);
}

bool is_on(Settings& s, const std::string& key) {
  for (const Setting& setting : s.all())
    if (setting.key == key && setting.value.is_scalar() && setting.value.text == "auto") {
      (void)s.take(key);
      return false;
    }
  return s.flag(key);
}

// Keys of DeepSpeed's JSON, each with `prefix` in front.
void read_deepspeed_keys(ReadingJob& job, const std::string& prefix) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  LaunchSetup& setup = job.reading.setup;
  const auto key = [&](const char* name) { return prefix + name; };
  const std::int64_t stage = s.integer(key("zero_optimization.stage"), 0).value_or(0);
  if (stage > 3) job.broken(fmt::format("zero_optimization.stage {} is unknown; expected 0, 1, 2 or 3", stage));
  d.zero = d.dp * d.cp > 1 ? static_cast<int>(std::min<std::int64_t>(stage, 3)) : 0;
  if (d.pp > 1 && stage >= 2) job.broken(fmt::format("ZeRO {} does not go with pipeline stages", stage));
  const bool bf16 = is_on(s, key("bf16.enabled")), fp16 = is_on(s, key("fp16.enabled"));
  if (bf16 && fp16) job.broken("bf16 and fp16 are both enabled");
  const bool open = !bf16 && !fp16 && (s.has(key("bf16.enabled")) || s.has(key("fp16.enabled")));
  if (open || (!bf16 && !fp16)) job.assume("bf16, which the file leaves to the trainer");
  setup.dtype = fp16 ? DType::F16 : DType::BF16;
  if (s.has(key("zero_optimization.offload_optimizer.device")) &&
      s.text(key("zero_optimization.offload_optimizer.device")).value_or("none") != "none")
    setup.offload = Offload::Optimizer;
  if (s.has(key("zero_optimization.offload_param.device")) &&
      s.text(key("zero_optimization.offload_param.device")).value_or("none") != "none")
    job.assume("weights kept on the devices, not offloaded (offload_param)");
  setup.overlap_gradients = is_on(s, key("zero_optimization.overlap_comm"));
  for (const char* plus : {"zero_optimization.zero_quantized_weights", "zero_optimization.zero_quantized_gradients"})
    if (is_on(s, key(plus))) job.assume(fmt::format("without {}", plus));
  if (const auto group = number_or_auto(s, key("zero_optimization.zero_hpz_partition_size")); group && *group > 1)
    job.assume("weights split over all replicas (zero_hpz_partition_size)");
  const std::string optimizer = s.text_or_nothing(key("optimizer.type"));
  if (!optimizer.empty() && optimizer.find("dam") == std::string::npos)
    job.assume(fmt::format("Adam in the place of {}", optimizer));
  if (const std::string norm = s.text_or_nothing(key("gradient_clipping")); !norm.empty() && norm != "auto")
    setup.optimizer.max_norm = std::max(0.0, s.number(key("gradient_clipping")).value_or(0.0));
  s.no_effect([&](const std::string& name) {
    for (const char* group :
         {"zero_optimization.", "fp16.", "bf16.", "optimizer.", "scheduler.", "flops_profiler.", "tensorboard.",
          "wandb.", "comms_logger.", "aio.", "monitor_config.", "data_types.", "amp.", "csv_monitor."})
      if (name.starts_with(key(group))) return true;
    for (const char* word :
         {"steps_per_print", "comment", "wall_clock_breakdown", "prescale_gradients", "gradient_clipping",
          "memory_breakdown", "zero_allow_untested_optimizer", "communication_data_type", "zero_force_ds_cpu_optimizer",
          "dump_state", "gradient_predivide_factor", "sparse_gradients", "seed"})
      if (name == key(word)) return true;
    return name.starts_with("program.");
  });
}

// train = micro x accumulation x dp; any two are enough.
void read_deepspeed_batch(ReadingJob& job, const std::string& prefix) {
  Settings& s = job.settings();
  const auto train = number_or_auto(s, prefix + "train_batch_size");
  auto micro = number_or_auto(s, prefix + "train_micro_batch_size_per_gpu");
  const auto steps = number_or_auto(s, prefix + "gradient_accumulation_steps");
  if (job.answers.micro_batch) micro = job.answers.micro_batch;
  const std::int64_t dp = job.degrees().dp;
  const auto global = job.answers.batch ? job.answers.batch : train;
  if (!micro && global && steps && *global % (*steps * dp) == 0) micro = *global / (*steps * dp);
  if (!micro) {
    const bool automatic = s.has(prefix + "train_batch_size") || s.has(prefix + "train_micro_batch_size_per_gpu");
    require(global.has_value(), "{}: the batch is {}; give --batch, --micro-batch or both.", job.text.program,
            automatic ? "left to the trainer (\"auto\")" : "not in it");
    micro = 1;
    job.assume("micro-batches of one sample");
  }
  if (train && !job.answers.batch && steps && *train != *micro * *steps * dp)
    job.broken(fmt::format("train_batch_size {} is not micro-batch x accumulation x dp = {} x {} x {} = {}", *train,
                           *micro, *steps, dp, *micro * *steps * dp));
  share_batch(job, *micro, global ? global : std::optional(*micro * steps.value_or(1) * dp));
}

}  // namespace

void read_deepspeed(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  // Degrees that the settings lack are arguments of the script, by the names that GPT-NeoX gives them.
  const auto degree = [&](const std::vector<std::string>& keys) {
    std::int64_t found = 1;
    for (const std::string& key : keys) found = std::max(found, number_or_auto(s, key).value_or(1));
    return static_cast<int>(std::min<std::int64_t>(found, 1 << 20));
  };
  d.tp = degree({"tensor_parallel.autotp_size", "program.model-parallel-size", "program.model_parallel_size"});
  d.pp = degree({"program.pipe-parallel-size", "program.pipe_parallel_size"});
  d.ep = degree({"expert_parallel.autoep_size", "program.expert-parallel-size", "program.expert_parallel_size"});
  share_devices(job);
  if (!take_given_model(job, std::nullopt))
    throw InputError(fmt::format(
        "{}: DeepSpeed's files say nothing of the model; give --model with a built-in model, sizes or a config.json.",
        job.text.program));
  (void)s.take("expert_parallel.enabled");
  read_deepspeed_keys(job, "");
  read_deepspeed_batch(job, "");
  for (const char* key :
       {"activation_checkpointing.partition_activations", "activation_checkpointing.contiguous_memory_optimization",
        "activation_checkpointing.cpu_checkpointing", "activation_checkpointing.number_checkpoints"})
    if (s.has(key)) {
      (void)s.take(key);
      d.recompute = Recompute::Full;
    }
  if (d.recompute == Recompute::Full)
    job.assume("every block recomputed: the file configures checkpoints of activations");
}

// --- GPT-NeoX ---

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

// attention_config: [[["global", "local"], "all"]], [[["flash"], 48]].
void expect_attention(ReadingJob& job) {
  const Setting* kinds = job.settings().take("attention_config");
  if (kinds == nullptr) return;
  const std::string text = to_text(kinds->value);
  for (const char* other : {"rwkv", "mamba", "gmlp", "amlp"})
    require(text.find(other) == std::string::npos,
            "{}: layers of '{}' are in no model that these files are read as; give --model.",
            job.settings().where("attention_config"), other);
  for (const char* sparse : {"local", "sparse", "bigbird", "bslongformer"})
    if (text.find(sparse) != std::string::npos) {
      job.assume("attention to all tokens before, also in sparse layers");
      break;
    }
}

ModelFacts neox_facts(ReadingJob& job) {
  Settings& s = job.settings();
  ModelFacts facts;
  const auto need = [&](const char* key) {
    const auto value = s.integer(key);
    require(value.has_value(), "{}: '{}' is missing, and no plan can be made without it; add it, or give --model.",
            job.text.program, key);
    return *value;
  };
  facts.layers = need("num_layers");
  facts.hidden = need("hidden_size");
  facts.heads = need("num_attention_heads");
  facts.seq = job.answers.seq ? *job.answers.seq : need("seq_length");
  (void)s.take("seq_length");
  facts.positions_learned = s.integer("max_position_embeddings");
  expect_attention(job);
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
  facts.bias = s.boolean("use_bias_in_mlp").value_or(true) && s.boolean("use_bias_in_attn_linear").value_or(true);
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
    return static_cast<int>(std::min<std::int64_t>(std::max<std::int64_t>(1, s.integer(key, 0).value_or(1)), 1 << 20));
  };
  d.tp = degree("model_parallel_size");
  d.pp = degree("pipe_parallel_size");
  share_devices(job);
  if (!take_given_model(job, s.integer("seq_length"))) {
    ModelFacts facts = neox_facts(job);
    const std::int64_t unit = s.integer("make_vocab_size_divisible_by").value_or(128) * d.tp;
    const auto padded = s.integer("padded_vocab_size");
    facts.vocab = padded && !job.answers.vocab ? *padded : vocabulary(job, std::nullopt, unit);
    job.reading.setup.model = model_of(facts, "", job.text.program, job.reading.assumed);
  }
  if (d.pp > 1 && job.reading.setup.model.layers % d.pp != 0) job.assume("stages of nearly equal numbers of blocks");
  read_deepspeed_keys(job, "");
  read_deepspeed_batch(job, "");
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

// --- accelerate ---

namespace {

void read_fsdp(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  const std::string strategy = s.text("fsdp_config.fsdp_sharding_strategy").value_or("FULL_SHARD");
  const bool reshard = s.text("fsdp_config.fsdp_reshard_after_forward").value_or("true") != "false" &&
                       s.text_or_nothing("fsdp_config.fsdp_reshard_after_forward") != "SHARD_GRAD_OP";
  int zero = strategy.starts_with("NO_SHARD") || strategy == "3"     ? 0
             : strategy.starts_with("SHARD_GRAD") || strategy == "2" ? 2
                                                                     : 3;
  if (!reshard) zero = 2;
  if (strategy.starts_with("HYBRID")) job.reading.setup.shard = job.devices.devices_per_host;
  const int groups = job.reading.setup.shard.value_or(d.dp * d.cp);
  d.zero = groups > 1 ? zero : 0;
  if (s.flag("fsdp_config.fsdp_activation_checkpointing")) d.recompute = Recompute::Full;
  if (s.flag("fsdp_config.fsdp_offload_params")) {
    job.reading.setup.offload = Offload::Optimizer;
    job.assume("optimizer state alone on the host, not the weights (fsdp_offload_params)");
  }
  const auto version = s.integer("fsdp_config.fsdp_version").value_or(1);
  if (version == 1) job.reading.software = "fsdp";
  job.reading.setup.overlap_gradients = job.reading.setup.overlap_weights = true;
}

// What DeepSpeed does below accelerate.
void read_below_accelerate(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  job.reading.framework = find_framework("deepspeed");
  job.reading.software = job.reading.framework.software;
  if (s.has("deepspeed.zero_optimization.stage")) {
    read_deepspeed_keys(job, "deepspeed.");
  } else {
    const std::int64_t stage = s.integer("deepspeed_config.zero_stage", 0).value_or(1);
    if (!s.has("deepspeed_config.zero_stage")) job.assume("ZeRO 1: the file that says it is not there");
    d.zero = d.dp > 1 ? static_cast<int>(std::min<std::int64_t>(stage, 3)) : 0;
    if (s.text("deepspeed_config.offload_optimizer_device").value_or("none") != "none")
      job.reading.setup.offload = Offload::Optimizer;
  }
}

}  // namespace

void read_accelerate(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  const auto size = [&](const char* name) {
    return s.integer(std::string("parallelism_config.parallelism_config_") + name + "_size").value_or(1);
  };
  const std::int64_t replicate = size("dp_replicate"), shard = size("dp_shard"), tp = size("tp"), cp = size("cp"),
                     sp = size("sp");
  d.tp = static_cast<int>(std::min<std::int64_t>(tp, 1 << 20));
  d.cp = static_cast<int>(std::min<std::int64_t>(cp * sp, 1 << 20));
  share_devices(job);
  if (cp > 1 && sp > 1) job.broken("parallelism_config: cp and sp exclude each other");
  if (sp > 1) d.context = ContextExchange::AllToAll;
  const bool given = s.has("parallelism_config.parallelism_config_dp_shard_size");
  if (given && std::min({replicate, shard, tp, cp, sp}) >= 1 && replicate * shard != d.dp &&
      job.reading.why_no_plan.empty()) {
    const std::string why =
        fmt::format("parallelism_config: dp_replicate {} x dp_shard {} x cp {} x sp {} x tp {} is not num_processes {}",
                    replicate, shard, cp, sp, tp, job.devices.devices());
    job.broken(why);
    job.no_plan(why);
  }
  if (given && replicate > 1 && shard > 1)
    job.reading.setup.shard = static_cast<int>(std::min<std::int64_t>(shard, 1 << 20));
  if ((tp > 1 || cp > 1) && replicate > 1 && shard == 1)
    job.broken("parallelism_config: tp or cp with dp_replicate needs dp_shard above 1");
  if (!take_given_model(job, std::nullopt))
    throw InputError(fmt::format(
        "{}: accelerate's files say nothing of the model; give --model with a built-in model, sizes or a config.json.",
        job.text.program));
  const std::string kind = s.text("distributed_type").value_or("NO");
  if (kind == "DEEPSPEED") {
    read_below_accelerate(job);
  } else {
    read_fsdp(job);
    if (kind != "FSDP" && !given) d.zero = 0;
  }
  if (d.tp * d.cp > 1 && job.reading.setup.shard)
    job.assume(
        fmt::format("weights split over all {} replicas, not over groups of {}", d.dp, *job.reading.setup.shard));
  const std::string otherwise = kind == "DEEPSPEED" ? "bf16" : "no";
  if (kind == "DEEPSPEED" && !s.has("mixed_precision")) job.assume("bf16, which the file leaves to the trainer");
  const std::string precision = s.text("mixed_precision").value_or(otherwise);
  job.reading.setup.dtype = precision == "fp16" ? DType::F16 : precision == "no" ? DType::F32 : DType::BF16;
  if (precision == "fp8") job.reading.setup.matmul_dtype = "fp8";
  if (s.has("deepspeed.train_batch_size") || s.has("deepspeed.train_micro_batch_size_per_gpu")) {
    read_deepspeed_batch(job, "deepspeed.");
  } else {
    const auto steps = s.integer("deepspeed_config.gradient_accumulation_steps");
    if (!job.answers.batch && !job.answers.micro_batch)
      throw InputError(fmt::format("{}: the batch is in the training script; give --batch, --micro-batch or both.",
                                   job.text.program));
    const std::int64_t micro = job.answers.micro_batch.value_or(1);
    if (!job.answers.micro_batch) job.assume("micro-batches of one sample");
    share_batch(job, micro, steps ? std::optional(micro * *steps * d.dp) : std::nullopt);
  }
  s.no_effect([](const std::string& key) {
    for (const char* group :
         {"compute_environment", "debug", "downcast_bf16", "enable_cpu_affinity", "fsdp_config.", "machine_rank",
          "main_", "num_", "rdzv_backend", "same_network", "tpu_", "use_cpu", "gpu_ids", "deepspeed_config.",
          "program.", "dynamo_config", "deepspeed.", "rdzv_conf", "monitor_interval"})
      if (key.starts_with(group)) return true;
    return false;
  });
}

}  // namespace meshwright
