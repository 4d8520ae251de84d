// SPDX-License-Identifier: Apache-2.0
// What families with tables of positions or biases by distance call their tensors, and how they lay them out. Linear
// layers are (out, in), the Conv1D of GPT-2 (in, out).
#include <string>
#include <string_view>
#include <utility>

#include "core/base/text.h"
#include "core/graph/import/hf/tensors/hf_tensor_rows.h"

namespace meshwright {

namespace {

using hf::renamed;
using Rows = std::vector<HfTensorRow>;

HfTensorTable gpt2() {
  return {{"gpt2", "gpt-sw3"},
          "transformer.",
          {{"wte", "transformer.wte.weight", "vocab embed"},
           {"wpe", "transformer.wpe.weight", "position embed"},
           {"blk#.ln1.gamma", "transformer.h.#.ln_1.weight", "embed"},
           {"blk#.ln1.beta", "transformer.h.#.ln_1.bias", "embed"},
           {"blk#.attn.q.weight", "transformer.h.#.attn.c_attn.weight", "embed *(kv_heads group head_dim)"},
           {"blk#.attn.k.weight", "transformer.h.#.attn.c_attn.weight", "embed *(kv_heads head_dim)"},
           {"blk#.attn.v.weight", "transformer.h.#.attn.c_attn.weight", "embed *(kv_heads head_dim)"},
           {"blk#.attn.q.bias", "transformer.h.#.attn.c_attn.bias", "*(kv_heads group head_dim)"},
           {"blk#.attn.k.bias", "transformer.h.#.attn.c_attn.bias", "*(kv_heads head_dim)"},
           {"blk#.attn.v.bias", "transformer.h.#.attn.c_attn.bias", "*(kv_heads head_dim)"},
           {"blk#.attn.out.weight", "transformer.h.#.attn.c_proj.weight", "(kv_heads group head_dim) embed"},
           {"blk#.attn.out.bias", "transformer.h.#.attn.c_proj.bias", "embed"},
           {"blk#.ln2.gamma", "transformer.h.#.ln_2.weight", "embed"},
           {"blk#.ln2.beta", "transformer.h.#.ln_2.bias", "embed"},
           {"blk#.mlp.up.weight", "transformer.h.#.mlp.c_fc.weight", "embed mlp"},
           {"blk#.mlp.up.bias", "transformer.h.#.mlp.c_fc.bias", "mlp"},
           {"blk#.mlp.down.weight", "transformer.h.#.mlp.c_proj.weight", "mlp embed"},
           {"blk#.mlp.down.bias", "transformer.h.#.mlp.c_proj.bias", "embed"},
           {"blk.final_norm.gamma", "transformer.ln_f.weight", "embed"},
           {"blk.final_norm.beta", "transformer.ln_f.bias", "embed"},
           {"head.weight", "lm_head.weight", "vocab embed"}},
          {"lm_head.weight", "transformer.h.#.attn.bias", "transformer.h.#.attn.masked_bias"}};
}

HfTensorTable imagegpt() {
  HfTensorTable table = gpt2();
  table.model_types = {"imagegpt"};
  std::erase(table.left_out, "lm_head.weight");
  return table;
}

// The same with linear layers in place of Conv1D.
HfTensorTable gpt_bigcode() {
  constexpr std::string_view kEmbed = "embed";
  HfTensorTable table = gpt2();
  table.model_types = {"gpt_bigcode"};
  for (HfTensorRow& row : table.rows) {
    if (row.theirs.find(".c_") == std::string::npos || !row.theirs.ends_with(".weight")) continue;
    const bool first = row.layout.starts_with(kEmbed);
    row.layout = first ? row.layout.substr(kEmbed.size() + 1) + " embed"
                       : "embed " + row.layout.substr(0, row.layout.size() - kEmbed.size() - 1);
  }
  return table;
}

// Linear layers, and a projection each of queries, keys and values.
HfTensorTable gpt_neo() {
  HfTensorTable table = gpt2();
  table.model_types = {"gpt_neo"};
  table.left_out = {"lm_head.weight", "transformer.h.#.attn.attention.bias",
                    "transformer.h.#.attn.attention.masked_bias"};
  const auto put = [&](std::string_view ours, const char* theirs, const char* layout) {
    for (HfTensorRow& row : table.rows)
      if (row.ours == ours) row = {std::string(ours), theirs, layout};
  };
  put("blk#.attn.q.weight", "transformer.h.#.attn.attention.q_proj.weight", "(kv_heads group head_dim) embed");
  put("blk#.attn.k.weight", "transformer.h.#.attn.attention.k_proj.weight", "(kv_heads head_dim) embed");
  put("blk#.attn.v.weight", "transformer.h.#.attn.attention.v_proj.weight", "(kv_heads head_dim) embed");
  put("blk#.attn.out.weight", "transformer.h.#.attn.attention.out_proj.weight", "embed (kv_heads group head_dim)");
  put("blk#.attn.out.bias", "transformer.h.#.attn.attention.out_proj.bias", "embed");
  put("blk#.mlp.up.weight", "transformer.h.#.mlp.c_fc.weight", "mlp embed");
  put("blk#.mlp.down.weight", "transformer.h.#.mlp.c_proj.weight", "embed mlp");
  return table;
}

HfTensorTable opt() {
  return {
      {"opt"},
      "model.",
      {{"wte", "model.decoder.embed_tokens.weight", "vocab word_embed"},
       {"wte", "model.decoder.embed_tokens.weight", "vocab embed"},
       {"wpe", "model.decoder.embed_positions.weight", "position embed"},
       {"blk#.attn.q.weight", "model.decoder.layers.#.self_attn.q_proj.weight", "(kv_heads group head_dim) embed"},
       {"blk#.attn.k.weight", "model.decoder.layers.#.self_attn.k_proj.weight", "(kv_heads head_dim) embed"},
       {"blk#.attn.v.weight", "model.decoder.layers.#.self_attn.v_proj.weight", "(kv_heads head_dim) embed"},
       {"blk#.attn.q.bias", "model.decoder.layers.#.self_attn.q_proj.bias", "(kv_heads group head_dim)"},
       {"blk#.attn.k.bias", "model.decoder.layers.#.self_attn.k_proj.bias", "(kv_heads head_dim)"},
       {"blk#.attn.v.bias", "model.decoder.layers.#.self_attn.v_proj.bias", "(kv_heads head_dim)"},
       {"blk#.attn.out.weight", "model.decoder.layers.#.self_attn.out_proj.weight", "embed (kv_heads group head_dim)"},
       {"blk#.attn.out.bias", "model.decoder.layers.#.self_attn.out_proj.bias", "embed"},
       {"blk#.ln1.gamma", "model.decoder.layers.#.self_attn_layer_norm.weight", "embed"},
       {"blk#.ln1.beta", "model.decoder.layers.#.self_attn_layer_norm.bias", "embed"},
       {"blk#.mlp.up.weight", "model.decoder.layers.#.fc1.weight", "mlp embed"},
       {"blk#.mlp.up.bias", "model.decoder.layers.#.fc1.bias", "mlp"},
       {"blk#.mlp.down.weight", "model.decoder.layers.#.fc2.weight", "embed mlp"},
       {"blk#.mlp.down.bias", "model.decoder.layers.#.fc2.bias", "embed"},
       {"blk#.ln2.gamma", "model.decoder.layers.#.final_layer_norm.weight", "embed"},
       {"blk#.ln2.beta", "model.decoder.layers.#.final_layer_norm.bias", "embed"},
       {"blk.final_norm.gamma", "model.decoder.final_layer_norm.weight", "embed"},
       {"blk.final_norm.beta", "model.decoder.final_layer_norm.bias", "embed"},
       {"embed.in.weight", "model.decoder.project_in.weight", "embed word_embed"},
       {"head.out.weight", "model.decoder.project_out.weight", "word_embed embed"},
       {"head.weight", "lm_head.weight", "vocab word_embed"},
       {"head.weight", "lm_head.weight", "vocab embed"}},
      {"lm_head.weight"}};
}

// GPT-2's names but of its tables.
HfTensorTable openai_gpt() {
  return renamed(
      gpt2(), {"openai-gpt"}, "transformer.",
      {{"transformer.wte.", "transformer.tokens_embed."}, {"transformer.wpe.", "transformer.positions_embed."}},
      {"lm_head.weight", "transformer.h.#.attn.bias", "transformer.position_ids"});
}

// OPT's names with another front.
HfTensorTable like_opt(const std::string& type, const std::string& prefix, std::vector<std::string> left_out) {
  return renamed(opt(), {type}, prefix,
                 {{"model.decoder.final_layer_norm.", "model.decoder.layer_norm."}, {"model.decoder.", prefix}},
                 std::move(left_out));
}

HfTensorTable bloom() {
  return {
      {"bloom"},
      "transformer.",
      {{"wte", "transformer.word_embeddings.weight", "vocab embed"},
       {"embed.norm.gamma", "transformer.word_embeddings_layernorm.weight", "embed"},
       {"embed.norm.beta", "transformer.word_embeddings_layernorm.bias", "embed"},
       {"blk#.ln1.gamma", "transformer.h.#.input_layernorm.weight", "embed"},
       {"blk#.ln1.beta", "transformer.h.#.input_layernorm.bias", "embed"},
       {"blk#.attn.q.weight", "transformer.h.#.self_attention.query_key_value.weight",
        "(kv_heads group *1 head_dim) embed"},
       {"blk#.attn.k.weight", "transformer.h.#.self_attention.query_key_value.weight", "(kv_heads *1 head_dim) embed"},
       {"blk#.attn.v.weight", "transformer.h.#.self_attention.query_key_value.weight", "(kv_heads *1 head_dim) embed"},
       {"blk#.attn.q.bias", "transformer.h.#.self_attention.query_key_value.bias", "(kv_heads group *1 head_dim)"},
       {"blk#.attn.k.bias", "transformer.h.#.self_attention.query_key_value.bias", "(kv_heads *1 head_dim)"},
       {"blk#.attn.v.bias", "transformer.h.#.self_attention.query_key_value.bias", "(kv_heads *1 head_dim)"},
       {"blk#.attn.out.weight", "transformer.h.#.self_attention.dense.weight", "embed (kv_heads group head_dim)"},
       {"blk#.attn.out.bias", "transformer.h.#.self_attention.dense.bias", "embed"},
       {"blk#.ln2.gamma", "transformer.h.#.post_attention_layernorm.weight", "embed"},
       {"blk#.ln2.beta", "transformer.h.#.post_attention_layernorm.bias", "embed"},
       {"blk#.mlp.up.weight", "transformer.h.#.mlp.dense_h_to_4h.weight", "mlp embed"},
       {"blk#.mlp.up.bias", "transformer.h.#.mlp.dense_h_to_4h.bias", "mlp"},
       {"blk#.mlp.down.weight", "transformer.h.#.mlp.dense_4h_to_h.weight", "embed mlp"},
       {"blk#.mlp.down.bias", "transformer.h.#.mlp.dense_4h_to_h.bias", "embed"},
       {"blk.final_norm.gamma", "transformer.ln_f.weight", "embed"},
       {"blk.final_norm.beta", "transformer.ln_f.bias", "embed"},
       {"head.weight", "lm_head.weight", "vocab embed"}},
      {"lm_head.weight"}};
}

HfTensorTable mpt() {
  return {{"mpt"},
          "transformer.",
          {{"wte", "transformer.wte.weight", "vocab embed"},
           {"blk#.ln1.gamma", "transformer.blocks.#.norm_1.weight", "embed"},
           {"blk#.attn.q.weight", "transformer.blocks.#.attn.Wqkv.weight", "*(kv_heads group head_dim) embed"},
           {"blk#.attn.k.weight", "transformer.blocks.#.attn.Wqkv.weight", "*(kv_heads head_dim) embed"},
           {"blk#.attn.v.weight", "transformer.blocks.#.attn.Wqkv.weight", "*(kv_heads head_dim) embed"},
           {"blk#.attn.out.weight", "transformer.blocks.#.attn.out_proj.weight", "embed (kv_heads group head_dim)"},
           {"blk#.ln2.gamma", "transformer.blocks.#.norm_2.weight", "embed"},
           {"blk#.mlp.up.weight", "transformer.blocks.#.ffn.up_proj.weight", "mlp embed"},
           {"blk#.mlp.down.weight", "transformer.blocks.#.ffn.down_proj.weight", "embed mlp"},
           {"blk.final_norm.gamma", "transformer.norm_f.weight", "embed"},
           {"head.weight", "lm_head.weight", "vocab embed"}},
          {"lm_head.weight"}};
}

// The dimensions of a head that are rotated lie in pairs.
HfTensorTable gptj() {
  return {{"gptj"},
          "transformer.",
          {{"wte", "transformer.wte.weight", "vocab embed"},
           {"blk#.ln1.gamma", "transformer.h.#.ln_1.weight", "embed"},
           {"blk#.ln1.beta", "transformer.h.#.ln_1.bias", "embed"},
           {"blk#.attn.q.weight", "transformer.h.#.attn.q_proj.weight", "(kv_heads group ^head_dim) embed"},
           {"blk#.attn.k.weight", "transformer.h.#.attn.k_proj.weight", "(kv_heads ^head_dim) embed"},
           {"blk#.attn.v.weight", "transformer.h.#.attn.v_proj.weight", "(kv_heads head_dim) embed"},
           {"blk#.attn.out.weight", "transformer.h.#.attn.out_proj.weight", "embed (kv_heads group head_dim)"},
           {"blk#.mlp.up.weight", "transformer.h.#.mlp.fc_in.weight", "mlp embed"},
           {"blk#.mlp.up.bias", "transformer.h.#.mlp.fc_in.bias", "mlp"},
           {"blk#.mlp.down.weight", "transformer.h.#.mlp.fc_out.weight", "embed mlp"},
           {"blk#.mlp.down.bias", "transformer.h.#.mlp.fc_out.bias", "embed"},
           {"blk.final_norm.gamma", "transformer.ln_f.weight", "embed"},
           {"blk.final_norm.beta", "transformer.ln_f.bias", "embed"},
           {"head.weight", "lm_head.weight", "vocab embed"},
           {"head.bias", "lm_head.bias", "vocab"}},
          {"transformer.h.#.attn.bias", "transformer.h.#.attn.masked_bias"}};
}

// The projections of queries, values and keys, in this order, are one, of which each quarter has those of a quarter of
// the heads.
HfTensorTable codegen() {
  HfTensorTable table = gptj();
  table.model_types = {"codegen"};
  Rows packed;
  for (const auto& [ours, layout] : {std::pair("blk#.attn.q.weight", "(4/kv_heads *kv_heads/4 group ^head_dim) embed"),
                                     {"blk#.attn.v.weight", "(4/kv_heads *kv_heads/4 head_dim) embed"},
                                     {"blk#.attn.k.weight", "(4/kv_heads *kv_heads/4 ^head_dim) embed"}})
    packed.push_back({ours, "transformer.h.#.attn.qkv_proj.weight", layout});
  table.rows.insert(table.rows.begin(), packed.begin(), packed.end());
  return table;
}

HfTensorTable gpt_neox() {
  return {{"gpt_neox"},
          "gpt_neox.",
          {{"wte", "gpt_neox.embed_in.weight", "vocab embed"},
           {"blk#.ln1.gamma", "gpt_neox.layers.#.input_layernorm.weight", "embed"},
           {"blk#.ln1.beta", "gpt_neox.layers.#.input_layernorm.bias", "embed"},
           {"blk#.attn.q.weight", "gpt_neox.layers.#.attention.query_key_value.weight",
            "(kv_heads group *1 head_dim) embed"},
           {"blk#.attn.k.weight", "gpt_neox.layers.#.attention.query_key_value.weight", "(kv_heads *1 head_dim) embed"},
           {"blk#.attn.v.weight", "gpt_neox.layers.#.attention.query_key_value.weight", "(kv_heads *1 head_dim) embed"},
           {"blk#.attn.q.bias", "gpt_neox.layers.#.attention.query_key_value.bias", "(kv_heads group *1 head_dim)"},
           {"blk#.attn.k.bias", "gpt_neox.layers.#.attention.query_key_value.bias", "(kv_heads *1 head_dim)"},
           {"blk#.attn.v.bias", "gpt_neox.layers.#.attention.query_key_value.bias", "(kv_heads *1 head_dim)"},
           {"blk#.attn.out.weight", "gpt_neox.layers.#.attention.dense.weight", "embed (kv_heads group head_dim)"},
           {"blk#.attn.out.bias", "gpt_neox.layers.#.attention.dense.bias", "embed"},
           {"blk#.ln2.gamma", "gpt_neox.layers.#.post_attention_layernorm.weight", "embed"},
           {"blk#.ln2.beta", "gpt_neox.layers.#.post_attention_layernorm.bias", "embed"},
           {"blk#.mlp.up.weight", "gpt_neox.layers.#.mlp.dense_h_to_4h.weight", "mlp embed"},
           {"blk#.mlp.up.bias", "gpt_neox.layers.#.mlp.dense_h_to_4h.bias", "mlp"},
           {"blk#.mlp.down.weight", "gpt_neox.layers.#.mlp.dense_4h_to_h.weight", "embed mlp"},
           {"blk#.mlp.down.bias", "gpt_neox.layers.#.mlp.dense_4h_to_h.bias", "embed"},
           {"blk.final_norm.gamma", "gpt_neox.final_layer_norm.weight", "embed"},
           {"blk.final_norm.beta", "gpt_neox.final_layer_norm.bias", "embed"},
           {"head.weight", "embed_out.weight", "vocab embed"}},
          {"embed_out.weight", "gpt_neox.layers.#.attention.bias", "gpt_neox.layers.#.attention.masked_bias",
           "gpt_neox.layers.#.attention.rotary_emb.inv_freq"}};
}

HfTensorTable gpt_neox_japanese() {
  return renamed(gpt_neox(), {"gpt_neox_japanese"}, "gpt_neox_japanese.",
                 {{"gpt_neox.", "gpt_neox_japanese."}, {"attention.dense.bias", "attention.dense_bias"}},
                 {"embed_out.weight"});
}

// Each group of queries with its key and its value.
HfTensorTable falcon() {
  return {
      {"falcon"},
      "transformer.",
      {{"wte", "transformer.word_embeddings.weight", "vocab embed"},
       {"blk#.ln1.gamma", "transformer.h.#.ln_attn.weight", "embed", "blk#.ln2.gamma"},
       {"blk#.ln1.beta", "transformer.h.#.ln_attn.bias", "embed", "blk#.ln2.gamma"},
       {"blk#.ln1.gamma", "transformer.h.#.input_layernorm.weight", "embed"},
       {"blk#.ln1.beta", "transformer.h.#.input_layernorm.bias", "embed"},
       {"blk#.ln2.gamma", "transformer.h.#.ln_mlp.weight", "embed"},
       {"blk#.ln2.beta", "transformer.h.#.ln_mlp.bias", "embed"},
       {"blk#.attn.q.weight", "transformer.h.#.self_attention.query_key_value.weight",
        "(kv_heads *group head_dim) embed"},
       {"blk#.attn.k.weight", "transformer.h.#.self_attention.query_key_value.weight", "(kv_heads *1 head_dim) embed"},
       {"blk#.attn.v.weight", "transformer.h.#.self_attention.query_key_value.weight", "(kv_heads *1 head_dim) embed"},
       {"blk#.attn.q.bias", "transformer.h.#.self_attention.query_key_value.bias", "(kv_heads *group head_dim)"},
       {"blk#.attn.k.bias", "transformer.h.#.self_attention.query_key_value.bias", "(kv_heads *1 head_dim)"},
       {"blk#.attn.v.bias", "transformer.h.#.self_attention.query_key_value.bias", "(kv_heads *1 head_dim)"},
       {"blk#.attn.out.weight", "transformer.h.#.self_attention.dense.weight", "embed (kv_heads group head_dim)"},
       {"blk#.attn.out.bias", "transformer.h.#.self_attention.dense.bias", "embed"},
       {"blk#.mlp.up.weight", "transformer.h.#.mlp.dense_h_to_4h.weight", "mlp embed"},
       {"blk#.mlp.up.bias", "transformer.h.#.mlp.dense_h_to_4h.bias", "mlp"},
       {"blk#.mlp.down.weight", "transformer.h.#.mlp.dense_4h_to_h.weight", "embed mlp"},
       {"blk#.mlp.down.bias", "transformer.h.#.mlp.dense_4h_to_h.bias", "embed"},
       {"blk.final_norm.gamma", "transformer.ln_f.weight", "embed"},
       {"blk.final_norm.beta", "transformer.ln_f.bias", "embed"},
       {"head.weight", "lm_head.weight", "vocab embed"}},
      {"lm_head.weight"}};
}

HfTensorTable t5() {
  return {
      {"t5", "mt5", "umt5"},
      "",
      {{"wte", "shared.weight", "vocab embed"},
       {"enc.relative_bias", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        "bucket (kv_heads group)"},
       {"dec.relative_bias", "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        "bucket (kv_heads group)"},
       {"enc#.relative_bias", "encoder.block.#.layer.0.SelfAttention.relative_attention_bias.weight",
        "bucket (kv_heads group)"},
       {"dec#.relative_bias", "decoder.block.#.layer.0.SelfAttention.relative_attention_bias.weight",
        "bucket (kv_heads group)"},
       {"enc#.ln1.gamma", "encoder.block.#.layer.0.layer_norm.weight", "embed"},
       {"enc#.attn.q.weight", "encoder.block.#.layer.0.SelfAttention.q.weight", "(kv_heads group head_dim) embed"},
       {"enc#.attn.k.weight", "encoder.block.#.layer.0.SelfAttention.k.weight", "(kv_heads head_dim) embed"},
       {"enc#.attn.v.weight", "encoder.block.#.layer.0.SelfAttention.v.weight", "(kv_heads head_dim) embed"},
       {"enc#.attn.out.weight", "encoder.block.#.layer.0.SelfAttention.o.weight", "embed (kv_heads group head_dim)"},
       {"enc#.ln2.gamma", "encoder.block.#.layer.1.layer_norm.weight", "embed"},
       {"enc#.mlp.gate.weight", "encoder.block.#.layer.1.DenseReluDense.wi_0.weight", "mlp embed"},
       {"enc#.mlp.up.weight", "encoder.block.#.layer.1.DenseReluDense.wi_1.weight", "mlp embed",
        "enc#.mlp.gate.weight"},
       {"enc#.mlp.up.weight", "encoder.block.#.layer.1.DenseReluDense.wi.weight", "mlp embed"},
       {"enc#.mlp.down.weight", "encoder.block.#.layer.1.DenseReluDense.wo.weight", "embed mlp"},
       {"enc.final_norm.gamma", "encoder.final_layer_norm.weight", "embed"},
       {"dec#.ln1.gamma", "decoder.block.#.layer.0.layer_norm.weight", "embed"},
       {"dec#.attn.q.weight", "decoder.block.#.layer.0.SelfAttention.q.weight", "(kv_heads group head_dim) embed"},
       {"dec#.attn.k.weight", "decoder.block.#.layer.0.SelfAttention.k.weight", "(kv_heads head_dim) embed"},
       {"dec#.attn.v.weight", "decoder.block.#.layer.0.SelfAttention.v.weight", "(kv_heads head_dim) embed"},
       {"dec#.attn.out.weight", "decoder.block.#.layer.0.SelfAttention.o.weight", "embed (kv_heads group head_dim)"},
       {"dec#.ln_cross.gamma", "decoder.block.#.layer.1.layer_norm.weight", "embed"},
       {"dec#.cross.q.weight", "decoder.block.#.layer.1.EncDecAttention.q.weight", "(kv_heads group head_dim) embed"},
       {"dec#.cross.k.weight", "decoder.block.#.layer.1.EncDecAttention.k.weight", "(kv_heads head_dim) embed"},
       {"dec#.cross.v.weight", "decoder.block.#.layer.1.EncDecAttention.v.weight", "(kv_heads head_dim) embed"},
       {"dec#.cross.out.weight", "decoder.block.#.layer.1.EncDecAttention.o.weight", "embed (kv_heads group head_dim)"},
       {"dec#.ln2.gamma", "decoder.block.#.layer.2.layer_norm.weight", "embed"},
       {"dec#.mlp.gate.weight", "decoder.block.#.layer.2.DenseReluDense.wi_0.weight", "mlp embed"},
       {"dec#.mlp.up.weight", "decoder.block.#.layer.2.DenseReluDense.wi_1.weight", "mlp embed",
        "dec#.mlp.gate.weight"},
       {"dec#.mlp.up.weight", "decoder.block.#.layer.2.DenseReluDense.wi.weight", "mlp embed"},
       {"dec#.mlp.down.weight", "decoder.block.#.layer.2.DenseReluDense.wo.weight", "embed mlp"},
       {"dec.final_norm.gamma", "decoder.final_layer_norm.weight", "embed"},
       {"head.weight", "lm_head.weight", "vocab embed"}},
      {"lm_head.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
       "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"}};
}

HfTensorTable longt5() {
  return renamed(t5(), {"longt5"}, "",
                 {{"encoder.block.#.layer.0.SelfAttention", "encoder.block.#.layer.0.LocalSelfAttention"},
                  {"encoder.block.0.layer.0.SelfAttention", "encoder.block.0.layer.0.LocalSelfAttention"}},
                 t5().left_out);
}

HfTensorTable switch_transformers() {
  HfTensorTable table = renamed(t5(), {"switch_transformers"}, "", {{"DenseReluDense", "mlp"}}, t5().left_out);
  for (const auto& [ours, theirs] :
       {std::pair("enc", "encoder.block.#.layer.1.mlp."), {"dec", "decoder.block.#.layer.2.mlp."}}) {
    const std::string moe = fmt::format("{}#.moe.", ours), mlp = theirs;
    table.rows.push_back({moe + "router.weight", mlp + "router.classifier.weight", "expert embed"});
    table.rows.push_back({moe + "router.bias", mlp + "router.classifier.bias", "expert"});
    table.rows.push_back({moe + "up.weight", mlp + "experts.expert_{expert}.wi.weight", "mlp embed"});
    table.rows.push_back({moe + "down.weight", mlp + "experts.expert_{expert}.wo.weight", "embed mlp"});
  }
  return table;
}

std::vector<HfTensorTable> all_tables() {
  std::vector<HfTensorTable> all = {gpt2(),
                                    gpt_bigcode(),
                                    gpt_neo(),
                                    opt(),
                                    bloom(),
                                    mpt(),
                                    gptj(),
                                    codegen(),
                                    gpt_neox(),
                                    gpt_neox_japanese(),
                                    imagegpt(),
                                    falcon(),
                                    t5(),
                                    longt5(),
                                    switch_transformers(),
                                    openai_gpt(),
                                    like_opt("xglm", "model.", {"lm_head.weight", "model.embed_positions.*"}),
                                    like_opt("biogpt", "biogpt.", {"output_projection.weight"})};
  for (HfTensorTable& table : hf_image_tables()) all.push_back(std::move(table));
  for (HfTensorTable& table : hf_encoder_tables()) all.push_back(std::move(table));
  for (HfTensorTable& table : hf_bert_like_tables()) all.push_back(std::move(table));
  for (HfTensorTable& table : hf_decoder_tables()) all.push_back(std::move(table));
  for (HfTensorTable& table : hf_mixture_tables()) all.push_back(std::move(table));
  for (HfTensorTable& table : hf_sparse_tables()) all.push_back(std::move(table));
  for (HfTensorTable& table : hf_publisher_tables()) all.push_back(std::move(table));
  for (HfTensorTable& table : hf_scan_tables()) all.push_back(std::move(table));
  return all;
}

}  // namespace

const std::vector<HfTensorTable>& hf_tensor_tables() {
  static const std::vector<HfTensorTable> all = all_tables();
  return all;
}

}  // namespace meshwright
