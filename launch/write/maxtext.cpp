// SPDX-License-Identifier: Apache-2.0
// MaxText: a YAML file over its base.yml, and the command that reads it.
#include "launch/setup/maxtext_mesh.h"
#include "launch/write/script.h"
#include "launch/write/writers.h"

namespace meshwright {

namespace {

std::string block_of(const Decoder& d) {
  if (d.latent) return "deepseek";
  if (d.experts) return d.qk_norm ? "qwen3_moe" : "mixtral";
  // Among dense blocks only qwen2's reads attention_bias.
  if (d.qkv_bias) return "qwen2";
  return d.qk_norm ? "qwen3" : "llama2";
}

std::string model_keys(const Decoder& d, int ep) {
  std::string text = fmt::format("decoder_block: \"{}\"\n", block_of(d));
  text += fmt::format(
      "base_emb_dim: {}\nbase_num_query_heads: {}\nbase_num_kv_heads: {}\nbase_num_decoder_layers: {}\n"
      "base_mlp_dim: {}\nhead_dim: {}\nvocab_size: {}\nmax_target_length: {}\n",
      d.hidden, d.heads, d.kv_heads, d.layers, d.experts && !d.latent ? d.experts->ffn : d.ffn, d.head_dim, d.vocab,
      d.seq);
  text += "mlp_activations: [\"silu\", \"linear\"]\nenable_dropout: false\n";
  text += fmt::format("logits_via_embedding: {}\nnormalization_layer_epsilon: {}\nrope_max_timescale: {}\n",
                      d.tied ? "true" : "false", decimal(d.epsilon), static_cast<std::int64_t>(d.rotary_base));
  if (d.qkv_bias) text += "attention_bias: true\n";
  if (d.qk_norm) text += "use_qk_norm: true\n";
  if (d.latent)
    text += fmt::format(
        "attention_type: \"mla\"\nq_lora_rank: {}\nkv_lora_rank: {}\nqk_nope_head_dim: {}\nqk_rope_head_dim: {}\n"
        "v_head_dim: {}\n",
        d.latent->q_rank, d.latent->kv_rank, d.latent->nope, d.latent->rope, d.latent->value);
  if (d.further > 0)
    text += fmt::format("mtp_num_layers: {}\nmtp_loss_scaling_factor: {}\n", d.further, decimal(d.further_weight));
  if (!d.experts) return text;
  const Decoder::Experts& e = *d.experts;
  text += fmt::format("num_experts: {}\nnum_experts_per_tok: {}\nbase_moe_mlp_dim: {}\n", e.count, e.top_k, e.ffn);
  text += fmt::format("norm_topk_prob: {}\n", e.normalized ? "true" : "false");
  if (d.latent)
    text += fmt::format(
        "first_num_dense_layers: {}\nshared_experts: {}\nrouted_scaling_factor: {}\nrouted_score_func: \"{}\"\n"
        "routed_bias: {}\n",
        e.dense_layers, e.shared_ffn / std::max<std::int64_t>(1, e.ffn), decimal(e.scale), e.sigmoid ? "sigmoid" : "",
        e.selection_bias ? "true" : "false");
  // MaxText refuses it without an axis of experts.
  if (ep > 1) text += "use_random_routing: true  # an even load of the experts, as it is predicted\n";
  return text;
}

// base.yml splits weights over the axes of experts and of the context, too, and asserts that they are split over some
// axis. The rules of these names are in the place of its own.
constexpr const char* kWholeWeights =
    "# Every replica has whole weights, but for its experts: not split over the axes context and expert.\n"
    "logical_axis_rules: [\n"
    "  ['embed', ['fsdp', 'fsdp_transpose']],\n"
    "  ['embed_vocab', ['fsdp', 'fsdp_transpose']],\n"
    "  ['embed_moe', ['fsdp', 'fsdp_transpose']],\n"
    "  ['q_lora', ['fsdp', 'fsdp_transpose']],\n"
    "  ['kv_lora', ['fsdp', 'fsdp_transpose']],\n"
    "]\n"
    "sharding_tolerance: 1.0\n";

std::string mesh_keys(const LaunchSetup& setup) {
  const Degrees& d = setup.degrees;
  std::string within, between;
  for (const MaxtextAxis& axis : maxtext_axes(setup)) {
    within += fmt::format("ici_{}_parallelism: {}\n", axis.name, axis.within);
    between += fmt::format("dcn_{}_parallelism: {}\n", axis.name, axis.between);
  }
  std::string text = "# Within a host, then between hosts.\n" + within + between;
  if (d.zero == 1) text += "shard_optimizer_over_data: true  # ZeRO 1\n";
  if (d.zero < 3 && d.ep * d.cp > 1) text += kWholeWeights;
  if (d.cp > 1) text += "context_parallel_strategy: \"all_gather\"\n";
  return text;
}

std::string batch_keys(const LaunchSetup& setup) {
  const Degrees& d = setup.degrees;
  const double devices = setup.devices();
  if (d.pp == 1)
    return fmt::format("per_device_batch_size: {}\ngradient_accumulation_steps: {}\n",
                       decimal(static_cast<double>(d.micro_batch * d.dp) / devices), d.micro_batches);
  return fmt::format(
      "per_device_batch_size: {}\nnum_pipeline_microbatches: {}\nnum_layers_per_pipeline_stage: {}\n"
      "num_pipeline_repeats: 1\n",
      decimal(static_cast<double>(setup.global_batch()) / devices), d.micro_batches, setup.model.layers / d.pp);
}

std::string run_keys(const LaunchSetup& setup) {
  const char* type = setup.dtype == DType::BF16 ? "bfloat16" : setup.dtype == DType::F16 ? "float16" : "float32";
  std::string text =
      fmt::format("hardware: \"gpu\"\nattention: \"cudnn_flash_te\"\nscan_layers: true\ndtype: \"{}\"\n", type);
  text += fmt::format("remat_policy: \"{}\"\n",
                      setup.degrees.recompute == Recompute::Full ? "full" : "minimal_with_context");
  if (setup.matmul_dtype == "fp8") text += "quantization: \"fp8\"\n";
  if (setup.software_setup.loss_chunks > 1)
    text += fmt::format("num_vocab_tiling: {}\n", setup.software_setup.loss_chunks);
  if (has(setup.offload, Offload::Optimizer)) text += "optimizer_memory_host_offload: true\n";
  text += fmt::format("opt_type: \"{}\"\nlearning_rate: {}\nadam_weight_decay: {}\ngradient_clipping_threshold: {}\n",
                      setup.optimizer.kind == Optimizer::Kind::Adam ? "adamw" : "sgd",
                      decimal(setup.optimizer.learning_rate), decimal(setup.optimizer.weight_decay),
                      decimal(setup.optimizer.max_norm));
  text += fmt::format(
      "steps: {}\ndataset_type: \"synthetic\"\npacking: false\nenable_checkpointing: false\nlog_period: 1\n",
      setup.steps);
  return text;
}

}  // namespace

WrittenJob write_maxtext(const LaunchJob& job) {
  const Decoder decoder = decoder_of(job.setup.model);
  std::string text = commented(heading(job)) + "base_config: \"base.yml\"\n";
  text += fmt::format("run_name: \"{}\"\n", job_name(job.setup));
  text += "\n# --- the site: change this ---\nbase_output_directory: \"/tmp/maxtext\"\n";
  text += "\n# The model.\n" + model_keys(decoder, job.setup.degrees.ep) + "\n# How the job is split.\n" +
          mesh_keys(job.setup);
  text += "\n# The batch.\n" + batch_keys(job.setup) + "\n# The run.\n" + run_keys(job.setup);
  WrittenJob made;
  made.files = {{"plan.yml", text, false, "MaxText's settings, over those of its base.yml"}};
  made.script.environment = {{"NNODES", "$NNODES"},
                             {"NODE_RANK", "$NODE_RANK"},
                             {"JAX_COORDINATOR_IP", "$MASTER_ADDR"},
                             {"JAX_COORDINATOR_PORT", "$MASTER_PORT"},
                             {"XLA_PYTHON_CLIENT_MEM_FRACTION", "0.92"}};
  made.script.command =
      "# One process per host, with all of its devices.\n"
      "python3 -m maxtext.trainers.pre_train.train plan.yml\n";
  made.measure = {"step: `seconds` of the log lines `completed step`; after step 5",
                  "TFLOPS per device: `TFLOP/s/device`; tokens: `Tokens/s/device`",
                  "memory: `python3 -m maxtext.trainers.pre_train.train_compile plan.yml compile_topology=...` prints "
                  "it without devices"};
  made.differences = decoder.differences;
  for (std::string& line : plain_rotation_difference(decoder)) made.differences.push_back(std::move(line));
  if (job.setup.degrees.tp > 1)
    made.differences.emplace_back(
        "between the products MaxText splits the hidden states over the axis tensor, along their width; the plan has "
        "copies of them, which take more memory");
  if (decoder.experts && job.setup.degrees.ep == 1)
    made.differences.emplace_back(
        "MaxText routes tokens at random only over an axis of experts; without one the router's own choices load them");
  if (job.setup.degrees.recompute == Recompute::None)
    made.differences.emplace_back(
        "MaxText always recomputes a little; remat_policy minimal_with_context keeps the results of all products");
  return made;
}

}  // namespace meshwright
