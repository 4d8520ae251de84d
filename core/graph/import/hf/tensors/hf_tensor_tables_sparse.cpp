// SPDX-License-Identifier: Apache-2.0
// What decoders with compressed attention, those with delta rules of Kimi Linear, and those of which the mixtures are
// parts of something else - LongCat-Flash, JetMoE - call their tensors.
#include <string>
#include <string_view>
#include <utility>

#include "core/graph/import/hf/tensors/hf_tensor_rows.h"

namespace meshwright {

namespace {

using hf::expert_rows;
using hf::gated_expert_rows;
using hf::indexer_rows;
using hf::latent_rows;
using hf::like_llama;
using Rows = std::vector<HfTensorRow>;

// Heads have the dimensions that are rotated last.
HfTensorTable deepseek_v4() {
  const std::string layer = "model.layers.#.", attn = layer + "attn.", compress = attn + "compressor.",
                    index = attn + "indexer.", of_index = index + "compressor.", ffn = layer + "ffn.";
  return {{"deepseek_v4"},
          "model.",
          {{"wte", "model.embed_tokens.weight", "vocab embed"},
           {"blk#.ln1.gamma", layer + "attn_norm.weight", "embed"},
           {"blk#.ln2.gamma", layer + "ffn_norm.weight", "embed"},
           {"blk#.attn.streams.mix.weight", layer + "hc_attn_fn", "mixes all_streams"},
           {"blk#.attn.streams.mix.bias", layer + "hc_attn_base", "mixes"},
           {"blk#.attn.streams.scale.gamma", layer + "hc_attn_scale", "mix_parts"},
           {"blk#.moe.streams.mix.weight", layer + "hc_ffn_fn", "mixes all_streams"},
           {"blk#.moe.streams.mix.bias", layer + "hc_ffn_base", "mixes"},
           {"blk#.moe.streams.scale.gamma", layer + "hc_ffn_scale", "mix_parts"},
           {"head.streams.mix.weight", "model.hc_head.hc_fn", "mixes all_streams"},
           {"head.streams.mix.bias", "model.hc_head.hc_base", "mixes"},
           {"head.streams.scale.gamma", "model.hc_head.hc_scale", "mix_parts"},
           {"blk#.attn.q_down.weight", attn + "wq_a.weight", "q_rank embed"},
           {"blk#.attn.q_norm.gamma", attn + "q_norm.weight", "q_rank"},
           {"blk#.attn.q.weight", attn + "wq_b.weight", "(kv_heads group >head_dim) q_rank"},
           {"blk#.attn.kv.weight", attn + "wkv.weight", ">head_dim embed"},
           {"blk#.attn.kv_norm.gamma", attn + "norm.weight", ">head_dim"},
           {"blk#.attn.sinks", attn + "attn_sink", "(kv_heads group)"},
           {"blk#.attn.out_down.weight", attn + "wo_a.weight", "(out_groups out_rank) (out_heads >head_dim)"},
           {"blk#.attn.out.weight", attn + "wo_b.weight", "embed (out_groups out_rank)"},
           {"blk#.attn.compress.kv.weight", compress + "wkv.weight", "(series >head_dim) embed"},
           {"blk#.attn.compress.gate.weight", compress + "wgate.weight", "(series >head_dim) embed"},
           {"blk#.attn.compress.gate.bias", compress + "ape", "slot (series >head_dim)"},
           {"blk#.attn.compress.kv.weight", compress + "wkv.weight", ">head_dim embed"},
           {"blk#.attn.compress.gate.weight", compress + "wgate.weight", ">head_dim embed"},
           {"blk#.attn.compress.gate.bias", compress + "ape", "slot >head_dim"},
           {"blk#.attn.compress.norm.gamma", compress + "norm.weight", ">head_dim"},
           {"blk#.attn.index.q.weight", index + "wq_b.weight", "(index_heads >index_dim) q_rank"},
           {"blk#.attn.index.weights.weight", index + "weights_proj.weight", "index_heads embed"},
           {"blk#.attn.index.compress.kv.weight", of_index + "wkv.weight", "(series >index_dim) embed"},
           {"blk#.attn.index.compress.gate.weight", of_index + "wgate.weight", "(series >index_dim) embed"},
           {"blk#.attn.index.compress.gate.bias", of_index + "ape", "slot (series >index_dim)"},
           {"blk#.attn.index.compress.norm.gamma", of_index + "norm.weight", ">index_dim"},
           {"blk#.moe.hash.choices", ffn + "gate.tid2eid", "hash_vocab choice whole"},
           {"blk#.moe.router.weight", ffn + "gate.weight", "expert embed"},
           {"blk#.moe.selection.bias", ffn + "gate.bias", "expert"},
           {"blk#.moe.gate.weight", ffn + "experts.{expert}.w1.weight", "mlp embed"},
           {"blk#.moe.up.weight", ffn + "experts.{expert}.w3.weight", "mlp embed"},
           {"blk#.moe.down.weight", ffn + "experts.{expert}.w2.weight", "embed mlp"},
           {"blk#.moe.shared.gate.weight", ffn + "shared_experts.w1.weight", "mlp embed"},
           {"blk#.moe.shared.up.weight", ffn + "shared_experts.w3.weight", "mlp embed"},
           {"blk#.moe.shared.down.weight", ffn + "shared_experts.w2.weight", "embed mlp"},
           {"blk.final_norm.gamma", "model.norm.weight", "embed"},
           {"head.weight", "head.weight", "vocab embed"}},
          {"mtp.*"}};
}

// Nothing is rotated, so that no dimensions lie in pairs.
Rows kimi_linear_rows() {
  const std::string attn = "model.layers.#.self_attn.", moe = "model.layers.#.block_sparse_moe.";
  return {{"blk#.attn.q_down.weight", attn + "q_a_proj.weight", "q_rank embed"},
          {"blk#.attn.q_norm.gamma", attn + "q_a_layernorm.weight", "q_rank"},
          {"blk#.attn.q_nope.weight", attn + "q_b_proj.weight", "(kv_heads group *nope_dim) q_rank"},
          {"blk#.attn.q_rope.weight", attn + "q_b_proj.weight", "(kv_heads group *rope_dim) q_rank"},
          {"blk#.attn.q_nope.weight", attn + "q_proj.weight", "(kv_heads group *nope_dim) embed"},
          {"blk#.attn.q_rope.weight", attn + "q_proj.weight", "(kv_heads group *rope_dim) embed"},
          {"blk#.attn.kv_down.weight", attn + "kv_a_proj_with_mqa.weight", "*kv_rank embed"},
          {"blk#.attn.k_rope.weight", attn + "kv_a_proj_with_mqa.weight", "*rope_dim embed"},
          {"blk#.attn.kv_norm.gamma", attn + "kv_a_layernorm.weight", "kv_rank"},
          {"blk#.attn.k_nope.weight", attn + "kv_b_proj.weight", "(kv_heads *nope_dim) kv_rank"},
          {"blk#.attn.v.weight", attn + "kv_b_proj.weight", "(kv_heads *v_dim) kv_rank"},
          {"blk#.attn.out.weight", attn + "o_proj.weight", "embed (kv_heads group v_dim)"},
          {"blk#.delta.q.weight", attn + "q_proj.weight", "(delta_heads key_dim) embed"},
          {"blk#.delta.k.weight", attn + "k_proj.weight", "(delta_heads key_dim) embed"},
          {"blk#.delta.v.weight", attn + "v_proj.weight", "(delta_heads delta_group delta_dim) embed"},
          {"blk#.delta.q.conv.weight", attn + "q_conv1d.weight", "channel 1 kernel"},
          {"blk#.delta.k.conv.weight", attn + "k_conv1d.weight", "channel 1 kernel"},
          {"blk#.delta.v.conv.weight", attn + "v_conv1d.weight", "channel 1 kernel"},
          {"blk#.delta.b.weight", attn + "b_proj.weight", "(delta_heads delta_group) embed"},
          {"blk#.delta.a_down.weight", attn + "f_a_proj.weight", "delta_rank embed"},
          {"blk#.delta.a.weight", attn + "f_b_proj.weight", "(delta_heads delta_group key_dim) delta_rank"},
          {"blk#.delta.a_log", attn + "A_log", "1 1 (delta_heads delta_group) 1"},
          {"blk#.delta.dt_bias", attn + "dt_bias", "(delta_heads delta_group key_dim)"},
          {"blk#.delta.gate_down.weight", attn + "g_a_proj.weight", "delta_rank embed"},
          {"blk#.delta.gate.weight", attn + "g_b_proj.weight", "(delta_heads delta_group delta_dim) delta_rank"},
          {"blk#.delta.norm.gamma", attn + "o_norm.weight", "delta_dim"},
          {"blk#.delta.out.weight", attn + "o_proj.weight", "embed (delta_heads delta_group delta_dim)"},
          {"blk#.moe.router.weight", moe + "gate.weight", "expert embed"},
          {"blk#.moe.selection.bias", moe + "gate.e_score_correction_bias", "expert"},
          {"blk#.moe.gate.weight", moe + "experts.{expert}.w1.weight", "mlp embed"},
          {"blk#.moe.up.weight", moe + "experts.{expert}.w3.weight", "mlp embed"},
          {"blk#.moe.down.weight", moe + "experts.{expert}.w2.weight", "embed mlp"},
          {"blk#.moe.shared.gate.weight", moe + "shared_experts.gate_proj.weight", "mlp embed"},
          {"blk#.moe.shared.up.weight", moe + "shared_experts.up_proj.weight", "mlp embed"},
          {"blk#.moe.shared.down.weight", moe + "shared_experts.down_proj.weight", "embed mlp"}};
}

// Ling 3's: latent attention rotates neighbours.
HfTensorTable bailing_hybrid() {
  const std::string layer = "model.layers.#.", attn = layer + "attention.", heads = "(delta_heads delta_group key_dim)";
  Rows rows = {{"wte", "model.word_embeddings.weight", "vocab embed"},
               {"blk#.attn.q_nope.weight", attn + "q_proj.weight", "(kv_heads group *nope_dim) embed"},
               {"blk#.attn.q_rope.weight", attn + "q_proj.weight", "(kv_heads group *~rope_dim) embed"},
               {"blk#.attn.gate.weight", attn + "g_proj.weight", "(kv_heads group) embed"},
               {"blk#.attn.out.weight", attn + "dense.weight", "embed (kv_heads group v_dim)"},
               {"blk#.delta.a.weight", attn + "f_proj.weight", heads + " embed"},
               {"blk#.delta.a_log", attn + "A_log", "(delta_heads delta_group)"},
               {"blk#.delta.gate.weight", attn + "g_proj.weight", "(delta_heads delta_group delta_dim) embed"},
               {"blk#.delta.out.weight", attn + "dense.weight", "embed (delta_heads delta_group delta_dim)"},
               {"blk#.moe.selection.bias", layer + "mlp.gate.expert_bias", "expert"}};
  for (const Rows& more : {latent_rows(), kimi_linear_rows()})
    for (HfTensorRow row : more) {
      if (row.ours.starts_with("blk#.moe.")) continue;  // as DeepSeek's
      constexpr std::string_view kTheirs = "self_attn.";
      if (const std::size_t at = row.theirs.find(kTheirs); at != std::string::npos)
        row.theirs.replace(at, kTheirs.size(), "attention.");
      rows.push_back(row);
    }
  return like_llama({"bailing_hybrid"}, {rows, expert_rows()});
}

// Gates and ups are one tensor, of all experts too; norms' weights are stored less one.
Rows minimax_m3_rows() {
  const std::string layer = "model.layers.#.", attn = layer + "self_attn.", index = attn + "indexer.",
                    mlp = layer + "mlp.";
  return {{"blk#.ln1.gamma", layer + "input_layernorm.weight", "embed +1"},
          {"blk#.ln2.gamma", layer + "post_attention_layernorm.weight", "embed +1"},
          {"blk#.attn.q_norm.gamma", attn + "q_norm.weight", "head_dim +1"},
          {"blk#.attn.k_norm.gamma", attn + "k_norm.weight", "head_dim +1"},
          {"blk#.attn.index.q.weight", index + "q_proj.weight", "(kv_heads index_dim) embed"},
          {"blk#.attn.index.k.weight", index + "k_proj.weight", "index_dim embed"},
          {"blk#.attn.index.q_norm.gamma", index + "q_norm.weight", "index_dim +1"},
          {"blk#.attn.index.k_norm.gamma", index + "k_norm.weight", "index_dim +1"},
          {"blk#.mlp.gate.weight", mlp + "gate_up_proj.weight", "*mlp embed"},
          {"blk#.mlp.up.weight", mlp + "gate_up_proj.weight", "*mlp embed"},
          {"blk#.moe.router.weight", mlp + "gate.weight", "expert embed"},
          {"blk#.moe.selection.bias", mlp + "gate.e_score_correction_bias", "expert"},
          {"blk#.moe.gate.weight", mlp + "experts.gate_up_proj", "expert *mlp embed"},
          {"blk#.moe.up.weight", mlp + "experts.gate_up_proj", "expert *mlp embed"},
          {"blk#.moe.down.weight", mlp + "experts.down_proj", "expert embed mlp"},
          {"blk#.moe.shared.gate.weight", mlp + "shared_experts.gate_up_proj.weight", "*mlp embed"},
          {"blk#.moe.shared.up.weight", mlp + "shared_experts.gate_up_proj.weight", "*mlp embed"},
          {"blk#.moe.shared.down.weight", mlp + "shared_experts.down_proj.weight", "embed mlp"},
          {"blk.final_norm.gamma", "model.norm.weight", "embed +1"}};
}

// Each of the two halves of a layer has attention and a dense layer, as the numbers in lists say.
HfTensorTable longcat_flash() {
  Rows rows;
  const std::string layer = "model.layers.#.";
  for (const auto& [half, number] : {std::pair(std::string("first"), std::string("0")), {"second", "1"}}) {
    const std::string block = "blk#." + half + ".";
    for (HfTensorRow row : latent_rows()) {
      row.ours.replace(0, std::string_view("blk#.").size(), block);
      const std::string_view attention = "self_attn.";
      row.theirs.insert(row.theirs.find(attention) + attention.size(), number + ".");
      rows.push_back(row);
    }
    rows.push_back({block + "ln1.gamma", layer + "input_layernorm." + number + ".weight", "embed"});
    rows.push_back({block + "ln2.gamma", layer + "post_attention_layernorm." + number + ".weight", "embed"});
    for (const auto& [part, layout] :
         {std::pair(std::string("gate"), "mlp embed"), {"up", "mlp embed"}, {"down", "embed mlp"}})
      rows.push_back(
          {block + "mlp." + part + ".weight", layer + "mlps." + number + "." + part + "_proj.weight", layout});
  }
  const Rows experts = {{"blk#.moe.router.weight", layer + "mlp.router.classifier.weight", "choice embed"},
                        {"blk#.moe.router.weight", layer + "mlp.router.classifier.weight", "expert embed"},
                        {"blk#.moe.selection.bias", layer + "mlp.router.e_score_correction_bias", "choice"},
                        {"blk#.moe.selection.bias", layer + "mlp.router.e_score_correction_bias", "expert"}};
  rows.insert(rows.end(), experts.begin(), experts.end());
  HfTensorTable table = like_llama({"longcat_flash"}, {rows, expert_rows()});
  table.left_out.emplace_back("model.mtp.*");
  return table;
}

// Queries and gates of each head are one, which reads the norm of queries' vector before the vector; norms of what
// blocks read, but of dense layers, have gates.
Rows axk2_rows() {
  const std::string layer = "model.layers.#.", first = layer + "input_layernorm.",
                    second = layer + "post_attention_layernorm.", joint = layer + "self_attn.q_b_proj.weight";
  return {{"blk#.ln1.gamma", first + "norm.weight", "embed"},
          {"blk#.ln1.gate_down.weight", first + "W_down.weight", "norm_gate embed"},
          {"blk#.ln1.gate_up.weight", first + "W_up.weight", "embed norm_gate"},
          {"blk#.ln2.gamma", second + "norm.weight", "embed", "blk#.ln2.gate_down.weight"},
          {"blk#.ln2.gate_down.weight", second + "W_down.weight", "norm_gate embed"},
          {"blk#.ln2.gate_up.weight", second + "W_up.weight", "embed norm_gate"},
          {"blk#.attn.q_nope.weight", joint, "(kv_heads group *nope_dim) q_rank_pair"},
          {"blk#.attn.q_rope.weight", joint, "(kv_heads group *~rope_dim) q_rank_pair"},
          {"blk#.attn.gate.weight", joint, "(kv_heads group *v_dim) q_rank_pair"}};
}

// As transformers 5.24 saves it: nothing lies in pairs, indexers' heads have the dimensions that are rotated last, and
// one tensor holds all experts' gates and ups.
HfTensorTable hy_v4() {
  const std::string layer = "model.layers.#.", attn = layer + "self_attn.", mlp = layer + "mlp.";
  Rows rows = {{"blk#.attn.gate.weight", attn + "linear_gate.weight", "(kv_heads group v_dim) embed"},
               {"blk#.attn.sinks", attn + "learnable_sink_param", "(kv_heads group)"},
               {"blk#.mlp.gate.weight", mlp + "linear_gate.weight", "mlp embed"},
               {"blk#.moe.shared.gate.weight", mlp + "shared_experts.linear_gate.weight", "mlp embed"},
               {"blk#.moe.gate.weight", mlp + "experts.gate_up_proj", "expert *mlp embed"},
               {"blk#.moe.up.weight", mlp + "experts.gate_up_proj", "expert *mlp embed"},
               {"blk#.moe.down.weight", mlp + "experts.down_proj", "expert embed mlp"}};
  for (const auto& [ours, theirs] : {std::pair("blk#.attn", layer + "hc_pre.hc_attn_layer.hc_"),
                                     {"blk#.mlp", layer + "hc_pre.hc_mlp_layer.hc_"},
                                     {"blk#.moe", layer + "hc_pre.hc_mlp_layer.hc_"},
                                     {"head", "model.hc_pre.hc_head.hc_head_"}}) {
    const std::string streams = std::string(ours) + ".streams.";
    rows.push_back({streams + "mix.weight", theirs + "fn", "mixes all_streams"});
    rows.push_back({streams + "mix.bias", theirs + "base", "mixes"});
    rows.push_back({streams + "scale.gamma", theirs + "scale", "mix_parts"});
  }
  for (const Rows& more : {indexer_rows(), latent_rows()})
    for (HfTensorRow row : more) {
      std::erase(row.layout, '~');
      if (const std::size_t at = row.layout.find("index_dim"); at != std::string::npos) row.layout.insert(at, ">");
      rows.push_back(row);
    }
  return like_llama({"hy_v4"}, {rows, expert_rows()});
}

// One tensor of all that a delta rule reads, and one of all experts' gates and ups.
Rows lara_mini_rows() {
  const std::string delta = "model.layers.#.linear_attn.", experts = "model.layers.#.mlp.experts.",
                    values = "(delta_heads delta_group delta_dim)", rates = "(delta_heads delta_group)";
  return {{"blk#.delta.q.weight", delta + "in_proj.weight", "*(delta_heads key_dim) embed"},
          {"blk#.delta.k.weight", delta + "in_proj.weight", "*(delta_heads key_dim) embed"},
          {"blk#.delta.v.weight", delta + "in_proj.weight", "*" + values + " embed"},
          {"blk#.delta.z.weight", delta + "in_proj.weight", "*" + values + " embed"},
          {"blk#.delta.b.weight", delta + "in_proj.weight", "*" + rates + " embed"},
          {"blk#.delta.a.weight", delta + "in_proj.weight", "*" + rates + " embed"},
          {"blk#.delta.a_log", delta + "A_log", rates},
          {"blk#.delta.dt_bias", delta + "dt_bias", rates},
          {"blk#.delta.q.conv.weight", delta + "conv1d.weight", "*channel 1 kernel"},
          {"blk#.delta.k.conv.weight", delta + "conv1d.weight", "*channel 1 kernel"},
          {"blk#.delta.v.conv.weight", delta + "conv1d.weight", "*channel 1 kernel"},
          {"blk#.delta.norm.gamma", delta + "out_norm.weight", "delta_dim"},
          {"blk#.delta.out.weight", delta + "out_proj.weight", "embed " + values},
          {"blk#.moe.gate.weight", experts + "gate_up_proj", "expert *mlp embed"},
          {"blk#.moe.up.weight", experts + "gate_up_proj", "expert *mlp embed"},
          {"blk#.moe.down.weight", experts + "down_proj", "expert embed mlp"}};
}

// One tensor of all experts, in attention too.
HfTensorTable jetmoe() {
  const std::string attention = "model.layers.#.self_attention.", experts = attention + "experts.",
                    mlp = "model.layers.#.mlp.";
  return like_llama({"jetmoe"},
                    {Rows{{"blk#.attn.router.weight", experts + "router.layer.weight", "expert embed"},
                          {"blk#.attn.q.weight", experts + "input_linear.weight", "expert queries embed"},
                          {"blk#.attn.out.weight", experts + "output_linear.weight", "expert embed queries"},
                          {"blk#.attn.out.bias", experts + "bias", "embed"},
                          {"blk#.attn.k.weight", attention + "kv_proj.weight", "*(kv_heads head_dim) embed"},
                          {"blk#.attn.v.weight", attention + "kv_proj.weight", "*(kv_heads head_dim) embed"},
                          {"blk#.moe.router.weight", mlp + "router.layer.weight", "expert embed"},
                          {"blk#.moe.gate.weight", mlp + "input_linear.weight", "expert *mlp embed"},
                          {"blk#.moe.up.weight", mlp + "input_linear.weight", "expert *mlp embed"},
                          {"blk#.moe.down.weight", mlp + "output_linear.weight", "expert embed mlp"},
                          {"blk#.moe.bias", mlp + "bias", "embed"}}});
}

}  // namespace

Rows hf::gated_expert_rows() {
  return {{"blk#.moe.router.weight", "model.layers.#.mlp.gate.weight", "expert embed"},
          {"blk#.moe.gate.weight", "model.layers.#.mlp.experts.{expert}.gate_proj.weight", "mlp embed"},
          {"blk#.moe.up.weight", "model.layers.#.mlp.experts.{expert}.up_proj.weight", "mlp embed"},
          {"blk#.moe.down.weight", "model.layers.#.mlp.experts.{expert}.down_proj.weight", "embed mlp"},
          {"blk#.moe.shared.gate.weight", "model.layers.#.mlp.shared_expert.gate_proj.weight", "mlp embed"},
          {"blk#.moe.shared.up.weight", "model.layers.#.mlp.shared_expert.up_proj.weight", "mlp embed"},
          {"blk#.moe.shared.down.weight", "model.layers.#.mlp.shared_expert.down_proj.weight", "embed mlp"},
          {"blk#.moe.shared_gate.weight", "model.layers.#.mlp.shared_expert_gate.weight", "one embed"}};
}

std::vector<HfTensorTable> hf_sparse_tables() {
  return {deepseek_v4(),
          like_llama({"kimi_linear"}, {kimi_linear_rows()}),
          like_llama({"minimax_m3_vl_text"}, {minimax_m3_rows()}),
          bailing_hybrid(),
          hy_v4(),
          like_llama({"axk2"}, {axk2_rows(), indexer_rows(), latent_rows(), expert_rows()}),
          longcat_flash(),
          like_llama({"lara_mini"}, {lara_mini_rows(), gated_expert_rows()}),
          jetmoe()};
}

}  // namespace meshwright
