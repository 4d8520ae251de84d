// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "executor/ops/attention_rule.h"
#include "kernels/cpu/attention/rotary.h"

namespace meshwright {

namespace {

using Extra = Attributes::Extra;

template <class T>
kernels::AttentionCall<T> attention_call(const Operands<T>& o, std::vector<T>& bias) {
  const kernels::AttentionShape shape = attention_shape(o);
  return {shape, attention_views<const T>(o, shape, [&](std::size_t i) { return o.in(i); }),
          whole_attention_rule(o, shape, bias)};
}

template <class T>
void run_attention(const Operands<T>& o) {
  std::vector<T> bias;
  kernels::attention(attention_call(o, bias), o.out(0));
}

template <class T>
void run_attention_backward(const Operands<T>& o) {
  std::vector<T> bias;
  const kernels::AttentionCall<T> call = attention_call(o, bias);
  const Extra extra = o.attributes().extra;
  std::vector<double> extra_gradient;
  if (extra == Extra::Sink) extra_gradient.resize(static_cast<std::size_t>(call.shape.heads()));
  if (extra == Extra::RelativeBias) extra_gradient.resize(bias.size());
  const kernels::AttentionGradients<T> gradients{
      attention_views<T>(o, call.shape, [&](std::size_t i) { return o.out(i); }),
      extra == Extra::Sink ? extra_gradient.data() : nullptr,
      extra == Extra::RelativeBias ? extra_gradient.data() : nullptr};
  const T* dout = o.in(o.inputs.size() - 1);
  kernels::attention_backward(call, dout, gradients);
  if (extra == Extra::RelativeBias)
    kernels::relative_bias_gradient(extra_gradient.data(), {o.in_size(3, 0), !call.rule.causal}, o.out(3), call.shape,
                                    call.rule.first_position);
  if (extra == Extra::Sink)
    for (std::size_t h = 0; h < extra_gradient.size(); ++h) o.out(3)[h] = static_cast<T>(extra_gradient[h]);
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
  using K = OpKind;
  static const KernelTable<OpKernel<T>> table = {
      {K::Attention, run_attention<T>},
      {K::GroupedAttention, run_attention<T>},
      {K::AttentionBackward, run_attention_backward<T>},
      {K::GroupedAttentionBackward, run_attention_backward<T>},
      {K::Rotary, run_rotary<T, false>},
      {K::RotaryBackward, run_rotary<T, true>},
  };
  return table.of(kind);
}
template OpKernel<float> attention_kernel<float>(OpKind);
template OpKernel<double> attention_kernel<double>(OpKind);

}  // namespace meshwright
