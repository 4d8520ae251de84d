// SPDX-License-Identifier: Apache-2.0
// MaxText of 2026: run configurations and key=value words. Defaults are those of its base.yml.
#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/maxtext/maxtext_axes.h"
#include "launch/read/maxtext/maxtext_blocks.h"
#include "launch/read/readers.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

namespace {

// Keys without effect on a plan.
constexpr const char* kMaxtextWords[] = {"base_config",
                                         "run_name",
                                         "hardware",
                                         "steps",
                                         "enable_checkpointing",
                                         "attention",
                                         "use_iota_embed",
                                         "scan_layers",
                                         "dataset_type",
                                         "async_checkpointing",
                                         "logits_dot_in_fp32",
                                         "base_output_directory",
                                         "sharding_tolerance",
                                         "use_random_routing",
                                         "max_segments_per_seq",
                                         "profiler",
                                         "reuse_example_batch",
                                         "gcs_metrics",
                                         "enable_dropout",
                                         "rope_max_timescale",
                                         "log_period",
                                         "compile_topology",
                                         "compile_topology_num_slices",
                                         "tokenizer_path",
                                         "tokenizer_type",
                                         "dataset_path",
                                         "save_config_to_gcs",
                                         "packing",
                                         "enable_goodput_recording",
                                         "skip_first_n_steps_for_profiler",
                                         "profiler_steps",
                                         "use_vertex_tensorboard",
                                         "monitor_goodput",
                                         "sa_block_q",
                                         "sa_block_kv",
                                         "tokenize_train_data",
                                         "dtype",
                                         "data_sharding",
                                         "mesh_axes",
                                         "enable_nnx",
                                         "remat_policy",
                                         "quantization",
                                         "checkpoint_period",
                                         "allow_split_physical_axes",
                                         "hf_access_token",
                                         "megablox",
                                         "sparse_matmul",
                                         "capacity_factor",
                                         "normalize_embedding_logits",
                                         "routed_bias_update_rate",
                                         "load_balance_loss_weight",
                                         "log_moe_bias_norms",
                                         "mscale",
                                         "max_position_embeddings",
                                         "original_max_position_embeddings",
                                         "beta_fast",
                                         "beta_slow",
                                         "fused_qkv",
                                         "fused_mlp",
                                         "temperature_tuning",
                                         "mlp_activations_limit",
                                         "attention_sink",
                                         "v_norm_with_scale",
                                         "inhomogeneous_layer_cycle_interval",
                                         "gdn_chunk_size",
                                         "use_qk_norm_in_gdn"};

// Keys about images and sounds, which the language model is read without.
bool is_of_other_senses(const std::string& key) {
  for (const char* part : {"vision", "_vit", "image", "audio", "mrope", "multimodal"})
    if (key.find(part) != std::string::npos) return true;
  return false;
}

class MaxtextReader {
 public:
  explicit MaxtextReader(ReadingJob& job) : job_(job), s_(job.settings()), d_(job.degrees()) {}

  void read() {
    read_degrees();
    read_model();
    read_stages();
    read_batch();
    read_rest();
    if (s_.boolean("use_multimodal").value_or(false))
      job_.assume("the language model alone, without images and sounds");
    s_.no_effect([](const std::string& key) {
      for (const char* word : kMaxtextWords)
        if (key == word) return true;
      return key.starts_with("sa_") || key.starts_with("load_parameters") || key.starts_with("use_tokamax") ||
             key.starts_with("xla_") || key.starts_with("checkpoint") || key.starts_with("profile") ||
             key.starts_with("rope_") || key.starts_with("adam_") || key.starts_with("tokenize") ||
             key.starts_with("goodput") || key.starts_with("local_rope_") || key.starts_with("global_rope_") ||
             is_of_other_senses(key);
    });
  }

