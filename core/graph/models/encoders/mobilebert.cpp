// SPDX-License-Identifier: Apache-2.0
// MobileBERT (Z. Sun et al., arXiv:2004.02984): BERT whose layers work in a narrow width between two bottlenecks.
//
// The embedding of a word, of width `word_width`, stands beside those of the next and the one before, and a dense layer
// makes them as wide as the model. A layer makes two narrow vectors of a token: one that queries and keys are made
// from, and one that attention's result is added to; values are of the wide one. Then `inner_layers` narrow
// feed-forward layers follow, and a dense layer back to the wide width. What stands for norms, but in the head, weighs
// and shifts each number alone. The head reads the word table and a second one that makes up for the words' width.
//
// Dimensions besides a transformer's: (batch, seq, narrow). Ops are named "blk<layer>.in", ".shared", ".attn.q",
// ".ffn<i>.up" and of the last narrow layer ".mlp.up", ".out".
#include "core/graph/models/family_keys.h"
#include "core/graph/models/parts/transformer_builder.h"

namespace meshwright {

namespace {

using namespace keys;

struct MobileBertBuilder : TransformerBuilder {
  MobileBertBuilder(Graph& into, const ModelConfig& of, const Transformer& what)
      : TransformerBuilder(into, of, what),
        model(of),
        narrow{"narrow", size_of(of, "narrow")},
        mlp{"mlp", size_of(of, "intermediate")} {}

  // (batch, seq, last) -> (batch, seq, made), with a bias.
  [[nodiscard]] TensorId dense(const std::string& name, TensorId x, const Dim& made);
  [[nodiscard]] TensorId normed(const std::string& name, TensorId x);
  // The same of each token's neighbour, which is 0 where there is none: of the one `by` places on.
  [[nodiscard]] TensorId neighbour(const std::string& name, TensorId x, std::int64_t by);
  [[nodiscard]] TensorId embedding(TensorId tokens);
  [[nodiscard]] TensorId attend(const std::string& name, TensorId shared, TensorId x);
  // What a narrow feed-forward layer adds to x, with it, normed.
  [[nodiscard]] TensorId inner(const std::string& name, TensorId x);
  [[nodiscard]] TensorId layer(const std::string& name, TensorId x);
  [[nodiscard]] TensorId word_logits(TensorId x);

