// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/kernel_table.h"
#include "kernels/cpu/optimizer/loss_scaling.h"
#include "kernels/cpu/tokens/loss.h"

namespace meshwright {

namespace {

// Two operands, from number `first` on, where the loss is weighted: each row's weight, and what the weights of the
// whole batch add up to. The last one of all, where the loss is scaled: the scaling.
template <class T>
bool is_weighted(const Operands<T>& o, std::size_t first) {
  return o.inputs.size() >= first + 2;
}
template <class T>
const T* row_weights(const Operands<T>& o, std::size_t first) {
  return is_weighted(o, first) ? o.in(first) : nullptr;
}
template <class T>
double scale_of_terms(const Operands<T>& o, std::size_t first) {
  const Attributes& a = o.attributes();
  const double scale =
      a.loss_scale == 0.0 ? a.scale : a.scale * kernels::loss_scale(a.loss_scale, o.in(o.inputs.size() - 1));
  return is_weighted(o, first) ? scale / static_cast<double>(*o.in(first + 1)) : scale;
}

}  // namespace

template <class T>
OpKernel<T> loss_kernel(OpKind kind) {
  using K = OpKind;
  static const KernelTable<OpKernel<T>> table = {
      {K::RowMax, [](const Operands<T>& o) { kernels::row_max(o.in(0), o.out(0), o.rows(0), o.width(0)); }},
      {K::SumExp, [](const Operands<T>& o) { kernels::sum_exp(o.in(0), o.in(1), o.out(0), o.rows(0), o.width(0)); }},
      {K::PickLabel,
       [](const Operands<T>& o) {
         kernels::pick_label(o.in(0), o.integers(1), o.out(0), {o.rows(0), o.width(0), o.position()});
       }},
      {K::CrossEntropyLoss,
       [](const Operands<T>& o) {
         *o.out(0) = kernels::cross_entropy<T>(
             {.largest = o.in(0), .sum = o.in(1), .picked = o.in(2), .weights = row_weights(o, 3)}, o.elements(0),
             scale_of_terms(o, 3));
       }},
      {K::CrossEntropyBackward,
       [](const Operands<T>& o) {
         kernels::cross_entropy_backward(
             o.in(0), {.largest = o.in(1), .sum = o.in(2), .labels = o.integers(3), .weights = row_weights(o, 4)},
             o.out(0), {o.rows(0), o.width(0), o.position()}, scale_of_terms(o, 4));
       }},
      {K::SquaredErrorLoss,
       [](const Operands<T>& o) {
         *o.out(0) = kernels::squared_error(o.in(0), o.in(1), o.elements(0), o.attributes().scale);
       }},
      {K::SquaredErrorBackward,
       [](const Operands<T>& o) {
         kernels::squared_error_backward(o.in(0), o.in(1), o.out(0), o.elements(0), scale_of_terms(o, 2));
       }},
  };
  return table.of(kind);
}
template OpKernel<float> loss_kernel<float>(OpKind);
template OpKernel<double> loss_kernel<double>(OpKind);

}  // namespace meshwright
