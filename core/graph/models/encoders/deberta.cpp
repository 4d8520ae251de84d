// SPDX-License-Identifier: Apache-2.0
// DeBERTa (P. He et al., "Decoding-enhanced BERT with disentangled attention", arXiv:2006.03654; DeBERTaV3,
// arXiv:2111.09543): BERT whose scores are sums of products of what words and distances hold: of a query with a key,
// with a vector of their distance (content to position, c2p), and of that vector with the key (position to content,
// p2c), all over sqrt(terms head_dim). One table "blk.relative" of 2 `span` distances serves all layers; further ones
// share the rows at its ends. With `buckets` distances beyond half of them share rows by their logarithm, and span is
// buckets. shared_projections: vectors of distances are projected as words are (version 2 and 3), otherwise by
// "<block>.attn.pos_k" and ".attn.pos_q".
//
// Scores are in memory. What a query wants of each distance, (seq, distance), becomes what it wants of each key,
// (seq, kv_seq), by looking rows up in a table of all pairs, with samples and heads as its width.
//
// relative=0 is plain attention. conv: a convolution over so many words beside the first layer (version 2 of 900M
// parameters and more), whose result and the layer's have one norm.
#include <algorithm>
#include <cmath>

#include "core/graph/models/family_keys.h"
#include "core/graph/models/parts/transformer_builder.h"

namespace meshwright {

namespace {

using namespace keys;

struct DebertaBuilder : TransformerBuilder {
  DebertaBuilder(Graph& into, const ModelConfig& of, const Transformer& what)
      : TransformerBuilder(into, of, what), model(of) {}

  // A dense layer of heads whose weights several products may share.
  struct Dense {
    TensorId weight;
    std::optional<TensorId> bias;
  };
  [[nodiscard]] Dense dense(const std::string& name, bool of_queries, bool bias);
  // (..., embed) -> (..., kv_heads, [group], head_dim).
  [[nodiscard]] TensorId made_by(const std::string& name, TensorId x, const Dense& by);
  // (distance, embed): the distances that a sequence has.
  [[nodiscard]] TensorId distances();
  [[nodiscard]] std::int64_t row_of(std::int64_t distance) const;
  // The row of each query and key in a table of (seq, distance) or of (kv_seq, distance).
  [[nodiscard]] TensorId rows_of_pairs(bool by_query);
  // What each query wants of each key (seq, kv_seq, row), from what `one` and the vectors of distances make.
  [[nodiscard]] TensorId of_pairs(const std::string& name, TensorId one, TensorId of_distances, bool by_query);
  [[nodiscard]] TensorId attend(const std::string& name, TensorId x);
  [[nodiscard]] TensorId convolved(TensorId x);
  [[nodiscard]] TensorId encoder(TensorId x);

  [[nodiscard]] std::int64_t span() const {
    return size_of(model, "buckets") > 0 ? size_of(model, "buckets") : reach();
  }
  [[nodiscard]] std::int64_t reach() const { return size_of(model, "max_distance"); }
  // Distances on either side that the rows in use hold.
  [[nodiscard]] std::int64_t used() const {
    return size_of(model, "buckets") > 0 ? span() : std::min(span(), seq.size);
  }
  [[nodiscard]] Dim distance() const { return {"distance", 2 * used()}; }
  [[nodiscard]] Dim key() const { return {"kv_seq", seq.size}; }
  [[nodiscard]] Dim row() const { return {"row", batch.size * kv_heads.size}; }
  [[nodiscard]] double terms() const { return 1.0 + static_cast<double>(is_set(model, "c2p") + is_set(model, "p2c")); }

