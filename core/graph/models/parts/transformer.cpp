// SPDX-License-Identifier: Apache-2.0
#include "core/graph/models/parts/transformer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/errors.h"
#include "core/graph/models/parts/transformer_builder.h"

namespace meshwright {

TransformerBuilder::TransformerBuilder(Graph& into, const ModelConfig& model, const Transformer& what)
    : ModelWriter(into, model),
      transformer(what),
      rotary_scaling(model.rotary_scaling),
      kv_heads{"kv_heads", what.attention.kv_heads},
      group{"group", what.attention.group},
      head_dim{"head_dim", what.attention.head_dim},
      word(what.embedding_width > 0                                  ? Dim{"word_embed", what.embedding_width}
           : what.word_embed == 0 || what.word_embed == model.hidden ? embed
                                                                     : Dim{"word_embed", what.word_embed}),
      narrow_embed(what.embedding_width > 0 ? word : embed),
      words(vocab.size > 0 ? std::optional(parameter("wte", {{vocab.name, vocab.size + what.more_words}, word}))
                           : std::nullopt),
      encoder_words(what.encoder_words > 0
                        ? std::optional(parameter("enc.wte", {{"encoder_vocab", what.encoder_words}, word}))
                        : std::nullopt) {}

TensorId TransformerBuilder::norm(const std::string& name, TensorId x, const Dim& last) {
  return norm(name, x, last, transformer.epsilon);
}

TensorId TransformerBuilder::norm(const std::string& name, TensorId x, const Dim& last, double epsilon) {
  if (transformer.norm == Norm::Layer) {
    if (transformer.norm_weights && transformer.norm_bias) return layer_norm(name, x, last, epsilon);
    const TensorId gamma = transformer.norm_weights ? parameter(name + ".gamma", {last}) : all_of("ones.", last, 1.0);
    const TensorId beta = transformer.norm_bias ? parameter(name + ".beta", {last}) : all_of("zeros.", last, 0.0);
    return add(OpKind::LayerNorm, name, {x, gamma, beta}, {.epsilon = epsilon});
  }
  if (!transformer.norm_weights) return plain_norm(name, x, epsilon);
  return add(OpKind::RmsNorm, name, {x, parameter(name + ".gamma", {last})}, {.epsilon = epsilon});
}

TensorId TransformerBuilder::all_of(const char* what, const Dim& last, double value) {
  return constant(what + last.name, {last}, std::vector<double>(static_cast<std::size_t>(last.size), value));
}

TensorId TransformerBuilder::scaled(const std::string& name, TensorId x, double factor) {
  return factor == 1.0 ? x : add(OpKind::Scale, name + ".scaled", {x}, {.scale = factor});
}

// --- before the blocks ---

std::vector<double> TransformerBuilder::sines_of_positions(std::int64_t rows, std::int64_t width) const {
  constexpr double kLongest = 10000.0;
  const std::int64_t waves = width / 2;
  const double last = static_cast<double>(std::max<std::int64_t>(1, transformer.last_sine_slowest ? waves - 1 : waves));
  std::vector<double> values(static_cast<std::size_t>(rows * width), 0.0);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t wave = 0; wave < waves; ++wave) {
      const double angle =
          static_cast<double>(row + transformer.first_position) * std::pow(kLongest, -static_cast<double>(wave) / last);
      const auto at = static_cast<std::size_t>(row * width + wave);
      values[at] = std::sin(angle);
      values[at + static_cast<std::size_t>(waves)] = std::cos(angle);
    }
  return values;
}

// The corners of a word's box have a table for each direction, and so have its height and width.
TensorId TransformerBuilder::add_places(const std::string& name, TensorId x) {
  const Dim rows{"place", transformer.box_rows};
  const auto add_table = [&](const std::string& table, std::initializer_list<const char*> places) {
    const TensorId weight = parameter(name + "." + table + ".weight", {rows, narrow_embed});
    for (const char* place : places) {
      const std::string of = name + "." + place;
      x = add(OpKind::Add, of + ".sum", {x, add(OpKind::Embedding, of, {token_input(place), weight})});
    }
  };
  add_table("x", {"left", "right"});
  add_table("y", {"top", "bottom"});
  add_table("h", {"height"});
  add_table("w", {"width"});
  return x;
}

