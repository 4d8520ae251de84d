// SPDX-License-Identifier: Apache-2.0
// What decoders with rotated heads call their tensors, and how they lay them out. Linear layers are (out, in).
#include <initializer_list>
#include <string_view>
#include <utility>

#include "core/graph/import/hf_tensor_rows.h"

namespace meshwright {

namespace {

using hf::expert_rows;
using hf::like_llama;
using Rows = std::vector<HfTensorRow>;

Rows joined(std::initializer_list<Rows> parts) {
  Rows all;
  for (const Rows& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Rows llama_rows() {
  return {{"wte", "model.embed_tokens.weight", "vocab embed"},
          {"blk#.ln1.gamma", "model.layers.#.input_layernorm.weight", "embed"},
          {"blk#.attn.q.weight", "model.layers.#.self_attn.q_proj.weight", "(kv_heads group head_dim) embed"},
          {"blk#.attn.k.weight", "model.layers.#.self_attn.k_proj.weight", "(kv_heads head_dim) embed"},
          {"blk#.attn.v.weight", "model.layers.#.self_attn.v_proj.weight", "(kv_heads head_dim) embed"},
          {"blk#.attn.q.bias", "model.layers.#.self_attn.q_proj.bias", "(kv_heads group head_dim)"},
          {"blk#.attn.k.bias", "model.layers.#.self_attn.k_proj.bias", "(kv_heads head_dim)"},
          {"blk#.attn.v.bias", "model.layers.#.self_attn.v_proj.bias", "(kv_heads head_dim)"},
          {"blk#.attn.q_norm.gamma", "model.layers.#.self_attn.q_norm.weight", "head_dim"},
          {"blk#.attn.k_norm.gamma", "model.layers.#.self_attn.k_norm.weight", "head_dim"},
          {"blk#.attn.sinks", "model.layers.#.self_attn.sinks", "(kv_heads group)"},
          {"blk#.attn.out.weight", "model.layers.#.self_attn.o_proj.weight", "embed (kv_heads group head_dim)"},
          {"blk#.attn.out.bias", "model.layers.#.self_attn.o_proj.bias", "embed"},
          {"blk#.ln2.gamma", "model.layers.#.post_attention_layernorm.weight", "embed"},
          {"blk#.mlp.gate.weight", "model.layers.#.mlp.gate_proj.weight", "mlp embed"},
          {"blk#.mlp.gate.bias", "model.layers.#.mlp.gate_proj.bias", "mlp"},
          {"blk#.mlp.up.weight", "model.layers.#.mlp.up_proj.weight", "mlp embed"},
          {"blk#.mlp.up.bias", "model.layers.#.mlp.up_proj.bias", "mlp"},
          {"blk#.mlp.down.weight", "model.layers.#.mlp.down_proj.weight", "embed mlp"},
          {"blk#.mlp.down.bias", "model.layers.#.mlp.down_proj.bias", "embed"},
          {"blk.final_norm.gamma", "model.norm.weight", "embed"},
          {"head.weight", "lm_head.weight", "vocab embed"},
          {"head.bias", "lm_head.bias", "vocab"}};
}

Rows mixtral_rows() {
  return {{"blk#.moe.router.weight", "model.layers.#.block_sparse_moe.gate.weight", "expert embed"},
          {"blk#.moe.gate.weight", "model.layers.#.block_sparse_moe.experts.{expert}.w1.weight", "mlp embed"},
          {"blk#.moe.up.weight", "model.layers.#.block_sparse_moe.experts.{expert}.w3.weight", "mlp embed"},
          {"blk#.moe.down.weight", "model.layers.#.block_sparse_moe.experts.{expert}.w2.weight", "embed mlp"}};
}

Rows exaone_moe_rows() { return {{"blk#.moe.selection.bias", "model.layers.#.mlp.e_score_correction_bias", "expert"}}; }

Rows hy_v3_rows() {
  return {{"blk#.moe.router.weight", "model.layers.#.mlp.router.gate.weight", "expert embed"},
          {"blk#.moe.selection.bias", "model.layers.#.mlp.expert_bias", "expert"},
          {"blk#.moe.shared.gate.weight", "model.layers.#.mlp.shared_mlp.gate_proj.weight", "mlp embed"},
          {"blk#.moe.shared.up.weight", "model.layers.#.mlp.shared_mlp.up_proj.weight", "mlp embed"},
          {"blk#.moe.shared.down.weight", "model.layers.#.mlp.shared_mlp.down_proj.weight", "embed mlp"}};
}

// Gates and ups of an expert alternate.
Rows gpt_oss_rows() {
  return {{"blk#.moe.router.weight", "model.layers.#.mlp.router.weight", "expert embed"},
          {"blk#.moe.router.bias", "model.layers.#.mlp.router.bias", "expert"},
          {"blk#.moe.gate.weight", "model.layers.#.mlp.experts.gate_up_proj", "expert embed (mlp *1)"},
          {"blk#.moe.up.weight", "model.layers.#.mlp.experts.gate_up_proj", "expert embed (mlp *1)"},
          {"blk#.moe.gate.bias", "model.layers.#.mlp.experts.gate_up_proj_bias", "expert (mlp *1)"},
          {"blk#.moe.up.bias", "model.layers.#.mlp.experts.gate_up_proj_bias", "expert (mlp *1)"},
          {"blk#.moe.down.weight", "model.layers.#.mlp.experts.down_proj", "expert mlp embed"},
          {"blk#.moe.down.bias", "model.layers.#.mlp.experts.down_proj_bias", "expert embed"}};
}

// The dimensions that are rotated lie in pairs.
Rows latent_rows() {
  return {{"blk#.attn.q_down.weight", "model.layers.#.self_attn.q_a_proj.weight", "q_rank embed"},
          {"blk#.attn.q_norm.gamma", "model.layers.#.self_attn.q_a_layernorm.weight", "q_rank"},
          {"blk#.attn.q_nope.weight", "model.layers.#.self_attn.q_b_proj.weight", "(kv_heads group *nope_dim) q_rank"},
          {"blk#.attn.q_rope.weight", "model.layers.#.self_attn.q_b_proj.weight", "(kv_heads group *~rope_dim) q_rank"},
          {"blk#.attn.kv_down.weight", "model.layers.#.self_attn.kv_a_proj_with_mqa.weight", "*kv_rank embed"},
          {"blk#.attn.k_rope.weight", "model.layers.#.self_attn.kv_a_proj_with_mqa.weight", "*~rope_dim embed"},
          {"blk#.attn.kv_norm.gamma", "model.layers.#.self_attn.kv_a_layernorm.weight", "kv_rank"},
          {"blk#.attn.k_nope.weight", "model.layers.#.self_attn.kv_b_proj.weight", "(kv_heads *nope_dim) kv_rank"},
          {"blk#.attn.v.weight", "model.layers.#.self_attn.kv_b_proj.weight", "(kv_heads *v_dim) kv_rank"},
          {"blk#.attn.out.weight", "model.layers.#.self_attn.o_proj.weight", "embed (kv_heads group v_dim)"}};
}

// The same where queries are projected directly.
Rows plain_latent_rows() {
  return {{"blk#.attn.q_nope.weight", "model.layers.#.self_attn.q_proj.weight", "(kv_heads group *nope_dim) embed"},
          {"blk#.attn.q_rope.weight", "model.layers.#.self_attn.q_proj.weight", "(kv_heads group *~rope_dim) embed"}};
}

// Norms whose weights are stored less one.
Rows gemma_rows() {
  return {{"blk#.ln1.gamma", "model.layers.#.input_layernorm.weight", "embed +1"},
          {"blk#.ln2.gamma", "model.layers.#.pre_feedforward_layernorm.weight", "embed +1", "blk#.attn.norm.gamma"},
          {"blk#.ln2.gamma", "model.layers.#.post_attention_layernorm.weight", "embed +1"},
          {"blk#.attn.norm.gamma", "model.layers.#.post_attention_layernorm.weight", "embed +1"},
          {"blk#.mlp.norm.gamma", "model.layers.#.post_feedforward_layernorm.weight", "embed +1"},
          {"blk#.attn.q_norm.gamma", "model.layers.#.self_attn.q_norm.weight", "head_dim +1"},
          {"blk#.attn.k_norm.gamma", "model.layers.#.self_attn.k_norm.weight", "head_dim +1"},
          {"blk.final_norm.gamma", "model.norm.weight", "embed +1"}};
}

Rows vaultgemma_rows() { return {{"blk#.ln2.gamma", "model.layers.#.pre_feedforward_layernorm.weight", "embed +1"}}; }

// Layers without windows have heads of their own, of which the first dimensions of each half are rotated. One table,
// and one projection, for the vectors of all layers.
Rows gemma4_rows() {
  return {{"blk#.attn.q.weight", "model.layers.#.self_attn.q_proj.weight", "(kv_heads group head_dim) embed"},
          {"blk#.attn.q.weight", "model.layers.#.self_attn.q_proj.weight",
           "(full_kv_heads full_group |full_head_dim) embed"},
          {"blk#.attn.q.weight", "model.layers.#.self_attn.q_proj.weight",
           "(full_kv_heads full_group |tied_head_dim) embed"},
          {"blk#.attn.k.weight", "model.layers.#.self_attn.k_proj.weight", "(kv_heads head_dim) embed"},
          {"blk#.attn.k.weight", "model.layers.#.self_attn.k_proj.weight", "(full_kv_heads |full_head_dim) embed"},
          {"blk#.attn.k.weight", "model.layers.#.self_attn.k_proj.weight", "(full_kv_heads |tied_head_dim) embed"},
          {"blk#.attn.v.weight", "model.layers.#.self_attn.v_proj.weight", "(kv_heads head_dim) embed"},
          {"blk#.attn.v.weight", "model.layers.#.self_attn.v_proj.weight", "(full_kv_heads full_head_dim) embed"},
          {"blk#.attn.q.bias", "model.layers.#.self_attn.q_proj.bias", "(kv_heads group head_dim)"},
          {"blk#.attn.q.bias", "model.layers.#.self_attn.q_proj.bias", "(full_kv_heads full_group |full_head_dim)"},
          {"blk#.attn.q.bias", "model.layers.#.self_attn.q_proj.bias", "(full_kv_heads full_group |tied_head_dim)"},
          {"blk#.attn.k.bias", "model.layers.#.self_attn.k_proj.bias", "(kv_heads head_dim)"},
          {"blk#.attn.k.bias", "model.layers.#.self_attn.k_proj.bias", "(full_kv_heads |full_head_dim)"},
          {"blk#.attn.k.bias", "model.layers.#.self_attn.k_proj.bias", "(full_kv_heads |tied_head_dim)"},
          {"blk#.attn.v.bias", "model.layers.#.self_attn.v_proj.bias", "(kv_heads head_dim)"},
          {"blk#.attn.v.bias", "model.layers.#.self_attn.v_proj.bias", "(full_kv_heads full_head_dim)"},
          {"blk#.attn.q_norm.gamma", "model.layers.#.self_attn.q_norm.weight", "head_dim"},
          {"blk#.attn.q_norm.gamma", "model.layers.#.self_attn.q_norm.weight", "|full_head_dim"},
          {"blk#.attn.q_norm.gamma", "model.layers.#.self_attn.q_norm.weight", "|tied_head_dim"},
          {"blk#.attn.k_norm.gamma", "model.layers.#.self_attn.k_norm.weight", "head_dim"},
          {"blk#.attn.k_norm.gamma", "model.layers.#.self_attn.k_norm.weight", "|full_head_dim"},
          {"blk#.attn.k_norm.gamma", "model.layers.#.self_attn.k_norm.weight", "|tied_head_dim"},
          {"blk#.attn.out.weight", "model.layers.#.self_attn.o_proj.weight", "embed (kv_heads group head_dim)"},
          {"blk#.attn.out.weight", "model.layers.#.self_attn.o_proj.weight",
           "embed (full_kv_heads full_group full_head_dim)"},
          {"blk#.attn.out.weight", "model.layers.#.self_attn.o_proj.weight",
           "embed (full_kv_heads full_group |tied_head_dim)"},
          {"blk#.attn.norm.gamma", "model.layers.#.post_attention_layernorm.weight", "embed"},
          {"blk#.ln2.gamma", "model.layers.#.pre_feedforward_layernorm.weight", "embed"},
          {"blk#.mlp.norm.gamma", "model.layers.#.post_feedforward_layernorm.weight", "embed"},
          {"blk#.mlp.dense_norm.gamma", "model.layers.#.post_feedforward_layernorm_1.weight", "embed"},
          {"blk#.moe.norm.gamma", "model.layers.#.post_feedforward_layernorm_2.weight", "embed"},
          {"blk#.ln2_moe.gamma", "model.layers.#.pre_feedforward_layernorm_2.weight", "embed"},
          {"blk#.moe.router_norm.gamma", "model.layers.#.router.scale", "embed"},
          {"blk#.moe.router.weight", "model.layers.#.router.proj.weight", "expert embed"},
          {"blk#.moe.expert_scale.gamma", "model.layers.#.router.per_expert_scale", "expert"},
          {"blk#.moe.gate.weight", "model.layers.#.experts.gate_up_proj", "expert *mlp embed"},
          {"blk#.moe.up.weight", "model.layers.#.experts.gate_up_proj", "expert *mlp embed"},
          {"blk#.moe.down.weight", "model.layers.#.experts.down_proj", "expert embed mlp"},
          {"layer_embed.norm.gamma", "model.per_layer_projection_norm.weight", "layer_embed"},
          {"blk#.layer_embed.table", "model.embed_tokens_per_layer.weight", "layer_vocab *layer_embed"},
          {"blk#.layer_embed.context.weight", "model.per_layer_model_projection.weight", "*layer_embed embed"},
          {"blk#.layer_embed.gate.weight", "model.layers.#.per_layer_input_gate.weight", "layer_embed embed"},
          {"blk#.layer_embed.out.weight", "model.layers.#.per_layer_projection.weight", "embed layer_embed"},
          {"blk#.layer_embed.norm.gamma", "model.layers.#.post_per_layer_input_norm.weight", "embed"},
          {"blk#.layer_factor.fixed.gamma", "model.layers.#.layer_scalar", "one"}};
}

// Half of each head is rotated, in pairs; gates and ups are one.
Rows glm_rows() {
  return {{"blk#.attn.q.weight", "model.layers.#.self_attn.q_proj.weight", "(kv_heads group ^head_dim) embed"},
          {"blk#.attn.k.weight", "model.layers.#.self_attn.k_proj.weight", "(kv_heads ^head_dim) embed"},
          {"blk#.attn.q.bias", "model.layers.#.self_attn.q_proj.bias", "(kv_heads group ^head_dim)"},
          {"blk#.attn.k.bias", "model.layers.#.self_attn.k_proj.bias", "(kv_heads ^head_dim)"},
          {"blk#.attn.norm.gamma", "model.layers.#.post_self_attn_layernorm.weight", "embed"},
          {"blk#.mlp.norm.gamma", "model.layers.#.post_mlp_layernorm.weight", "embed"},
          {"blk#.mlp.gate.weight", "model.layers.#.mlp.gate_up_proj.weight", "*mlp embed"},
          {"blk#.mlp.up.weight", "model.layers.#.mlp.gate_up_proj.weight", "*mlp embed"}};
}

Rows hunyuan_rows() {
  return {{"blk#.attn.q_norm.gamma", "model.layers.#.self_attn.query_layernorm.weight", "head_dim"},
          {"blk#.attn.k_norm.gamma", "model.layers.#.self_attn.key_layernorm.weight", "head_dim"},
          {"blk#.moe.router.weight", "model.layers.#.mlp.gate.wg.weight", "expert embed"},
          {"blk#.moe.shared.gate.weight", "model.layers.#.mlp.shared_mlp.gate_proj.weight", "mlp embed"},
          {"blk#.moe.shared.up.weight", "model.layers.#.mlp.shared_mlp.up_proj.weight", "mlp embed"},
          {"blk#.moe.shared.down.weight", "model.layers.#.mlp.shared_mlp.down_proj.weight", "embed mlp"}};
}

// Gates and ups of all experts are one.
Rows granitemoe_rows() {
  return {{"blk#.moe.router.weight", "model.layers.#.block_sparse_moe.router.layer.weight", "expert embed"},
          {"blk#.moe.gate.weight", "model.layers.#.block_sparse_moe.input_linear.weight", "expert *mlp embed"},
          {"blk#.moe.up.weight", "model.layers.#.block_sparse_moe.input_linear.weight", "expert *mlp embed"},
          {"blk#.moe.down.weight", "model.layers.#.block_sparse_moe.output_linear.weight", "expert embed mlp"},
          {"blk#.moe.shared.gate.weight", "model.layers.#.shared_mlp.input_linear.weight", "*mlp embed"},
          {"blk#.moe.shared.up.weight", "model.layers.#.shared_mlp.input_linear.weight", "*mlp embed"},
          {"blk#.moe.shared.down.weight", "model.layers.#.shared_mlp.output_linear.weight", "embed mlp"}};
}

Rows ernie4_5_moe_rows() {
  return {{"blk#.moe.selection.bias", "model.layers.#.mlp.moe_statics.e_score_correction_bias", "1 expert"}};
}

// Rotated dimensions lie in pairs, and so may those of layers that do not rotate, whose products are the same.
Rows llama4_rows() {
  return {{"blk#.attn.q.weight", "model.layers.#.self_attn.q_proj.weight", "(kv_heads group ~head_dim) embed"},
          {"blk#.attn.k.weight", "model.layers.#.self_attn.k_proj.weight", "(kv_heads ~head_dim) embed"},
          {"blk#.attn.q.bias", "model.layers.#.self_attn.q_proj.bias", "(kv_heads group ~head_dim)"},
          {"blk#.attn.k.bias", "model.layers.#.self_attn.k_proj.bias", "(kv_heads ~head_dim)"},
          {"blk#.mlp.gate.weight", "model.layers.#.feed_forward.gate_proj.weight", "mlp embed"},
          {"blk#.mlp.up.weight", "model.layers.#.feed_forward.up_proj.weight", "mlp embed"},
          {"blk#.mlp.down.weight", "model.layers.#.feed_forward.down_proj.weight", "embed mlp"},
          {"blk#.moe.router.weight", "model.layers.#.feed_forward.router.weight", "expert embed"},
          {"blk#.moe.gate.weight", "model.layers.#.feed_forward.experts.gate_up_proj", "expert embed *mlp"},
          {"blk#.moe.up.weight", "model.layers.#.feed_forward.experts.gate_up_proj", "expert embed *mlp"},
          {"blk#.moe.down.weight", "model.layers.#.feed_forward.experts.down_proj", "expert mlp embed"},
          {"blk#.moe.shared.gate.weight", "model.layers.#.feed_forward.shared_expert.gate_proj.weight", "mlp embed"},
          {"blk#.moe.shared.up.weight", "model.layers.#.feed_forward.shared_expert.up_proj.weight", "mlp embed"},
          {"blk#.moe.shared.down.weight", "model.layers.#.feed_forward.shared_expert.down_proj.weight", "embed mlp"}};
}

// Which keys a query sees is chosen by scores of their own.
Rows indexer_rows() {
  return {
      {"blk#.attn.index.q.weight", "model.layers.#.self_attn.indexer.wq_b.weight", "(index_heads index_dim) q_rank"},
      {"blk#.attn.index.k.weight", "model.layers.#.self_attn.indexer.wk.weight", "index_dim embed"},
      {"blk#.attn.index.k_norm.gamma", "model.layers.#.self_attn.indexer.k_norm.weight", "index_dim"},
      {"blk#.attn.index.k_norm.beta", "model.layers.#.self_attn.indexer.k_norm.bias", "index_dim"},
      {"blk#.attn.index.weights.weight", "model.layers.#.self_attn.indexer.weights_proj.weight", "index_heads embed"}};
}

// GLM-5's rotates pairs that stand side by side.
Rows paired_indexer_rows() {
  Rows rows = indexer_rows();
  for (HfTensorRow& row : rows)
    if (const std::size_t at = row.layout.find("index_dim"); at != std::string::npos) row.layout.insert(at, "^");
  return rows;
}

// Norms whose weights are stored less one, and attention whose results are gated: each head's query and gate.
Rows gated_attention_rows() {
  return {{"blk#.ln1.gamma", "model.layers.#.input_layernorm.weight", "embed +1"},
          {"blk#.ln2.gamma", "model.layers.#.post_attention_layernorm.weight", "embed +1"},
          {"blk#.attn.q_norm.gamma", "model.layers.#.self_attn.q_norm.weight", "head_dim +1"},
          {"blk#.attn.k_norm.gamma", "model.layers.#.self_attn.k_norm.weight", "head_dim +1"},
          {"blk#.attn.q.weight", "model.layers.#.self_attn.q_proj.weight", "(kv_heads group *head_dim) embed"},
          {"blk#.attn.gate.weight", "model.layers.#.self_attn.q_proj.weight", "(kv_heads group *head_dim) embed"},
          {"blk#.attn.q.bias", "model.layers.#.self_attn.q_proj.bias", "(kv_heads group *head_dim)"},
          {"blk#.attn.gate.bias", "model.layers.#.self_attn.q_proj.bias", "(kv_heads group *head_dim)"},
          {"blk.final_norm.gamma", "model.norm.weight", "embed +1"}};
}

Rows delta_rows() {
  return {{"blk#.delta.a_log", "model.layers.#.linear_attn.A_log", "(delta_heads delta_group)"},
          {"blk#.delta.dt_bias", "model.layers.#.linear_attn.dt_bias", "(delta_heads delta_group)"},
          {"blk#.delta.q.conv.weight", "model.layers.#.linear_attn.conv1d.weight", "*channel 1 kernel"},
          {"blk#.delta.k.conv.weight", "model.layers.#.linear_attn.conv1d.weight", "*channel 1 kernel"},
          {"blk#.delta.v.conv.weight", "model.layers.#.linear_attn.conv1d.weight", "*channel 1 kernel"},
          {"blk#.delta.norm.gamma", "model.layers.#.linear_attn.norm.weight", "delta_dim"},
          {"blk#.delta.out.weight", "model.layers.#.linear_attn.out_proj.weight",
           "embed (delta_heads delta_group delta_dim)"}};
}

// Experts beside one that every token goes to, whose result is multiplied by a gate.
Rows gated_expert_rows() {
  return {{"blk#.moe.router.weight", "model.layers.#.mlp.gate.weight", "expert embed"},
          {"blk#.moe.gate.weight", "model.layers.#.mlp.experts.{expert}.gate_proj.weight", "mlp embed"},
          {"blk#.moe.up.weight", "model.layers.#.mlp.experts.{expert}.up_proj.weight", "mlp embed"},
          {"blk#.moe.down.weight", "model.layers.#.mlp.experts.{expert}.down_proj.weight", "embed mlp"},
          {"blk#.moe.shared.gate.weight", "model.layers.#.mlp.shared_expert.gate_proj.weight", "mlp embed"},
          {"blk#.moe.shared.up.weight", "model.layers.#.mlp.shared_expert.up_proj.weight", "mlp embed"},
          {"blk#.moe.shared.down.weight", "model.layers.#.mlp.shared_expert.down_proj.weight", "embed mlp"},
          {"blk#.moe.shared_gate.weight", "model.layers.#.mlp.shared_expert_gate.weight", "one embed"}};
}

// What a group of heads reads lies together: its query, key, values and their gates.
Rows qwen3_next_rows() {
  return {{"blk#.delta.q.weight", "model.layers.#.linear_attn.in_proj_qkvz.weight", "(delta_heads *key_dim) embed"},
          {"blk#.delta.k.weight", "model.layers.#.linear_attn.in_proj_qkvz.weight", "(delta_heads *key_dim) embed"},
          {"blk#.delta.v.weight", "model.layers.#.linear_attn.in_proj_qkvz.weight",
           "(delta_heads *delta_group *delta_dim) embed"},
          {"blk#.delta.z.weight", "model.layers.#.linear_attn.in_proj_qkvz.weight",
           "(delta_heads *delta_group *delta_dim) embed"},
          {"blk#.delta.b.weight", "model.layers.#.linear_attn.in_proj_ba.weight", "(delta_heads *delta_group) embed"},
          {"blk#.delta.a.weight", "model.layers.#.linear_attn.in_proj_ba.weight", "(delta_heads *delta_group) embed"}};
}

Rows qwen3_5_rows() {
  return {{"blk#.delta.q.weight", "model.layers.#.linear_attn.in_proj_qkv.weight", "*(delta_heads key_dim) embed"},
          {"blk#.delta.k.weight", "model.layers.#.linear_attn.in_proj_qkv.weight", "*(delta_heads key_dim) embed"},
          {"blk#.delta.v.weight", "model.layers.#.linear_attn.in_proj_qkv.weight",
           "*(delta_heads delta_group delta_dim) embed"},
          {"blk#.delta.z.weight", "model.layers.#.linear_attn.in_proj_z.weight",
           "(delta_heads delta_group delta_dim) embed"},
          {"blk#.delta.b.weight", "model.layers.#.linear_attn.in_proj_b.weight", "(delta_heads delta_group) embed"},
          {"blk#.delta.a.weight", "model.layers.#.linear_attn.in_proj_a.weight", "(delta_heads delta_group) embed"}};
}

// The same in a file that has another model beside it, of images.
HfTensorTable as_part(HfTensorTable table, const std::string& type, const std::string& model, const std::string& head,
                      std::vector<std::string> left_out) {
  constexpr std::string_view kModel = "model.", kHead = "lm_head.";
  const auto renamed = [&](std::string& name) {
    if (name.starts_with(kModel))
      name.replace(0, kModel.size(), model);
    else if (name.starts_with(kHead))
      name.replace(0, kHead.size(), head);
  };
  table.model_types = {type};
  table.prefix = "";
  for (HfTensorRow& row : table.rows) renamed(row.theirs);
  for (std::string& name : table.left_out) renamed(name);
  table.left_out.insert(table.left_out.end(), left_out.begin(), left_out.end());
  return table;
}

Rows olmo2_rows() {
  return {{"blk#.attn.norm.gamma", "model.layers.#.post_attention_layernorm.weight", "embed"},
          {"blk#.mlp.norm.gamma", "model.layers.#.post_feedforward_layernorm.weight", "embed"},
          {"blk#.attn.q_norm.gamma", "model.layers.#.self_attn.q_norm.weight", "queries"},
          {"blk#.attn.k_norm.gamma", "model.layers.#.self_attn.k_norm.weight", "keys"}};
}

// The dimensions of each head that are rotated lie in pairs.
Rows paired_rows() {
  return {{"blk#.attn.q.weight", "model.layers.#.self_attn.q_proj.weight", "(kv_heads group ~head_dim) embed"},
          {"blk#.attn.k.weight", "model.layers.#.self_attn.k_proj.weight", "(kv_heads ~head_dim) embed"},
          {"blk#.attn.q_norm.gamma", "model.layers.#.self_attn.q_norm.weight", "(kv_heads group) ~head_dim"},
          {"blk#.attn.k_norm.gamma", "model.layers.#.self_attn.k_norm.weight", "kv_heads ~head_dim"}};
}

// Experts of images' models: one tensor of all, (in, out), gates before ups.
Rows qwen3_vl_moe_rows() {
  return {{"blk#.moe.gate.weight", "model.layers.#.mlp.experts.gate_up_proj", "expert embed *mlp"},
          {"blk#.moe.up.weight", "model.layers.#.mlp.experts.gate_up_proj", "expert embed *mlp"},
          {"blk#.moe.down.weight", "model.layers.#.mlp.experts.down_proj", "expert mlp embed"}};
}

// Norms of what attention and feed-forward make; those of queries and keys are of each head.
Rows result_norm_rows() {
  return {{"blk#.attn.norm.gamma", "model.layers.#.post_attention_layernorm.weight", "embed"},
          {"blk#.mlp.norm.gamma", "model.layers.#.post_feedforward_layernorm.weight", "embed"}};
}

// Norms whose weights are stored less one.
Rows nemotron_rows() {
  return {{"blk#.ln1.gamma", "model.layers.#.input_layernorm.weight", "embed +1"},
          {"blk#.ln2.gamma", "model.layers.#.post_attention_layernorm.weight", "embed +1"},
          {"blk.final_norm.gamma", "model.norm.weight", "embed +1"}};
}

Rows wide_norm_rows() {
  return {{"blk#.attn.q_norm.gamma", "model.layers.#.self_attn.q_norm.weight", "queries"},
          {"blk#.attn.k_norm.gamma", "model.layers.#.self_attn.k_norm.weight", "keys"}};
}

// Olmo's and FlexOlmo's mixtures have norms of their results, too.
Rows expert_norm_rows() {
  return {{"blk#.attn.norm.gamma", "model.layers.#.post_attention_layernorm.weight", "embed"},
          {"blk#.moe.norm.gamma", "model.layers.#.post_feedforward_layernorm.weight", "embed"}};
}

// Norms with a bias.
Rows layer_norm_rows() {
  return {{"blk#.ln1.beta", "model.layers.#.input_layernorm.bias", "embed"},
          {"blk#.ln2.beta", "model.layers.#.post_attention_layernorm.bias", "embed"},
          {"blk.final_norm.beta", "model.norm.bias", "embed"}};
}

Rows starcoder2_rows() {
  return {{"blk#.mlp.up.weight", "model.layers.#.mlp.c_fc.weight", "mlp embed"},
          {"blk#.mlp.up.bias", "model.layers.#.mlp.c_fc.bias", "mlp"},
          {"blk#.mlp.down.weight", "model.layers.#.mlp.c_proj.weight", "embed mlp"},
          {"blk#.mlp.down.bias", "model.layers.#.mlp.c_proj.bias", "embed"}};
}

Rows phi_rows() {
  return {{"blk#.attn.out.weight", "model.layers.#.self_attn.dense.weight", "embed (kv_heads group head_dim)"},
          {"blk#.attn.out.bias", "model.layers.#.self_attn.dense.bias", "embed"},
          {"blk#.mlp.up.weight", "model.layers.#.mlp.fc1.weight", "mlp embed"},
          {"blk#.mlp.up.bias", "model.layers.#.mlp.fc1.bias", "mlp"},
          {"blk#.mlp.down.weight", "model.layers.#.mlp.fc2.weight", "embed mlp"},
          {"blk#.mlp.down.bias", "model.layers.#.mlp.fc2.bias", "embed"},
          {"blk.final_norm.gamma", "model.final_layernorm.weight", "embed"},
          {"blk.final_norm.beta", "model.final_layernorm.bias", "embed"},
          {"head.bias", "lm_head.bias", "vocab"}};
}

Rows phi3_rows() {
  return {{"blk#.attn.q.weight", "model.layers.#.self_attn.qkv_proj.weight", "*(kv_heads group head_dim) embed"},
          {"blk#.attn.k.weight", "model.layers.#.self_attn.qkv_proj.weight", "*(kv_heads head_dim) embed"},
          {"blk#.attn.v.weight", "model.layers.#.self_attn.qkv_proj.weight", "*(kv_heads head_dim) embed"},
          {"blk#.mlp.gate.weight", "model.layers.#.mlp.gate_up_proj.weight", "*mlp embed"},
          {"blk#.mlp.up.weight", "model.layers.#.mlp.gate_up_proj.weight", "*mlp embed"}};
}

Rows minimax_m2_rows() {
  return {{"blk#.moe.selection.bias", "model.layers.#.block_sparse_moe.e_score_correction_bias", "expert"},
          {"blk#.attn.q_norm.gamma", "model.layers.#.self_attn.q_norm.weight", "queries"},
          {"blk#.attn.k_norm.gamma", "model.layers.#.self_attn.k_norm.weight", "keys"}};
}

// Modules for further tokens: blocks behind the others, with what joins a token's embedding to what is before them.
HfTensorTable with_further_tokens(HfTensorTable table) {
  Rows further = {{"mtp#.embed_norm.gamma", "model.layers.%.enorm.weight", "embed"},
                  {"mtp#.hidden_norm.gamma", "model.layers.%.hnorm.weight", "embed"},
                  {"mtp#.in.weight", "model.layers.%.eh_proj.weight", "embed embed_pair"},
                  {"mtp#.final_norm.gamma", "model.layers.%.shared_head.norm.weight", "embed"}};
  constexpr std::string_view kOurs = "blk#.", kTheirs = "model.layers.#.";
  for (HfTensorRow row : table.rows) {
    if (!row.ours.starts_with(kOurs)) continue;
    row.ours.replace(0, kOurs.size(), "mtp#.");
    row.theirs.replace(0, kTheirs.size(), "model.layers.%.");
    further.push_back(row);
  }
  table.rows.insert(table.rows.end(), further.begin(), further.end());
  for (const char* name : {"model.layers.#.embed_tokens.weight", "model.layers.#.shared_head.head.weight"})
    table.left_out.emplace_back(name);
  return table;
}

}  // namespace

HfTensorTable hf::like_llama(std::vector<std::string> types, std::initializer_list<Rows> own) {
  HfTensorTable table{
      std::move(types), "model.", joined(own), {"lm_head.weight", "model.layers.#.self_attn.rotary_emb.inv_freq"}};
  for (const HfTensorRow& row : llama_rows()) table.rows.push_back(row);
  return table;
}

Rows hf::expert_rows() {
  return {{"blk#.moe.router.weight", "model.layers.#.mlp.gate.weight", "expert embed"},
          {"blk#.moe.selection.bias", "model.layers.#.mlp.gate.e_score_correction_bias", "expert"},
          {"blk#.moe.gate.weight", "model.layers.#.mlp.experts.{expert}.gate_proj.weight", "mlp embed"},
          {"blk#.moe.up.weight", "model.layers.#.mlp.experts.{expert}.up_proj.weight", "mlp embed"},
          {"blk#.moe.down.weight", "model.layers.#.mlp.experts.{expert}.down_proj.weight", "embed mlp"},
          {"blk#.moe.shared.gate.weight", "model.layers.#.mlp.shared_experts.gate_proj.weight", "mlp embed"},
          {"blk#.moe.shared.up.weight", "model.layers.#.mlp.shared_experts.up_proj.weight", "mlp embed"},
          {"blk#.moe.shared.down.weight", "model.layers.#.mlp.shared_experts.down_proj.weight", "embed mlp"}};
}

std::vector<HfTensorTable> hf_decoder_tables() {
  const HfTensorTable gemma = like_llama({"gemma", "gemma2", "gemma3_text"}, {gemma_rows()}),
                      qwen3_vl_moe = like_llama({"qwen3_vl_moe_text"}, {qwen3_vl_moe_rows(), expert_rows()}),
                      gemma4 = like_llama({"gemma4_text"}, {gemma4_rows()}),
                      llama4 = like_llama({"llama4_text"}, {llama4_rows()}),
                      qwen3_5 = like_llama({"qwen3_5_text", "qwen3_5_moe_text"},
                                           {qwen3_5_rows(), delta_rows(), gated_expert_rows(), gated_attention_rows()});
  return {
      gemma,
      as_part(gemma, "gemma3", "language_model.model.", "language_model.lm_head.",
              {"vision_tower.*", "multi_modal_projector.*"}),
      like_llama({"vaultgemma"}, {vaultgemma_rows(), gemma_rows()}),
      gemma4,
      as_part(gemma4, "gemma4", "model.language_model.", "lm_head.",
              {"model.vision_tower.*", "model.embed_vision.*", "model.audio_tower.*", "model.embed_audio.*"}),
      llama4,
      as_part(llama4, "llama4", "language_model.model.", "language_model.lm_head.",
              {"vision_model.*", "multi_modal_projector.*"}),
      qwen3_5,
      as_part(qwen3_5, "qwen3_5", "model.language_model.", "lm_head.", {"model.visual.*", "mtp.*"}),
      as_part(qwen3_5, "qwen3_5_moe", "model.language_model.", "lm_head.", {"model.visual.*", "mtp.*"}),
      like_llama({"qwen3_next"}, {qwen3_next_rows(), delta_rows(), gated_expert_rows(), gated_attention_rows()}),
      like_llama(
          {"llama", "mistral",       "qwen2",       "qwen3",           "granite",       "smollm3",   "arcee",
           "cwm",   "internlm3",     "iquestcoder", "granite_swa",     "minicpm",       "ministral", "ministral3",
           "olmo",  "qwen3_vl_text", "seed_oss",    "qwen2_5_vl_text", "qwen2_vl_text", "eurobert"},
          {}),
      like_llama({"helium", "ernie4_5", "cohere", "cohere2"}, {paired_rows()}),
      like_llama({"glm", "glm4"}, {glm_rows()}),
      like_llama({"hunyuan_v1_dense", "hunyuan_v1_moe"}, {hunyuan_rows(), expert_rows()}),
      like_llama({"granitemoe", "granitemoeshared"}, {granitemoe_rows()}),
      like_llama({"ernie4_5_moe"}, {ernie4_5_moe_rows(), paired_rows(), expert_rows()}),
      as_part(like_llama({}, {}), "mistral3", "language_model.model.", "language_model.lm_head.",
              {"vision_tower.*", "multi_modal_projector.*"}),
      as_part(like_llama({}, {}), "qwen2_vl", "model.", "lm_head.", {"visual.*"}),
      as_part(like_llama({}, {}), "qwen2_5_vl", "model.", "lm_head.", {"visual.*"}),
      as_part(like_llama({}, {}), "qwen3_vl", "model.language_model.", "lm_head.", {"model.visual.*"}),
      qwen3_vl_moe,
      as_part(qwen3_vl_moe, "qwen3_vl_moe", "model.language_model.", "lm_head.", {"model.visual.*"}),
      like_llama({"nemotron"}, {nemotron_rows(), layer_norm_rows()}),
      like_llama({"olmo2", "olmo3"}, {olmo2_rows()}),
      like_llama({"exaone4"}, {result_norm_rows()}),
      like_llama({"stablelm", "jais2"}, {layer_norm_rows()}),
      like_llama({"starcoder2"}, {starcoder2_rows(), layer_norm_rows()}),
      like_llama({"phi"}, {phi_rows(), layer_norm_rows()}),
      like_llama({"phi3"}, {phi3_rows()}),
      like_llama({"mixtral"}, {mixtral_rows()}),
      like_llama({"minimax_m2"}, {minimax_m2_rows(), mixtral_rows()}),
      like_llama({"qwen3_moe", "dots1", "mellum", "sarvam_moe", "solar_open"}, {expert_rows()}),
      like_llama({"exaone_moe"}, {exaone_moe_rows(), expert_rows()}),
      like_llama({"hy_v3"}, {hy_v3_rows(), expert_rows()}),
      like_llama({"qwen2_moe"}, {gated_expert_rows()}),
      like_llama({"olmoe"}, {wide_norm_rows(), expert_rows()}),
      like_llama({"flex_olmo"}, {wide_norm_rows(), expert_norm_rows(), expert_rows()}),
      with_further_tokens(like_llama({"glm4_moe"}, {expert_rows()})),
      like_llama({"gpt_oss"}, {gpt_oss_rows()}),
      with_further_tokens(like_llama({"deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe_lite", "sarvam_mla", "youtu"},
                                     {latent_rows(), plain_latent_rows(), expert_rows()})),
      with_further_tokens(
          like_llama({"deepseek_v32"}, {indexer_rows(), latent_rows(), plain_latent_rows(), expert_rows()})),
      with_further_tokens(
          like_llama({"glm_moe_dsa"}, {paired_indexer_rows(), latent_rows(), plain_latent_rows(), expert_rows()}))};
}

}  // namespace meshwright
