// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/cuda_kernel_table.h"
#include "kernels/cuda/tokens/mixture.h"

namespace meshwright {

namespace {

namespace cuda = kernels::cuda;

// The shape of an op with slots (batch, seq, expert) and a buffer (expert, batch, capacity, embed).
kernels::MixtureShape mixture_shape(const CudaOperands& o, std::size_t slots, const std::vector<int>& buffer) {
  return {o.in_size(slots, 0), o.in_size(slots, 1), o.in_size(slots, 2), o.size(buffer[2]), o.size(buffer[3])};
}
kernels::MixtureShape buffer_in(const CudaOperands& o, std::size_t slots, std::size_t buffer) {
  return mixture_shape(o, slots, o.call.space.inputs[buffer]);
}

void run_top_k_slots(const CudaOperands& o) {
  const Attributes& a = o.attributes();
  const kernels::MixtureShape shape{o.in_size(0, 0), o.in_size(0, 1), o.in_size(0, 2), a.capacity, 1};
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    cuda::top_k_slots(o.stream, o.in<T>(0), o.integers_out(0), shape, a.top_k,
                      o.workspace.take_array<std::int32_t>(shape.batch * shape.seq * a.top_k));
  });
}

void run_gate_weights(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    cuda::gate_weights(o.stream, o.in<T>(0), o.integers(1), o.out<T>(0),
                       {o.rows(0), o.width(0), o.attributes().normalize});
  });
}

void run_gate_weights_backward(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    cuda::gate_weights_backward(o.stream, o.in<T>(0), o.integers(1), o.in<T>(2), o.out<T>(0),
                                {o.rows(0), o.width(0), o.attributes().normalize});
  });
}

// Tokens and slots are the inputs of these numbers; weights too, unless it is 0: there is none.
template <std::size_t tokens, std::size_t slots, std::size_t weights>
void run_scatter(const CudaOperands& o) {
  with_cuda_type(o.input_types[tokens], [&]<class T>(T) {
    const kernels::MixtureShape shape = mixture_shape(o, slots, o.call.space.outputs[0]);
    const T* given = nullptr;
    if constexpr (weights > 0) given = o.in<T>(weights);
    cuda::scatter_tokens(o.stream, o.in<T>(tokens), o.integers(slots), given, o.out<T>(0), shape,
                         o.workspace.take_array<std::int32_t>(shape.experts * shape.batch * shape.capacity));
  });
}
template <std::size_t buffer, std::size_t slots, std::size_t weights>
void run_gather(const CudaOperands& o) {
  with_cuda_type(o.input_types[buffer], [&]<class T>(T) {
    const T* given = nullptr;
    if constexpr (weights > 0) given = o.in<T>(weights);
    cuda::gather_tokens(o.stream, o.in<T>(buffer), o.integers(slots), given, o.out<T>(0), buffer_in(o, slots, buffer));
  });
}

void run_combine_weights_backward(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    cuda::gather_weights_backward(o.stream, o.in<T>(0), o.integers(1), o.in<T>(2), o.out<T>(0), buffer_in(o, 1, 0));
  });
}

void run_one_hot_slots(const CudaOperands& o) {
  with_cuda_type(o.output_types[0], [&]<class T>(T) {
    cuda::one_hot_slots(o.stream, o.integers(0), o.out<T>(0), {o.rows(0), o.out_size(0, 2), o.width(0), o.position()});
  });
}

}  // namespace

CudaKernel cuda_mixture_kernel(OpKind kind) {
  using K = OpKind;
  static const KernelTable<CudaKernel> table = {
      {K::TopKSlots, run_top_k_slots},
      {K::GateWeights, run_gate_weights},
      {K::GateWeightsBackward, run_gate_weights_backward},
      {K::Dispatch, run_scatter<0, 1, 0>},
      {K::DispatchBackward, run_gather<1, 0, 0>},
      {K::Combine, run_gather<0, 1, 2>},
      {K::CombineBackward, run_scatter<2, 0, 1>},
      {K::CombineWeightsBackward, run_combine_weights_backward},
      {K::OneHotSlots, run_one_hot_slots},
  };
  return table.of(kind);
}

}  // namespace meshwright