TensorId TransformerBuilder::embed_tokens(const std::string& name, TensorId tokens) {
  const bool of_encoder = encoder_words && name == "embed";
  TensorId x = add(OpKind::Embedding, name, {tokens, of_encoder ? *encoder_words : words.value()});
  if (word != narrow_embed) x = project(name + ".in", x, {word, embed}, {"batch", "seq", "embed"});
  x = scaled(name, x, transformer.embed_scale);
  if (transformer.token_types > 0) {
    const TensorId types = token_input("token_types");
    const TensorId table = parameter(name + ".types.weight", {{"token_type", transformer.token_types}, narrow_embed});
    x = add(OpKind::Add, name + ".types.sum", {x, add(OpKind::Embedding, name + ".types", {types, table})});
  }
  if (transformer.box_rows > 0) x = add_places(name, x);
  const bool words_first = transformer.decoder_norm_of_words && name != "embed";
  if (words_first) x = norm(name + ".norm", x, narrow_embed);
  if (transformer.positions == Positions::Learned) {
    const bool first = name == "embed";
    const std::int64_t rows_of_table =
        first || transformer.decoder_position_rows == 0 ? transformer.position_rows : transformer.decoder_position_rows;
    const TensorId table = parameter(first ? "wpe" : name + ".wpe", {{"position", rows_of_table}, narrow_embed});
    const TensorId rows = add(OpKind::Slice, name + ".positions", {table},
                              {.result_dims = {seq, narrow_embed}, .start = transformer.first_position});
    x = add(OpKind::BiasAdd, name + ".positions.sum", {x, rows});
  }
  if (transformer.positions == Positions::Fixed)
    x = add(OpKind::BiasAdd, name + ".positions.sum",
            {x, constant("sines", {seq, narrow_embed}, sines_of_positions(seq.size, narrow_embed.size))});
  if (transformer.embedding_norm && !words_first) x = norm(name + ".norm", x, narrow_embed);
  if (narrow_embed == embed) return x;
  return add_bias(name + ".in", project(name + ".in", x, {narrow_embed, embed}, {"batch", "seq", "embed"}), {embed});
}

// --- blocks ---

TensorId TransformerBuilder::weighed(const std::string& name, TensorId x) {
  const TensorId wide = add(OpKind::Broadcast, name + ".tokens", {parameter(name + ".gamma", {embed})},
                            {.result_dims = graph.tensor(x).dims});
  return add(OpKind::Multiply, name, {x, wide});
}

TensorId TransformerBuilder::gated_norm(const std::string& name, TensorId x) {
  if (transformer.norm_gate_width == 0) return x;
  const Dim narrow{"norm_gate", transformer.norm_gate_width};
  TensorId gate = project(name + ".gate_down", x, {embed, narrow}, {"batch", "seq", narrow.name});
  gate = add(OpKind::Silu, name + ".gate_down.silu", {gate});
  gate = project(name + ".gate_up", gate, {narrow, embed}, {"batch", "seq", "embed"});
  return add(OpKind::Multiply, name + ".gated", {x, add(OpKind::Sigmoid, name + ".gate.sigmoid", {gate})});
}

