// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "executor/cuda/cuda_kernel_table.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/attention_bias.h"
#include "kernels/cuda/attention/rotary.h"

namespace meshwright {

namespace {

namespace cuda = kernels::cuda;
using Extra = Attributes::Extra;

cuda::AttentionShape attention_shape(const CudaOperands& o) {
  return {o.in_size(0, 0), o.in_size(0, 1), o.in_size(0, 3), o.in_size(0, 4)};
}

void run_attention(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using T = decltype(zero);
    cuda::attention(o.stream, o.in<T>(0), o.out<T>(0), attention_shape(o));
  });
}

void run_attention_backward(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using T = decltype(zero);
    const cuda::AttentionShape shape = attention_shape(o);
    cuda::attention_backward(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), shape,
                             o.workspace.take(cuda::attention_backward_workspace<T>(shape)));
  });
}

cuda::GroupedShape grouped_shape(const CudaOperands& o) {
  return {o.in_size(0, 0), o.in_size(0, 1), o.in_size(1, 1), o.in_size(0, 2),
          o.in_size(0, 3), o.in_size(0, 4), o.in_size(2, 3)};
}

// The shard's rule; a bias by distance is laid out in the workspace.
template <class T>
cuda::AttentionRule<T> attention_rule(const CudaOperands& o, const cuda::GroupedShape& shape) {
  const Attributes& a = o.attributes();
  const std::vector<int>&q = o.call.space.inputs[0], &k = o.call.space.inputs[1];
  const double scale = a.scale != 1.0 ? a.scale : 1.0 / std::sqrt(static_cast<double>(shape.key_dim));
  // The queries are the last positions of the keys.
  const std::int64_t position = o.begin(q[1]) + o.whole(k[1]) - o.whole(q[1]);
  cuda::AttentionRule<T> rule{scale, a.causal, a.attention_window, position};
  if (a.extra == Extra::Sink) rule.sink = o.in<T>(3);
  if (a.extra != Extra::RelativeBias && a.extra != Extra::Alibi) return rule;
  auto* const bias = o.workspace.take_array<cuda::Wide<T>>(shape.heads() * shape.distances());
  if (a.extra == Extra::RelativeBias)
    cuda::relative_bias(o.stream, o.in<T>(3), o.in_size(3, 0), !a.causal, bias, shape, position);
  else
    cuda::alibi_bias(o.stream, bias, shape, position, {o.begin(q[2]), o.begin(q[3]), o.whole(q[2]), o.whole(q[3])});
  rule.distance_bias = bias;
  return rule;
}

void run_grouped(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using T = decltype(zero);
    const cuda::GroupedShape shape = grouped_shape(o);
    cuda::grouped_attention(o.stream, o.in<T>(0), o.in<T>(1), o.in<T>(2), o.out<T>(0), shape,
                            attention_rule<T>(o, shape));
  });
}

void run_grouped_backward(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using T = decltype(zero);
    const cuda::GroupedShape shape = grouped_shape(o);
    const cuda::AttentionRule<T> rule = attention_rule<T>(o, shape);
    const bool relative = o.attributes().extra == Extra::RelativeBias;
    cuda::ExtraGradients<T> extras;
    if (rule.sink != nullptr) extras.sink = o.out<T>(3);
    if (relative) extras.distance_bias = o.workspace.take_array<cuda::Wide<T>>(shape.heads() * shape.distances());
    cuda::grouped_attention_backward(o.stream, o.in<T>(0), o.in<T>(1), o.in<T>(2), o.in<T>(o.inputs.size() - 1),
                                     o.out<T>(0), o.out<T>(1), o.out<T>(2), extras, shape, rule,
                                     o.workspace.take(cuda::grouped_attention_backward_workspace<T>(shape, relative)));
    if (relative)
      cuda::relative_bias_gradient(o.stream, extras.distance_bias, o.in_size(3, 0), !o.attributes().causal, o.out<T>(3),
                                   shape, rule.first_position);
  });
}

template <bool back>
void run_rotary(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using T = decltype(zero);
    const std::vector<int>& dims = o.call.space.inputs[0];
    const std::int64_t batch = o.in_size(0, 0), seq = o.in_size(0, 1), width = o.width(0);
    const Attributes& a = o.attributes();
    cuda::rotary(o.stream, o.in<T>(0), o.out<T>(0),
                 {batch, seq, o.elements(0) / (batch * seq * width), width, a.rotary_dims != 0 ? a.rotary_dims : width,
                  o.begin(dims[1]), a.rotary_base},
                 back);
  });
}

}  // namespace

CudaKernel cuda_attention_kernel(OpKind kind) {
  switch (kind) {
    case OpKind::Attention:
      return run_attention;
    case OpKind::AttentionBackward:
      return run_attention_backward;
    case OpKind::GroupedAttention:
      return run_grouped;
    case OpKind::GroupedAttentionBackward:
      return run_grouped_backward;
    case OpKind::Rotary:
      return run_rotary<false>;
    case OpKind::RotaryBackward:
      return run_rotary<true>;
    default:
      return nullptr;
  }
}

}  // namespace meshwright