  const ModelConfig& model;
  std::optional<TensorId> vectors = {};
};

DebertaBuilder::Dense DebertaBuilder::dense(const std::string& name, bool of_queries, bool bias) {
  std::vector<Dim> made = {kv_heads, head_dim};
  if (of_queries) made.insert(made.begin() + 1, group);
  std::vector<Dim> weight = made;
  weight.insert(weight.begin(), embed);
  return {parameter(name + ".weight", weight), bias ? std::optional(parameter(name + ".bias", made)) : std::nullopt};
}

TensorId DebertaBuilder::made_by(const std::string& name, TensorId x, const Dense& by) {
  std::vector<std::string> names;
  for (const Dim& dim : graph.tensor(x).dims) names.push_back(dim.name);
  names.pop_back();
  const std::vector<Dim> weight = graph.tensor(by.weight).dims;
  for (std::size_t d = 1; d < weight.size(); ++d) names.push_back(weight[d].name);
  x = add(OpKind::Contract, name, {x, by.weight}, {.result_names = names});
  return by.bias ? add(OpKind::BiasAdd, name + ".bias_add", {x, *by.bias}) : x;
}

TensorId DebertaBuilder::distances() {
  TensorId x = parameter("blk.relative", {{"distances", 2 * span()}, embed});
  x = used() < span()
          ? add(OpKind::Slice, "blk.relative.used", {x}, {.result_dims = {distance(), embed}, .start = span() - used()})
          : add(OpKind::Reshape, "blk.relative.used", {x}, {.result_dims = {distance(), embed}});
  return is_set(model, "relative_norm") ? norm("blk.relative_norm", x, embed) : x;
}

std::int64_t DebertaBuilder::row_of(std::int64_t distance) const {
  const std::int64_t buckets = size_of(model, "buckets"), middle = buckets / 2, far = std::abs(distance);
  if (buckets > 0 && far > middle) {
    const double share = std::log(static_cast<double>(far) / static_cast<double>(middle)) /
                         std::log(static_cast<double>(reach() - 1) / static_cast<double>(middle));
    const auto bucket = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(middle - 1))) + middle;
    distance = distance > 0 ? bucket : -bucket;
  }
  return std::clamp<std::int64_t>(distance + used(), 0, 2 * used() - 1);
}

TensorId DebertaBuilder::rows_of_pairs(bool by_query) {
  std::vector<double> rows;
  for (std::int64_t q = 0; q < seq.size; ++q)
    for (std::int64_t k = 0; k < seq.size; ++k)
      rows.push_back(static_cast<double>((by_query ? q : k) * distance().size + row_of(q - k)));
  return constant(by_query ? "pairs.by_query" : "pairs.by_key", {seq, key()}, std::move(rows), DType::I32);
}

TensorId DebertaBuilder::of_pairs(const std::string& name, TensorId one, TensorId of_distances, bool by_query) {
  TensorId x = add(OpKind::Contract, name, {one, of_distances},
                   {.result_names = {by_query ? "seq" : "kv_seq", "distance", "batch", "kv_heads", "group"}});
  x = add(OpKind::Reshape, name + ".table", {x}, {.result_dims = {{"pair", seq.size * distance().size}, row()}});
  return add(OpKind::Embedding, name + ".pairs", {rows_of_pairs(by_query), x});
}

TensorId DebertaBuilder::attend(const std::string& name, TensorId x) {
  const bool shared = is_set(model, "shared_projections"), own_biases = is_set(model, "pos_k_bias");
  const Dense by_q = dense(name + ".q", true, true), by_k = dense(name + ".k", false, is_set(model, "key_bias"));
  const TensorId q = made_by(name + ".q", x, by_q);
  const TensorId k = as_keys(name + ".k", made_by(name + ".k", x, by_k));
  const TensorId v = as_keys(name + ".v", made_by(name + ".v", x, dense(name + ".v", false, true)));
  const double scale = 1.0 / std::sqrt(terms() * static_cast<double>(head_dim.size));
  TensorId core = q;
  if (!vectors || terms() == 1.0) {
    Attributes plain{.causal = false};
    plain.scale = scale;
    core = add(OpKind::GroupedAttention, name + ".core", {q, k, v}, plain);
  } else {
    std::optional<TensorId> bias;
    if (is_set(model, "c2p")) {
      const Dense by = shared ? by_k : dense(name + ".pos_k", false, own_biases);
      bias = of_pairs(name + ".c2p", q, made_by(name + ".pos_k", *vectors, by), true);
    }
    if (is_set(model, "p2c")) {
      const Dense by = shared ? by_q : dense(name + ".pos_q", true, true);
      const TensorId p2c = of_pairs(name + ".p2c", k, made_by(name + ".pos_q", *vectors, by), false);
      bias = bias ? add(OpKind::Add, name + ".pairs", {*bias, p2c}) : p2c;
    }
    TensorId wide = add(OpKind::Scale, name + ".pairs.scaled", {*bias}, {.scale = scale});
    wide = add(OpKind::Reshape, name + ".pairs.heads", {wide}, {.result_dims = {seq, key(), batch, kv_heads, group}});
    wide = add(OpKind::Transpose, name + ".pairs.scores", {wide},
               {.result_names = {"batch", "kv_heads", "group", "seq", "kv_seq"}});
    core = biased_core(name, {q, k, v}, wide, scale);
  }
  return add_bias(name + ".out", attention_out(name, core), {embed});
}

