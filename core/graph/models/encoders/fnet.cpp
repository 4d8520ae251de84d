// SPDX-License-Identifier: Apache-2.0
// FNet (J. Lee-Thorp et al., arXiv:2105.03824): BERT whose layers mix words by a discrete Fourier transform over the
// sequence and the embedding, of which they keep the real part, in place of attention. It is made of products with
// constant cosines and sines, as the authors' code does for sequences of up to 4096 words:
//
//   Re(F x F') = cos x cos' - sin x sin'
//
// Ops are named "blk<layer>.fourier.cos", ".fourier.sin", ".mlp.up".
#include <cmath>
#include <numbers>

#include "core/graph/models/family_keys.h"
#include "core/graph/models/parts/transformer_builder.h"

namespace meshwright {

namespace {

using namespace keys;

enum class Wave { Cosine, Sine };

struct FnetBuilder : TransformerBuilder {
  using TransformerBuilder::TransformerBuilder;

  // (from, to): of element (j, k) the angle is 2 pi j k / size.
  [[nodiscard]] TensorId waves(Wave wave, const Dim& from, const Dim& to);
  // x times the waves of its embedding, then of its sequence.
  [[nodiscard]] TensorId transformed(const std::string& name, TensorId x, Wave wave);
  [[nodiscard]] TensorId fourier(const std::string& name, TensorId x);
  [[nodiscard]] TensorId layer(const std::string& name, TensorId x);
};

TensorId FnetBuilder::waves(Wave wave, const Dim& from, const Dim& to) {
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(from.size * to.size));
  for (std::int64_t j = 0; j < from.size; ++j)
    for (std::int64_t k = 0; k < to.size; ++k) {
      // The remainder keeps the angle small, and so the numbers exact.
      const double angle =
          2.0 * std::numbers::pi * static_cast<double>(j * k % from.size) / static_cast<double>(from.size);
      values.push_back(wave == Wave::Cosine ? std::cos(angle) : std::sin(angle));
    }
  return constant(fmt::format("{}.{}", wave == Wave::Cosine ? "cosines" : "sines", from.name), {from, to},
                  std::move(values));
}

TensorId FnetBuilder::transformed(const std::string& name, TensorId x, Wave wave) {
  const Dim width{"wave", embed.size}, length{"frequency", seq.size};
  x = add(OpKind::Contract, name + ".embed", {x, waves(wave, embed, width)},
          {.result_names = {"batch", "seq", "wave"}});
  return add(OpKind::Contract, name, {x, waves(wave, seq, length)}, {.result_names = {"batch", "frequency", "wave"}});
}

TensorId FnetBuilder::fourier(const std::string& name, TensorId x) {
  x = add(OpKind::Subtract, name + ".real",
          {transformed(name + ".cos", x, Wave::Cosine), transformed(name + ".sin", x, Wave::Sine)});
  return add(OpKind::Reshape, name, {x}, {.result_dims = {batch, seq, embed}});
}

TensorId FnetBuilder::layer(const std::string& name, TensorId x) {
  x = norm(name + ".ln1", add(OpKind::Add, name + ".fourier.residual", {x, fourier(name + ".fourier", x)}), embed);
  const TensorId inner = feed_forward(name + ".mlp", x, transformer.feed_forward.width);
  return norm(name + ".ln2", add(OpKind::Add, name + ".mlp.residual", {x, inner}), embed);
}

Transformer fnet(const ModelConfig& model) {
  return {.attention = {.kv_heads = 1, .group = 1, .head_dim = 1},
          .feed_forward = {.width = size_of(model, "intermediate"), .activation = gelu_of(model), .bias = true},
          .layers = {},
          .epsilon = model.factors.at("epsilon"),
          .positions = Positions::Learned,
          .position_rows = size_of(model, "positions"),
          .token_types = size_of(model, "token_types"),
          .embedding_norm = true,
          .tied = true,
          .head_bias = true,
          .transformed_head = true};
}

void build_fnet(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  const Transformer what = fnet(model);
  FnetBuilder builder(graph, model, what);
  const TensorId tokens = builder.token_input("tokens"), labels = builder.token_input("labels");
  const Dim projected{"projected", model.hidden};
  TensorId x = builder.embed_tokens("embed", tokens);
  x = builder.add_bias("embed.in",
                       builder.project("embed.in", x, {builder.embed, projected}, {"batch", "seq", "projected"}),
                       {projected});
  x = builder.add(OpKind::Reshape, "embed.in.embed", {x}, {.result_dims = {builder.batch, builder.seq, builder.embed}});
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    graph.current_block = static_cast<int>(layer);
    x = builder.layer(fmt::format("blk{}", layer), x);
  }
  graph.current_block = -1;
  graph.loss = builder.cross_entropy(builder.logits(x), labels, reduction);
}

}  // namespace

std::vector<Family> fnet_families() {
  return {{"fnet",
           {{"layers", kMaxLayers},
            {"hidden", kMaxWidth},
            {"seq", kMaxWidth},
            {"vocab", kMaxWidth},
            derived_width("intermediate", four_times_hidden),
            derived_width("positions", seq_of),
            {"token_types", 1'000'000, 0, 4},
            erf(0)},
           {epsilon(1e-12)},
           "fnet:layers=2,hidden=64,seq=32,vocab=128",
           kDefaultBatch,
           DType::BF16,
           build_fnet}};
}

}  // namespace meshwright
