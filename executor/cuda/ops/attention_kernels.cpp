// SPDX-License-Identifier: Apache-2.0
// Attention goes to cuDNN where the program is built with it and it takes the call, and to
// kernels/cuda/attention/attention.h where not.
#include "core/base/errors.h"
#include "executor/cuda/cuda_kernel_table.h"
#include "executor/ops/attention_call.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/attention_bias.h"
#include "kernels/cuda/attention/attention_cudnn.h"
#include "kernels/cuda/attention/rotary.h"

namespace meshwright {

namespace {

namespace cuda = kernels::cuda;
using Extra = Attributes::Extra;

// A bias by distance is laid out in the workspace.
template <class T>
cuda::AttentionCall<T> attention_call(const CudaOperands& o) {
  const kernels::AttentionShape shape = attention_shape(o);
  cuda::AttentionRule<T> rule = attention_rule<T, cuda::Wide<T>>(o, shape);
  const Extra extra = o.attributes().extra;
  require(extra != Extra::Mask, "the CUDA backend has no attention with a mask; run this model with --backend cpu.");
  if (extra == Extra::Sink) rule.sink = o.in<T>(3);
  if (extra == Extra::RelativeBias || extra == Extra::Alibi) {
    auto* const bias = o.workspace.take_array<cuda::Wide<T>>(shape.heads() * shape.distances());
    if (extra == Extra::RelativeBias)
      cuda::relative_bias(o.stream, o.in<T>(3), {o.in_size(3, 0), !rule.causal}, bias, shape, rule.first_position);
    else
      cuda::alibi_bias(o.stream, bias, shape, rule.first_position, attention_heads(o));
    rule.distance_bias = bias;
  }
  return {shape, attention_views<const T>(o, shape, [&](std::size_t i) { return o.in<T>(i); }), rule};
}

// Null: there is none for this type, or it must not be used.
template <class T>
cuda::CudnnAttention* attention_library(const CudaOperands& o) {
  if (sizeof(T) != 2 || o.attention == nullptr || !cuda::CudnnAttention::are_built()) return nullptr;
  if (!*o.attention) o.attention->emplace();
  return &**o.attention;
}

void run_attention(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    const cuda::AttentionCall<T> call = attention_call<T>(o);
    T* const out = o.out<T>(0);
    if (cuda::CudnnAttention* library = attention_library<T>(o); library != nullptr && library->runs<T>(call, out))
      return library->run<T>(o.stream, call, out, nullptr, o.workspace.take(library->workspace<T>(call)));
    cuda::attention(o.stream, call, out);
  });
}

void run_attention_backward(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    const cuda::AttentionCall<T> call = attention_call<T>(o);
    const kernels::AttentionShape& shape = call.shape;
    const bool relative = o.attributes().extra == Extra::RelativeBias;
    cuda::AttentionGradients<T> gradients{attention_views<T>(o, shape, [&](std::size_t i) { return o.out<T>(i); })};
    if (call.rule.sink != nullptr) gradients.sink = o.out<T>(3);
    if (relative) gradients.distance_bias = o.workspace.take_array<cuda::Wide<T>>(shape.heads() * shape.distances());
    const T* const dout = o.in<T>(o.inputs.size() - 1);
    // The op has no operand with the forward's results.
    if (cuda::CudnnAttention* library = attention_library<T>(o);
        library != nullptr && library->runs_backward<T>(call, dout, gradients))
      return library->run_backward<T>(o.stream, call, nullptr, nullptr, dout, gradients,
                                      o.workspace.take(library->backward_workspace<T>(call, gradients)));
    cuda::attention_backward(o.stream, call, dout, gradients,
                             o.workspace.take(cuda::attention_backward_workspace<T>(shape, relative)));
    if (relative)
      cuda::relative_bias_gradient(o.stream, gradients.distance_bias, {o.in_size(3, 0), !call.rule.causal}, o.out<T>(3),
                                   shape, call.rule.first_position);
  });
}

template <bool back>
void run_rotary(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    const std::vector<int>& dims = o.call.space.inputs[0];
    const std::int64_t batch = o.in_size(0, 0), seq = o.in_size(0, 1), width = o.width(0);
    const Attributes& a = o.attributes();
    cuda::rotary(o.stream, o.in<T>(0), o.out<T>(0),
                 {batch, seq, o.elements(0) / (batch * seq * width), width, a.rotary_dims != 0 ? a.rotary_dims : width,
                  o.begin(dims[1]), a.rotary_base, a.rotary_divisors.empty() ? nullptr : a.rotary_divisors.data(),
                  a.rotary_amplitude, a.rotary_interleaved},
                 back);
  });
}

}  // namespace

CudaKernel cuda_attention_kernel(OpKind kind) {
  using K = OpKind;
  static const KernelTable<CudaKernel> table = {
      {K::Attention, run_attention},
      {K::GroupedAttention, run_attention},
      {K::AttentionBackward, run_attention_backward},
      {K::GroupedAttentionBackward, run_attention_backward},
      {K::Rotary, run_rotary<false>},
      {K::RotaryBackward, run_rotary<true>},
  };
  return table.of(kind);
}

}  // namespace meshwright
