// SPDX-License-Identifier: Apache-2.0
// Megatron-Bridge: a recipe of the same kind of model, and every size and degree as an override.
#include "core/planner/method/stage_layout.h"
#include "launch/write/megatron_flags.h"
#include "launch/write/writers.h"

namespace meshwright {

namespace {

// The recipe whose model is built of the same parts; the overrides give its sizes.
std::string recipe_of(const Decoder& d) {
  if (d.latent) return "deepseek_v3_pretrain_config";
  if (d.experts) return "qwen3_30b_a3b_pretrain_config";
  return d.gated ? "llama31_8b_pretrain_config" : "gpt3_175b_pretrain_config";
}

class Overrides {
 public:
  explicit Overrides(FlagGroup& group) : group_(group) {}
  template <class T>
  void set(const char* key, const T& value) {
    group_.add(fmt::format("{}={}", key, value));
  }
  void set(const char* key, bool value) { group_.add(fmt::format("{}={}", key, value ? "true" : "false")); }

 private:
  FlagGroup& group_;
};

FlagGroup model_overrides(const Decoder& d) {
  FlagGroup group{"MODEL_OVERRIDES", "The model's sizes, over those of the recipe."};
  Overrides o(group);
  o.set("model.num_layers", d.layers);
  o.set("model.hidden_size", d.hidden);
  o.set("model.ffn_hidden_size", d.ffn);
  o.set("model.num_attention_heads", d.heads);
  if (d.latent) {
    if (d.latent->q_rank > 0)
      o.set("model.q_lora_rank", d.latent->q_rank);
    else
      o.set("model.q_lora_rank", "null");
    o.set("model.kv_lora_rank", d.latent->kv_rank);
    o.set("model.qk_head_dim", d.latent->nope);
    o.set("model.qk_pos_emb_head_dim", d.latent->rope);
    o.set("model.v_head_dim", d.latent->value);
  } else {
    o.set("model.num_query_groups", d.kv_heads);
    o.set("model.kv_channels", d.head_dim);
    o.set("model.qk_layernorm", d.qk_norm);
    o.set("model.add_qkv_bias", d.qkv_bias && !d.bias);
    o.set("model.add_bias_linear", d.bias);
    if (d.window > 0) o.set("model.window_size", fmt::format("[{},0]", d.window - 1));
    o.set("model.normalization", d.rms_norm ? "RMSNorm" : "LayerNorm");
  }
  o.set("model.mtp_num_layers", d.further > 0 ? fmt::format("{}", d.further) : "null");
  if (d.further > 0) o.set("model.mtp_loss_scaling_factor", decimal(d.further_weight));
  if (d.positions == Decoder::Positions::Rotary) {
    o.set("model.position_embedding_type", "rope");
    o.set("model.rotary_base", static_cast<std::int64_t>(d.rotary_base));
    if (!d.latent) {
      o.set("model.rotary_percent", decimal(d.rotary_share));
      o.set("model.rope_scaling", has_megatron_scaling(d));
      if (has_megatron_scaling(d)) o.set("model.rope_scaling_factor", decimal(d.rotary_scaling->factor));
    }
  } else {
    o.set("model.position_embedding_type", d.positions == Decoder::Positions::Learned ? "learned_absolute" : "none");
  }
  o.set("model.layernorm_epsilon", decimal(d.epsilon));
  o.set("model.share_embeddings_and_output_weights", d.tied);
  o.set("model.hidden_dropout", "0.0");
  o.set("model.attention_dropout", "0.0");
  o.set("model.vocab_size", d.vocab);
  o.set("model.seq_length", d.seq);
  o.set("dataset.seq_length", d.seq);
  o.set("tokenizer.tokenizer_type", "NullTokenizer");
  o.set("tokenizer.vocab_size", d.vocab);
  return group;
}

FlagGroup expert_overrides(const Decoder& d, const LaunchSetup& setup) {
  FlagGroup group{"MOE_OVERRIDES", "Experts. The router's load is forced even, as it is predicted."};
  if (!d.experts) return group;
  Overrides o(group);
  const Decoder::Experts& e = *d.experts;
  const Degrees& degrees = setup.degrees;
  o.set("model.num_moe_experts", e.count);
  o.set("model.moe_router_topk", e.top_k);
  o.set("model.moe_ffn_hidden_size", e.ffn);
  if (e.shared_ffn > 0)
    o.set("model.moe_shared_expert_intermediate_size", e.shared_ffn);
  else
    o.set("model.moe_shared_expert_intermediate_size", "null");
  std::string layers;
  for (std::int64_t layer = 0; layer < d.layers; ++layer) layers += d.has_experts(layer) ? ",1" : ",0";
  o.set("model.moe_layer_freq", "[" + layers.substr(1) + "]");
  o.set("model.moe_router_score_function", e.sigmoid ? "sigmoid" : "softmax");
  o.set("model.moe_router_enable_expert_bias", e.selection_bias);
  o.set("model.moe_router_topk_scaling_factor", e.scale == 1.0 ? "null" : decimal(e.scale));
  o.set("model.moe_router_pre_softmax", !e.sigmoid && !e.normalized);
  o.set("model.moe_router_force_load_balancing", true);
  // The recipes' own: groups of DeepSeek-V3's experts, a dispatcher that wants tp x ep > 1, graphs of parts of a layer.
  o.set("model.moe_router_num_groups", "null");
  o.set("model.moe_router_group_topk", "null");
  o.set("model.moe_router_load_balancing_type", "none");
  o.set("model.moe_aux_loss_coeff", "0.0");
  o.set("model.moe_token_dispatcher_type", megatron_dispatcher(setup.software_setup.dispatch));
  o.set("model.moe_shared_expert_overlap", false);
  o.set("model.cuda_graph_impl", "none");
  o.set("model.expert_model_parallel_size", degrees.ep);
  o.set("model.expert_tensor_parallel_size", degrees.whole_experts ? 1 : degrees.tp);
  return group;
}

FlagGroup parallel_overrides(const LaunchSetup& setup) {
  const Degrees& d = setup.degrees;
  FlagGroup group{"PARALLEL_OVERRIDES", fmt::format("How the job is split; dp {} is what is left.", d.dp)};
  Overrides o(group);
  o.set("model.tensor_model_parallel_size", d.tp);
  o.set("model.sequence_parallel", d.sequence_parallel);
  o.set("model.pipeline_model_parallel_size", d.pp);
  o.set("model.pipeline_dtype", d.pp == 1 ? "null" : setup.dtype == DType::F16 ? "fp16" : "bf16");
  o.set("model.virtual_pipeline_model_parallel_size", d.chunks > 1 ? fmt::format("{}", d.chunks) : "null");
  const std::string layout = megatron_layout(setup);
  o.set("model.pipeline_model_parallel_layout", layout.empty() ? "null" : "\"" + layout + "\"");
  if (layout.empty() && ends_count_as_layers(setup)) {
    o.set("model.account_for_embedding_in_pipeline_split", true);
    o.set("model.account_for_loss_in_pipeline_split", true);
  }
  if (layout.empty() && d.split.first > 0) o.set("model.num_layers_in_first_pipeline_stage", d.split.first);
  if (layout.empty() && d.split.last > 0) o.set("model.num_layers_in_last_pipeline_stage", d.split.last);
  o.set("model.context_parallel_size", d.cp);
  if (d.cp > 1)
    o.set("model.cp_comm_type", d.context == ContextExchange::AllGather ? "all_gather" : name_of(d.context));
  // Megatron-Bridge splits states if either setting is on.
  const bool split_states = d.zero > 0 || has(setup.offload, Offload::Optimizer);
  o.set("ddp.use_distributed_optimizer", split_states);
  o.set("optimizer.use_distributed_optimizer", split_states);
  if (setup.shard && d.zero > 0) o.set("ddp.num_distributed_optimizer_instances", d.dp * d.cp / *setup.shard);
  o.set("ddp.overlap_grad_reduce", setup.overlap_gradients);
  o.set("ddp.overlap_param_gather", setup.overlap_weights && d.zero > 0);
  return group;
}

FlagGroup training_overrides(const LaunchSetup& setup) {
  const Degrees& d = setup.degrees;
  FlagGroup group{"TRAINING_OVERRIDES",
                  fmt::format("{} micro-batches of {} on each of {} replicas.", d.micro_batches, d.micro_batch, d.dp)};
  Overrides o(group);
  o.set("train.micro_batch_size", d.micro_batch);
  o.set("train.global_batch_size", setup.global_batch());
  o.set("train.train_iters", setup.steps);
  o.set("validation.eval_iters", 0);
  const char* type = setup.dtype == DType::F16 ? "fp16" : "bf16";
  o.set("mixed_precision",
        fmt::format("{}{}_mixed", type, setup.matmul_dtype == "fp8" ? "_with_fp8_delayed_scaling" : ""));
  const Optimizer& optimizer = setup.optimizer;
  o.set("optimizer.optimizer", optimizer.kind == Optimizer::Kind::Adam ? "adam" : "sgd");
  if (optimizer.kind != Optimizer::Kind::Adam)
    o.set("optimizer.sgd_momentum", decimal(optimizer.kind == Optimizer::Kind::Momentum ? optimizer.momentum : 0.0));
  o.set("optimizer.lr", decimal(setup.optimizer.learning_rate));
  o.set("optimizer.min_lr", decimal(setup.optimizer.learning_rate));
  o.set("optimizer.weight_decay", decimal(setup.optimizer.weight_decay));
  o.set("optimizer.clip_grad", decimal(setup.optimizer.max_norm));
  o.set("scheduler.lr_warmup_iters", 0);
  o.set("logger.log_interval", 1);
  // DeepSeek-V3's recipe keeps states in 16 bits, which an optimizer other than Adam has not.
  o.set("optimizer.use_precision_aware_optimizer", has(setup.offload, Offload::Optimizer));
  for (const char* state : {"main_grads_dtype", "exp_avg_dtype", "exp_avg_sq_dtype"})
    o.set(fmt::format("optimizer.{}", state).c_str(), "float32");
  if (has(setup.offload, Offload::Optimizer)) o.set("optimizer.optimizer_cpu_offload", true);
  if (!setup.recompute_layers.empty()) {
    o.set("model.recompute_granularity", "full");
    o.set("model.recompute_method", "block");
    o.set("model.recompute_num_layers", blocks_recomputed_first(setup));
  } else if (d.recompute == Recompute::Full) {
    o.set("model.recompute_granularity", "full");
    o.set("model.recompute_method", "uniform");
    o.set("model.recompute_num_layers", 1);
  } else if (d.recompute == Recompute::Selective) {
    o.set("model.recompute_granularity", "selective");
    o.set("model.recompute_modules", "[core_attn]");
  } else if (setup.degrees.recompute_modules != RecomputeModules::None) {
    o.set("model.recompute_granularity", "selective");
    o.set("model.recompute_modules", fmt::format("[{}]", name_of(setup.degrees.recompute_modules)));
  } else {
    o.set("model.recompute_granularity", "null");
  }
  return group;
}

}  // namespace

WrittenJob write_megatron_bridge(const LaunchJob& job) {
  const Decoder decoder = decoder_of(job.setup.model);
  std::vector<FlagGroup> groups = {model_overrides(decoder), expert_overrides(decoder, job.setup),
                                   parallel_overrides(job.setup), training_overrides(job.setup)};
  // Overrides are words of their own, in which bash would read braces, stars and bars.
  for (FlagGroup& group : groups)
    for (auto& [word, value] : group.flags) word = shell_word(word);
  WrittenJob made;
  made.script.site = {{"BRIDGE_PATH", "a clone of NVIDIA-NeMo/Megatron-Bridge", "/opt/Megatron-Bridge"}};
  if (job.setup.degrees.tp > 1 || job.setup.degrees.cp > 1)
    made.script.environment.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS", "1");
  made.script.arguments = bash_arrays(groups);
  made.script.command =
      torchrun_command(fmt::format("\"$BRIDGE_PATH/scripts/training/run_recipe.py\" --recipe {} --mode pretrain "
                                   "--dataset mock",
                                   recipe_of(decoder)) +
                       expanded(groups));
  made.measure = {
      "step: `elapsed time per iteration (ms)` of the log; take the mean of iterations 5 to 20, after warm-up",
      "TFLOPS per device: `MODEL_TFLOP/s/GPU` of the log, whose count of the work differs a little from this program's",
      "memory: `max allocated` of the memory report after the first iteration"};
  made.differences = decoder.differences;
  for (std::string& line : megatron_rotation_difference(decoder)) made.differences.push_back(std::move(line));
  made.differences.emplace_back("what the overrides do not name (fusions, kernels) is as in the recipe");
  return made;
}

}  // namespace meshwright
