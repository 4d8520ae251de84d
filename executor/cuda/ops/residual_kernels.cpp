// SPDX-License-Identifier: Apache-2.0
// A residual sum and the norm that reads it, and the norm's derivative and the sum with the residual's gradient, each
// in one pass (kernels/cuda/norms/residual_norms.h). A sum at the end of a product is the product's.
#include <algorithm>

#include "executor/cuda/cuda_kernel_table.h"
#include "executor/cuda/ops/operand_memory.h"
#include "kernels/cuda/norms/residual_norms.h"

namespace meshwright {

namespace {

using kernels::Norm;

bool is_norm(OpKind kind) { return kind == OpKind::LayerNorm || kind == OpKind::RmsNorm; }
bool is_norm_backward(OpKind kind) { return kind == OpKind::LayerNormBackward || kind == OpKind::RmsNormBackward; }

kernels::NormShape shape_of_norm(const CudaOperands& o) { return {o.rows(0), o.width(0), o.attributes().epsilon}; }

// action(norm as a std::integral_constant) with that of the kind.
template <class Action>
bool with_norm(OpKind kind, Action action) {
  if (kind == OpKind::LayerNorm || kind == OpKind::LayerNormBackward)
    return action(std::integral_constant<Norm, Norm::Layer>{});
  return action(std::integral_constant<Norm, Norm::Rms>{});
}

// A result of a pass may lie where one of its operands of the same size does, and nowhere else in them: a block that
// the host has released since may be the result's.
bool may_lie_in(const CudaOperands& o, std::size_t i, const void* result, std::size_t bytes) {
  return (o.inputs[i] == result && bytes_in(o, i) == bytes) || lie_apart(o.inputs[i], bytes_in(o, i), result, bytes);
}
bool lies_apart(const CudaOperands& o, std::size_t i, const void* result, std::size_t bytes) {
  return lie_apart(o.inputs[i], bytes_in(o, i), result, bytes);
}

// --- forward ---

bool may_begin_sum(const CudaOperands& o) {
  return o.inputs[0] != o.inputs[1] && o.elements(0) == o.elements(1) && o.input_types[0] == o.output_types[0];
}

bool may_follow_sum(std::span<const CudaOperands> held, const CudaOperands& next) {
  const CudaOperands& sum = held.front();
  if (held.size() > 1 || !is_norm(next.call.kind) || next.inputs[0] != sum.outputs[0]) return false;
  if (next.elements(0) != sum.elements(0) || next.elements(1) != next.width(0)) return false;
  if (std::ranges::any_of(next.input_types, [&](DType type) { return type != sum.input_types[0]; })) return false;
  const void* const result = next.outputs[0];
  const std::size_t bytes = bytes_out(next);
  bool apart = lie_apart(sum.outputs[0], bytes_out(sum), result, bytes);
  for (std::size_t i = 1; i < next.inputs.size(); ++i) apart = apart && lies_apart(next, i, result, bytes);
  return apart && may_lie_in(sum, 0, result, bytes) && may_lie_in(sum, 1, result, bytes);
}

void run_sum_and_norm(std::span<const CudaOperands> held) {
  const CudaOperands& sum = held.front();
  if (held.size() == 2) {
    const CudaOperands& norm = held[1];
    const bool done = with_norm(norm.call.kind, [&](auto kind) {
      return with_cuda_type(sum.input_types[0], [&]<class T>(T) {
        const T* const beta = kind() == Norm::Layer ? norm.in<T>(2) : nullptr;
        return kernels::cuda::row_norm_of_sum<kind()>(sum.stream, sum.in<T>(0), sum.in<T>(1), sum.out<T>(0),
                                                      norm.in<T>(1), beta, norm.out<T>(0), shape_of_norm(norm));
      });
    });
    if (done) return;
  }
  cuda_elementwise_kernel(sum.call.kind)(sum);
  if (held.size() == 2) cuda_normalization_kernel(held[1].call.kind)(held[1]);
}

// --- backward ---

bool may_begin_norm_backward(const CudaOperands& o) {
  return o.call.one_reader && o.elements(1) == o.width(0) && o.input_types[0] == o.output_types[0] &&
         o.input_types[1] == o.input_types[0] && o.input_types[2] == o.input_types[0];
}

bool may_follow_norm_backward(std::span<const CudaOperands> held, const CudaOperands& next) {
  const CudaOperands& norm = held.front();
  const void* const left = norm.outputs[0];
  if (held.size() > 1 || next.call.kind != OpKind::Add || next.inputs[0] == next.inputs[1]) return false;
  if (next.inputs[0] != left && next.inputs[1] != left) return false;
  if (next.input_types[0] != norm.input_types[0] || next.input_types[1] != norm.input_types[0]) return false;
  if (next.elements(0) != norm.elements(0) || next.elements(1) != norm.elements(0)) return false;
  const void* const result = next.outputs[0];
  const std::size_t bytes = bytes_out(next);
  return may_lie_in(norm, 0, result, bytes) && lies_apart(norm, 1, result, bytes) &&
         may_lie_in(norm, 2, result, bytes) && may_lie_in(next, added_operand(next, left), result, bytes);
}

// Gradients of the norm's parameters stand between, and their sums: of other results, in memory of their own.
bool may_pass_norm_backward(std::span<const CudaOperands> held, const CudaOperands& next) {
  if (held.size() > 1) return false;
  const OpKind kind = next.call.kind;
  if (kind != OpKind::LayerNormParamBackward && kind != OpKind::RmsNormParamBackward && kind != OpKind::Accumulate)
    return false;
  const CudaOperands& norm = held.front();
  const std::size_t left = bytes_out(norm);
  for (std::size_t i = 0; i < next.inputs.size(); ++i)
    if (!lies_apart(next, i, norm.outputs[0], left)) return false;
  for (std::size_t r = 0; r < next.outputs.size(); ++r) {
    if (!lie_apart(norm.outputs[0], left, next.outputs[r], bytes_out(next, r))) return false;
    for (std::size_t i = 0; i < norm.inputs.size(); ++i)
      if (!lies_apart(norm, i, next.outputs[r], bytes_out(next, r))) return false;
  }
  return true;
}

void run_norm_backward_and_sum(std::span<const CudaOperands> held) {
  const CudaOperands& norm = held.front();
  if (held.size() == 2) {
    const CudaOperands& sum = held[1];
    const std::size_t residual = added_operand(sum, norm.outputs[0]);
    const bool done = with_norm(norm.call.kind, [&](auto kind) {
      return with_cuda_type(norm.input_types[0], [&]<class T>(T) {
        return kernels::cuda::row_norm_backward_and_sum<kind()>(norm.stream, norm.in<T>(0), norm.in<T>(1),
                                                                norm.in<T>(2), sum.in<T>(residual), sum.out<T>(0),
                                                                shape_of_norm(norm));
      });
    });
    if (done) return;
  }
  cuda_normalization_kernel(norm.call.kind)(norm);
  if (held.size() == 2) cuda_elementwise_kernel(held[1].call.kind)(held[1]);
}

}  // namespace

const CudaTogether* cuda_residuals_together(OpKind kind) {
  static constexpr CudaTogether kForward{may_begin_sum, may_follow_sum, run_sum_and_norm, name_of_first, true};
  static constexpr CudaTogether kBackward{
      may_begin_norm_backward, may_follow_norm_backward, run_norm_backward_and_sum, name_of_first, true,
      may_pass_norm_backward};
  if (kind == OpKind::Add) return &kForward;
  return is_norm_backward(kind) ? &kBackward : nullptr;
}

}  // namespace meshwright
