// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <type_traits>

#include "executor/cuda/cuda_kernel_table.h"
#include "executor/cuda/ops/operand_memory.h"
#include "kernels/cuda/tokens/loss.h"

namespace meshwright {

namespace {

namespace cuda = kernels::cuda;

// Operands as in executor/ops/loss_kernels.cpp: from number `first` on each row's weight and the weights' total where
// the loss is weighted; the last one of all, where the loss is scaled, the scaling.
bool is_weighted(const CudaOperands& o, std::size_t first) { return o.inputs.size() >= first + 2; }

template <class W>
const W* row_weights(const CudaOperands& o, std::size_t first) {
  return is_weighted(o, first) ? o.in<W>(first) : nullptr;
}
template <class W>
cuda::LossFactor<W> factor_of_terms(const CudaOperands& o, std::size_t first) {
  const Attributes& a = o.attributes();
  cuda::LossFactor<W> factor{.scale = a.scale};
  if (is_weighted(o, first)) factor.total = o.in<W>(first + 1);
  if (a.loss_scale != 0.0) {
    factor.first = a.loss_scale;
    factor.scaling = o.in<W>(o.inputs.size() - 1);
  }
  return factor;
}

// The type that input `number` is stored in must be what sums of T are kept in: an op of a graph can say otherwise only
// where no derivative made it.
template <class T>
void expect_wide(const CudaOperands& o, std::size_t number) {
  const bool wide =
      with_cuda_type(o.input_types[number], [](auto zero) { return std::is_same_v<decltype(zero), cuda::Wide<T>>; });
  MW_CHECK(wide, "operand {} of a loss of {} has the type {}", number, name_of(o.input_types[0]),
           name_of(o.input_types[number]));
}

// action(T{}) with the type of the first operand.
template <class Action>
void with_first(const CudaOperands& o, Action&& action) {
  with_cuda_type(o.input_types[0], std::forward<Action>(action));
}

void run_row_max(const CudaOperands& o) {
  with_first(o,
             [&]<class T>(T) { cuda::row_max(o.stream, o.in<T>(0), o.out<cuda::Wide<T>>(0), o.rows(0), o.width(0)); });
}

void run_sum_exp(const CudaOperands& o) {
  with_first(o, [&]<class T>(T) {
    using W = cuda::Wide<T>;
    expect_wide<T>(o, 1);
    cuda::sum_exp(o.stream, o.in<T>(0), o.in<W>(1), o.out<W>(0), o.rows(0), o.width(0));
  });
}

void run_pick_label(const CudaOperands& o) {
  with_first(o, [&]<class T>(T) {
    cuda::pick_label(o.stream, o.in<T>(0), o.integers(1), o.out<cuda::Wide<T>>(0),
                     {o.rows(0), o.width(0), o.position()});
  });
}

void run_cross_entropy(const CudaOperands& o) {
  with_first(o, [&]<class T>(T) {
    cuda::cross_entropy(
        o.stream, {.largest = o.in<T>(0), .sum = o.in<T>(1), .picked = o.in<T>(2), .weights = row_weights<T>(o, 3)},
        o.out<T>(0), o.elements(0), factor_of_terms<T>(o, 3), o.workspace.take(cuda::loss_workspace()));
  });
}

void run_cross_entropy_backward(const CudaOperands& o) {
  with_first(o, [&]<class T>(T) {
    using W = cuda::Wide<T>;
    for (std::size_t i = 1; i < o.inputs.size(); ++i)
      if (i != 3) expect_wide<T>(o, i);
    cuda::cross_entropy_backward(
        o.stream, o.in<T>(0),
        {.largest = o.in<W>(1), .sum = o.in<W>(2), .labels = o.integers(3), .weights = row_weights<W>(o, 4)},
        o.out<T>(0), {o.rows(0), o.width(0), o.position()}, factor_of_terms<W>(o, 4));
  });
}

void run_squared_error(const CudaOperands& o) {
  with_first(o, [&]<class T>(T) {
    cuda::squared_error(o.stream, o.in<T>(0), o.in<T>(1), o.out<cuda::Wide<T>>(0), o.elements(0), o.attributes().scale,
                        o.workspace.take(cuda::loss_workspace()));
  });
}

void run_squared_error_backward(const CudaOperands& o) {
  with_first(o, [&]<class T>(T) {
    if (o.inputs.size() > 2) expect_wide<T>(o, 2);
    cuda::squared_error_backward(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), o.elements(0),
                                 factor_of_terms<cuda::Wide<T>>(o, 2));
  });
}

// --- what a loss wants of the logits, in one pass ---

// Whether the op's result lies apart from everything that the held ops and itself read or write.
bool writes_apart(std::span<const CudaOperands> held, const CudaOperands& next) {
  const void* const result = next.outputs[0];
  const std::size_t bytes = bytes_out(next);
  const auto apart = [&](const CudaOperands& o) {
    for (std::size_t i = 0; i < o.inputs.size(); ++i)
      if (!lie_apart(o.inputs[i], bytes_in(o, i), result, bytes)) return false;
    return &o == &next || lie_apart(o.outputs[0], bytes_out(o), result, bytes);
  };
  return std::ranges::all_of(held, apart) && apart(next);
}

bool may_begin_rows(const CudaOperands& o) { return writes_apart({}, o); }

// Between parts of the classes the maxima are combined first, so that a sum that follows at once is of all classes.
bool may_follow_rows(std::span<const CudaOperands> held, const CudaOperands& next) {
  const CudaOperands& maxima = held.front();
  if (next.inputs[0] != maxima.inputs[0] || next.input_types[0] != maxima.input_types[0]) return false;
  if (next.rows(0) != maxima.rows(0) || next.width(0) != maxima.width(0)) return false;
  if (held.size() == 1) {
    if (next.call.kind != OpKind::SumExp || next.inputs[1] != maxima.outputs[0]) return false;
    if (next.input_types[1] != maxima.output_types[0]) return false;
  } else if (held.size() > 2 || next.call.kind != OpKind::PickLabel || next.position() != 0) {
    return false;
  }
  return next.output_types[0] == maxima.output_types[0] && writes_apart(held, next);
}

void run_rows(std::span<const CudaOperands> held) {
  const CudaOperands& maxima = held.front();
  if (held.size() == 1) return run_row_max(maxima);
  with_first(maxima, [&]<class T>(T) {
    using W = cuda::Wide<T>;
    expect_wide<T>(held[1], 1);
    const bool picks = held.size() > 2;
    cuda::cross_entropy_rows(
        maxima.stream, maxima.in<T>(0), picks ? held[2].integers(1) : nullptr,
        {.largest = maxima.out<W>(0), .sum = held[1].out<W>(0), .picked = picks ? held[2].out<W>(0) : nullptr},
        {maxima.rows(0), maxima.width(0), 0});
  });
}

}  // namespace

const CudaTogether* cuda_losses_together(OpKind kind) {
  static constexpr CudaTogether kRows{may_begin_rows, may_follow_rows, run_rows, name_of_first, true};
  return kind == OpKind::RowMax ? &kRows : nullptr;
}

CudaKernel cuda_loss_kernel(OpKind kind) {
  using K = OpKind;
  static const KernelTable<CudaKernel> table = {
      {K::RowMax, run_row_max},
      {K::SumExp, run_sum_exp},
      {K::PickLabel, run_pick_label},
      {K::CrossEntropyLoss, run_cross_entropy},
      {K::CrossEntropyBackward, run_cross_entropy_backward},
      {K::SquaredErrorLoss, run_squared_error},
      {K::SquaredErrorBackward, run_squared_error_backward},
  };
  return table.of(kind);
}

}  // namespace meshwright
