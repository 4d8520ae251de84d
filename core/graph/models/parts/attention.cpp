// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/errors.h"
#include "core/graph/models/parts/transformer_builder.h"

namespace meshwright {

namespace {

using Extra = Attributes::Extra;

constexpr double kLatentEpsilon = 1e-6;  // of the norms inside latent attention, whatever the other norms'

const std::vector<std::string> kQueries = {"batch", "seq", "kv_heads", "group", "head_dim"};
const std::vector<std::string> kKeys = {"batch", "seq", "kv_heads", "head_dim"};

}  // namespace

TransformerBuilder::Heads TransformerBuilder::heads_of(const AttentionUse& use) const {
  const AttentionPart& part = transformer.attention;
  if (use.window == 0 || part.window_kv_heads == 0) return {kv_heads, group};
  return {{kv_heads.name, part.window_kv_heads}, {group.name, part.window_group}};
}

TensorId TransformerBuilder::rotate(const std::string& name, TensorId x, const Rotation& rotation) {
  Attributes attributes{.rotary_base = rotation.base == 0.0 ? transformer.rotary_base : rotation.base,
                        .rotary_dims = rotation.dims == 0 ? transformer.rotary_dims : rotation.dims};
  if (rotary_scaling && (rotary_scaling->in_windowed_layers || !rotation.windowed)) {
    const std::int64_t turned = attributes.rotary_dims == 0 ? graph.tensor(x).dims.back().size : attributes.rotary_dims;
    attributes.rotary_divisors = rotary_divisors(*rotary_scaling, attributes.rotary_base, turned, seq.size);
    attributes.rotary_amplitude = rotary_scaling->amplitude;
  }
  return add(OpKind::Rotary, name + ".rotary", {x}, attributes);
}

TensorId TransformerBuilder::wide_norm(const std::string& name, TensorId x, const Dim& all) {
  const std::vector<Dim> dims = graph.tensor(x).dims;
  x = add(OpKind::Reshape, name + ".joined", {x}, {.result_dims = {batch, seq, all}});
  return add(OpKind::Reshape, name + ".parted", {norm(name, x, all)}, {.result_dims = dims});
}

TensorId TransformerBuilder::head_norm(const std::string& name, TensorId x) {
  const std::vector<Dim> dims = graph.tensor(x).dims;
  const TensorId plain =
      transformer.norm == Norm::Layer
          ? add(OpKind::LayerNorm, name, {x, all_of("ones.", head_dim, 1.0), all_of("zeros.", head_dim, 0.0)},
                {.epsilon = transformer.epsilon})
          : plain_norm(name, x, transformer.epsilon);
  const TensorId gamma = parameter(name + ".gamma", std::vector<Dim>(dims.begin() + 2, dims.end()));
  return add(OpKind::Multiply, name + ".weighed",
             {plain, add(OpKind::Broadcast, name + ".tokens", {gamma}, {.result_dims = dims})});
}

TensorId TransformerBuilder::tempered(const std::string& name, TensorId q) {
  const AttentionPart& part = transformer.attention;
  std::vector<double> factors;
  for (std::int64_t position = 0; position < seq.size; ++position) {
    const std::int64_t stretch = (position + part.temperature_first) / part.temperature_every;
    factors.push_back(1.0 + part.temperature * std::log1p(static_cast<double>(stretch)));
  }
  const TensorId wide = add(OpKind::Broadcast, name + ".temperature", {constant("temperature", {seq}, factors)},
                            {.result_dims = graph.tensor(q).dims});
  return add(OpKind::Multiply, name + ".tempered", {q, wide});
}

bool TransformerBuilder::grows_beyond_first() const {
  const AttentionPart& part = transformer.attention;
  return part.temperature_every > 0 && part.temperature_every < seq.size + part.temperature_first;
}

TensorId TransformerBuilder::in_chunks(const std::string& name, TensorId x, const Dim& positions) {
  std::vector<Dim> dims = graph.tensor(x).dims;
  dims[0] = {"chunks", batch.size * (seq.size / positions.size)};
  dims[1] = positions;
  return add(OpKind::Reshape, name + ".chunks", {x}, {.result_dims = dims});
}

// A query meets every key, so their positions are two dimensions.
TensorId TransformerBuilder::as_keys(const std::string& name, TensorId x) {
  std::vector<Dim> dims = graph.tensor(x).dims;
  dims[1].name = "kv_seq";
  return add(OpKind::Reshape, name + ".keys", {x}, {.result_dims = dims});
}

TransformerBuilder::Projections TransformerBuilder::plain_projections(const std::string& name, TensorId x,
                                                                      TensorId memory, const AttentionUse& use) {
  const AttentionPart& part = transformer.attention;
  const auto [kv, members] = heads_of(use);
  const Dim value = part.value_dim > 0 ? Dim{"v_dim", part.value_dim} : head_dim;
  TensorId q = project(name + ".q", x, {embed, kv, members, head_dim}, kQueries);
  TensorId k = project(name + ".k", memory, {embed, kv, head_dim}, kKeys);
  TensorId v = project(name + ".v", memory, {embed, kv, value}, {"batch", "seq", "kv_heads", value.name});
  if (part.qkv_bias) {
    q = add_bias(name + ".q", q, {kv, members, head_dim});
    if (part.key_bias) k = add_bias(name + ".k", k, {kv, head_dim});
    v = add_bias(name + ".v", v, {kv, value});
  }
  v = scaled(name + ".v", v, part.value_scale);
  if (part.qkv_bound > 0.0) {
    q = at_most(name + ".q.bounded", q, part.qkv_bound, Bound::BothWays);
    k = at_most(name + ".k.bounded", k, part.qkv_bound, Bound::BothWays);
    v = at_most(name + ".v.bounded", v, part.qkv_bound, Bound::BothWays);
  }
  if (part.unused_projections && use.window > 0)
    for (const auto& [which, dims] : {std::pair(std::string(".q"), std::vector<Dim>{kv, members, head_dim}),
                                      {".k", {kv, head_dim}},
                                      {".v", {kv, value}}}) {
      (void)fixed(name + ".unused" + which + ".bias", dims);
      std::vector<Dim> weight = {embed};
      weight.insert(weight.end(), dims.begin(), dims.end());
      (void)fixed(name + ".unused" + which + ".weight", weight);
    }
  const auto normalised = [&] {
    q = norm(name + ".q_norm", q, head_dim);
    k = norm(name + ".k_norm", k, head_dim);
  };
  if (part.norm && !part.norm_rotated) normalised();
  if (part.head_norm) {
    q = head_norm(name + ".q_norm", q);
    k = head_norm(name + ".k_norm", k);
  }
  if (part.wide_norm) {
    q = wide_norm(name + ".q_norm", q, {"queries", kv.size * members.size * head_dim.size});
    k = wide_norm(name + ".k_norm", k, {"keys", kv.size * head_dim.size});
  }
  if (use.rotary) {
    const Rotation rotation{.base = use.rotary_base, .dims = use.rotary_dims, .windowed = use.window > 0};
    q = rotate(name + ".q", q, rotation);
    k = rotate(name + ".k", k, rotation);
    if (part.plain_norm) {
      q = plain_norm(name + ".q_plain_norm", q, transformer.epsilon);
      k = plain_norm(name + ".k_plain_norm", k, transformer.epsilon);
    }
  }
  if (grows_beyond_first() && (part.temper_rotated || !use.rotary)) q = tempered(name + ".q", q);
  if (part.norm && part.norm_rotated) normalised();
  return {q, k, v};
}

TransformerBuilder::Projections TransformerBuilder::latent_projections(const std::string& name, TensorId x) {
  const LatentPart& part = *transformer.attention.latent;
  const Dim nope{"nope_dim", part.nope}, rope{"rope_dim", part.rope}, value{"v_dim", part.value};
  const Dim kv_rank{"kv_rank", part.kv_rank};
  TensorId from = x, down = x;
  std::optional<TensorId> low_rank;
  Dim from_dim = embed;
  if (part.q_rank > 0) {
    from_dim = {"q_rank", part.q_rank};
    down = project(name + ".q_down", x, {embed, from_dim}, {"batch", "seq", "q_rank"});
    from = norm(name + ".q_norm", down, from_dim, kLatentEpsilon);
    from = scaled(name + ".q_norm", from, part.q_scale);
    low_rank = from;
  }
  if (part.both_queries) {
    MW_CHECK(low_rank, "'{}' reads a vector of queries and its norm, but has none", name);
    from_dim = {"q_rank_pair", 2 * part.q_rank};
    from = add(OpKind::Concat, name + ".q_both", {from, down}, {.result_dims = {batch, seq, from_dim}});
    both_queries = from;
  }
  const TensorId q_nope = project(name + ".q_nope", from, {from_dim, kv_heads, group, nope},
                                  {"batch", "seq", "kv_heads", "group", "nope_dim"});
  const auto placed = [&](const std::string& which, TensorId y) {
    return transformer.positions == Positions::Rotary ? rotate(name + which, y, {}) : y;
  };
  const TensorId q_rope = placed(".q_rope", project(name + ".q_rope", from, {from_dim, kv_heads, group, rope},
                                                    {"batch", "seq", "kv_heads", "group", "rope_dim"}));
  TensorId q =
      add(OpKind::Concat, name + ".q", {q_nope, q_rope}, {.result_dims = {batch, seq, kv_heads, group, head_dim}});
  if (grows_beyond_first()) q = tempered(name + ".q", q);
  const TensorId kv =
      scaled(name + ".kv_norm",
             norm(name + ".kv_norm", project(name + ".kv_down", x, {embed, kv_rank}, {"batch", "seq", "kv_rank"}),
                  kv_rank, kLatentEpsilon),
             part.kv_scale);
  const TensorId k_nope =
      project(name + ".k_nope", kv, {kv_rank, kv_heads, nope}, {"batch", "seq", "kv_heads", "nope_dim"});
  TensorId k_rope = placed(".k_rope", project(name + ".k_rope", x, {embed, rope}, {"batch", "seq", "rope_dim"}));
  k_rope = add(OpKind::Broadcast, name + ".k_rope.heads", {k_rope}, {.result_dims = {batch, seq, kv_heads, rope}});
  const TensorId k =
      add(OpKind::Concat, name + ".k", {k_nope, k_rope}, {.result_dims = {batch, seq, kv_heads, head_dim}});
  const TensorId v = project(name + ".v", kv, {kv_rank, kv_heads, value}, {"batch", "seq", "kv_heads", "v_dim"});
  return {q, k, v, low_rank};
}

// The indexer's scale is left out: it changes no order.
TensorId TransformerBuilder::index_scores(const std::string& name, TensorId x, TensorId low_rank) {
  const IndexPart& part = *transformer.attention.index;
  const LatentPart& latent = *transformer.attention.latent;
  const Dim rank{"q_rank", latent.q_rank}, heads{"index_heads", part.heads}, dim{"index_dim", part.dim};
  const auto turned = [&](const std::string& which, TensorId made) {
    return rotate(name + which, made, {.dims = latent.rope});
  };
  const TensorId q =
      turned(".q", project(name + ".q", low_rank, {rank, heads, dim}, {"batch", "seq", "index_heads", "index_dim"}));
  const TensorId keys = project(name + ".k", x, {embed, dim}, {"batch", "seq", "index_dim"});
  const TensorId k = turned(".k", layer_norm(name + ".k_norm", keys, dim, part.epsilon));
  const TensorId weights = project(name + ".weights", x, {embed, heads}, {"batch", "seq", "index_heads"});
  return add(OpKind::IndexScores, name + ".scores", {q, as_keys(name + ".k", k), weights});
}

TensorId TransformerBuilder::attention_core(const std::string& name, TensorId x, TensorId memory,
                                            const AttentionUse& use) {
  const AttentionPart& part = transformer.attention;
  const Projections p = part.latent ? latent_projections(name, x) : plain_projections(name, x, memory, use);
  const bool chunked = use.chunk > 0 && use.chunk < seq.size;
  const Dim own{"chunk", use.chunk}, seen{"kv_chunk", use.chunk};
  std::vector<TensorId> operands =
      chunked ? std::vector<TensorId>{in_chunks(name + ".q", p.q, own), in_chunks(name + ".k", p.k, seen),
                                      in_chunks(name + ".v", p.v, seen)}
              : std::vector<TensorId>{p.q, as_keys(name + ".k", p.k), as_keys(name + ".v", p.v)};
  const double scale = part.scale * (rotary_scaling ? rotary_scaling->score_scale : 1.0);
  Attributes attributes{.causal = use.causal, .attention_window = use.window < seq.size ? use.window : 0};
  if (scale != 1.0) attributes.scale = scale / std::sqrt(static_cast<double>(part.head_dim));
  // A scale of 1 stands for 1 / sqrt(head_dim); the next representable number stands for 1.
  if (!part.scaled || (scale != 1.0 && attributes.scale == 1.0)) attributes.scale = std::nextafter(1.0, 2.0);
  if (part.index) {
    MW_CHECK(p.low_rank && use.causal && use.window == 0, "'{}' has an indexer, but is no causal latent attention",
             name);
    return selected_attention(name, x, *p.low_rank, use, operands, attributes.scale);
  }
  if (use.score_bias)
    return biased_core(name, operands, *use.score_bias, part.scale / std::sqrt(static_cast<double>(part.head_dim)));
  if (use.chooses_blocks) return block_attention(name, x, operands, attributes.scale);
  const auto [kv, members] = heads_of(use);
  attributes.score_cap = part.cap;
  if (part.sinks || (part.window_sinks && use.window > 0)) {
    attributes.extra = Extra::Sink;
    operands.push_back(parameter(name + ".sinks", {kv, members}));
  } else if (use.relative_bias) {
    attributes.extra = Extra::RelativeBias;
    operands.push_back(*use.relative_bias);
  } else if (transformer.positions == Positions::Alibi) {
    attributes.extra = Extra::Alibi;
  }
  const TensorId core = add(OpKind::GroupedAttention, name + ".core", operands, attributes);
  if (!chunked) return core;
  return add(OpKind::Reshape, name + ".core.seq", {core},
             {.result_dims = {batch, seq, kv, members, graph.tensor(core).dims.back()}});
}

TensorId TransformerBuilder::selected_attention(const std::string& name, TensorId x, TensorId low_rank,
                                                const AttentionUse& use, std::vector<TensorId> operands, double scale) {
  if (!use.shares_index) {
    const TensorId scores = index_scores(name + ".index", x, low_rank);
    const std::int64_t top_k = std::min(transformer.attention.index->top_k, seq.size);
    chosen_keys = add(OpKind::TopKKeys, name + ".index.keys", {scores}, {.top_k = top_k});
  }
  MW_CHECK(chosen_keys, "'{}' shares an indexer, but no layer before it has one", name);
  operands.push_back(*chosen_keys);
  if (!transformer.attention.sinks) return add(OpKind::SelectedAttention, name + ".core", operands, {.scale = scale});
  operands.push_back(parameter(name + ".sinks", {kv_heads, group}));
  return add(OpKind::SelectedAttention, name + ".core", operands, {.scale = scale, .extra = Extra::Sink});
}

TensorId TransformerBuilder::block_attention(const std::string& name, TensorId x, std::vector<TensorId> operands,
                                             double scale) {
  const BlockIndexPart& part = *transformer.attention.block_index;
  const Dim width{"index_dim", part.dim};
  const auto made = [&](const std::string& which, std::vector<Dim> weight, std::vector<std::string> result) {
    const TensorId y = project(name + which, x, std::move(weight), std::move(result));
    return rotate(name + which, norm(name + which + "_norm", y, width), {});
  };
  const TensorId q = made(".index.q", {embed, kv_heads, width}, {"batch", "seq", "kv_heads", "index_dim"});
  const TensorId k = as_keys(name + ".index.k", made(".index.k", {embed, width}, {"batch", "seq", "index_dim"}));
  const TensorId scores =
      add(OpKind::Contract, name + ".index.scores", {q, k}, {.result_names = {"batch", "seq", "kv_heads", "kv_seq"}});
  const std::int64_t blocks = (seq.size + part.block - 1) / part.block;
  operands.push_back(
      add(OpKind::TopKKeys, name + ".index.keys", {scores},
          {.window = {part.block, std::min(part.local, blocks)}, .top_k = std::min(part.top_k, blocks)}));
  return add(OpKind::SelectedAttention, name + ".core", operands, {.scale = scale});
}

TensorId TransformerBuilder::biased_core(const std::string& name, const std::vector<TensorId>& operands, TensorId bias,
                                         double scale) {
  TensorId scores = add(OpKind::Contract, name + ".scores", {operands[0], operands[1]},
                        {.result_names = {"batch", "kv_heads", "group", "seq", "kv_seq"}});
  scores = add(OpKind::Scale, name + ".scores.scaled", {scores}, {.scale = scale});
  const bool of_samples = graph.tensor(bias).dims.front().name == batch.name;
  scores = add(of_samples ? OpKind::Add : OpKind::BiasAdd, name + ".scores.biased", {scores, bias});
  const TensorId weights = add(OpKind::Softmax, name + ".weights", {scores});
  return add(OpKind::Contract, name + ".core", {weights, operands[2]},
             {.result_names = {"batch", "seq", "kv_heads", "group", graph.tensor(operands[2]).dims.back().name}});
}

TensorId TransformerBuilder::attention_out(const std::string& name, TensorId core) {
  const std::vector<Dim>& made = graph.tensor(core).dims;
  return project(name + ".out", core, {made[2], made[3], made[4], embed}, {"batch", "seq", "embed"});
}

Dim TransformerBuilder::joined_heads(TensorId core) const {
  const std::vector<Dim>& made = graph.tensor(core).dims;
  return {"heads_out", made[2].size * made[3].size * made[4].size};
}

TensorId TransformerBuilder::gated_heads(const std::string& name, TensorId x, TensorId core) {
  const std::vector<Dim> made = graph.tensor(core).dims;
  const Dim read = graph.tensor(x).dims.back();
  const auto opened = [&](TensorId by) {
    return transformer.attention.softplus_gate ? softplus(name + ".gate", by)
                                               : add(OpKind::Sigmoid, name + ".gate.sigmoid", {by});
  };
  if (transformer.attention.wide_gate) {
    const TensorId wide = opened(project(name + ".gate", x, {read, made[2], made[3], made[4]},
                                         {"batch", "seq", made[2].name, made[3].name, made[4].name}));
    return add(OpKind::Multiply, name + ".gated", {core, wide});
  }
  TensorId gate = project(name + ".gate", x, {read, made[2], made[3]}, {"batch", "seq", "kv_heads", "group"});
  gate = add(OpKind::Broadcast, name + ".gate.wide", {opened(gate)}, {.result_dims = made});
  return add(OpKind::Multiply, name + ".gated", {core, gate});
}

TensorId TransformerBuilder::attention(const std::string& name, TensorId x, TensorId memory, const AttentionUse& use) {
  TensorId core = attention_core(name, x, memory, use);
  const AttentionPart& part = transformer.attention;
  const bool reads_queries = part.latent && part.latent->both_queries;
  if (part.head_gate || part.wide_gate) core = gated_heads(name, reads_queries ? both_queries.value() : x, core);
  if (part.out_norm) core = wide_norm(name + ".out_norm", core, joined_heads(core));
  const TensorId out = attention_out(name, core);
  return part.out_bias || use.out_bias ? add_bias(name + ".out", out, {embed}) : out;
}

}  // namespace meshwright
