// SPDX-License-Identifier: Apache-2.0
// LongCat-Flash (Meituan, arXiv:2509.01322): decoders whose layers have two attention layers and two dense ones, and a
// mixture of experts that reads what the first dense layer reads and whose result is added at the end of the layer, so
// that its tokens travel while the dense part computes. Among a token's choices are experts that give it back as it is.
//
// Attention is latent, as DeepSeek-V3's (transformer.h), with the two latent vectors times sqrt(embed / rank). Ops are
// named "blk<layer>.first.attn.q_down", ".first.mlp.up", ".second.attn.out", ".moe.router", ...
#include <cmath>

#include "core/graph/models/family_keys.h"
#include "core/graph/models/parts/transformer_builder.h"

namespace meshwright {

namespace {

using namespace keys;

Transformer longcat_flash(const ModelConfig& model) {
  const auto scale_of = [&](const char* rank) {
    if (!is_set(model, "scaled_latents")) return 1.0;
    return std::sqrt(static_cast<double>(model.hidden) / static_cast<double>(size_of(model, rank)));
  };
  const LatentPart latent{.q_rank = size_of(model, "q_rank"),
                          .kv_rank = size_of(model, "kv_rank"),
                          .nope = size_of(model, "nope_dim"),
                          .rope = size_of(model, "rope_dim"),
                          .value = size_of(model, "value_dim"),
                          .q_scale = scale_of("q_rank"),
                          .kv_scale = scale_of("kv_rank")};
  return {.attention = {.kv_heads = model.heads, .group = 1, .head_dim = latent.nope + latent.rope, .latent = latent},
          .feed_forward = {.width = size_of(model, "intermediate"), .activation = Activation::Silu, .gated = true},
          .mixture = MixturePart{.experts = size_of(model, "experts"),
                                 .top_k = size_of(model, "top_k"),
                                 .width = size_of(model, "expert_intermediate"),
                                 .identity = size_of(model, "identity_experts"),
                                 .capacity_factor = model.factors.at("capacity_factor"),
                                 .normalize = false,
                                 .selection_bias = true,
                                 .scale = model.factors.at("routed_scale")},
          .layers = {},
          .norm = Norm::Rms,
          .epsilon = model.factors.at("epsilon"),
          .positions = Positions::Rotary,
          .rotary_base = model.factors.at("rotary_base"),
          .tied = is_set(model, "tied")};
}

struct LongcatFlashBuilder : TransformerBuilder {
  using TransformerBuilder::TransformerBuilder;

  [[nodiscard]] TensorId layer(std::int64_t number, TensorId x);
};

TensorId LongcatFlashBuilder::layer(std::int64_t number, TensorId x) {
  graph.current_block = static_cast<int>(number);
  const std::string name = fmt::format("blk{}", number);
  const auto plus = [&](const std::string& part, TensorId y) { x = add(OpKind::Add, part + ".residual", {x, y}); };
  std::optional<TensorId> routed;
  for (const char* half : {".first", ".second"}) {
    const std::string here = name + half;
    const TensorId seen = norm(here + ".ln1", x, embed);
    plus(here + ".attn", attention(here + ".attn", seen, seen, {.causal = true, .rotary = true}));
    const TensorId read = norm(here + ".ln2", x, embed);
    if (!routed) routed = mixture(name + ".moe", read);
    plus(here + ".mlp", feed_forward(here + ".mlp", read, transformer.feed_forward.width));
  }
  plus(name + ".moe", *routed);
  return x;
}

void build_longcat_flash(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  const Transformer transformer = longcat_flash(model);
  LongcatFlashBuilder builder(graph, model, transformer);
  build_layers(builder, graph, model, reduction);
}

}  // namespace

std::vector<Family> longcat_flash_families() {
  return {{"longcat_flash",
           with_core_sizes({width("intermediate"),
                            width("q_rank"),
                            width("kv_rank"),
                            width("nope_dim"),
                            width("rope_dim"),
                            width("value_dim"),
                            {"experts", 100'000},
                            {"identity_experts", 100'000, 0, 0},
                            {"top_k", 100'000},
                            derived_width("expert_intermediate", intermediate_of),
                            flag("scaled_latents", 1),
                            flag("tied", 0)}),
           {{"rotary_base", 1e7}, epsilon(1e-5), {"capacity_factor", 1.0}, {"routed_scale", 1.0}},
           "longcat_flash:layers=2,hidden=64,heads=4,intermediate=128,seq=32,vocab=128,experts=4,identity_experts=2,"
           "top_k=2,q_rank=32,kv_rank=16,nope_dim=16,rope_dim=8,value_dim=16",
           kDefaultBatch,
           DType::BF16,
           build_longcat_flash}};
}

}  // namespace meshwright