  const ModelConfig& model;
  const Dim narrow, mlp;
};

TensorId MobileBertBuilder::dense(const std::string& name, TensorId x, const Dim& made) {
  const Dim last = graph.tensor(x).dims.back();
  return add_bias(name, project(name, x, {last, made}, {"batch", "seq", made.name}), {made});
}

TensorId MobileBertBuilder::normed(const std::string& name, TensorId x) {
  const std::vector<Dim> dims = graph.tensor(x).dims;
  const TensorId weight =
      add(OpKind::Broadcast, name + ".tokens", {parameter(name + ".gamma", {dims.back()})}, {.result_dims = dims});
  x = add(OpKind::Multiply, name + ".weighed", {x, weight});
  return add(OpKind::BiasAdd, name, {x, parameter(name + ".beta", {dims.back()})});
}

TensorId MobileBertBuilder::neighbour(const std::string& name, TensorId x, std::int64_t by) {
  const Dim kept{"neighbours", seq.size - 1};
  x = add(OpKind::Slice, name, {x}, {.result_dims = {batch, kept, word}, .start = by > 0 ? 1 : 0});
  return add(OpKind::Pad, name + ".padded", {x}, {.result_dims = {batch, seq, word}, .start = by > 0 ? 0 : 1});
}

TensorId MobileBertBuilder::embedding(TensorId tokens) {
  TensorId x = add(OpKind::Embedding, "embed", {tokens, words.value()});
  const Dim three{"trigram", 3 * word.size};
  x = add(OpKind::Concat, "embed.trigram", {neighbour("embed.next", x, 1), x, neighbour("embed.before", x, -1)},
          {.result_dims = {batch, seq, three}});
  x = dense("embed.in", x, embed);
  const TensorId rows =
      add(OpKind::Slice, "embed.positions", {parameter("wpe", {{"position", size_of(model, "positions")}, embed})},
          {.result_dims = {seq, embed}});
  x = add(OpKind::BiasAdd, "embed.positions.sum", {x, rows});
  const TensorId table = parameter("embed.types.weight", {{"token_type", size_of(model, "token_types")}, embed});
  const TensorId types = add(OpKind::Embedding, "embed.types", {token_input("token_types"), table});
  return normed("embed.norm", add(OpKind::Add, "embed.types.sum", {x, types}));
}

TensorId MobileBertBuilder::attend(const std::string& name, TensorId shared, TensorId x) {
  const TensorId q = add_bias(name + ".q",
                              project(name + ".q", shared, {narrow, kv_heads, group, head_dim},
                                      {"batch", "seq", "kv_heads", "group", "head_dim"}),
                              {kv_heads, group, head_dim});
  const auto keyed = [&](const std::string& which, TensorId from, const Dim& width) {
    const TensorId made =
        project(name + which, from, {width, kv_heads, head_dim}, {"batch", "seq", "kv_heads", "head_dim"});
    return as_keys(name + which, add_bias(name + which, made, {kv_heads, head_dim}));
  };
  const TensorId core = add(OpKind::GroupedAttention, name + ".core",
                            {q, keyed(".k", shared, narrow), keyed(".v", x, embed)}, {.causal = false});
  return add_bias(name + ".out",
                  project(name + ".out", core, {kv_heads, group, head_dim, narrow}, {"batch", "seq", "narrow"}),
                  {narrow});
}

TensorId MobileBertBuilder::inner(const std::string& name, TensorId x) {
  const TensorId y = dense(name + ".down", activate(name, dense(name + ".up", x, mlp)), narrow);
  return normed(name + ".norm", add(OpKind::Add, name + ".residual", {y, x}));
}

TensorId MobileBertBuilder::layer(const std::string& name, TensorId x) {
  const TensorId before = normed(name + ".in.norm", dense(name + ".in", x, narrow));
  const TensorId shared = normed(name + ".shared.norm", dense(name + ".shared", x, narrow));
  TensorId y = normed(name + ".attn.norm",
                      add(OpKind::Add, name + ".attn.residual", {attend(name + ".attn", shared, x), before}));
  for (std::int64_t i = 0; i + 1 < size_of(model, "inner_layers"); ++i) y = inner(fmt::format("{}.ffn{}", name, i), y);
  y = inner(name + ".mlp", y);
  return normed(name + ".out.norm", add(OpKind::Add, name + ".out.residual", {dense(name + ".out", y, embed), x}));
}

TensorId MobileBertBuilder::word_logits(TensorId x) {
  const Dim made{"transform", embed.size};
  x = activate("head.transform", dense("head.transform", x, made));
  x = add(OpKind::Reshape, "head.transform.embed", {x}, {.result_dims = {batch, seq, embed}});
  x = norm("head.norm", x, embed);
  const auto by = [&](const std::string& name, const Dim& part, std::int64_t start, TensorId table) {
    const TensorId read = add(OpKind::Slice, name, {x}, {.result_dims = {batch, seq, part}, .start = start});
    return add(OpKind::Contract, name + ".logits", {read, table}, {.result_names = {"batch", "seq", "vocab"}});
  };
  const Dim rest{"head_embed", embed.size - word.size};
  x = add(OpKind::Add, "head.logits",
          {by("head.words", word, 0, words.value()),
           by("head.rest", rest, word.size, parameter("head.rest.weight", {rest, vocab}))});
  return add_bias("head", x, {vocab});
}

Transformer mobilebert(const ModelConfig& model) {
  return {.attention = {.kv_heads = model.heads,
                        .group = 1,
                        .head_dim = size_of(model, "narrow") / model.heads,
                        .causal = false},
          .feed_forward = {.width = size_of(model, "intermediate"),
                           .activation = is_set(model, "relu") ? Activation::Relu : gelu_of(model)},
          .layers = {},
          .epsilon = model.factors.at("epsilon"),
          .word_embed = size_of(model, "word_width"),
          .tied = true};
}

void build_mobilebert(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  const Transformer what = mobilebert(model);
  MobileBertBuilder builder(graph, model, what);
  const TensorId tokens = builder.token_input("tokens"), labels = builder.token_input("labels");
  TensorId x = builder.embedding(tokens);
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    graph.current_block = static_cast<int>(layer);
    x = builder.layer(fmt::format("blk{}", layer), x);
  }
  graph.current_block = -1;
  graph.loss = builder.cross_entropy(builder.word_logits(x), labels, reduction);
}

}  // namespace

std::vector<Family> mobilebert_families() {
  return {{"mobilebert",
           with_core_sizes({derived_width("intermediate", hidden_of),
                            width("word_width"),
                            width("narrow"),
                            {"inner_layers", kMaxNarrowLayers, 1, 4},
                            derived_width("positions", seq_of),
                            {"token_types", 1'000'000, 1, 2},
                            flag("relu", 1),
                            erf(1)}),
           {epsilon(1e-12)},
           "mobilebert:layers=2,hidden=64,heads=4,seq=32,vocab=128,word_width=16,narrow=32",
           kDefaultBatch,
           DType::BF16,
           build_mobilebert}};
}

}  // namespace meshwright
