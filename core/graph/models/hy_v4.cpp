// SPDX-License-Identifier: Apache-2.0
// Hunyuan 4 (Tencent, 2026): residual streams in the place of one, which stay apart (residual_streams.h), around latent
// attention to the keys that an indexer chooses, with sinks and a gate of each number that a head makes, and a mixture
// of experts behind the first layers. Layers from index_first on read the keys that the layer before chose, but every
// index_every-th of them.
//
// Ops are named "blk<layer>.attn.streams.read", ".ln1", ".attn.q_down", ..., ".moe.streams.read", ".moe.router", ...
#include "core/graph/models/families.h"
#include "core/graph/models/family_keys.h"
#include "core/graph/models/parts/residual_streams.h"

namespace meshwright {

namespace {

using namespace keys;

Transformer hy_v4(const ModelConfig& model) {
  const LatentPart latent{.q_rank = size_of(model, "q_rank"),
                          .kv_rank = size_of(model, "kv_rank"),
                          .nope = size_of(model, "nope_dim"),
                          .rope = size_of(model, "rope_dim"),
                          .value = size_of(model, "value_dim")};
  const IndexPart index{.heads = size_of(model, "index_heads"),
                        .dim = size_of(model, "index_dim"),
                        .top_k = size_of(model, "index_top_k"),
                        .epsilon = model.factors.at("epsilon")};
  return {.attention = {.kv_heads = model.heads,
                        .group = 1,
                        .head_dim = latent.nope + latent.rope,
                        .latent = latent,
                        .index = index,
                        .sinks = true,
                        .wide_gate = true},
          .feed_forward = {.width = size_of(model, "intermediate"), .activation = Activation::Silu, .gated = true},
          .mixture = MixturePart{.experts = size_of(model, "experts"),
                                 .top_k = size_of(model, "top_k"),
                                 .width = size_of(model, "expert_intermediate"),
                                 .shared_width = size_of(model, "shared_intermediate"),
                                 .capacity_factor = model.factors.at("capacity_factor"),
                                 .sigmoid = true,
                                 .normalize = is_set(model, "normalized"),
                                 .selection_bias = is_set(model, "selection_bias"),
                                 .bound = model.factors.at("gate_bound"),
                                 .scale = model.factors.at("routed_scale")},
          .layers = {},
          .norm = Norm::Rms,
          .epsilon = model.factors.at("epsilon"),
          .positions = Positions::Rotary,
          .rotary_base = model.factors.at("rotary_base"),
          .tied = is_set(model, "tied")};
}

struct HunyuanBuilder : TransformerBuilder {
  HunyuanBuilder(Graph& into, const ModelConfig& of, const Transformer& what)
      : TransformerBuilder(into, of, what),
        model(of),
        streams{*this,
                {"streams", size_of(of, "streams")},
                0,
                of.factors.at("stream_epsilon"),
                of.factors.at("stream_magnitude"),
                of.factors.at("stream_epsilon")} {}

  [[nodiscard]] TensorId layer(std::int64_t number, TensorId x);

  const ModelConfig& model;
  const ResidualStreams streams;
};

TensorId HunyuanBuilder::layer(std::int64_t number, TensorId x) {
  graph.current_block = static_cast<int>(number);
  const std::string name = fmt::format("blk{}", number), attn = name + ".attn";
  const std::int64_t behind = number - size_of(model, "index_first");
  const bool shares = behind >= 0 && (behind + 1) % size_of(model, "index_every") != 0;
  ResidualStreams::Reading reading = streams.read(attn + ".streams", x);
  const TensorId seen = norm(name + ".ln1", reading.read, embed);
  x = streams.add(attn + ".streams", x, reading,
                  attention(attn, seen, seen, {.causal = true, .rotary = true, .shares_index = shares}));
  const bool dense = number < size_of(model, "dense_layers");
  const std::string mlp = name + (dense ? ".mlp" : ".moe");
  reading = streams.read(mlp + ".streams", x);
  const TensorId read = norm(name + ".ln2", reading.read, embed);
  return streams.add(mlp + ".streams", x, reading,
                     dense ? feed_forward(mlp, read, transformer.feed_forward.width) : mixture(mlp, read));
}

void build_hy_v4(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  const Transformer transformer = hy_v4(model);
  HunyuanBuilder builder(graph, model, transformer);
  const TensorId tokens = builder.token_input("tokens"), labels = builder.token_input("labels");
  TensorId x = builder.streams.begin("embed.streams", builder.embed_tokens("embed", tokens));
  for (std::int64_t layer = 0; layer < model.layers; ++layer) x = builder.layer(layer, x);
  graph.current_block = -1;
  graph.loss = builder.losses(builder.streams.end("head.streams", x), "blk", labels, reduction, {});
}

}  // namespace

std::vector<Family> hy_v4_families() {
  return {{"hy_v4",
           with_core_sizes({width("intermediate"),
                            width("q_rank"),
                            width("kv_rank"),
                            width("nope_dim"),
                            width("rope_dim"),
                            width("value_dim"),
                            {"index_heads", kMaxHeads},
                            width("index_dim"),
                            {"index_top_k", 10'000'000},
                            {"index_first", kMaxLayers, 1, 1},
                            {"index_every", kMaxLayers, 1, 1},
                            {"streams", 100, 2, 4},
                            {"experts", 100'000},
                            {"top_k", 100'000},
                            width("expert_intermediate"),
                            width_or_none("shared_intermediate"),
                            {"dense_layers", kMaxLayers, 0, 0},
                            flag("normalized", 1),
                            flag("selection_bias", 1),
                            flag("tied", 0)}),
           {{"rotary_base", 10000.0},
            epsilon(1e-5),
            {"stream_epsilon", 1e-6},
            {"stream_magnitude", 2.0},
            {"gate_bound", 10.0},
            {"capacity_factor", 1.0},
            {"routed_scale", 1.0}},
           "hy_v4:layers=3,hidden=64,heads=4,intermediate=128,seq=32,vocab=128,q_rank=32,kv_rank=16,nope_dim=16,"
           "rope_dim=8,value_dim=16,index_heads=4,index_dim=8,index_top_k=4,experts=4,top_k=2,expert_intermediate=32,"
           "shared_intermediate=32,dense_layers=1,streams=2",
           kDefaultBatch,
           DType::BF16,
           build_hy_v4}};
}

}  // namespace meshwright