TensorId TransformerBuilder::block(const std::string& name, TensorId x, const BlockUse& use) {
  const bool of_decoder = use.memory && transformer.decoder_width > 0;
  const std::int64_t width = of_decoder ? transformer.decoder_width : transformer.feed_forward.width;
  const auto inner = [&](TensorId from) {
    return use.mixture ? mixture(name + ".moe", from) : feed_forward(name + ".mlp", from, width);
  };
  const std::string attn = name + ".attn", mlp = name + (use.mixture ? ".moe" : ".mlp");
  const bool before = transformer.norm_of != Transformer::NormOf::Result;
  const bool after = transformer.norm_of != Transformer::NormOf::Input;
  const auto read = [&](const std::string& which) {
    if (!before) return x;
    const TensorId y = norm(name + which, x, embed);
    return which == ".ln1" || use.mixture ? gated_norm(name + which, y) : y;
  };
  const auto plus = [&](const std::string& part, TensorId y) {
    if (after) y = norm(part + ".norm", y, embed);
    if (transformer.layer_scale) y = weighed(part + ".layer_scale", y);
    return add(OpKind::Add, part + ".residual", {x, scaled(part, y, transformer.residual_scale)});
  };
  if (transformer.parallel) return parallel_block(name, x, use);
  if (transformer.norm_after) {
    x = norm(name + ".ln1", plus(attn, attention(attn, x, x, use.attention)), embed);
    if (use.memory) {
      const std::string cross = name + ".cross";
      x = norm(name + ".ln_cross", plus(cross, attention(cross, x, *use.memory, {.causal = false})), embed);
    }
    return norm(name + ".ln2", plus(mlp, inner(x)), embed);
  }
  TensorId a = use.bare ? x : read(".ln1");
  x = plus(attn, attention(attn, a, a, use.attention));
  if (use.memory) {
    a = norm(name + ".ln_cross", x, embed);
    x = plus(name + ".cross", attention(name + ".cross", a, *use.memory, {.causal = false}));
  }
  return plus(mlp, inner(read(".ln2")));
}

// x + attention(ln1 x) + feed_forward(ln2 x). The two last products come one after the other, so that no layer ends
// between them, and their biases after their sum: both products may then stay partial sums until they are added.
TensorId TransformerBuilder::parallel_block(const std::string& name, TensorId x, const BlockUse& use) {
  MW_CHECK(!use.memory && !transformer.norm_after, "block '{}' is parallel and more", name);
  const std::string attn = name + ".attn", mlp = name + ".mlp";
  const TensorId a = norm(name + ".ln1", x, embed);
  if (use.mixture) {
    const TensorId attended = attention(attn, a, a, use.attention);
    const TensorId routed = mixture(name + ".moe", transformer.one_norm ? a : norm(name + ".ln2", x, embed));
    return add(OpKind::Add, name + ".residual", {x, add(OpKind::Add, name + ".results", {attended, routed})});
  }
  const TensorId core = attention_core(attn, a, a, use.attention);
  const TensorId b = transformer.one_norm ? a : norm(name + ".ln2", x, embed);
  const TensorId inner = feed_forward_inner(mlp, b, transformer.feed_forward.width);
  const TensorId attended = attention_out(attn, core);
  TensorId sum = add(OpKind::Add, name + ".products", {attended, feed_forward_out(mlp, inner)});
  if (transformer.attention.out_bias) sum = add_bias(attn + ".out", sum, {embed});
  if (transformer.feed_forward.bias) sum = add_bias(mlp + ".down", sum, {embed});
  return add(OpKind::Add, name + ".residual", {x, sum});
}

TensorId TransformerBuilder::stack(const std::string& prefix, TensorId x, const std::vector<LayerPart>& layers,
                                   bool causal, std::optional<TensorId> memory) {
  const auto bias_table = [&](const std::string& of) -> std::optional<TensorId> {
    if (transformer.buckets == 0) return std::nullopt;
    return parameter(of + ".relative_bias", {{"bucket", transformer.buckets}, kv_heads, group});
  };
  std::optional<TensorId> relative_bias;
  if (!transformer.layer_biases) relative_bias = bias_table(prefix);
  for (std::size_t l = 0; l < layers.size(); ++l) {
    if (transformer.layer_biases) relative_bias = bias_table(fmt::format("{}{}", prefix, l));
    graph.current_block = next_block++;
    const LayerPart& layer = layers[l];
    const std::string name = fmt::format("{}{}", prefix, l);
    const AttentionUse use{causal,
                           layer.window,
                           transformer.positions == Positions::Rotary && layer.rotary,
                           relative_bias,
                           layer.rotary_base,
                           layer.chunk,
                           layer.shares_index,
                           layer.chooses_blocks,
                           layer.rotary_dims,
                           score_bias_of ? std::optional(score_bias_of(name)) : std::nullopt,
                           layer.out_bias};
    shared_names =
        layer.group ? std::optional(SharedNames{name + ".", fmt::format("group{}.", *layer.group)}) : std::nullopt;
    x = block(name, x, {use, layer.mixture, memory, layer.bare});
  }
  shared_names = std::nullopt;
  graph.current_block = -1;
  return x;
}

