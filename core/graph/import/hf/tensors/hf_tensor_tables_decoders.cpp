// SPDX-License-Identifier: Apache-2.0
// What decoders with rotated heads and dense layers call their tensors, and how they lay them out. Linear layers are
// (out, in).
#include <initializer_list>
#include <string_view>
#include <utility>

#include "core/base/text.h"
#include "core/graph/import/hf/tensors/hf_tensor_rows.h"

namespace meshwright {

namespace {

using hf::as_part;
using hf::expert_rows;
using hf::like_llama;
using hf::paired_rows;
using hf::wide_norm_rows;
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

// Gemma's layers as an encoder and as a decoder, whose norms lie elsewhere in the files.
HfTensorTable t5gemma() {
  Rows rows = {{"wte", "model.decoder.embed_tokens.weight", "vocab embed"},
               {"enc.wte", "model.encoder.embed_tokens.weight", "encoder_vocab embed"},
               {"head.weight", "lm_head.out_proj.weight", "vocab embed"}};
  for (const auto& [ours, theirs] : {std::pair("enc", "model.encoder."), {"dec", "model.decoder."}}) {
    const std::string block = fmt::format("{}#.", ours), layer = fmt::format("{}layers.#.", theirs);
    const auto norms = [&](const char* before, const char* part, const char* behind, const char* what) {
      rows.push_back({block + before + ".gamma", fmt::format("{}pre_{}_layernorm.weight", layer, what), "embed +1"});
      rows.push_back({block + part + behind, fmt::format("{}post_{}_layernorm.weight", layer, what), "embed +1"});
    };
    norms("ln1", "attn", ".norm.gamma", "self_attn");
    norms("ln_cross", "cross", ".norm.gamma", "cross_attn");
    norms("ln2", "mlp", ".norm.gamma", "feedforward");
    rows.push_back({fmt::format("{}.final_norm.gamma", ours), fmt::format("{}norm.weight", theirs), "embed +1"});
    for (const auto& [attention, name] : {std::pair("attn.", "self_attn."), {"cross.", "cross_attn."}}) {
      const std::string here = block + attention, there = layer + name;
      rows.push_back({here + "q.weight", there + "q_proj.weight", "(kv_heads group head_dim) embed"});
      rows.push_back({here + "k.weight", there + "k_proj.weight", "(kv_heads head_dim) embed"});
      rows.push_back({here + "v.weight", there + "v_proj.weight", "(kv_heads head_dim) embed"});
      rows.push_back({here + "out.weight", there + "o_proj.weight", "embed (kv_heads group head_dim)"});
      rows.push_back({here + "q.bias", there + "q_proj.bias", "(kv_heads group head_dim)"});
      rows.push_back({here + "k.bias", there + "k_proj.bias", "(kv_heads head_dim)"});
      rows.push_back({here + "v.bias", there + "v_proj.bias", "(kv_heads head_dim)"});
      rows.push_back({here + "out.bias", there + "o_proj.bias", "embed"});
    }
    rows.push_back({block + "mlp.gate.weight", layer + "mlp.gate_proj.weight", "mlp embed"});
    rows.push_back({block + "mlp.up.weight", layer + "mlp.up_proj.weight", "mlp embed"});
    rows.push_back({block + "mlp.down.weight", layer + "mlp.down_proj.weight", "embed mlp"});
  }
  return {{"t5gemma"}, "model.", rows, {"lm_head.out_proj.weight"}};
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

// Norms of what attention and feed-forward make.
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

// Norms of queries and keys with a bias, of each head, a last projection and a last norm of these names.
Rows dense_rows() {
  return {{"blk#.attn.q_norm.gamma", "model.layers.#.self_attn.q_layernorm.weight", "head_dim"},
          {"blk#.attn.q_norm.beta", "model.layers.#.self_attn.q_layernorm.bias", "head_dim"},
          {"blk#.attn.k_norm.gamma", "model.layers.#.self_attn.k_layernorm.weight", "head_dim"},
          {"blk#.attn.k_norm.beta", "model.layers.#.self_attn.k_layernorm.bias", "head_dim"},
          {"blk#.attn.out.weight", "model.layers.#.self_attn.dense.weight", "embed (kv_heads group head_dim)"},
          {"blk#.attn.out.bias", "model.layers.#.self_attn.dense.bias", "embed"},
          {"blk.final_norm.gamma", "model.final_layernorm.weight", "embed"},
          {"blk.final_norm.beta", "model.final_layernorm.bias", "embed"}};
}

Rows phi_rows() {
  return {{"blk#.mlp.up.weight", "model.layers.#.mlp.fc1.weight", "mlp embed"},
          {"blk#.mlp.up.bias", "model.layers.#.mlp.fc1.bias", "mlp"},
          {"blk#.mlp.down.weight", "model.layers.#.mlp.fc2.weight", "embed mlp"},
          {"blk#.mlp.down.bias", "model.layers.#.mlp.fc2.bias", "embed"},
          {"head.bias", "lm_head.bias", "vocab"}};
}

// Each head's query, key and value lie together.
Rows persimmon_rows() {
  const std::string joint = "model.layers.#.self_attn.query_key_value.";
  return {{"blk#.attn.q.weight", joint + "weight", "(kv_heads group *1 head_dim) embed"},
          {"blk#.attn.k.weight", joint + "weight", "(kv_heads *1 head_dim) embed"},
          {"blk#.attn.v.weight", joint + "weight", "(kv_heads *1 head_dim) embed"},
          {"blk#.attn.q.bias", joint + "bias", "(kv_heads group *1 head_dim)"},
          {"blk#.attn.k.bias", joint + "bias", "(kv_heads *1 head_dim)"},
          {"blk#.attn.v.bias", joint + "bias", "(kv_heads *1 head_dim)"},
          {"blk#.mlp.up.weight", "model.layers.#.mlp.dense_h_to_4h.weight", "mlp embed"},
          {"blk#.mlp.up.bias", "model.layers.#.mlp.dense_h_to_4h.bias", "mlp"},
          {"blk#.mlp.down.weight", "model.layers.#.mlp.dense_4h_to_h.weight", "embed mlp"},
          {"blk#.mlp.down.bias", "model.layers.#.mlp.dense_4h_to_h.bias", "embed"}};
}

Rows bitnet_rows() {
  return {{"blk#.attn.out_norm.gamma", "model.layers.#.self_attn.attn_sub_norm.weight", "heads_out"},
          {"blk#.mlp.inner_norm.gamma", "model.layers.#.mlp.ffn_sub_norm.weight", "mlp"}};
}

// Heads turn the other way, as those do whose halves are in the other order.
Rows nanochat_rows() {
  return {{"blk#.attn.q.weight", "model.layers.#.self_attn.q_proj.weight", "(kv_heads group <head_dim) embed"},
          {"blk#.attn.k.weight", "model.layers.#.self_attn.k_proj.weight", "(kv_heads <head_dim) embed"},
          {"blk#.attn.q.bias", "model.layers.#.self_attn.q_proj.bias", "(kv_heads group <head_dim)"},
          {"blk#.attn.k.bias", "model.layers.#.self_attn.k_proj.bias", "(kv_heads <head_dim)"},
          {"blk#.mlp.up.weight", "model.layers.#.mlp.fc1.weight", "mlp embed"},
          {"blk#.mlp.down.weight", "model.layers.#.mlp.fc2.weight", "embed mlp"}};
}

Rows apertus_rows() {
  return {{"blk#.ln1.gamma", "model.layers.#.attention_layernorm.weight", "embed"},
          {"blk#.ln2.gamma", "model.layers.#.feedforward_layernorm.weight", "embed"},
          {"blk#.mlp.alpha_p", "model.layers.#.mlp.act_fn.alpha_p", "one"},
          {"blk#.mlp.alpha_n", "model.layers.#.mlp.act_fn.alpha_n", "one"}};
}

// The numbers of its activation that are not trained are files', too.
HfTensorTable apertus() {
  HfTensorTable table = like_llama({"apertus", "apertus1p5_text"}, {apertus_rows()});
  for (const char* fixed : {"model.layers.#.mlp.act_fn.beta", "model.layers.#.mlp.act_fn.eps"})
    table.left_out.emplace_back(fixed);
  return table;
}

Rows phi3_rows() {
  return {{"blk#.attn.q.weight", "model.layers.#.self_attn.qkv_proj.weight", "*(kv_heads group head_dim) embed"},
          {"blk#.attn.k.weight", "model.layers.#.self_attn.qkv_proj.weight", "*(kv_heads head_dim) embed"},
          {"blk#.attn.v.weight", "model.layers.#.self_attn.qkv_proj.weight", "*(kv_heads head_dim) embed"},
          {"blk#.mlp.gate.weight", "model.layers.#.mlp.gate_up_proj.weight", "*mlp embed"},
          {"blk#.mlp.up.weight", "model.layers.#.mlp.gate_up_proj.weight", "*mlp embed"}};
}

}  // namespace

HfTensorTable hf::like_llama(std::vector<std::string> types, std::initializer_list<Rows> own) {
  HfTensorTable table{
      std::move(types), "model.", joined(own), {"lm_head.weight", "model.layers.#.self_attn.rotary_emb.inv_freq"}};
  for (const HfTensorRow& row : llama_rows()) table.rows.push_back(row);
  return table;
}

// The dimensions of each head that are rotated lie in pairs.
Rows hf::paired_rows() {
  return {{"blk#.attn.q.weight", "model.layers.#.self_attn.q_proj.weight", "(kv_heads group ~head_dim) embed"},
          {"blk#.attn.k.weight", "model.layers.#.self_attn.k_proj.weight", "(kv_heads ~head_dim) embed"},
          {"blk#.attn.q_norm.gamma", "model.layers.#.self_attn.q_norm.weight", "(kv_heads group) ~head_dim"},
          {"blk#.attn.k_norm.gamma", "model.layers.#.self_attn.k_norm.weight", "kv_heads ~head_dim"}};
}

// The same in a file that has another model beside it, of images.
HfTensorTable hf::as_part(HfTensorTable table, const std::string& type, const std::string& model,
                          const std::string& head, std::vector<std::string> left_out) {
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

// What Gemma 3n has beside Gemma 4.
Rows stream_rows() {
  const std::string layer = "model.layers.#.";
  return {{"blk#.streams.router_norm.gamma", layer + "altup.router_norm.weight", "embed"},
          {"blk#.streams.router.weight", layer + "altup.modality_router.weight", "mode embed"},
          {"blk#.streams.prediction.weight", layer + "altup.prediction_coefs.weight", "(streams_out streams) mode"},
          {"blk#.streams.correction.weight", layer + "altup.correction_coefs.weight", "streams mode"},
          {"blk#.streams.scale.gamma", layer + "altup.correct_output_scale", "embed"},
          {"blk#.laurel.left.weight", layer + "laurel.linear_left.weight", "laurel embed"},
          {"blk#.laurel.right.weight", layer + "laurel.linear_right.weight", "embed laurel"},
          {"blk#.laurel.norm.gamma", layer + "laurel.post_laurel_norm.weight", "embed"},
          {"streams.#.in.weight", "model.altup_projections.$.weight", "further_embed embed"},
          {"streams.#.out.weight", "model.altup_unembed_projections.$.weight", "embed further_embed"}};
}

std::vector<HfTensorTable> hf_decoder_tables() {
  const HfTensorTable gemma = like_llama({"gemma", "gemma2", "gemma3_text"}, {gemma_rows()}),
                      gemma4 = like_llama({"gemma4_text"}, {gemma4_rows()}),
                      gemma3n = like_llama({"gemma3n_text"}, {stream_rows(), gemma4_rows()});
  return {gemma,
          as_part(gemma, "gemma3", "language_model.model.", "language_model.lm_head.",
                  {"vision_tower.*", "multi_modal_projector.*"}),
          like_llama({"vaultgemma"}, {vaultgemma_rows(), gemma_rows()}),
          t5gemma(),
          gemma3n,
          as_part(gemma3n, "gemma3n", "model.language_model.", "lm_head.",
                  {"model.vision_tower.*", "model.embed_vision.*", "model.audio_tower.*", "model.embed_audio.*"}),
          gemma4,
          as_part(gemma4, "gemma4", "model.language_model.", "lm_head.",
                  {"model.vision_tower.*", "model.embed_vision.*", "model.audio_tower.*", "model.embed_audio.*"}),
          like_llama({"llama",         "mistral",     "qwen2",
                      "qwen3",         "granite",     "smollm3",
                      "arcee",         "cwm",         "internlm3",
                      "iquestcoder",   "granite_swa", "minicpm",
                      "ministral",     "ministral3",  "olmo",
                      "qwen3_vl_text", "seed_oss",    "qwen2_5_vl_text",
                      "qwen2_vl_text", "eurobert",    "cohere_compass_text"},
                     {}),
          like_llama({"helium", "ernie4_5", "cohere", "cohere2"}, {paired_rows()}),
          like_llama({"glm", "glm4"}, {glm_rows()}),
          like_llama({"hunyuan_v1_dense", "hunyuan_v1_moe"}, {hunyuan_rows(), expert_rows()}),
          as_part(like_llama({}, {}), "mistral3", "language_model.model.", "language_model.lm_head.",
                  {"vision_tower.*", "multi_modal_projector.*"}),
          as_part(like_llama({}, {}), "qwen2_vl", "model.", "lm_head.", {"visual.*"}),
          as_part(like_llama({}, {}), "qwen2_5_vl", "model.", "lm_head.", {"visual.*"}),
          as_part(like_llama({}, {}), "qwen3_vl", "model.language_model.", "lm_head.", {"model.visual.*"}),
          like_llama({"nemotron"}, {nemotron_rows(), layer_norm_rows()}),
          like_llama({"olmo2", "olmo3"}, {result_norm_rows(), wide_norm_rows()}),
          like_llama({"exaone4"}, {result_norm_rows()}),
          like_llama({"stablelm", "jais2"}, {layer_norm_rows()}),
          like_llama({"starcoder2"}, {starcoder2_rows(), layer_norm_rows()}),
          like_llama({"phi"}, {phi_rows(), dense_rows(), layer_norm_rows()}),
          like_llama({"bitnet"}, {bitnet_rows()}),
          like_llama({"nanochat"}, {nanochat_rows()}),
          apertus(),
          like_llama({"persimmon"}, {persimmon_rows(), dense_rows(), layer_norm_rows()}),
          like_llama({"phi3"}, {phi3_rows()})};
}

}  // namespace meshwright