// Over the words, of which those beyond the ends are 0.
TensorId DebertaBuilder::convolved(TensorId x) {
  const Dim kernel{"kw", size_of(model, "conv")}, line{"kh", 1}, high{"line", 1}, wide{"word", seq.size};
  const Dim made{"conv_embed", embed.size};
  const std::int64_t beyond = (kernel.size - 1) / 2;
  x = add(OpKind::Reshape, "conv.line", {x}, {.result_dims = {batch, high, wide, embed}});
  x = add(OpKind::Convolution, "conv", {x, parameter("conv.weight", {line, kernel, embed, made})},
          {.result_dims = {high, wide},
           .window = {1, kernel.size},
           .stride = {1, 1},
           .pad_before = {0, beyond},
           .pad_after = {0, kernel.size - 1 - beyond}});
  x = add_bias("conv", x, {made});
  x = add(OpKind::Reshape, "conv.words", {x}, {.result_dims = {batch, seq, embed}});
  if (is_set(model, "conv_tanh")) return add(OpKind::Tanh, "conv.tanh", {x});
  return activate("conv", x);
}

TensorId DebertaBuilder::encoder(TensorId x) {
  if (is_set(model, "relative")) vectors = distances();
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    graph.current_block = next_block++;
    const std::string name = fmt::format("blk{}", layer);
    const TensorId before = x;
    x = norm(name + ".ln1", add(OpKind::Add, name + ".attn.residual", {x, attend(name + ".attn", x)}), embed);
    const TensorId inner = feed_forward(name + ".mlp", x, transformer.feed_forward.width);
    x = norm(name + ".ln2", add(OpKind::Add, name + ".mlp.residual", {x, inner}), embed);
    if (layer == 0 && is_set(model, "conv"))
      x = norm("conv.norm", add(OpKind::Add, "conv.residual", {x, convolved(before)}), embed);
  }
  graph.current_block = -1;
  return x;
}

Transformer deberta(const ModelConfig& model) {
  AttentionPart attention = own_heads(model, true);
  attention.causal = false;
  return {.attention = attention,
          .feed_forward = {.width = size_of(model, "intermediate"), .activation = gelu_of(model), .bias = true},
          .layers = equal_layers(model.layers),
          .epsilon = model.factors.at("epsilon"),
          .norm_after = true,
          .final_norm = false,
          .positions = is_set(model, "positions") ? Positions::Learned : Positions::None,
          .position_rows = size_of(model, "positions"),
          .token_types = size_of(model, "token_types"),
          .embedding_norm = true,
          .tied = true,
          .head_bias = true,
          .transformed_head = true};
}

void build_deberta(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  const Transformer what = deberta(model);
  DebertaBuilder builder(graph, model, what);
  const TensorId tokens = builder.token_input("tokens"), labels = builder.token_input("labels");
  const TensorId x = builder.encoder(builder.embed_tokens("embed", tokens));
  graph.loss = builder.cross_entropy(builder.logits(x), labels, reduction);
}

}  // namespace

// positions: rows of a table of places that the embedding adds; 0: none.
std::vector<Family> deberta_families() {
  return {{"deberta",
           with_core_sizes({derived_width("intermediate", four_times_hidden),
                            width_or_none("positions"),
                            {"token_types", 1'000'000, 0, 0},
                            flag("relative", 1),
                            derived_width("max_distance", seq_of),
                            width_or_none("buckets"),
                            flag("c2p", 1),
                            flag("p2c", 1),
                            flag("shared_projections", 1),
                            flag("key_bias", 1),
                            flag("pos_k_bias", 1),
                            flag("relative_norm", 1),
                            {"conv", 101, 0, 0},
                            flag("conv_tanh", 1),
                            erf(1)}),
           {epsilon(1e-7)},
           "deberta:layers=2,hidden=64,heads=4,seq=32,vocab=128,buckets=8",
           kDefaultBatch,
           DType::BF16,
           build_deberta}};
}

}  // namespace meshwright
