// SPDX-License-Identifier: Apache-2.0
#include "core/graph/models/parts/transformer_builder.h"

namespace meshwright {

namespace {

constexpr double kQuickSlope = 1.702;  // of the sigmoid that stands for GELU's

}  // namespace

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
    case Activation::QuickGelu:
      return quick_gelu(name, x);
    case Activation::Xielu:
      return xielu(name, x);
    case Activation::ClippedSilu:
      break;  // only with a gate
  }
  return x;
}

// Both sides are 0 on the other: above relu(x)^2, below e^-r - 1 + r, r = relu(-x).
TensorId TransformerBuilder::xielu(const std::string& name, TensorId x) {
  constexpr double kBeta = 0.5;
  const Dim one{"one", 1}, last = graph.tensor(x).dims.back();
  // log(1 + e^p) + shift for each number of x.
  const auto factor = [&](const std::string& which, double shift) {
    TensorId p = add(OpKind::Exp, which + ".exp", {parameter(which, {one})});
    p = add(OpKind::Log, which + ".softplus", {add(OpKind::Shift, which + ".exp.next", {p}, {.value = 1.0})});
    if (shift != 0.0) p = add(OpKind::Shift, which + ".shifted", {p}, {.value = shift});
    p = add(OpKind::Broadcast, which + ".wide", {p}, {.result_dims = {one, last}});
    p = add(OpKind::Reshape, which + ".vector", {p}, {.result_dims = {last}});
    return add(OpKind::Broadcast, which + ".tokens", {p}, {.result_dims = graph.tensor(x).dims});
  };
  const TensorId positive = add(OpKind::Relu, name + ".above.relu", {x});
  const TensorId above =
      add(OpKind::Multiply, name + ".above",
          {add(OpKind::Multiply, name + ".above.squared", {positive, positive}), factor(name + ".alpha_p", 0.0)});
  const TensorId negative =
      add(OpKind::Relu, name + ".below.relu", {add(OpKind::Scale, name + ".negative", {x}, {.scale = -1.0})});
  TensorId below =
      add(OpKind::Exp, name + ".below.exp", {add(OpKind::Scale, name + ".below.of_exp", {negative}, {.scale = -1.0})});
  below = add(OpKind::Add, name + ".below.sum",
              {add(OpKind::Shift, name + ".below.expm1", {below}, {.value = -1.0}), negative});
  below = add(OpKind::Multiply, name + ".below", {below, factor(name + ".alpha_n", kBeta)});
  const TensorId line = add(OpKind::Scale, name + ".line", {x}, {.scale = kBeta});
  return add(OpKind::Add, name + ".xielu", {add(OpKind::Add, name + ".sides", {above, below}), line});
}

// x sigmoid(a x) = silu(a x) / a.
TensorId TransformerBuilder::quick_gelu(const std::string& name, TensorId x) {
  const TensorId steep = add(OpKind::Scale, name + ".steep", {x}, {.scale = kQuickSlope});
  return add(OpKind::Scale, name + ".gelu", {add(OpKind::Silu, name + ".silu", {steep})}, {.scale = 1.0 / kQuickSlope});
}

TensorId TransformerBuilder::at_most(const std::string& name, TensorId x, double limit, Bound bound) {
  Attributes bounds{.high = limit};
  if (bound == Bound::BothWays) bounds.low = -limit;
  return add(OpKind::Clamp, name, {x}, bounds);
}

TensorId TransformerBuilder::clipped_gate(const std::string& name, TensorId gate, TensorId up) {
  constexpr double kLimit = 7.0;
  gate = at_most(name + ".gate.clipped", gate, kLimit, Bound::Above);
  up = at_most(name + ".up.clipped", up, kLimit, Bound::BothWays);
  return add(OpKind::Multiply, name + ".gated",
             {add(OpKind::Shift, name + ".up.shifted", {up}, {.value = 1.0}), quick_gelu(name, gate)});
}

TensorId TransformerBuilder::inner_layer(const std::string& name, const Widen& widen, double bound) {
  if (transformer.feed_forward.activation == Activation::ClippedSilu) {
    const TensorId gate = widen(".gate");
    return clipped_gate(name, gate, widen(".up"));
  }
  if (!transformer.feed_forward.gated) return activate(name, widen(".up"));
  TensorId gate = scaled(name + ".gate", widen(".gate"), transformer.feed_forward.gate_scale);
  if (bound > 0.0) gate = at_most(name + ".gate.bounded", gate, bound, Bound::Above);
  gate = activate(name, gate);
  TensorId up = widen(".up");
  if (bound > 0.0) up = at_most(name + ".up.bounded", up, bound, Bound::BothWays);
  return add(OpKind::Multiply, name + ".gated", {gate, up});
}

TensorId TransformerBuilder::feed_forward_inner(const std::string& name, TensorId x, std::int64_t width) {
  const FeedForwardPart& part = transformer.feed_forward;
  const Dim mlp{"mlp", width};
  const TensorId inner = inner_layer(
      name,
      [&](const std::string& which) {
        const TensorId wide = project(name + which, x, {embed, mlp}, {"batch", "seq", "mlp"});
        return part.bias ? add_bias(name + which, wide, {mlp}) : wide;
      },
      part.bound);
  return part.inner_norm ? norm(name + ".inner_norm", inner, mlp) : inner;
}

TensorId TransformerBuilder::feed_forward_out(const std::string& name, TensorId inner) {
  const Dim mlp = graph.tensor(inner).dims.back();
  return project(name + ".down", inner, {mlp, embed}, {"batch", "seq", "embed"});
}

TensorId TransformerBuilder::feed_forward(const std::string& name, TensorId x, std::int64_t width) {
  const TensorId out = feed_forward_out(name, feed_forward_inner(name, x, width));
  const FeedForwardPart& part = transformer.feed_forward;
  return part.bias || part.out_bias ? add_bias(name + ".down", out, {embed}) : out;
}

}  // namespace meshwright
