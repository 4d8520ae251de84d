// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "executor/cuda/cuda_kernel_table.h"
#include "kernels/cuda/optimizer.h"

namespace meshwright {

namespace {

namespace cuda = kernels::cuda;

// Operands of an update, as in executor/ops/optimizer_kernels.cpp: the weight, its master copy where it has one,
// states, the gradient, the sum of all gradients' squares where they are clipped or scaled, and the scaling where they
// are scaled. What the latter two say is read on the device.
template <class T>
struct Update {
  using W = cuda::Wide<T>;
  const CudaOperands& o;
  std::size_t states;

  bool clips() const { return o.attributes().max_norm > 0.0; }
  bool scaled() const { return o.attributes().loss_scale > 0.0; }
  std::size_t gradient() const { return o.inputs.size() - 1 - (clips() || scaled() ? 1 : 0) - (scaled() ? 1 : 0); }
  std::int64_t elements() const { return o.elements(0); }
  T* weight() const { return o.out<T>(0); }
  W* master() const { return gradient() - states == 2 ? o.out<W>(1) : nullptr; }
  W* state(std::size_t k) const { return o.out<W>(gradient() - states + k); }
  cuda::UpdateSettings settings() const { return {o.attributes().learning_rate, o.attributes().weight_decay}; }
  cuda::StepGradients<W> step_gradients() const {
    return {o.attributes().max_norm, o.attributes().loss_scale, clips() || scaled() ? o.in<W>(gradient() + 1) : nullptr,
            scaled() ? o.in<W>(gradient() + 2) : nullptr};
  }
};

// action(update, gradient) with the types of both. A gradient is of the weight's type, or a sum in float.
template <class Action>
void with_update(const CudaOperands& o, std::size_t states, Action&& action) {
  with_cuda_type(o.input_types[0], [&](auto weight) {
    using T = decltype(weight);
    const Update<T> u{o, states};
    with_cuda_type(o.input_types[u.gradient()], [&](auto gradient) {
      using G = decltype(gradient);
      if constexpr (std::is_same_v<G, T> || (std::is_same_v<G, float> && sizeof(T) == 2))
        action(u, o.in<G>(u.gradient()));
      else
        throw InternalError("an update by a gradient that is neither of the weight's type nor float");
    });
  });
}

void run_sgd(const CudaOperands& o) {
  with_update(o, 0, [&](const auto& u, const auto* gradient) {
    cuda::sgd_update(o.stream, u.weight(), u.master(), gradient, u.elements(), u.settings(), u.step_gradients());
  });
}

void run_momentum(const CudaOperands& o) {
  with_update(o, 1, [&](const auto& u, const auto* gradient) {
    cuda::momentum_update(o.stream, u.weight(), u.master(), u.state(0), gradient, u.elements(), o.attributes().momentum,
                          u.settings(), u.step_gradients());
  });
}

void run_adam(const CudaOperands& o) {
  const Attributes& a = o.attributes();
  const cuda::AdamSettings settings{a.learning_rate, a.beta1, a.beta2, a.epsilon, o.moment.step, a.weight_decay};
  with_update(o, 2, [&](const auto& u, const auto* gradient) {
    cuda::adam_update(o.stream, u.weight(), u.master(), u.state(0), u.state(1), gradient, u.elements(), settings,
                      u.step_gradients());
  });
}

void run_accumulate(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&](auto total) {
    with_cuda_type(o.input_types[1], [&](auto gradient) {
      using A = decltype(total);
      using G = decltype(gradient);
      if constexpr (std::is_same_v<A, G> || (std::is_same_v<A, float> && sizeof(G) == 2))
        cuda::accumulate(o.stream, o.out<A>(0), o.in<G>(1), o.elements(0));
      else
        throw InternalError("a sum of gradients of a wider type");
    });
  });
}

void run_sum_squares(const CudaOperands& o) {
  void* workspace = o.workspace.take(cuda::sum_squares_workspace(o.elements(0)));
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using T = decltype(zero);
    cuda::sum_squares(o.stream, o.in<T>(0), o.out<cuda::Wide<T>>(0), o.elements(0), workspace);
  });
}

void run_scaling_update(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&](auto zero) {
    using W = cuda::Wide<decltype(zero)>;
    cuda::update_scaling(o.stream, o.out<W>(0), o.in<W>(1), o.attributes().growth_interval);
  });
}

}  // namespace

CudaKernel cuda_optimizer_kernel(OpKind kind) {
  switch (kind) {
    case OpKind::Accumulate:
      return run_accumulate;
    case OpKind::SumSquares:
      return run_sum_squares;
    case OpKind::ScalingUpdate:
      return run_scaling_update;
    case OpKind::SgdUpdate:
      return run_sgd;
    case OpKind::MomentumUpdate:
      return run_momentum;
    case OpKind::AdamUpdate:
      return run_adam;
    default:
      return nullptr;
  }
}

}  // namespace meshwright
