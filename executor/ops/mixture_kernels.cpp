// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/kernel_table.h"
#include "kernels/cpu/tokens/mixture.h"

namespace meshwright {

namespace {

// The shape of an op with slots (batch, seq, expert) and a buffer (expert, batch, capacity, embed).
template <class T>
kernels::MixtureShape mixture_shape(const Operands<T>& o, std::size_t slots, const std::vector<int>& buffer) {
  return {o.in_size(slots, 0), o.in_size(slots, 1), o.in_size(slots, 2), o.size(buffer[2]), o.size(buffer[3])};
}
template <class T>
kernels::MixtureShape buffer_in(const Operands<T>& o, std::size_t slots, std::size_t buffer) {
  return mixture_shape(o, slots, o.call.space.inputs[buffer]);
}
template <class T>
kernels::MixtureShape buffer_out(const Operands<T>& o, std::size_t slots) {
  return mixture_shape(o, slots, o.call.space.outputs[0]);
}

}  // namespace

template <class T>
OpKernel<T> mixture_kernel(OpKind kind) {
  using K = OpKind;
  constexpr const T* kNoWeights = nullptr;
  static const KernelTable<OpKernel<T>> table = {
      {K::TopKSlots,
       [](const Operands<T>& o) {
         const Attributes& a = o.attributes();
         kernels::top_k_slots(o.in(0), o.integers_out(0),
                              {o.in_size(0, 0), o.in_size(0, 1), o.in_size(0, 2), a.capacity, 1}, a.top_k);
       }},
      {K::GateWeights,
       [](const Operands<T>& o) {
         kernels::gate_weights(o.in(0), o.integers(1), o.out(0), {o.rows(0), o.width(0), o.attributes().normalize});
       }},
      {K::GateWeightsBackward,
       [](const Operands<T>& o) {
         kernels::gate_weights_backward(o.in(0), o.integers(1), o.in(2), o.out(0),
                                        {o.rows(0), o.width(0), o.attributes().normalize});
       }},
      {K::Dispatch,
       [](const Operands<T>& o) {
         kernels::scatter_tokens(o.in(0), o.integers(1), kNoWeights, o.out(0), buffer_out(o, 1));
       }},
      {K::DispatchBackward,
       [](const Operands<T>& o) {
         kernels::gather_tokens(o.in(1), o.integers(0), kNoWeights, o.out(0), buffer_in(o, 0, 1));
       }},
      {K::Combine,
       [](const Operands<T>& o) {
         kernels::gather_tokens(o.in(0), o.integers(1), o.in(2), o.out(0), buffer_in(o, 1, 0));
       }},
      {K::CombineBackward,
       [](const Operands<T>& o) {
         kernels::scatter_tokens(o.in(2), o.integers(0), o.in(1), o.out(0), buffer_out(o, 0));
       }},
      {K::CombineWeightsBackward,
       [](const Operands<T>& o) {
         kernels::gather_weights_backward(o.in(0), o.integers(1), o.in(2), o.out(0), buffer_in(o, 1, 0));
       }},
      {K::OneHotSlots,
       [](const Operands<T>& o) {
         kernels::one_hot_slots(o.integers(0), o.out(0), {o.rows(0), o.out_size(0, 2), o.width(0), o.position()});
       }},
  };
  return table.of(kind);
}
template OpKernel<float> mixture_kernel<float>(OpKind);
template OpKernel<double> mixture_kernel<double>(OpKind);

}  // namespace meshwright
