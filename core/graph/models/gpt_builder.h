// SPDX-License-Identifier: Apache-2.0
// The parts of the published GPT benchmark models (core/graph/models/gpt.cpp), shared with their mixtures of experts.
#pragma once

#include <functional>
#include <string>

#include "core/graph/models/parts/model_writer.h"

namespace meshwright {

struct GptBuilder : ModelWriter {
  // The feed-forward layers are `mlp_factor` times as wide as `model` is.
  GptBuilder(Graph& into, const ModelConfig& model, std::int64_t mlp_factor);

  // All (batch, seq, embed) -> (batch, seq, embed), residual sum included.
  [[nodiscard]] TensorId attention(const std::string& block, TensorId x);
  [[nodiscard]] TensorId feed_forward(const std::string& block, TensorId x);

  // The whole model and its loss; `block` makes layer number `layer`, whose ops are named "blk<layer>...".
  using Block = std::function<TensorId(const std::string& name, std::int64_t layer, TensorId x)>;
  void build(std::int64_t layers, const Block& block, LossReduction reduction);

  const Dim qkv, heads, head_dim, mlp;
};

}  // namespace meshwright
