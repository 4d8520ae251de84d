// SPDX-License-Identifier: Apache-2.0
// Decoders like Llama whose publishers name tensors in their own way. Linear layers are (out, in).
#include <initializer_list>
#include <string_view>
#include <utility>

#include "core/graph/import/hf/tensors/hf_tensor_rows.h"

namespace meshwright {

namespace {

// Each group's queries, then its key and its value.
hf::Rows internlm2_rows() {
  return {{"wte", "model.tok_embeddings.weight", "vocab embed"},
          {"blk#.ln1.gamma", "model.layers.#.attention_norm.weight", "embed"},
          {"blk#.attn.q.weight", "model.layers.#.attention.wqkv.weight", "(kv_heads *group head_dim) embed"},
          {"blk#.attn.k.weight", "model.layers.#.attention.wqkv.weight", "(kv_heads *1 head_dim) embed"},
          {"blk#.attn.v.weight", "model.layers.#.attention.wqkv.weight", "(kv_heads *1 head_dim) embed"},
          {"blk#.attn.q.bias", "model.layers.#.attention.wqkv.bias", "(kv_heads *group head_dim)"},
          {"blk#.attn.k.bias", "model.layers.#.attention.wqkv.bias", "(kv_heads *1 head_dim)"},
          {"blk#.attn.v.bias", "model.layers.#.attention.wqkv.bias", "(kv_heads *1 head_dim)"},
          {"blk#.attn.out.weight", "model.layers.#.attention.wo.weight", "embed (kv_heads group head_dim)"},
          {"blk#.attn.out.bias", "model.layers.#.attention.wo.bias", "embed"},
          {"blk#.ln2.gamma", "model.layers.#.ffn_norm.weight", "embed"},
          {"blk#.mlp.gate.weight", "model.layers.#.feed_forward.w1.weight", "mlp embed"},
          {"blk#.mlp.up.weight", "model.layers.#.feed_forward.w3.weight", "mlp embed"},
          {"blk#.mlp.down.weight", "model.layers.#.feed_forward.w2.weight", "embed mlp"},
          {"head.weight", "output.weight", "vocab embed"}};
}

// EXAONE 3's publisher names tensors as GPT-2 does.
HfTensorTable exaone() {
  HfTensorTable table = hf::like_llama({"exaone"}, {});
  table.prefix = "transformer.";
  for (HfTensorRow& row : table.rows)
    for (const auto& [from, to] : std::initializer_list<std::pair<std::string_view, std::string_view>>{
             {"model.embed_tokens.", "transformer.wte."},
             {"model.layers.", "transformer.h."},
             {"model.norm.", "transformer.ln_f."},
             {".self_attn.o_proj.", ".self_attn.out_proj."},
             {".self_attn.", ".attn.attention."},
             {".input_layernorm.", ".ln_1."},
             {".post_attention_layernorm.", ".ln_2."},
             {".mlp.gate_proj.", ".mlp.c_fc_0."},
             {".mlp.up_proj.", ".mlp.c_fc_1."},
             {".mlp.down_proj.", ".mlp.c_proj."}})
      if (const std::size_t at = row.theirs.find(from); at != std::string::npos)
        row.theirs.replace(at, from.size(), to);
  table.left_out = {"lm_head.weight", "transformer.h.#.attn.attention.rotary.inv_freq"};
  return table;
}

// Ling's: one projection of queries, keys and values.
hf::Rows bailing_rows() {
  return {{"wte", "model.word_embeddings.weight", "vocab embed"},
          {"blk#.attn.q.weight", "model.layers.#.attention.query_key_value.weight", "*(kv_heads group head_dim) embed"},
          {"blk#.attn.k.weight", "model.layers.#.attention.query_key_value.weight", "*(kv_heads head_dim) embed"},
          {"blk#.attn.v.weight", "model.layers.#.attention.query_key_value.weight", "*(kv_heads head_dim) embed"},
          {"blk#.attn.q.bias", "model.layers.#.attention.query_key_value.bias", "*(kv_heads group head_dim)"},
          {"blk#.attn.k.bias", "model.layers.#.attention.query_key_value.bias", "*(kv_heads head_dim)"},
          {"blk#.attn.v.bias", "model.layers.#.attention.query_key_value.bias", "*(kv_heads head_dim)"},
          {"blk#.attn.q_norm.gamma", "model.layers.#.attention.query_layernorm.weight", "head_dim"},
          {"blk#.attn.k_norm.gamma", "model.layers.#.attention.key_layernorm.weight", "head_dim"},
          {"blk#.attn.out.weight", "model.layers.#.attention.dense.weight", "embed (kv_heads group head_dim)"},
          {"blk#.moe.selection.bias", "model.layers.#.mlp.gate.expert_bias", "expert"}};
}

hf::Rows hyperclovax_rows() {
  return {{"blk#.attn.norm.gamma", "model.layers.#.post_norm1.weight", "embed"},
          {"blk#.mlp.norm.gamma", "model.layers.#.post_norm2.weight", "embed"}};
}

}  // namespace

std::vector<HfTensorTable> hf_publisher_tables() {
  return {hf::like_llama({"internlm2"}, {internlm2_rows()}), exaone(),
          hf::like_llama({"hyperclovax"}, {hyperclovax_rows()}),
          hf::like_llama({"bailing_moe", "bailing_moe_v2"}, {bailing_rows(), hf::expert_rows()})};
}

}  // namespace meshwright
