// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/kernel_table.h"
#include "kernels/cpu/elementwise/elementwise.h"

namespace meshwright {

namespace {

std::int64_t product(const std::vector<int>& dims, const std::vector<std::int64_t>& sizes) {
  std::int64_t total = 1;
  for (const int axis : dims) total *= sizes[static_cast<std::size_t>(axis)];
  return total;
}

// The bias covers the trailing dimensions of x; a selecting bias also reaches over the one before, and acts on its
// index 0.
struct BiasShape {
  std::int64_t rows, width, bias_width;
};
template <class T>
BiasShape bias_shape(const Operands<T>& o, const std::vector<int>& bias) {
  const std::vector<int>& x = o.call.space.inputs[0];
  const std::int64_t bias_width = product(bias, o.call.sizes);
  std::int64_t width = bias_width;
  if (o.call.attributes.bias_select) width *= o.size(x[x.size() - bias.size() - 1]);
  return {o.elements(0) / width, width, bias_width};
}

template <class T>
void run_bias_add(const Operands<T>& o) {
  const auto [rows, width, bias_width] = bias_shape(o, o.call.space.inputs[1]);
  kernels::bias_add(o.in(0), o.in(1), o.out(0), {rows, width, bias_width});
}

template <class T>
void run_bias_gradient(const Operands<T>& o) {
  const auto [rows, width, bias_width] = bias_shape(o, o.call.space.outputs[0]);
  kernels::bias_gradient(o.in(0), o.out(0), {rows, width, bias_width});
}

}  // namespace

template <class T>
OpKernel<T> contraction_kernel(OpKind kind) {
  switch (kind) {
    case OpKind::Contract:
      return [](const Operands<T>& o) { run_contraction(o.call.contraction, o.in(0), o.in(1), o.out(0)); };
    case OpKind::BiasAdd:
      return run_bias_add<T>;
    case OpKind::BiasGradient:
      return run_bias_gradient<T>;
    default:
      return nullptr;
  }
}
template OpKernel<float> contraction_kernel<float>(OpKind);
template OpKernel<double> contraction_kernel<double>(OpKind);

}  // namespace meshwright
