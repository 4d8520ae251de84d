// SPDX-License-Identifier: Apache-2.0
// Several residual streams in the place of one (D. Zhu et al., Hyper-Connections, arXiv:2409.19606; Z. Xie et al.,
// Manifold-Constrained Hyper-Connections, arXiv:2512.24880). Of all streams of a token, numbers are made that weigh
// them for what a layer reads, weigh what it makes for each of them, and mix them by a doubly stochastic matrix.
//
// Dimensions: streams (batch, seq, streams, embed). Ops are named "<part>.streams.norm", ".mix", ".read", ".sinkhorn",
// ".expanded", ".mixed".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/graph/models/parts/transformer_builder.h"

namespace meshwright {

struct ResidualStreams {
  TransformerBuilder& builder;
  const Dim streams;
  std::int64_t turns;      // of Sinkhorn's algorithm; 0: streams stay apart
  double epsilon;          // of its sums, and of the weights of what is read
  double magnitude = 2.0;  // of the weights of what a layer makes
  double least = 0.0;      // of these weights: it is added to them

  // What a layer reads, and what its result is added by.
  struct Reading {
    TensorId read, post;
    std::optional<TensorId> mixing = {};
  };
  [[nodiscard]] TensorId begin(const std::string& name, TensorId x) const;  // every stream is x
  [[nodiscard]] Reading read(const std::string& name, TensorId x) const;
  [[nodiscard]] TensorId add(const std::string& name, TensorId x, const Reading& reading, TensorId made) const;
  [[nodiscard]] TensorId end(const std::string& name, TensorId x) const;  // one stream, weighed

 private:
  // (batch, seq, mixes): products with all streams of a token, times a factor for each part of them, plus a bias.
  [[nodiscard]] TensorId mixes(const std::string& name, TensorId x, const std::vector<std::int64_t>& parts) const;
  [[nodiscard]] TensorId part(const std::string& name, TensorId mixes, std::int64_t start, std::int64_t size) const;
  [[nodiscard]] TensorId weighed_sum(const std::string& name, TensorId x, TensorId logits) const;
};

}  // namespace meshwright