 private:
  // The product of an axis within and between hosts; -1 stands for what is left.
  void take_axis(const char* name) {
    const bool left_ici = std::string_view(name) == "fsdp", left_dcn = std::string_view(name) == "data";
    std::int64_t ici = value_of("ici", name, left_ici ? -1 : 1), dcn = value_of("dcn", name, left_dcn ? -1 : 1);
    const auto leave = [&](const char* group, std::string& left) {
      if (!left.empty()) job_.broken(fmt::format("{} axes {} and {} are both -1: one may be", group, left, name));
      left = name;
    };
    if (ici == -1) leave("ici", left_ici_);
    if (dcn == -1) leave("dcn", left_dcn_);
    ici = std::max<std::int64_t>(1, ici);
    dcn = std::max<std::int64_t>(1, dcn);
    ici_ *= ici;
    dcn_ *= dcn;
    require(ici_ <= kMaxDegree && dcn_ <= kMaxDegree, "{}: its axes make up more than {} devices.",
            s_.where(fmt::format("{}_{}_parallelism", ici_ > kMaxDegree ? "ici" : "dcn", name)), kMaxDegree);
    axes_[name] = ici * dcn;
  }
  std::int64_t value_of(const char* group, const char* name, std::int64_t otherwise) {
    const std::string key = fmt::format("{}_{}_parallelism", group, name);
    const std::int64_t value = s_.integer(key, -1).value_or(otherwise);
    require(value != 0 && value <= kMaxDegree, "{}: {} is no degree; give 1 or more, or -1 for what is left.",
            s_.where(key), value);
    return value;
  }

  void read_degrees() {
    for (const char* name :
         {"data", "fsdp", "fsdp_transpose", "tensor", "tensor_transpose", "tensor_sequence", "context", "sequence",
          "context_usp_ulysses", "pipeline", "expert", "autoregressive", "context_autoregressive", "diloco"})
      take_axis(name);
    const std::int64_t hosts = job_.devices.hosts, per_host = job_.devices.devices_per_host;
    if (left_ici_.empty() ? ici_ != per_host : per_host % ici_ != 0)
      unequal("ici", ici_, per_host, "devices of a host");
    if (left_dcn_.empty() ? dcn_ != hosts : hosts % dcn_ != 0) unequal("dcn", dcn_, hosts, "hosts");
    if (!left_ici_.empty()) axes_[left_ici_] *= std::max<std::int64_t>(1, per_host / ici_);
    if (!left_dcn_.empty()) axes_[left_dcn_] *= std::max<std::int64_t>(1, hosts / dcn_);
    d_.tp = as_degree(axes_["tensor"] * axes_["tensor_transpose"] * axes_["tensor_sequence"]);
    d_.cp = as_degree(axes_["context"] * axes_["sequence"] * axes_["context_usp_ulysses"]);
    d_.pp = as_degree(axes_["pipeline"]);
    if (s_.text_or_nothing("context_parallel_strategy") == "ring") d_.context = ContextExchange::PointToPoint;
    if (axes_["context_usp_ulysses"] > 1) d_.context = ContextExchange::AllToAll;
    share_devices(job_);
    // The axes of experts split the batch, too.
    d_.ep = as_degree(axes_["expert"]);
    read_zero();
    d_.sequence_parallel = d_.tp > 1 && axes_["tensor_sequence"] > 1;
    if (d_.sequence_parallel) job_.reading.framework.sequences = Framework::Sequences::Either;
  }

  // Weights lie in parts on the axes that the rules name, and what of the replicas these leave has copies.
  void read_zero() {
    const WeightAxes axes = weight_axes(job_);
    if (axes.others_change)
      job_.assume("tensors other than weights split as the axes' usual rules say, not as its logical_axis_rules");
    const std::int64_t parts = weight_parts(axes, axes_), replicas = std::int64_t{d_.dp} * d_.cp;
    if (parts > 1) {
      d_.zero = 3;
      (void)s_.take("shard_optimizer_over_data");
      if (parts >= replicas) return;
      if (d_.tp * d_.cp * d_.pp * d_.ep == 1)
        job_.reading.setup.shard = as_degree(parts);
      else
        job_.assume(fmt::format("weights split over all {} replicas, not over groups of {}", replicas, parts));
      return;
    }
    if (!s_.flag("shard_optimizer_over_data") || axes_["data"] == 1) return;
    d_.zero = 1;
    if (axes_["data"] == replicas) return;
    job_.assume(fmt::format("states split over all {} replicas, not over groups of {}", replicas, axes_["data"]));
    job_.reading.framework.zero_with_experts.push_back(1);
  }
  void unequal(const char* group, std::int64_t product, std::int64_t have, const char* what) {
    const std::string why =
        fmt::format("the product of the {} axes is {}, and there are {} {}", group, product, have, what);
    job_.broken_without_plan(why, "; give --cluster or --nodes with as many");
  }

