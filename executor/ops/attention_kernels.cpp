// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "executor/ops/attention_rule.h"
#include "kernels/cpu/attention/rotary.h"
#include "kernels/cpu/attention/selected_attention.h"

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

template <class T>
void run_index_scores(const Operands<T>& o) {
  kernels::index_scores(o.in(0), o.in(1), o.in(2), o.out(0),
                        {o.in_size(0, 0), o.in_size(0, 1), o.in_size(1, 1), o.in_size(0, 2), o.in_size(0, 3)});
}

// The queries are the last positions of the keys.
template <class T>
void run_top_k_keys(const Operands<T>& o) {
  const std::vector<int>& scores = o.call.space.inputs[0];
  if (const std::vector<std::int64_t>& window = o.attributes().window; !window.empty())
    return kernels::top_k_blocks(o.in(0), o.integers_out(0),
                                 {o.in_size(0, 0), o.in_size(0, 1), o.in_size(0, 2), o.in_size(0, 3),
                                  o.attributes().top_k, window[0], window[1], o.begin(scores[1])});
  kernels::top_k_keys(o.in(0), o.integers_out(0),
                      {o.in_size(0, 0), o.in_size(0, 1), o.in_size(0, 2), o.attributes().top_k,
                       o.attributes().stride.empty() ? o.begin(scores[1]) + o.whole(scores[2]) - o.whole(scores[1])
                                                     : o.begin(scores[1]),
                       o.attributes().stride.empty() ? 1 : o.attributes().stride[0], o.attributes().attention_window});
}

template <class T>
kernels::SelectedCall<T> selected_call(const Operands<T>& o) {
  const kernels::AttentionShape shape = attention_shape(o);
  const std::size_t last = o.call.space.inputs[3].size() - 1;
  const T* sink = o.attributes().extra == Extra::Sink ? o.in(4) : nullptr;
  return {shape, o.in_size(3, last), attention_rule<T>(o, shape).scale, o.in(0), o.in(1), o.in(2), o.integers(3),
          sink,  last == 3};
}

template <class T>
void run_selected(const Operands<T>& o) {
  kernels::selected_attention(selected_call(o), o.out(0));
}

template <class T>
void run_selected_backward(const Operands<T>& o) {
  T* dsink = o.attributes().extra == Extra::Sink ? o.out(3) : nullptr;
  kernels::selected_attention_backward(selected_call(o), o.in(o.inputs.size() - 1), o.out(0), o.out(1), o.out(2),
                                       dsink);
}

template <class T, bool back>
void run_rotary(const Operands<T>& o) {
  const std::vector<int>& dims = o.call.space.inputs[0];
  const std::int64_t batch = o.in_size(0, 0), seq = o.in_size(0, 1), width = o.width(0);
  const Attributes& a = o.attributes();
  kernels::rotary(o.in(0), o.out(0),
                  {batch, seq, o.elements(0) / (batch * seq * width), width, a.rotary_dims != 0 ? a.rotary_dims : width,
                   o.begin(dims[1]), a.rotary_base, a.rotary_divisors.empty() ? nullptr : a.rotary_divisors.data(),
                   a.rotary_amplitude, a.rotary_interleaved},
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
      {K::IndexScores, run_index_scores<T>},
      {K::TopKKeys, run_top_k_keys<T>},
      {K::SelectedAttention, run_selected<T>},
      {K::SelectedAttentionBackward, run_selected_backward<T>},
      {K::Rotary, run_rotary<T, false>},
      {K::RotaryBackward, run_rotary<T, true>},
  };
  return table.of(kind);
}
template OpKernel<float> attention_kernel<float>(OpKind);
template OpKernel<double> attention_kernel<double>(OpKind);

}  // namespace meshwright
