// SPDX-License-Identifier: Apache-2.0
// Several residual streams of which each layer reads and changes the first, and predicts what the others become (C.
// Baykal et al., Alternating Updates for Efficient Transformers, 2023), as Gemma 3n has them.
#pragma once

#include <string>

#include "core/graph/models/parts/transformer_builder.h"

namespace meshwright {

struct AlternatingStreams {
  TransformerBuilder& builder;
  const Dim streams;

  // x (batch, seq, embed) and a projection of it for each further stream, as long as x -> (batch, seq, streams, embed).
  [[nodiscard]] TensorId begin(TensorId x) const;
  [[nodiscard]] TensorId first(const std::string& name, TensorId all) const;
  // What a layer's prediction and correction both read a token by: a norm and a product.
  struct Router {
    TensorId gamma, weight;
  };
  [[nodiscard]] Router router(const std::string& name) const;
  // All streams as a token's first one says they become.
  [[nodiscard]] TensorId predict(const std::string& name, TensorId all, const Router& by) const;
  // What was predicted, by as much of what the layer made of the first stream differs from it as that says.
  [[nodiscard]] TensorId correct(const std::string& name, TensorId predicted, TensorId made, const Router& by) const;
  // Adds x to all streams but the first.
  [[nodiscard]] TensorId add_to_further(const std::string& name, TensorId all, TensorId x) const;
  // The mean of the streams, the further ones projected and as long as the first.
  [[nodiscard]] TensorId end(TensorId all) const;

 private:
  [[nodiscard]] TensorId modes(const std::string& name, TensorId x, const Router& by) const;
  [[nodiscard]] TensorId stream(const std::string& name, TensorId all, std::int64_t which) const;
  // (batch, seq): the root of the mean square, of at least `minimum`.
  [[nodiscard]] TensorId length(const std::string& name, TensorId x, double minimum) const;
  [[nodiscard]] TensorId as_long_as(const std::string& name, TensorId x, TensorId length_of_first) const;
};

}  // namespace meshwright