  void read_model() {
    const std::string name = s_.text("model_name").value_or("");
    job_.reading.setup.model_name = name == "default" ? "" : name;
    const std::int64_t seq = job_.answers.seq ? *job_.answers.seq : s_.integer("max_target_length").value_or(2048);
    (void)s_.take("max_target_length");
    for (const char* key : {"base_emb_dim", "base_mlp_dim", "base_num_decoder_layers"})
      if (s_.has(key)) shape_given_ = true;
    if (take_given_model(job_, seq)) return forget_shape();
    require(shape_given_ || (!name.empty() && name != "default") || s_.has("global_parameter_scale"),
            "{}: says nothing of the model (model_name, base_emb_dim, ...); give the run's own file first, or --model.",
            job_.text.program);
    // What the file does not say of a model with a name is in that model's own file, or as the built-in one has it.
    if (!name.empty() && name != "default") {
      const bool complete = s_.has("base_emb_dim") && s_.has("base_mlp_dim") && s_.has("base_num_decoder_layers") &&
                            s_.has("base_num_query_heads");
      try {
        known_ = model_by_name(name, job_.text.program);
      } catch (const InputError&) {
        if (!complete) throw;
      }
    }
    if (known_ && !shape_given_) {
      ModelConfig& model = job_.reading.setup.model = *known_;
      model.seq = seq;
      job_.assume(fmt::format("the sizes of {} for '{}'", model.name, name));
      return forget_shape();
    }
    const ModelFacts of = facts(seq);
    const std::string block = s_.text("decoder_block").value_or("llama2");
    if (const auto model = model_of_block(job_, block, of)) {
      job_.reading.setup.model = *model;
      return;
    }
    ModelConfig& model = job_.reading.setup.model = model_of(of, "", job_.text.program, job_.reading.assumed);
    if (s_.flag("use_indexer") && model.more.contains("index_heads")) {
      model.more["index_heads"] = s_.integer("indexer_n_heads").value_or(64);
      model.more["index_dim"] = s_.integer("indexer_head_dim").value_or(128);
      model.more["index_top_k"] = s_.integer("indexer_topk").value_or(2048);
    }
  }
  void forget_shape() {
    for (const char* key : {"base_emb_dim", "base_num_query_heads", "base_num_kv_heads", "base_num_decoder_layers",
                            "base_mlp_dim", "head_dim", "vocab_size", "mlp_activations", "decoder_block",
                            "logits_via_embedding", "global_parameter_scale"})
      (void)s_.take(key);
  }

  // The size that the built-in model of this name has; without one, that of base.yml.
  std::int64_t usual(const char* key, std::int64_t otherwise) const {
    if (!known_) return otherwise;
    const auto found = known_->more.find(key);
    return found == known_->more.end() ? otherwise : found->second;
  }

