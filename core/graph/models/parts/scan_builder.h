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

// Sizes that follow from others.
inline std::int64_t all_heads(const ModelConfig& model, const std::string& /*key*/) { return model.heads; }
inline std::int64_t head_width(const ModelConfig& model, const std::string& /*key*/) {
  return std::max<std::int64_t>(1, model.hidden / model.heads);
}

}  // namespace meshwright
