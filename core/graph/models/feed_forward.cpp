// SPDX-License-Identifier: Apache-2.0
#include "core/graph/models/transformer_builder.h"

namespace meshwright {

TensorId TransformerBuilder::activate(const std::string& name, TensorId x) {
  switch (transformer.feed_forward.activation) {
    case Activation::Relu:
      return add(OpKind::Relu, name + ".relu", {x});
    case Activation::Gelu:
      return add(OpKind::Gelu, name + ".gelu", {x});
    case Activation::GeluErf:
      return add(OpKind::GeluErf, name + ".gelu", {x});
    case Activation::ReluSquared: {
      const TensorId y = add(OpKind::Relu, name + ".relu", {x});
      return add(OpKind::Multiply, name + ".squared", {y, y});
    }
    case Activation::Silu:
      return add(OpKind::Silu, name + ".silu", {x});
  }
  return x;
}

TensorId TransformerBuilder::inner_layer(const std::string& name, const Widen& widen) {
  if (!transformer.feed_forward.gated) return activate(name, widen(".up"));
  const TensorId gate = activate(name, widen(".gate"));
  return add(OpKind::Multiply, name + ".gated", {gate, widen(".up")});
}

TensorId TransformerBuilder::feed_forward_inner(const std::string& name, TensorId x, std::int64_t width) {
  const FeedForwardPart& part = transformer.feed_forward;
  const Dim mlp{"mlp", width};
  return inner_layer(name, [&](const std::string& which) {
    const TensorId wide = project(name + which, x, {embed, mlp}, {"batch", "seq", "mlp"});
    return part.bias ? add_bias(name + which, wide, {mlp}) : wide;
  });
}

TensorId TransformerBuilder::feed_forward_out(const std::string& name, TensorId inner) {
  const Dim mlp = graph.tensor(inner).dims.back();
  return project(name + ".down", inner, {mlp, embed}, {"batch", "seq", "embed"});
}

TensorId TransformerBuilder::feed_forward(const std::string& name, TensorId x, std::int64_t width) {
  const TensorId out = feed_forward_out(name, feed_forward_inner(name, x, width));
  return transformer.feed_forward.bias ? add_bias(name + ".down", out, {embed}) : out;
}

}  // namespace meshwright
