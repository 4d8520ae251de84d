// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/kernel_table.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/optimizer.h"

namespace meshwright {

namespace {

// With a master copy the master is what is updated; the weight follows it.
template <class T>
void run_sgd(const Operands<T>& o) {
  const std::size_t master = o.inputs.size() == 3 ? 1 : 0;
  kernels::sgd_update(o.out(master), master == 1 ? o.out(0) : nullptr, o.in(master + 1), o.elements(0),
                      o.attributes().learning_rate);
}

template <class T>
void run_adam(const Operands<T>& o) {
  const Attributes& a = o.attributes();
  const std::size_t master = o.inputs.size() == 5 ? 1 : 0;
  kernels::adam_update(o.out(master), master == 1 ? o.out(0) : nullptr, o.out(master + 1), o.out(master + 2),
                       o.in(master + 3), o.elements(0), {a.learning_rate, a.beta1, a.beta2, a.epsilon, o.moment.step});
}

}  // namespace

template <class T>
OpKernel<T> optimizer_kernel(OpKind kind) {
  switch (kind) {
    case OpKind::Accumulate:
      return [](const Operands<T>& o) { kernels::accumulate(o.out(0), o.in(1), o.elements(0)); };
    case OpKind::SgdUpdate:
      return run_sgd<T>;
    case OpKind::AdamUpdate:
      return run_adam<T>;
    default:
      return nullptr;
  }
}
template OpKernel<float> optimizer_kernel<float>(OpKind);
template OpKernel<double> optimizer_kernel<double>(OpKind);

}  // namespace meshwright
