// SPDX-License-Identifier: Apache-2.0
#include "core/graph/models/transformer_builder.h"

namespace meshwright {

TensorId TransformerBuilder::activate(const std::string& name, TensorId x) {
  switch (transformer.feed_forward.activation) {
    case Activation::Relu:
      return add(OpKind::Relu, name + ".relu", {x});
    case Activation::Gelu:
      return add(OpKind::Gelu, name + ".gelu", {x});
    case Activation::Silu:
      return add(OpKind::Silu, name + ".silu", {x});
  }
  return x;
}

TensorId TransformerBuilder::feed_forward(const std::string& name, TensorId x, std::int64_t width) {
  const FeedForwardPart& part = transformer.feed_forward;
  const Dim mlp{"mlp", width};
  const auto widen = [&](const std::string& which) {
    const TensorId wide = project(name + which, x, {embed, mlp}, {"batch", "seq", "mlp"});
    return part.bias ? add_bias(name + which, wide, {mlp}) : wide;
  };
  TensorId inner{};
  if (part.gated) {
    const TensorId gate = activate(name, widen(".gate"));
    inner = add(OpKind::Multiply, name + ".gated", {gate, widen(".up")});
  } else {
    inner = activate(name, widen(".up"));
  }
  const TensorId out = project(name + ".down", inner, {mlp, embed}, {"batch", "seq", "embed"});
  return part.bias ? add_bias(name + ".down", out, {embed}) : out;
}

}  // namespace meshwright