TensorId TransformerBuilder::final_norm(const std::string& prefix, TensorId x) {
  return transformer.final_norm ? norm(prefix + ".final_norm", x, embed) : x;
}

// --- after the blocks ---

TensorId TransformerBuilder::logits(TensorId x, const std::string& name) {
  const Dim read = transformer.head_width > 0 ? Dim{"head_embed", transformer.head_width} : narrow_embed;
  if (transformer.transformed_head) {
    const Dim dense{"transform", read.size};
    x = project("head.transform", x, {embed, dense}, {"batch", "seq", "transform"});
    if (transformer.transform_bias) x = add_bias("head.transform", x, {dense});
    x = activate("head.transform", x);
    x = add(OpKind::Reshape, "head.transform.embed", {x}, {.result_dims = {batch, seq, read}});
    x = norm("head.norm", x, read);
  }
  if (word != narrow_embed) x = project("head.out", x, {embed, word}, {"batch", "seq", word.name});
  if (transformer.scaled_head)
    x = add(OpKind::Scale, "head.scaled", {x}, {.scale = 1.0 / std::sqrt(static_cast<double>(embed.size))});
  if (!head)
    head =
        transformer.tied ? words.value() : parameter("head.weight", {vocab, transformer.head_width > 0 ? read : word});
  x = add(OpKind::Contract, name + ".logits", {x, *head}, {.result_names = {"batch", "seq", "vocab"}});
  if (transformer.head_bias) x = add_bias("head", x, {vocab});
  x = scaled(name + ".logits", x, transformer.logit_scale);
  if (transformer.logit_cap == 0.0) return x;
  x = add(OpKind::Scale, name + ".logits.of_cap", {x}, {.scale = 1.0 / transformer.logit_cap});
  x = add(OpKind::Tanh, name + ".logits.tanh", {x});
  return add(OpKind::Scale, name + ".logits.capped", {x}, {.scale = transformer.logit_cap});
}

TensorId TransformerBuilder::stacks(TensorId tokens) {
  if (transformer.encoder.empty())
    return stack("blk", embed_tokens("embed", tokens), transformer.layers, transformer.attention.causal, std::nullopt);
  const TensorId before = token_input("decoder_tokens");
  const Dim own = std::exchange(seq, graph.tensor(tokens).dims[1]);
  const TensorId memory =
      final_norm("enc", stack("enc", embed_tokens("embed", tokens), transformer.encoder, false, std::nullopt));
  seq = own;
  return stack("dec", embed_tokens("decoder.embed", before), transformer.layers, true, memory);
}

void build_transformer(Graph& graph, const ModelConfig& model, const Transformer& transformer,
                       LossReduction reduction) {
  TransformerBuilder builder(graph, model, transformer);
  const Dim own = builder.seq;
  if (transformer.encoder_seq > 0) builder.seq.size = transformer.encoder_seq;
  const TensorId tokens = builder.token_input("tokens");
  builder.seq = own;
  const TensorId labels = builder.token_input("labels");
  const TensorId x = builder.stacks(tokens);
  const auto like_the_last = [&](const std::string& name, TensorId from) {
    const LayerPart& layer = transformer.layers.back();
    const bool rotary = transformer.positions == Positions::Rotary && layer.rotary;
    return builder.block(name, from,
                         {{transformer.attention.causal, layer.window, rotary, std::nullopt, layer.rotary_base,
                           layer.chunk, false, layer.chooses_blocks, layer.rotary_dims},
                          layer.mixture});
  };
  graph.loss = builder.losses(x, transformer.encoder.empty() ? "blk" : "dec", labels, reduction, like_the_last);
}

}  // namespace meshwright
