// SPDX-License-Identifier: Apache-2.0
// What models with scans call their tensors, and how they lay them out. Linear layers are (out, in).
#include <array>
#include <string_view>
#include <utility>

#include "core/base/text.h"
#include "core/graph/import/hf/tensors/hf_tensors.h"

namespace meshwright {

namespace {

using Rows = std::vector<HfTensorRow>;

// What Mamba and Mamba-2 name alike.
Rows shared_rows() {
  return {
      {"wte", "backbone.embeddings.weight", "vocab embed"},
      {"blk#.ln.gamma", "backbone.layers.#.norm.weight", "embed"},
      {"blk#.scan.d", "backbone.layers.#.mixer.D", "(scan_groups scan_heads)"},
      {"blk#.scan.out.weight", "backbone.layers.#.mixer.out_proj.weight", "embed (scan_groups scan_heads scan_dim)"},
      {"blk#.scan.out.bias", "backbone.layers.#.mixer.out_proj.bias", "embed"},
      {"blk.final_norm.gamma", "backbone.norm_f.weight", "embed"},
      {"head.weight", "lm_head.weight", "vocab embed"}};
}

HfTensorTable with_shared(std::vector<std::string> types, Rows own) {
  HfTensorTable table{std::move(types), "backbone.", std::move(own), {"lm_head.weight"}};
  for (HfTensorRow& row : shared_rows()) table.rows.push_back(std::move(row));
  return table;
}

// Every channel is a head.
Rows mamba_rows() {
  return {{"blk#.scan.x.weight", "backbone.layers.#.mixer.in_proj.weight", "*(scan_groups scan_heads scan_dim) embed"},
          {"blk#.scan.z.weight", "backbone.layers.#.mixer.in_proj.weight", "*(scan_groups scan_heads scan_dim) embed"},
          {"blk#.scan.x.bias", "backbone.layers.#.mixer.in_proj.bias", "*(scan_groups scan_heads scan_dim)"},
          {"blk#.scan.z.bias", "backbone.layers.#.mixer.in_proj.bias", "*(scan_groups scan_heads scan_dim)"},
          {"blk#.scan.x.conv.weight", "backbone.layers.#.mixer.conv1d.weight", "channel 1 kernel"},
          {"blk#.scan.x.conv.bias", "backbone.layers.#.mixer.conv1d.bias", "channel"},
          {"blk#.scan.dt_down.weight", "backbone.layers.#.mixer.x_proj.weight",
           "*scan_rank (scan_groups scan_heads scan_dim)"},
          {"blk#.scan.b.weight", "backbone.layers.#.mixer.x_proj.weight", "*state (scan_groups scan_heads scan_dim)"},
          {"blk#.scan.c.weight", "backbone.layers.#.mixer.x_proj.weight", "*state (scan_groups scan_heads scan_dim)"},
          {"blk#.scan.dt.weight", "backbone.layers.#.mixer.dt_proj.weight", "(scan_groups scan_heads) scan_rank"},
          {"blk#.scan.dt_bias", "backbone.layers.#.mixer.dt_proj.bias", "(scan_groups scan_heads)"},
          {"blk#.scan.a_log", "backbone.layers.#.mixer.A_log", "(scan_groups scan_heads) state"}};
}

Rows mamba2_rows() {
  return {{"blk#.scan.z.weight", "backbone.layers.#.mixer.in_proj.weight", "*(scan_groups scan_heads scan_dim) embed"},
          {"blk#.scan.x.weight", "backbone.layers.#.mixer.in_proj.weight", "*(scan_groups scan_heads scan_dim) embed"},
          {"blk#.scan.b.weight", "backbone.layers.#.mixer.in_proj.weight", "*(scan_groups state) embed"},
          {"blk#.scan.c.weight", "backbone.layers.#.mixer.in_proj.weight", "*(scan_groups state) embed"},
          {"blk#.scan.dt.weight", "backbone.layers.#.mixer.in_proj.weight", "*(scan_groups scan_heads) embed"},
          {"blk#.scan.z.bias", "backbone.layers.#.mixer.in_proj.bias", "*(scan_groups scan_heads scan_dim)"},
          {"blk#.scan.x.bias", "backbone.layers.#.mixer.in_proj.bias", "*(scan_groups scan_heads scan_dim)"},
          {"blk#.scan.b.bias", "backbone.layers.#.mixer.in_proj.bias", "*(scan_groups state)"},
          {"blk#.scan.c.bias", "backbone.layers.#.mixer.in_proj.bias", "*(scan_groups state)"},
          {"blk#.scan.dt.bias", "backbone.layers.#.mixer.in_proj.bias", "*(scan_groups scan_heads)"},
          {"blk#.scan.x.conv.weight", "backbone.layers.#.mixer.conv1d.weight", "*channel 1 kernel"},
          {"blk#.scan.b.conv.weight", "backbone.layers.#.mixer.conv1d.weight", "*channel 1 kernel"},
          {"blk#.scan.c.conv.weight", "backbone.layers.#.mixer.conv1d.weight", "*channel 1 kernel"},
          {"blk#.scan.x.conv.bias", "backbone.layers.#.mixer.conv1d.bias", "*channel"},
          {"blk#.scan.b.conv.bias", "backbone.layers.#.mixer.conv1d.bias", "*channel"},
          {"blk#.scan.c.conv.bias", "backbone.layers.#.mixer.conv1d.bias", "*channel"},
          {"blk#.scan.a_log", "backbone.layers.#.mixer.A_log", "(scan_groups scan_heads)"},
          {"blk#.scan.dt_bias", "backbone.layers.#.mixer.dt_bias", "(scan_groups scan_heads)"},
          {"blk#.scan.norm.gamma", "backbone.layers.#.mixer.norm.weight", "inner"},
          {"blk#.scan.norm.gamma", "backbone.layers.#.mixer.norm.weight", "(scan_groups group_width)"}};
}

// Scans, attention, feed-forwards and experts, one to a layer.
HfTensorTable nemotron_h() {
  HfTensorTable table = with_shared({"nemotron_h"}, mamba2_rows());
  const Rows other = {
      {"blk#.attn.q.weight", "backbone.layers.#.mixer.q_proj.weight", "(kv_heads group head_dim) embed"},
      {"blk#.attn.k.weight", "backbone.layers.#.mixer.k_proj.weight", "(kv_heads head_dim) embed"},
      {"blk#.attn.v.weight", "backbone.layers.#.mixer.v_proj.weight", "(kv_heads head_dim) embed"},
      {"blk#.attn.out.weight", "backbone.layers.#.mixer.o_proj.weight", "embed (kv_heads group head_dim)"},
      {"blk#.attn.q.bias", "backbone.layers.#.mixer.q_proj.bias", "(kv_heads group head_dim)"},
      {"blk#.attn.k.bias", "backbone.layers.#.mixer.k_proj.bias", "(kv_heads head_dim)"},
      {"blk#.attn.v.bias", "backbone.layers.#.mixer.v_proj.bias", "(kv_heads head_dim)"},
      {"blk#.attn.out.bias", "backbone.layers.#.mixer.o_proj.bias", "embed"},
      {"blk#.mlp.up.weight", "backbone.layers.#.mixer.up_proj.weight", "mlp embed"},
      {"blk#.mlp.up.bias", "backbone.layers.#.mixer.up_proj.bias", "mlp"},
      {"blk#.mlp.down.weight", "backbone.layers.#.mixer.down_proj.weight", "embed mlp"},
      {"blk#.mlp.down.bias", "backbone.layers.#.mixer.down_proj.bias", "embed"},
      {"blk#.moe.router.weight", "backbone.layers.#.mixer.gate.weight", "expert embed"},
      {"blk#.moe.selection.bias", "backbone.layers.#.mixer.gate.e_score_correction_bias", "expert"},
      {"blk#.moe.latent_in.weight", "backbone.layers.#.mixer.fc1_latent_proj.weight", "expert_embed embed"},
      {"blk#.moe.latent_out.weight", "backbone.layers.#.mixer.fc2_latent_proj.weight", "embed expert_embed"},
      {"blk#.moe.up.weight", "backbone.layers.#.mixer.experts.{expert}.up_proj.weight", "mlp embed"},
      {"blk#.moe.up.weight", "backbone.layers.#.mixer.experts.{expert}.up_proj.weight", "mlp expert_embed"},
      {"blk#.moe.down.weight", "backbone.layers.#.mixer.experts.{expert}.down_proj.weight", "embed mlp"},
      {"blk#.moe.down.weight", "backbone.layers.#.mixer.experts.{expert}.down_proj.weight", "expert_embed mlp"},
      {"blk#.moe.shared.up.weight", "backbone.layers.#.mixer.shared_experts.up_proj.weight", "mlp embed"},
      {"blk#.moe.shared.down.weight", "backbone.layers.#.mixer.shared_experts.down_proj.weight", "embed mlp"}};
  table.rows.insert(table.rows.end(), other.begin(), other.end());
  table.left_out.push_back("mtp.*");  // modules that a model without them does not have
  return table;
}

// Two of our blocks, a scan or attention and what follows it, are one of theirs.
HfTensorTable pairs(const char* type, const char* second_norm, const char* final_norm, const Rows& after,
                    const Rows& scans = mamba2_rows()) {
  HfTensorTable table = with_shared({type}, scans);
  table.prefix = "model.";
  constexpr std::string_view kScan = "backbone.layers.#.mixer.";
  for (HfTensorRow& row : table.rows)
    if (row.theirs.starts_with(kScan)) row.theirs.replace(0, kScan.size(), "model.layers.&.mamba.");
  const Rows own = {
      {"wte", "model.embed_tokens.weight", "vocab embed"},
      {"blk#.ln.gamma", "model.layers.&.input_layernorm.weight", "embed", "blk#.scan.d"},
      {"blk#.ln.gamma", "model.layers.&.input_layernorm.weight", "embed", "blk#.attn.q.weight"},
      {"blk#.ln.gamma", fmt::format("model.layers.&.{}.weight", second_norm), "embed"},
      {"blk.final_norm.gamma", fmt::format("model.{}.weight", final_norm), "embed"},
      {"blk#.attn.q.weight", "model.layers.&.self_attn.q_proj.weight", "(kv_heads group head_dim) embed"},
      {"blk#.attn.k.weight", "model.layers.&.self_attn.k_proj.weight", "(kv_heads head_dim) embed"},
      {"blk#.attn.v.weight", "model.layers.&.self_attn.v_proj.weight", "(kv_heads head_dim) embed"},
      {"blk#.attn.out.weight", "model.layers.&.self_attn.o_proj.weight", "embed (kv_heads group head_dim)"},
      {"blk#.attn.q.bias", "model.layers.&.self_attn.q_proj.bias", "(kv_heads group head_dim)"},
      {"blk#.attn.k.bias", "model.layers.&.self_attn.k_proj.bias", "(kv_heads head_dim)"},
      {"blk#.attn.v.bias", "model.layers.&.self_attn.v_proj.bias", "(kv_heads head_dim)"},
      {"blk#.attn.out.bias", "model.layers.&.self_attn.o_proj.bias", "embed"}};
  for (const Rows& rows : {after, own}) table.rows.insert(table.rows.begin(), rows.begin(), rows.end());
  return table;
}

Rows bamba_feed_forward() {
  return {{"blk#.mlp.gate.weight", "model.layers.&.feed_forward.gate_proj.weight", "mlp embed"},
          {"blk#.mlp.gate.bias", "model.layers.&.feed_forward.gate_proj.bias", "mlp"},
          {"blk#.mlp.up.weight", "model.layers.&.feed_forward.up_proj.weight", "mlp embed"},
          {"blk#.mlp.up.bias", "model.layers.&.feed_forward.up_proj.bias", "mlp"},
          {"blk#.mlp.down.weight", "model.layers.&.feed_forward.down_proj.weight", "embed mlp"},
          {"blk#.mlp.down.bias", "model.layers.&.feed_forward.down_proj.bias", "embed"}};
}

HfTensorTable jamba() {
  Rows scans = mamba_rows();
  for (const auto& [ours, theirs, dim] : {std::array{".dt_down", "dt_layernorm", "scan_rank"},
                                          {".b", "b_layernorm", "state"},
                                          {".c", "c_layernorm", "state"}})
    scans.push_back(
        {fmt::format("blk#.scan{}.norm.gamma", ours), fmt::format("backbone.layers.#.mixer.{}.weight", theirs), dim});
  Rows after = bamba_feed_forward();
  const Rows experts = {
      {"blk#.moe.router.weight", "model.layers.&.feed_forward.router.weight", "expert embed"},
      {"blk#.moe.gate.weight", "model.layers.&.feed_forward.experts.{expert}.gate_proj.weight", "mlp embed"},
      {"blk#.moe.up.weight", "model.layers.&.feed_forward.experts.{expert}.up_proj.weight", "mlp embed"},
      {"blk#.moe.down.weight", "model.layers.&.feed_forward.experts.{expert}.down_proj.weight", "embed mlp"}};
  after.insert(after.end(), experts.begin(), experts.end());
  return pairs("jamba", "pre_ff_layernorm", "final_layernorm", after, scans);
}

// A scan in each layer, and in some a shared block, whose tensors are of the first layer that uses it: those of one use
// have its number among the uses of all blocks.
HfTensorTable zamba2() {
  HfTensorTable table{{"zamba2"}, "model.", {}, {"lm_head.weight"}};
  // Layers that use a shared block have the scan one level further down.
  constexpr std::string_view kScan = "backbone.layers.#.mixer.";
  const auto add = [&](const HfTensorRow& row, const std::string& name) {
    const std::string hybrid = "model.layers.#.mamba_decoder." + name, plain = "model.layers.#." + name;
    table.rows.push_back({row.ours, hybrid, row.layout, "blk#.linear.weight"});
    table.rows.push_back({row.ours, plain, row.layout});
  };
  for (const Rows& rows : {mamba2_rows(), shared_rows()})
    for (const HfTensorRow& row : rows)
      if (row.theirs.starts_with(kScan)) add(row, "mamba." + row.theirs.substr(kScan.size()));
  add({"blk#.ln.gamma", "", "embed"}, "input_layernorm.weight");
  const std::string shared = "model.layers.#.shared_transformer.", attention = shared + "self_attn.",
                    mlp = shared + "feed_forward.";
  const Rows others = {
      {"wte", "model.embed_tokens.weight", "vocab embed"},
      {"blk.final_norm.gamma", "model.final_layernorm.weight", "embed"},
      {"head.weight", "lm_head.weight", "vocab embed"},
      {"blk#.linear.weight", "model.layers.#.linear.weight", "linear_embed embed"},
      {"blk#.shared.ln1.gamma", shared + "input_layernorm.weight", "wide_embed"},
      {"blk#.shared.ln2.gamma", shared + "pre_ff_layernorm.weight", "embed"},
      {"blk#.shared.attn.q.weight", attention + "q_proj.weight", "(kv_heads group head_dim) wide_embed"},
      {"blk#.shared.attn.k.weight", attention + "k_proj.weight", "(kv_heads head_dim) wide_embed"},
      {"blk#.shared.attn.v.weight", attention + "v_proj.weight", "(kv_heads head_dim) wide_embed"},
      {"blk#.shared.attn.out.weight", attention + "o_proj.weight", "embed (kv_heads group head_dim)"},
      {"blk#.shared.mlp.gate.weight", mlp + "gate_up_proj.weight", "*mlp embed"},
      {"blk#.shared.mlp.up.weight", mlp + "gate_up_proj.weight", "*mlp embed"},
      {"blk#.shared.mlp.down.weight", mlp + "down_proj.weight", "embed mlp"},
      {"blk#.shared.mlp.adapter?.down.weight", mlp + "gate_up_proj_adapter_list.?.0.weight", "adapter_rank embed"},
      {"blk#.shared.mlp.adapter?.gate.weight", mlp + "gate_up_proj_adapter_list.?.1.weight", "*mlp adapter_rank"},
      {"blk#.shared.mlp.adapter?.up.weight", mlp + "gate_up_proj_adapter_list.?.1.weight", "*mlp adapter_rank"}};
  table.rows.insert(table.rows.end(), others.begin(), others.end());
  for (const auto& [which, heads] :
       {std::pair("q", "(kv_heads group head_dim)"), {"k", "(kv_heads head_dim)"}, {"v", "(kv_heads head_dim)"}}) {
    const std::string ours = fmt::format("blk#.shared.attn.{}.adapter?.", which),
                      theirs = fmt::format("{}linear_{}_adapter_list.?.", attention, which);
    table.rows.push_back({ours + "down.weight", theirs + "0.weight", "adapter_rank wide_embed"});
    table.rows.push_back({ours + "up.weight", theirs + "1.weight", fmt::format("{} adapter_rank", heads)});
  }
  return table;
}

HfTensorTable rwkv() {
  const std::string block = "rwkv.blocks.#.", time = block + "attention.", channel = block + "feed_forward.";
  HfTensorTable table{{"rwkv"},
                      "rwkv.",
                      {{"wte", "rwkv.embeddings.weight", "vocab embed"},
                       {"embed.norm.gamma", "rwkv.blocks.0.pre_ln.weight", "embed"},
                       {"embed.norm.beta", "rwkv.blocks.0.pre_ln.bias", "embed"},
                       {"blk#.time.decay", time + "time_decay", "(scan_groups channels)"},
                       {"blk#.time.first.bias", time + "time_first", "channels"},
                       {"blk#.time.k.weight", time + "key.weight", "channels embed"},
                       {"blk#.time.v.weight", time + "value.weight", "channels embed"},
                       {"blk#.time.r.weight", time + "receptance.weight", "channels embed"},
                       {"blk#.time.out.weight", time + "output.weight", "embed channels"},
                       {"blk#.channel.k.weight", channel + "key.weight", "mlp embed"},
                       {"blk#.channel.v.weight", channel + "value.weight", "embed mlp"},
                       {"blk#.channel.r.weight", channel + "receptance.weight", "gate_embed embed"},
                       {"blk.final_norm.gamma", "rwkv.ln_out.weight", "embed"},
                       {"blk.final_norm.beta", "rwkv.ln_out.bias", "embed"},
                       {"head.weight", "head.weight", "vocab embed"}},
                      {"head.weight"}};
  for (const auto& [ours, theirs] : {std::pair("k", "key"), {"v", "value"}, {"r", "receptance"}}) {
    const std::string mix = fmt::format("time_mix_{}", theirs);
    table.rows.push_back({fmt::format("blk#.time.{}.mix.gamma", ours), time + mix, "1 1 embed"});
    table.rows.push_back({fmt::format("blk#.channel.{}.mix.gamma", ours), channel + mix, "1 1 embed"});
  }
  for (const char* norm : {"ln1", "ln2"}) {
    table.rows.push_back({fmt::format("blk#.{}.gamma", norm), fmt::format("{}{}.weight", block, norm), "embed"});
    table.rows.push_back({fmt::format("blk#.{}.beta", norm), fmt::format("{}{}.bias", block, norm), "embed"});
  }
  return table;
}

// LFM2's own names of everything.
HfTensorTable lfm2() {
  const Rows blocks = {
      {"blk#.ln.gamma", "model.layers.&.operator_norm.weight", "embed", "blk#.conv.x.weight"},
      {"blk#.ln.gamma", "model.layers.&.operator_norm.weight", "embed", "blk#.attn.q.weight"},
      {"blk#.ln.gamma", "model.layers.&.ffn_norm.weight", "embed"},
      {"blk#.attn.q.weight", "model.layers.&.self_attn.q_proj.weight", "(kv_heads group head_dim) embed"},
      {"blk#.attn.k.weight", "model.layers.&.self_attn.k_proj.weight", "(kv_heads head_dim) embed"},
      {"blk#.attn.v.weight", "model.layers.&.self_attn.v_proj.weight", "(kv_heads head_dim) embed"},
      {"blk#.attn.q_norm.gamma", "model.layers.&.self_attn.q_layernorm.weight", "head_dim"},
      {"blk#.attn.k_norm.gamma", "model.layers.&.self_attn.k_layernorm.weight", "head_dim"},
      {"blk#.attn.out.weight", "model.layers.&.self_attn.out_proj.weight", "embed (kv_heads group head_dim)"},
      {"blk#.conv.b.weight", "model.layers.&.conv.in_proj.weight", "*conv_dim embed"},
      {"blk#.conv.c.weight", "model.layers.&.conv.in_proj.weight", "*conv_dim embed"},
      {"blk#.conv.x.weight", "model.layers.&.conv.in_proj.weight", "*conv_dim embed"},
      {"blk#.conv.b.bias", "model.layers.&.conv.in_proj.bias", "*conv_dim"},
      {"blk#.conv.c.bias", "model.layers.&.conv.in_proj.bias", "*conv_dim"},
      {"blk#.conv.x.bias", "model.layers.&.conv.in_proj.bias", "*conv_dim"},
      {"blk#.conv.x.conv.weight", "model.layers.&.conv.conv.weight", "channel 1 kernel"},
      {"blk#.conv.x.conv.bias", "model.layers.&.conv.conv.bias", "channel"},
      {"blk#.conv.out.weight", "model.layers.&.conv.out_proj.weight", "embed conv_dim"},
      {"blk#.conv.out.bias", "model.layers.&.conv.out_proj.bias", "embed"},
      {"blk#.mlp.gate.weight", "model.layers.&.feed_forward.w1.weight", "mlp embed"},
      {"blk#.mlp.up.weight", "model.layers.&.feed_forward.w3.weight", "mlp embed"},
      {"blk#.mlp.down.weight", "model.layers.&.feed_forward.w2.weight", "embed mlp"},
      {"blk#.moe.router.weight", "model.layers.&.feed_forward.gate.weight", "expert embed"},
      {"blk#.moe.selection.bias", "model.layers.&.feed_forward.expert_bias", "expert"},
      {"blk#.moe.gate.weight", "model.layers.&.feed_forward.experts.{expert}.w1.weight", "mlp embed"},
      {"blk#.moe.up.weight", "model.layers.&.feed_forward.experts.{expert}.w3.weight", "mlp embed"},
      {"blk#.moe.down.weight", "model.layers.&.feed_forward.experts.{expert}.w2.weight", "embed mlp"},
      {"wte", "model.embed_tokens.weight", "vocab embed"},
      {"blk.final_norm.gamma", "model.embedding_norm.weight", "embed"},
      {"head.weight", "lm_head.weight", "vocab embed"}};
  return {{"lfm2", "lfm2_moe"}, "model.", blocks, {"lm_head.weight"}};
}

// LFM2 with norms of what layers make, gates of heads, and the usual names in attention. Of heads that rotate in part,
// the first dimensions of each half do.
HfTensorTable lfm3() {
  const std::string layer = "model.layers.&.", attention = layer + "self_attn.";
  HfTensorTable table = lfm2();
  table.model_types = {"lfm3"};
  const Rows own = {{"blk#.attn.q.weight", attention + "q_proj.weight", "(kv_heads group |head_dim) embed"},
                    {"blk#.attn.k.weight", attention + "k_proj.weight", "(kv_heads |head_dim) embed"},
                    {"blk#.attn.q.bias", attention + "q_proj.bias", "(kv_heads group |head_dim)"},
                    {"blk#.attn.k.bias", attention + "k_proj.bias", "(kv_heads |head_dim)"},
                    {"blk#.attn.v.bias", attention + "v_proj.bias", "(kv_heads head_dim)"},
                    {"blk#.attn.q_norm.gamma", attention + "q_norm.weight", "|head_dim"},
                    {"blk#.attn.k_norm.gamma", attention + "k_norm.weight", "|head_dim"},
                    {"blk#.attn.gate.weight", attention + "gate_proj.weight", "(kv_heads group) embed"},
                    {"blk#.attn.out.weight", attention + "o_proj.weight", "embed (kv_heads group head_dim)"},
                    {"blk#.attn.out.bias", attention + "o_proj.bias", "embed"},
                    {"blk#.attn.norm.gamma", layer + "post_operator_norm.weight", "embed"},
                    {"blk#.conv.norm.gamma", layer + "post_operator_norm.weight", "embed"},
                    {"blk#.mlp.norm.gamma", layer + "post_ffn_norm.weight", "embed"}};
  table.rows.insert(table.rows.begin(), own.begin(), own.end());
  return table;
}

// Gates and ups are one; where there are no experts, the shared one is the feed-forward layer.
HfTensorTable granitemoehybrid() {
  return pairs("granitemoehybrid", "post_attention_layernorm", "norm",
               {{"blk#.mlp.gate.weight", "model.layers.&.shared_mlp.input_linear.weight", "*mlp embed"},
                {"blk#.mlp.up.weight", "model.layers.&.shared_mlp.input_linear.weight", "*mlp embed"},
                {"blk#.mlp.down.weight", "model.layers.&.shared_mlp.output_linear.weight", "embed mlp"},
                {"blk#.moe.shared.gate.weight", "model.layers.&.shared_mlp.input_linear.weight", "*mlp embed"},
                {"blk#.moe.shared.up.weight", "model.layers.&.shared_mlp.input_linear.weight", "*mlp embed"},
                {"blk#.moe.shared.down.weight", "model.layers.&.shared_mlp.output_linear.weight", "embed mlp"},
                {"blk#.moe.router.weight", "model.layers.&.block_sparse_moe.router.layer.weight", "expert embed"},
                {"blk#.moe.gate.weight", "model.layers.&.block_sparse_moe.input_linear.weight", "expert *mlp embed"},
                {"blk#.moe.up.weight", "model.layers.&.block_sparse_moe.input_linear.weight", "expert *mlp embed"},
                {"blk#.moe.down.weight", "model.layers.&.block_sparse_moe.output_linear.weight", "expert embed mlp"}});
}

}  // namespace

std::vector<HfTensorTable> hf_scan_tables() {
  const auto like_bamba = [](const char* type) {
    return pairs(type, "pre_ff_layernorm", "final_layernorm", bamba_feed_forward());
  };
  return {with_shared({"mamba", "falcon_mamba"}, mamba_rows()),
          with_shared({"mamba2"}, mamba2_rows()),
          nemotron_h(),
          zamba2(),
          rwkv(),
          like_bamba("bamba"),
          like_bamba("falcon_h1"),
          jamba(),
          granitemoehybrid(),
          lfm2(),
          lfm3()};
}

}  // namespace meshwright
