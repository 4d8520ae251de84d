// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/attention.h"

#include <cmath>
#include <vector>

#include "executor/ops/kernel_table.h"
#include "kernels/cpu/attention/grouped_attention.h"
#include "kernels/cpu/attention/rotary.h"

namespace meshwright {

namespace {

using Extra = Attributes::Extra;

template <class T>
kernels::AttentionShape attention_shape(const Operands<T>& o) {
  return {o.in_size(0, 0), o.in_size(0, 1), o.in_size(0, 3), o.in_size(0, 4)};
}

template <class T>
kernels::GroupedShape grouped_shape(const Operands<T>& o) {
  return {o.in_size(0, 0), o.in_size(0, 1), o.in_size(1, 1), o.in_size(0, 2),
          o.in_size(0, 3), o.in_size(0, 4), o.in_size(2, 3)};
}

// The shard's rule; a bias by distance is laid out in `bias`, which must live as long as the rule.
template <class T>
kernels::AttentionRule<T> attention_rule(const Operands<T>& o, const kernels::GroupedShape& shape,
                                         std::vector<T>& bias) {
  const Attributes& a = o.attributes();
  const std::vector<int>&q = o.call.space.inputs[0], &k = o.call.space.inputs[1];
  const double scale = a.scale != 1.0 ? a.scale : 1.0 / std::sqrt(static_cast<double>(shape.key_dim));
  // The queries are the last positions of the keys.
  const std::int64_t position = o.begin(q[1]) + o.whole(k[1]) - o.whole(q[1]);
  kernels::AttentionRule<T> rule{scale, a.causal, a.attention_window, position};
  if (a.extra == Extra::Sink) rule.sink = o.in(3);
  if (a.extra != Extra::RelativeBias && a.extra != Extra::Alibi) return rule;
  bias.resize(static_cast<std::size_t>(shape.heads() * shape.distances()));
  if (a.extra == Extra::RelativeBias)
    kernels::relative_bias(o.in(3), o.in_size(3, 0), !a.causal, bias.data(), shape, position);
  else
    kernels::alibi_bias(bias.data(), shape, position, {o.begin(q[2]), o.begin(q[3]), o.whole(q[2]), o.whole(q[3])});
  rule.distance_bias = bias.data();
  return rule;
}

template <class T>
void run_grouped(const Operands<T>& o) {
  const kernels::GroupedShape shape = grouped_shape(o);
  std::vector<T> bias;
  kernels::grouped_attention(o.in(0), o.in(1), o.in(2), o.out(0), shape, attention_rule(o, shape, bias));
}

template <class T>
void run_grouped_backward(const Operands<T>& o) {
  const kernels::GroupedShape shape = grouped_shape(o);
  std::vector<T> bias;
  const kernels::AttentionRule<T> rule = attention_rule(o, shape, bias);
  const Extra extra = o.attributes().extra;
  std::vector<double> gradient;
  if (extra == Extra::Sink) gradient.resize(static_cast<std::size_t>(shape.heads()));
  if (extra == Extra::RelativeBias) gradient.resize(bias.size());
  const kernels::ExtraGradients extras{extra == Extra::Sink ? gradient.data() : nullptr,
                                       extra == Extra::RelativeBias ? gradient.data() : nullptr};
  const T* dout = o.in(o.inputs.size() - 1);
  kernels::grouped_attention_backward(o.in(0), o.in(1), o.in(2), dout, o.out(0), o.out(1), o.out(2), extras, shape,
                                      rule);
  if (extra == Extra::RelativeBias)
    kernels::relative_bias_gradient(gradient.data(), o.in_size(3, 0), !o.attributes().causal, o.out(3), shape,
                                    rule.first_position);
  if (extra == Extra::Sink)
    for (std::size_t h = 0; h < gradient.size(); ++h) o.out(3)[h] = static_cast<T>(gradient[h]);
}

template <class T, bool back>
void run_rotary(const Operands<T>& o) {
  const std::vector<int>& dims = o.call.space.inputs[0];
  const std::int64_t batch = o.in_size(0, 0), seq = o.in_size(0, 1), width = o.width(0);
  const Attributes& a = o.attributes();
  kernels::rotary(o.in(0), o.out(0),
                  {batch, seq, o.elements(0) / (batch * seq * width), width, a.rotary_dims != 0 ? a.rotary_dims : width,
                   o.begin(dims[1]), a.rotary_base},
                  back);
}

}  // namespace

template <class T>
OpKernel<T> attention_kernel(OpKind kind) {
  switch (kind) {
    case OpKind::Attention:
      return [](const Operands<T>& o) { kernels::attention(o.in(0), o.out(0), attention_shape(o)); };
    case OpKind::AttentionBackward:
      return [](const Operands<T>& o) { kernels::attention_backward(o.in(0), o.in(1), o.out(0), attention_shape(o)); };
    case OpKind::GroupedAttention:
      return run_grouped<T>;
    case OpKind::GroupedAttentionBackward:
      return run_grouped_backward<T>;
    case OpKind::Rotary:
      return run_rotary<T, false>;
    case OpKind::RotaryBackward:
      return run_rotary<T, true>;
    default:
      return nullptr;
  }
}
template OpKernel<float> attention_kernel<float>(OpKind);
template OpKernel<double> attention_kernel<double>(OpKind);

}  // namespace meshwright