  ModelFacts facts(std::int64_t seq) {
    // 2^k: k = 3q + r doubles layers q times, heads and the feed-forward once more with r, the width with r of 2.
    const std::int64_t scale = s_.integer("global_parameter_scale").value_or(1);
    int k = 0;
    while ((std::int64_t{2} << k) <= scale && k < 40) ++k;
    if ((std::int64_t{1} << k) != scale)
      job_.broken(fmt::format("global_parameter_scale {} is no power of two", scale));
    const std::int64_t layers = std::int64_t{1} << (k / 3);
    const std::int64_t wide = layers * (k % 3 > 0 ? 2 : 1), emb = layers * (k % 3 > 1 ? 2 : 1);
    const auto base = [&](const char* key, std::int64_t otherwise) { return s_.integer(key).value_or(otherwise); };
    ModelFacts facts;
    facts.seq = seq;
    facts.hidden = base("base_emb_dim", known_ ? known_->hidden : 2048) * emb;
    facts.heads = base("base_num_query_heads", known_ ? known_->heads : 16) * wide;
    facts.kv_heads = base("base_num_kv_heads", usual("kv_heads", 16)) * wide;
    facts.layers = base("base_num_decoder_layers", known_ ? known_->layers : 16) * layers;
    facts.ffn = base("base_mlp_dim", usual("intermediate", 7168)) * wide;
    facts.head_dim = base("head_dim", usual("head_dim", 128));
    facts.vocab = job_.answers.vocab ? *job_.answers.vocab : base("vocab_size", known_ ? known_->vocab : 32000);
    (void)s_.take("vocab_size");
    const std::vector<std::string> activations = s_.words("mlp_activations");
    facts.gated = activations.size() != 1;
    facts.activation = activations.empty() || activations[0] == "silu" ? ModelFacts::Activation::Silu
                       : activations[0] == "relu"                      ? ModelFacts::Activation::Relu
                                                                       : ModelFacts::Activation::Gelu;
    facts.tied = s_.boolean("logits_via_embedding").value_or(false);
    facts.positions = ModelFacts::Positions::Rotary;
    facts.rotary_base = s_.number("rope_max_timescale").value_or(10000.0);
    facts.epsilon = s_.number("normalization_layer_epsilon").value_or(1e-5);
    facts.rms_norm = true;
    facts.bias = false;
    facts.qkv_bias = read_by_block("attention_bias", {"qwen2", "olmo3", "gpt_oss"});
    facts.qk_norm =
        read_by_block("use_qk_norm", {"qwen2", "qwen3", "qwen3_moe", "qwen3_next", "llama4", "olmo3", "envy"});
    if (s_.text("decoder_block").value_or("") == "gpt3") {
      facts.rms_norm = false;
      facts.bias = true;
      facts.positions = ModelFacts::Positions::Learned;
      facts.positions_learned = s_.integer("trainable_position_size", -1);
      if (*facts.head_dim * facts.heads == facts.hidden) facts.head_dim.reset();
    }
    facts.experts = s_.integer("num_experts").value_or(usual("experts", 1));
    if (facts.experts <= 1) facts.experts = 0;
    if (facts.experts > 0) {
      facts.top_k = s_.integer("num_experts_per_tok").value_or(usual("top_k", 1));
      facts.expert_ffn = s_.integer("base_moe_mlp_dim");
      facts.dense_layers = s_.integer("first_num_dense_layers", 0).value_or(0);
      facts.mixture_every = s_.integer("interleave_moe_layer_step").value_or(1);
      facts.sigmoid = s_.text("routed_score_func").value_or("") == "sigmoid";
      facts.selection_bias = s_.boolean("routed_bias").value_or(false);
      facts.routed_scale = s_.number("routed_scaling_factor");
      // DeepSeek's block divides sigmoids by their sum, whatever norm_topk_prob says.
      (void)s_.take("norm_topk_prob");
      if (s_.text("decoder_block").value_or("") == "deepseek") facts.normalized = facts.sigmoid;
      if (const auto shared = s_.integer("shared_experts", 0); shared && facts.expert_ffn)
        facts.shared_ffn = *shared * *facts.expert_ffn;
    }
    facts.further = s_.integer("mtp_num_layers", 0).value_or(0);
    if (const auto weight = s_.number("mtp_loss_scaling_factor"); weight && *weight > 0.0)
      facts.further_weight = *weight;
    if (s_.text("attention_type").value_or("") == "mla") {
      facts.latent = true;
      facts.q_rank = s_.integer("q_lora_rank", 0).value_or(0);
      facts.kv_rank = s_.integer("kv_lora_rank").value_or(512);
      facts.nope_dim = s_.integer("qk_nope_head_dim").value_or(128);
      facts.rope_dim = s_.integer("qk_rope_head_dim").value_or(64);
      facts.value_dim = s_.integer("v_head_dim").value_or(128);
    }
    return facts;
  }

  // A part of attention that only these decoder blocks make where it is asked for; the others take no notice.
  bool read_by_block(const char* key, std::initializer_list<std::string_view> blocks) {
    if (!s_.flag(key)) return false;
    const std::string block = s_.text("decoder_block").value_or("llama2");
    if (std::find(blocks.begin(), blocks.end(), block) != blocks.end()) return true;
    job_.assume(fmt::format("without {}, which MaxText's block {} does not read", key, block));
    return false;
  }

  void read_stages() {
    if (d_.pp == 1) return;
    d_.schedule = ScheduleKind::GPipe;
    const std::int64_t layers = job_.reading.setup.model.layers;
    const std::int64_t per_stage = s_.integer("num_layers_per_pipeline_stage").value_or(1);
    std::int64_t repeats = s_.integer("num_pipeline_repeats", -1).value_or(-1);
    if (repeats == -1) repeats = std::max<std::int64_t>(1, layers / (per_stage * d_.pp));
    if (per_stage * repeats * d_.pp != layers)
      job_.broken(
          fmt::format("stages {} x repeats {} x layers {} is not the {} layers", d_.pp, repeats, per_stage, layers));
    if (repeats > 1) {
      d_.schedule = ScheduleKind::Interleaved;
      d_.chunks = static_cast<int>(std::min<std::int64_t>(repeats, layers));
      job_.reading.framework.schedules.push_back(ScheduleKind::Interleaved);
      job_.assume("interleaved 1f1b in the place of the circular pipeline");
    }
    const std::int64_t count = s_.integer("num_pipeline_microbatches", -1).value_or(-1);
    pipeline_microbatches_ = count == -1 ? d_.pp : count;
  }

