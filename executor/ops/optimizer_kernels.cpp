// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "executor/ops/call_shapes.h"
#include "executor/ops/kernel_table.h"
#include "kernels/cpu/optimizer/adafactor.h"
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
  Update<T>{o, 0}.run(kernels::SgdSettings{a.learning_rate * o.moment.rate, a.weight_decay});
}

template <class T>
void run_momentum(const Operands<T>& o) {
  const Attributes& a = o.attributes();
  Update<T>{o, 1}.run(kernels::MomentumSettings{a.learning_rate * o.moment.rate, a.momentum, a.weight_decay});
}

template <class T>
void run_adam(const Operands<T>& o) {
  const Attributes& a = o.attributes();
  const Update<T> u{o, 2};
  u.run(kernels::AdamSettings{a.learning_rate * o.moment.rate, a.beta1, a.beta2, a.epsilon, u.step(), a.weight_decay});
}

// --- Adafactor ---

// What the ops of Adafactor read of the step: the last operands, as an update's.
template <class T>
Update<T> step_of(const Operands<T>& o) {
  return {o, 0};
}

template <class T>
void run_mean_squares(const Operands<T>& o) {
  const auto [sizes, kept] = reduced_shape(o, o.call.space.outputs[0]);
  kernels::mean_squares(o.in(0), o.out(0), {sizes, kept}, o.attributes().scale);
}

template <class T>
void run_decayed_mean(const Operands<T>& o) {
  const Update<T> step = step_of(o);
  if (step.is_left_out()) return;
  const double factor = step.factor();
  kernels::decay_mean(o.out(0), o.in(1), o.elements(0), kernels::kept_share(step.step(), o.attributes().decay_exponent),
                      factor * factor, o.attributes().epsilon);
}

// Operand `gradient` and the moments behind it.
template <class T>
kernels::Moments<T> moments_of(const Operands<T>& o, std::size_t gradient) {
  const bool factored = o.attributes().factored;
  return {moment_dims(o, gradient), o.in(gradient + 1), factored ? o.in(gradient + 2) : nullptr,
          factored ? o.in(gradient + 3) : nullptr};
}

template <class T>
void run_move_squares(const Operands<T>& o) {
  const auto factor = static_cast<T>(step_of(o).factor());
  *o.out(0) = static_cast<T>(kernels::move_squares(o.in(0), moments_of(o, 0), factor));
}

template <class T>
void run_adafactor(const Operands<T>& o) {
  const Update<T> step = step_of(o);
  if (step.is_left_out()) return;
  const Attributes& a = o.attributes();
  const std::size_t gradient = o.outputs.size(), squares = gradient + (a.factored ? 4 : 2);
  std::int64_t whole = 1;
  for (const int axis : o.call.space.inputs[0]) whole *= o.whole(axis);
  const double learning_rate = a.learning_rate * o.moment.rate;
  const double rate = kernels::limited_rate(learning_rate, static_cast<double>(*o.in(squares)), whole, a.move_limit);
  // With a master copy the master is what is updated; the weight follows it.
  T* const weight = o.out(gradient - 1);
  kernels::follow_move(weight, o.in(gradient), moments_of(o, gradient), static_cast<T>(step.factor()),
                       {rate, 1 - learning_rate * a.weight_decay});
  if (gradient == 2) std::copy_n(weight, o.elements(0), o.out(0));
}

}  // namespace

template <class T>
OpKernel<T> optimizer_kernel(OpKind kind) {
  using K = OpKind;
  static const KernelTable<OpKernel<T>> table = {
      {K::Accumulate,
       [](const Operands<T>& o) {
         if (o.moment.first) return static_cast<void>(std::copy_n(o.in(1), o.elements(0), o.out(0)));
         kernels::accumulate(o.out(0), o.in(1), o.elements(0));
       }},
      {K::SumSquares,
       [](const Operands<T>& o) { *o.out(0) = static_cast<T>(kernels::sum_squares(o.in(0), o.elements(0))); }},
      {K::ScalingUpdate,
       [](const Operands<T>& o) {
         kernels::update_scaling(o.out(0), std::isfinite(*o.in(1)), o.attributes().growth_interval);
       }},
      {K::MeanSquares, run_mean_squares<T>},
      {K::DecayedMean, run_decayed_mean<T>},
      {K::MoveSquares, run_move_squares<T>},
      {K::AdafactorUpdate, run_adafactor<T>},
      {K::SgdUpdate, run_sgd<T>},
      {K::MomentumUpdate, run_momentum<T>},
      {K::AdamUpdate, run_adam<T>},
  };
  return table.of(kind);
}
template OpKernel<float> optimizer_kernel<float>(OpKind);
template OpKernel<double> optimizer_kernel<double>(OpKind);

}  // namespace meshwright
