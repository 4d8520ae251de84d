// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "executor/ops/kernel_table.h"
#include "kernels/cpu/optimizer/loss_scaling.h"
#include "kernels/cpu/optimizer/optimizer.h"

namespace meshwright {

namespace {

// Operands of an update: the weight, its master copy where it has one, states, the gradient, the sum of all gradients'
// squares where they are clipped or scaled, and the scaling where they are scaled. With a master copy the master is
// what is updated; the weight follows it.
template <class T>
struct Update {
  const Operands<T>& o;
  std::size_t states;

  bool clips() const { return o.attributes().max_norm > 0.0; }
  bool scaled() const { return o.attributes().loss_scale > 0.0; }
  std::size_t gradient_index() const {
    return o.inputs.size() - 1 - (clips() || scaled() ? 1 : 0) - (scaled() ? 1 : 0);
  }
  std::size_t master() const { return gradient_index() - states - 1; }
  T* weight() const { return o.out(master()); }
  T* copy() const { return master() == 1 ? o.out(0) : nullptr; }
  T* state(std::size_t k) const { return o.out(master() + 1 + k); }
  const T* gradient() const { return o.in(gradient_index()); }
  double squares() const { return static_cast<double>(*o.in(gradient_index() + 1)); }
  const T* scaling() const { return o.in(gradient_index() + 2); }
  bool is_left_out() const { return scaled() && !std::isfinite(squares()); }
  // The number of steps that were not skipped.
  std::int64_t step() const { return o.moment.step - (scaled() ? static_cast<std::int64_t>(scaling()[2]) : 0); }
  double factor() const {
    const double scale = scaled() ? kernels::loss_scale(o.attributes().loss_scale, scaling()) : 1.0;
    return kernels::gradient_factor(clips() ? squares() : 0.0, scale, o.attributes().max_norm);
  }
  template <class Settings>
  void run(const Settings& settings) const {
    if (is_left_out()) return;
    kernels::update<T>(
        {weight(), copy(), states > 0 ? state(0) : nullptr, states > 1 ? state(1) : nullptr, gradient(), o.elements(0)},
        settings, factor());
  }
};

template <class T>
void run_sgd(const Operands<T>& o) {
  const Attributes& a = o.attributes();
  Update<T>{o, 0}.run(kernels::SgdSettings{a.learning_rate, a.weight_decay});
}

template <class T>
void run_momentum(const Operands<T>& o) {
  const Attributes& a = o.attributes();
  Update<T>{o, 1}.run(kernels::MomentumSettings{a.learning_rate, a.momentum, a.weight_decay});
}

template <class T>
void run_adam(const Operands<T>& o) {
  const Attributes& a = o.attributes();
  const Update<T> u{o, 2};
  u.run(kernels::AdamSettings{a.learning_rate, a.beta1, a.beta2, a.epsilon, u.step(), a.weight_decay});
}

}  // namespace

template <class T>
OpKernel<T> optimizer_kernel(OpKind kind) {
  using K = OpKind;
  static const KernelTable<OpKernel<T>> table = {
      {K::Accumulate, [](const Operands<T>& o) { kernels::accumulate(o.out(0), o.in(1), o.elements(0)); }},
      {K::SumSquares,
       [](const Operands<T>& o) { *o.out(0) = static_cast<T>(kernels::sum_squares(o.in(0), o.elements(0))); }},
      {K::ScalingUpdate,
       [](const Operands<T>& o) {
         kernels::update_scaling(o.out(0), std::isfinite(*o.in(1)), o.attributes().growth_interval);
       }},
      {K::SgdUpdate, run_sgd<T>},
      {K::MomentumUpdate, run_momentum<T>},
      {K::AdamUpdate, run_adam<T>},
  };
  return table.of(kind);
}
template OpKernel<float> optimizer_kernel<float>(OpKind);
template OpKernel<double> optimizer_kernel<double>(OpKind);

}  // namespace meshwright
