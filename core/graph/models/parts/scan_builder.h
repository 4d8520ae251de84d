// SPDX-License-Identifier: Apache-2.0
// What models with scans share: convolutions of channels, and the sequence as chunks.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/graph/models/parts/transformer_builder.h"

namespace meshwright {

struct ScanBuilder : TransformerBuilder {
  // `wanted_chunk`: tokens; the longest chunk of at most that many is taken that the sequence divides into.
  ScanBuilder(Graph& into, const ModelConfig& model, const Transformer& what, std::int64_t wanted_chunk);

  // (batch, seq, embed) -> (batch, seq, dims...).
  [[nodiscard]] TensorId widen(const std::string& name, TensorId x, const std::vector<Dim>& dims, bool bias = false);
  // x (batch, seq, ...): each channel behind batch and seq by itself over the last `kernel` tokens.
  [[nodiscard]] TensorId convolution(const std::string& name, TensorId x, std::int64_t kernel, bool bias);
  // The same, then SiLU.
  [[nodiscard]] TensorId convolve(const std::string& name, TensorId x, std::int64_t kernel, bool bias);
  // (batch, seq, ...) -> (batch, chunks, chunk, ...).
  [[nodiscard]] TensorId in_chunks(const std::string& name, TensorId x);

  const Dim chunk, chunks;
};

// A decoder whose layers are those of `builder.layer(number, x)`, with its loss. `further_block`: that of each module
// for further tokens, if the transformer has such.
template <class Builder>
void build_layers(Builder& builder, Graph& graph, const ModelConfig& model, LossReduction reduction,
                  const TransformerBuilder::Block& further_block = {}) {
  const TensorId tokens = builder.token_input("tokens"), labels = builder.token_input("labels");
  TensorId x = builder.embed_tokens("embed", tokens);
  for (std::int64_t layer = 0; layer < model.layers; ++layer) x = builder.layer(layer, x);
  graph.current_block = -1;
  builder.next_block = static_cast<int>(model.layers);
  graph.loss = builder.losses(x, "blk", labels, reduction, further_block);
}

// Sizes that follow from others.
inline std::int64_t all_heads(const ModelConfig& model, const std::string& /*key*/) { return model.heads; }
inline std::int64_t head_width(const ModelConfig& model, const std::string& /*key*/) {
  return std::max<std::int64_t>(1, model.hidden / model.heads);
}

}  // namespace meshwright
