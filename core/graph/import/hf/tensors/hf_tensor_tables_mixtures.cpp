// SPDX-License-Identifier: Apache-2.0
// What decoders with experts, with latent attention or with delta rules call their tensors, and how they lay them out.
#include <string>
#include <string_view>
#include <utility>

#include "core/graph/import/hf/tensors/hf_tensor_rows.h"

namespace meshwright {

namespace {

using hf::as_part;
using hf::expert_rows;
using hf::gated_expert_rows;
using hf::indexer_rows;
using hf::latent_rows;
using hf::like_llama;
using hf::paired_rows;
using hf::wide_norm_rows;
using Rows = std::vector<HfTensorRow>;

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

// Latent attention where queries are projected directly.
Rows plain_latent_rows() {
  return {{"blk#.attn.q_nope.weight", "model.layers.#.self_attn.q_proj.weight", "(kv_heads group *nope_dim) embed"},
          {"blk#.attn.q_rope.weight", "model.layers.#.self_attn.q_proj.weight", "(kv_heads group *~rope_dim) embed"}};
}

// Of files that have the dimensions that are rotated in halves, as ours are.
Rows halved(Rows rows) {
  for (HfTensorRow& row : rows) std::erase(row.layout, '~');
  return rows;
}

// Norms of what the layers with experts make, which files have for the others, too.
HfTensorTable axk1() {
  HfTensorTable table =
      like_llama({"axk1"}, {Rows{{"blk#.moe.norm.gamma", "model.layers.#.post_mlp_layernorm.weight", "embed"}},
                            latent_rows(), expert_rows()});
  table.left_out.emplace_back("model.layers.#.post_mlp_layernorm.weight");
  return table;
}

Rows olmo_hybrid_rows() {
  const std::string delta = "model.layers.#.linear_attn.";
  return {{"blk#.ln1.gamma", "model.layers.#.attention_layer_norm.weight", "embed"},
          {"blk#.ln2.gamma", "model.layers.#.feedforward_layer_norm.weight", "embed"},
          {"blk#.attn.norm.gamma", "model.layers.#.post_attention_layernorm.weight", "embed"},
          {"blk#.mlp.norm.gamma", "model.layers.#.post_feedforward_layernorm.weight", "embed"},
          {"blk#.delta.q.weight", delta + "q_proj.weight", "(delta_heads key_dim) embed"},
          {"blk#.delta.k.weight", delta + "k_proj.weight", "(delta_heads key_dim) embed"},
          {"blk#.delta.v.weight", delta + "v_proj.weight", "(delta_heads delta_group delta_dim) embed"},
          {"blk#.delta.z.weight", delta + "g_proj.weight", "(delta_heads delta_group delta_dim) embed"},
          {"blk#.delta.b.weight", delta + "b_proj.weight", "(delta_heads delta_group) embed"},
          {"blk#.delta.a.weight", delta + "a_proj.weight", "(delta_heads delta_group) embed"},
          {"blk#.delta.q.conv.weight", delta + "q_conv1d.weight", "channel 1 kernel"},
          {"blk#.delta.k.conv.weight", delta + "k_conv1d.weight", "channel 1 kernel"},
          {"blk#.delta.v.conv.weight", delta + "v_conv1d.weight", "channel 1 kernel"},
          {"blk#.delta.a_log", delta + "A_log", "(delta_heads delta_group)"},
          {"blk#.delta.dt_bias", delta + "dt_bias", "(delta_heads delta_group)"},
          {"blk#.delta.norm.gamma", delta + "o_norm.weight", "delta_dim"},
          {"blk#.delta.out.weight", delta + "o_proj.weight", "embed (delta_heads delta_group delta_dim)"}};
}

// One tensor of all experts, (out, in), gates before ups.
Rows joint_expert_rows(const std::string& experts) {
  return {{"blk#.moe.gate.weight", experts + "gate_up_proj", "expert *mlp embed"},
          {"blk#.moe.up.weight", experts + "gate_up_proj", "expert *mlp embed"},
          {"blk#.moe.down.weight", experts + "down_proj", "expert embed mlp"}};
}

Rows granitemoe_swa_rows() {
  return {{"blk#.moe.router.weight", "model.layers.#.block_sparse_moe.router.weight", "expert embed"}};
}

Rows aria_rows() {
  return {{"blk#.moe.router.weight", "model.layers.#.mlp.router.weight", "expert embed"},
          {"blk#.moe.gate.weight", "model.layers.#.mlp.experts.fc1.weight", "expert embed *mlp"},
          {"blk#.moe.up.weight", "model.layers.#.mlp.experts.fc1.weight", "expert embed *mlp"},
          {"blk#.moe.down.weight", "model.layers.#.mlp.experts.fc2.weight", "expert mlp embed"}};
}

Rows afmoe_rows() {
  return {{"blk#.attn.gate.weight", "model.layers.#.self_attn.gate_proj.weight", "(kv_heads group head_dim) embed"},
          {"blk#.attn.norm.gamma", "model.layers.#.post_attention_layernorm.weight", "embed"},
          {"blk#.ln2.gamma", "model.layers.#.pre_mlp_layernorm.weight", "embed"},
          {"blk#.mlp.norm.gamma", "model.layers.#.post_mlp_layernorm.weight", "embed"},
          {"blk#.moe.norm.gamma", "model.layers.#.post_mlp_layernorm.weight", "embed"},
          {"blk#.moe.router.weight", "model.layers.#.mlp.router.gate.weight", "expert embed"},
          {"blk#.moe.selection.bias", "model.layers.#.mlp.expert_bias", "expert"}};
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

// Experts of images' models: one tensor of all, (in, out), gates before ups.
Rows qwen3_vl_moe_rows() {
  return {{"blk#.moe.gate.weight", "model.layers.#.mlp.experts.gate_up_proj", "expert embed *mlp"},
          {"blk#.moe.up.weight", "model.layers.#.mlp.experts.gate_up_proj", "expert embed *mlp"},
          {"blk#.moe.down.weight", "model.layers.#.mlp.experts.down_proj", "expert mlp embed"}};
}

// Olmo's and FlexOlmo's mixtures have norms of their results, too.
Rows expert_norm_rows() {
  return {{"blk#.attn.norm.gamma", "model.layers.#.post_attention_layernorm.weight", "embed"},
          {"blk#.moe.norm.gamma", "model.layers.#.post_feedforward_layernorm.weight", "embed"}};
}

Rows minimax_m2_rows() {
  return {{"blk#.moe.selection.bias", "model.layers.#.block_sparse_moe.e_score_correction_bias", "expert"}};
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

// One tensor of all experts, for gates, ups and downs, whose rows are widths.
HfTensorTable dbrx() {
  const std::string block = "transformer.blocks.#.", joint = block + "norm_attn_norm.attn.Wqkv.weight";
  return {{"dbrx"},
          "transformer.",
          {{"wte", "transformer.wte.weight", "vocab embed"},
           {"blk#.ln1.gamma", block + "norm_attn_norm.norm_1.weight", "embed"},
           {"blk#.attn.q.weight", joint, "*(kv_heads group head_dim) embed"},
           {"blk#.attn.k.weight", joint, "*(kv_heads head_dim) embed"},
           {"blk#.attn.v.weight", joint, "*(kv_heads head_dim) embed"},
           {"blk#.attn.out.weight", block + "norm_attn_norm.attn.out_proj.weight", "embed (kv_heads group head_dim)"},
           {"blk#.ln2.gamma", block + "norm_attn_norm.norm_2.weight", "embed"},
           {"blk#.moe.router.weight", block + "ffn.router.layer.weight", "expert embed"},
           {"blk#.moe.gate.weight", block + "ffn.experts.mlp.w1", "(expert mlp) embed"},
           {"blk#.moe.up.weight", block + "ffn.experts.mlp.v1", "(expert mlp) embed"},
           {"blk#.moe.down.weight", block + "ffn.experts.mlp.w2", "(expert mlp) embed"},
           {"blk.final_norm.gamma", "transformer.norm_f.weight", "embed"},
           {"head.weight", "lm_head.weight", "vocab embed"}},
          {"lm_head.weight"}};
}

// Qwen2, with modules for further tokens in a list of their own, which join what is before a token to its embedding in
// the other order than ours.
HfTensorTable mimo() {
  constexpr std::string_view kOurs = "blk#.", kTheirs = "model.layers.#.";
  HfTensorTable table = like_llama({"mimo"}, {});
  const std::string module = "model.mtp_layers.$.";
  Rows further = {{"mtp#.embed_norm.gamma", module + "token_layernorm.weight", "embed"},
                  {"mtp#.hidden_norm.gamma", module + "hidden_layernorm.weight", "embed"},
                  {"mtp#.in.weight", module + "input_proj.weight", "embed <embed_pair"},
                  {"mtp#.final_norm.gamma", module + "final_layernorm.weight", "embed"}};
  for (HfTensorRow row : table.rows) {
    if (!row.ours.starts_with(kOurs)) continue;
    row.ours.replace(0, kOurs.size(), "mtp#.");
    row.theirs.replace(0, kTheirs.size(), module);
    further.push_back(row);
  }
  table.rows.insert(table.rows.end(), further.begin(), further.end());
  return table;
}

// Norms whose weights are stored less one, a gate of each head, and one tensor of all experts for each projection.
HfTensorTable step3p7() {
  const std::string layer = "model.layers.#.", attn = layer + "self_attn.", moe = layer + "moe.",
                    shared = layer + "share_expert.";
  HfTensorTable table =
      like_llama({"step3p5", "step3p7"}, {{{"blk#.ln1.gamma", layer + "input_layernorm.weight", "embed +1"},
                                           {"blk#.ln2.gamma", layer + "post_attention_layernorm.weight", "embed +1"},
                                           {"blk#.attn.q_norm.gamma", attn + "q_norm.weight", "head_dim +1"},
                                           {"blk#.attn.k_norm.gamma", attn + "k_norm.weight", "head_dim +1"},
                                           {"blk#.attn.gate.weight", attn + "g_proj.weight", "(kv_heads group) embed"},
                                           {"blk#.moe.router.weight", moe + "gate.weight", "expert embed"},
                                           {"blk#.moe.selection.bias", moe + "router_bias", "expert"},
                                           {"blk#.moe.gate.weight", moe + "gate_proj.weight", "expert mlp embed"},
                                           {"blk#.moe.up.weight", moe + "up_proj.weight", "expert mlp embed"},
                                           {"blk#.moe.down.weight", moe + "down_proj.weight", "expert embed mlp"},
                                           {"blk#.moe.shared.gate.weight", shared + "gate_proj.weight", "mlp embed"},
                                           {"blk#.moe.shared.up.weight", shared + "up_proj.weight", "mlp embed"},
                                           {"blk#.moe.shared.down.weight", shared + "down_proj.weight", "embed mlp"},
                                           {"blk.final_norm.gamma", "model.norm.weight", "embed +1"}}});
  for (const char* other : {"vision_model.*", "vit_large_projector.*"}) table.left_out.emplace_back(other);
  return table;
}

// Gates of heads, or of each number that a head makes.
Rows laguna_rows() {
  const std::string gate = "model.layers.#.self_attn.g_proj.weight", shared = "model.layers.#.mlp.shared_expert.";
  return {{"blk#.attn.gate.weight", gate, "(kv_heads group head_dim) embed"},
          {"blk#.attn.gate.weight", gate, "(kv_heads group) embed"},
          {"blk#.moe.selection.bias", "model.layers.#.mlp.experts.e_score_correction_bias", "expert"},
          {"blk#.moe.shared.gate.weight", shared + "gate_proj.weight", "mlp embed"},
          {"blk#.moe.shared.up.weight", shared + "up_proj.weight", "mlp embed"},
          {"blk#.moe.shared.down.weight", shared + "down_proj.weight", "embed mlp"}};
}

// Lightning attention, each head's query, key and value in one; what its decays follow from is in files, too.
HfTensorTable minimax() {
  const std::string attention = "model.layers.#.self_attn.", joint = attention + "qkv_proj.weight";
  HfTensorTable table = like_llama(
      {"minimax"},
      {{{"blk#.linear.q.weight", joint, "(linear_heads *key_dim) embed"},
        {"blk#.linear.k.weight", joint, "(linear_heads *key_dim) embed"},
        {"blk#.linear.v.weight", joint, "(linear_heads *linear_group *linear_dim) embed"},
        {"blk#.linear.norm.gamma", attention + "norm.weight", "inner"},
        {"blk#.linear.gate.weight", attention + "output_gate.weight", "(linear_heads linear_group linear_dim) embed"},
        {"blk#.linear.out.weight", attention + "out_proj.weight", "embed (linear_heads linear_group linear_dim)"}},
       mixtral_rows()});
  for (const char* decay : {"slope_rate", "query_decay", "key_decay", "diagonal_decay"})
    table.left_out.push_back(attention + decay);
  return table;
}

// Griffin's blocks, with norms whose weights are stored less one.
HfTensorTable recurrent_gemma() {
  const std::string layer = "model.layers.#.", block = layer + "temporal_block.", unit = block + "rg_lru.",
                    mlp = layer + "mlp_block.", channels = "(rnn_heads rnn_dim)";
  HfTensorTable table{{"recurrent_gemma"},
                      "model.",
                      {{"wte", "model.embed_tokens.weight", "vocab embed"},
                       {"blk#.ln1.gamma", layer + "temporal_pre_norm.weight", "embed +1"},
                       {"blk#.ln2.gamma", layer + "channel_pre_norm.weight", "embed +1"},
                       {"blk#.attn.q.weight", block + "q_proj.weight", "(kv_heads group head_dim) embed"},
                       {"blk#.attn.k.weight", block + "k_proj.weight", "(kv_heads head_dim) embed"},
                       {"blk#.attn.v.weight", block + "v_proj.weight", "(kv_heads head_dim) embed"},
                       {"blk#.attn.q.bias", block + "q_proj.bias", "(kv_heads group head_dim)"},
                       {"blk#.attn.k.bias", block + "k_proj.bias", "(kv_heads head_dim)"},
                       {"blk#.attn.v.bias", block + "v_proj.bias", "(kv_heads head_dim)"},
                       {"blk#.attn.out.weight", block + "o_proj.weight", "embed (kv_heads group head_dim)"},
                       {"blk#.attn.out.bias", block + "o_proj.bias", "embed"},
                       {"blk#.rnn.out.weight", block + "linear_out.weight", "embed " + channels},
                       {"blk#.rnn.out.bias", block + "linear_out.bias", "embed"},
                       {"blk#.rnn.x.conv.weight", block + "conv_1d.weight", "channel 1 kernel"},
                       {"blk#.rnn.x.conv.bias", block + "conv_1d.bias", "channel"},
                       {"blk#.rnn.rate", unit + "recurrent_param", channels},
                       {"blk#.rnn.step.weight", unit + "recurrent_gate_weight", "rnn_heads rnn_in rnn_dim"},
                       {"blk#.rnn.step.bias", unit + "recurrent_gate_bias", "rnn_heads rnn_dim"},
                       {"blk#.rnn.input.weight", unit + "input_gate_weight", "rnn_heads rnn_in rnn_dim"},
                       {"blk#.rnn.input.bias", unit + "input_gate_bias", "rnn_heads rnn_dim"},
                       {"blk#.mlp.down.weight", mlp + "down_proj.weight", "embed mlp"},
                       {"blk#.mlp.down.bias", mlp + "down_proj.bias", "embed"},
                       {"blk.final_norm.gamma", "model.final_norm.weight", "embed +1"},
                       {"head.weight", "lm_head.weight", "vocab embed"}},
                      {"lm_head.weight"}};
  for (const char* which : {"x", "y"}) {
    const std::string ours = std::string("blk#.rnn.") + which, theirs = block + "linear_" + which;
    table.rows.push_back({ours + ".weight", theirs + ".weight", channels + " embed"});
    table.rows.push_back({ours + ".bias", theirs + ".bias", channels});
  }
  for (const char* which : {"gate", "up"}) {
    const std::string ours = std::string("blk#.mlp.") + which, theirs = mlp + which + "_proj";
    table.rows.push_back({ours + ".weight", theirs + ".weight", "mlp embed"});
    table.rows.push_back({ours + ".bias", theirs + ".bias", "mlp"});
  }
  return table;
}

// Values are narrower than keys.
Rows mimo_v2_flash_rows() {
  return {{"blk#.attn.v.weight", "model.layers.#.self_attn.v_proj.weight", "(kv_heads v_dim) embed"},
          {"blk#.attn.v.bias", "model.layers.#.self_attn.v_proj.bias", "(kv_heads v_dim)"},
          {"blk#.attn.out.weight", "model.layers.#.self_attn.o_proj.weight", "embed (kv_heads group v_dim)"},
          {"blk#.attn.sinks", "model.layers.#.self_attn.attention_sink_bias", "(kv_heads group)"}};
}

}  // namespace

// Which keys a query sees is chosen by scores of their own.
Rows hf::indexer_rows() {
  return {
      {"blk#.attn.index.q.weight", "model.layers.#.self_attn.indexer.wq_b.weight", "(index_heads index_dim) q_rank"},
      {"blk#.attn.index.k.weight", "model.layers.#.self_attn.indexer.wk.weight", "index_dim embed"},
      {"blk#.attn.index.k_norm.gamma", "model.layers.#.self_attn.indexer.k_norm.weight", "index_dim"},
      {"blk#.attn.index.k_norm.beta", "model.layers.#.self_attn.indexer.k_norm.bias", "index_dim"},
      {"blk#.attn.index.weights.weight", "model.layers.#.self_attn.indexer.weights_proj.weight", "index_heads embed"}};
}

// The dimensions that are rotated lie in pairs.
Rows hf::latent_rows() {
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

Rows hf::wide_norm_rows() {
  return {{"blk#.attn.q_norm.gamma", "model.layers.#.self_attn.q_norm.weight", "queries"},
          {"blk#.attn.k_norm.gamma", "model.layers.#.self_attn.k_norm.weight", "keys"}};
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

std::vector<HfTensorTable> hf_mixture_tables() {
  const HfTensorTable qwen3_vl_moe = like_llama({"qwen3_vl_moe_text"}, {qwen3_vl_moe_rows(), expert_rows()}),
                      llama4 = like_llama({"llama4_text"}, {llama4_rows()}),
                      qwen3_5 = like_llama({"qwen3_5_text", "qwen3_5_moe_text"},
                                           {qwen3_5_rows(), delta_rows(), gated_expert_rows(), gated_attention_rows()});
  return {
      dbrx(),
      llama4,
      as_part(llama4, "llama4", "language_model.model.", "language_model.lm_head.",
              {"vision_model.*", "multi_modal_projector.*"}),
      qwen3_5,
      as_part(qwen3_5, "qwen3_5", "model.language_model.", "lm_head.", {"model.visual.*", "mtp.*"}),
      as_part(qwen3_5, "qwen3_5_moe", "model.language_model.", "lm_head.", {"model.visual.*", "mtp.*"}),
      like_llama({"qwen3_next"}, {qwen3_next_rows(), delta_rows(), gated_expert_rows(), gated_attention_rows()}),
      like_llama({"granitemoe", "granitemoeshared"}, {granitemoe_rows()}),
      like_llama(
          {"granitemoe_swa"},
          {granitemoe_swa_rows(), joint_expert_rows("model.layers.#.block_sparse_moe.experts."), granitemoe_rows()}),
      like_llama({"olmo_hybrid"}, {olmo_hybrid_rows(), wide_norm_rows()}),
      like_llama({"aria_text"}, {aria_rows(), expert_rows()}),
      like_llama({"afmoe"}, {afmoe_rows(), expert_rows()}),
      like_llama({"cohere2_moe"}, {paired_rows(), expert_rows()}),
      like_llama({"minicpm3"}, {halved(latent_rows()), halved(plain_latent_rows())}),
      like_llama({"mistral4"},
                 {joint_expert_rows("model.layers.#.mlp.experts."), latent_rows(), plain_latent_rows(), expert_rows()}),
      axk1(),
      like_llama({"ernie4_5_moe"}, {ernie4_5_moe_rows(), paired_rows(), expert_rows()}),
      qwen3_vl_moe,
      as_part(qwen3_vl_moe, "qwen3_vl_moe", "model.language_model.", "lm_head.", {"model.visual.*"}),
      like_llama({"mixtral"}, {mixtral_rows()}),
      like_llama({"minimax_m2"}, {minimax_m2_rows(), wide_norm_rows(), mixtral_rows()}),
      like_llama({"qwen3_moe", "dots1", "mellum", "sarvam_moe", "solar_open"}, {expert_rows()}),
      like_llama({"exaone_moe"}, {exaone_moe_rows(), expert_rows()}),
      like_llama({"hy_v3"}, {hy_v3_rows(), expert_rows()}),
      like_llama({"qwen2_moe"}, {gated_expert_rows()}),
      like_llama({"flint"}, {Rows{{"blk#.attn.sinks", "model.layers.#.self_attn.softmax_offset", "(kv_heads group)"}},
                             gated_expert_rows()}),
      like_llama({"olmoe"}, {wide_norm_rows(), expert_rows()}),
      like_llama({"flex_olmo"}, {wide_norm_rows(), expert_norm_rows(), expert_rows()}),
      mimo(),
      step3p7(),
      minimax(),
      recurrent_gemma(),
      like_llama({"laguna"}, {laguna_rows(), expert_rows()}),
      like_llama({"mimo_v2_flash"}, {mimo_v2_flash_rows(), expert_rows()}),
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