  void read_batch() {
    if (!s_.has("per_device_batch_size")) job_.assume("per_device_batch_size 12, MaxText's own");
    const double per_device = s_.number("per_device_batch_size").value_or(12.0);
    const std::int64_t steps = s_.integer("gradient_accumulation_steps").value_or(1);
    const double global = per_device * job_.devices.devices() * static_cast<double>(steps);
    require(global >= 1.0 && global < 1e12 && std::floor(global) == global,
            "{}: {} samples on each of {} devices are no whole batch.", s_.where("per_device_batch_size"), per_device,
            job_.devices.devices());
    const auto samples = static_cast<std::int64_t>(global);
    std::int64_t micro = std::max<std::int64_t>(1, samples / (steps * d_.dp));
    if (d_.pp > 1)
      micro = std::max<std::int64_t>(1, samples / (steps * d_.dp * std::max<std::int64_t>(1, pipeline_microbatches_)));
    share_batch(job_, job_.answers.micro_batch.value_or(micro), samples);
  }

  void read_rest() {
    const std::string policy = s_.text("remat_policy").value_or("full");
    job_.reading.setup.own_recompute = fmt::format("remat_policy={}", policy);
    if (policy == "full" || policy == "custom") {
      d_.recompute = Recompute::Full;
    } else if (policy == "minimal_with_context" ||
               policy == "minimal_flash") {  // as files for plans without are written
      job_.assume(
          fmt::format("nothing recomputed for remat_policy {}, which computes norms and activations again", policy));
    } else if (policy != "none") {
      d_.recompute = Recompute::Selective;
      job_.reading.framework.recompute.push_back(Recompute::Selective);
      job_.assume(fmt::format("norms and activations recomputed for remat_policy {}", policy));
    }
    if (s_.text("weight_dtype").value_or("float32") != "float32") job_.assume("weights of 32 bits (weight_dtype)");
    if (s_.integer("mtp_num_layers", 0).value_or(0) > 0 && shape_of(job_.reading.setup.model).further == 0)
      job_.assume("without the modules that predict further tokens (mtp_num_layers)");
    if (s_.flag("lora.enable_lora")) expect_whole_model(job_, "lora.enable_lora", "adapters");
    if (s_.flag("use_dpo")) expect_whole_model(job_, "use_dpo", "against a model that stays as it is");
    const std::string type = s_.text("dtype").value_or("bfloat16");
    job_.reading.setup.dtype = type == "float32" ? DType::F32 : type == "float16" ? DType::F16 : DType::BF16;
    const std::string products = s_.text_or_nothing("quantization");
    if (products.find("fp8") != std::string::npos)
      job_.reading.setup.matmul_dtype = "fp8";
    else if (!products.empty())
      job_.assume(fmt::format("products of {} in the place of {}", name_of(job_.reading.setup.dtype), products));
    if (const auto tiles = s_.integer("num_vocab_tiling"); tiles && *tiles > 1)
      job_.reading.setup.software_setup.loss_chunks = as_degree(*tiles);
    if (s_.flag("optimizer_memory_host_offload")) job_.reading.setup.offload = Offload::Optimizer;
    if (s_.flag("parameter_memory_host_offload")) {
      if (d_.zero == 3)
        job_.reading.setup.offload = job_.reading.setup.offload | Offload::Weights;
      else
        job_.assume("weights kept on the devices (parameter_memory_host_offload)");
    }
    const std::string kind = s_.text("opt_type").value_or("adamw");
    if (kind == "sgd")
      job_.reading.setup.optimizer.kind = Optimizer::Kind::Sgd;
    else if (!kind.starts_with("adam"))
      job_.assume(fmt::format("Adam in the place of {}", kind));
    if (const auto rate = real_number(s_.text_or_nothing("learning_rate")); rate && *rate > 0.0)
      job_.reading.setup.optimizer.learning_rate = *rate;
    job_.reading.setup.optimizer.weight_decay = std::max(0.0, s_.number("adam_weight_decay").value_or(0.1));
    job_.reading.setup.optimizer.max_norm = std::max(0.0, s_.number("gradient_clipping_threshold").value_or(1.0));
  }

  ReadingJob& job_;
  Settings& s_;
  Degrees& d_;
  std::int64_t ici_ = 1, dcn_ = 1, pipeline_microbatches_ = 1;
  std::string left_ici_, left_dcn_;
  std::map<std::string, std::int64_t> axes_ = {};  // [axis of the mesh] its devices, within and between hosts
  bool shape_given_ = false;
  std::optional<ModelConfig> known_ = {};
};

}  // namespace

void read_maxtext(ReadingJob& job) { MaxtextReader(job).read(); }

}  // namespace meshwright
