// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>
#include <type_traits>
#include <vector>

#include "core/sharding/op_ranges.h"
#include "executor/cuda/cuda_kernel_table.h"
#include "executor/ops/call_shapes.h"
#include "kernels/cuda/elementwise/elementwise.h"
#include "kernels/cuda/layout/layout.h"
#include "kernels/cuda/optimizer/adafactor.h"
#include "kernels/cuda/optimizer/optimizer.h"

namespace meshwright {

namespace {

namespace cuda = kernels::cuda;

// What the last operands say of the step.
template <class W>
cuda::StepGradients<W> step_gradients_of(const CudaOperands& o) {
  const bool scaled = o.attributes().loss_scale > 0.0, measured = scaled || o.attributes().max_norm > 0.0;
  const std::size_t end = o.inputs.size();
  return {o.attributes().max_norm, o.attributes().loss_scale, measured ? o.in<W>(end - (scaled ? 2 : 1)) : nullptr,
          scaled ? o.in<W>(end - 1) : nullptr, o.step_on_device};
}

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
  cuda::StepGradients<W> step_gradients() const { return step_gradients_of<W>(o); }
  template <class G>
  cuda::UpdatedTensor<T, G> tensor() const {
    return {weight(),  master(), states > 0 ? state(0) : nullptr, states > 1 ? state(1) : nullptr, o.in<G>(gradient()),
            elements()};
  }
};

// action(update, G{}) with the types of both. A gradient is of the weight's type, or a sum in float.
template <class Action>
void with_update(const CudaOperands& o, std::size_t states, Action&& action) {
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    const Update<T> u{o, states};
    with_cuda_type(o.input_types[u.gradient()], [&]<class G>(G) {
      if constexpr (std::is_same_v<G, T> || (std::is_same_v<G, float> && sizeof(T) == 2))
        action(u, G{});
      else
        throw InternalError("an update by a gradient that is neither of the weight's type nor float");
    });
  });
}

std::size_t states_of(OpKind kind) { return kind == OpKind::AdamUpdate ? 2 : kind == OpKind::MomentumUpdate ? 1 : 0; }

// Calls action(settings) with those of the op's rule.
template <class Action>
void with_settings(const CudaOperands& o, Action&& action) {
  const Attributes& a = o.attributes();
  if (o.call.kind == OpKind::SgdUpdate)
    action(kernels::SgdSettings{a.learning_rate * o.moment.rate, a.weight_decay});
  else if (o.call.kind == OpKind::MomentumUpdate)
    action(kernels::MomentumSettings{a.learning_rate * o.moment.rate, a.momentum, a.weight_decay});
  else
    action(kernels::AdamSettings{a.learning_rate * o.moment.rate, a.beta1, a.beta2, a.epsilon, o.moment.step,
                                 a.weight_decay});
}

void run_update(const CudaOperands& o) {
  with_update(o, states_of(o.call.kind), [&](const auto& u, auto zero) {
    with_settings(o, [&](const auto& settings) {
      cuda::update(o.stream, u.template tensor<decltype(zero)>(), settings, u.step_gradients());
    });
  });
}

// --- updates of several tensors at once ---

bool may_begin(const CudaOperands&) { return true; }

bool say_the_same(const Attributes& x, const Attributes& y) {
  const auto of = [](const Attributes& a) {
    return std::tuple(a.learning_rate, a.beta1, a.beta2, a.epsilon, a.momentum, a.weight_decay, a.max_norm,
                      a.loss_scale);
  };
  return of(x) == of(y);
}

// An update may join others of the same kind, settings and types. All read the norm and the scaling from the same
// place, and no two update the same weight.
bool may_follow_updates(std::span<const CudaOperands> held, const CudaOperands& next) {
  const CudaOperands& first = held.front();
  const std::size_t alike = next.outputs.size() + 1;
  return next.call.kind == first.call.kind && say_the_same(next.attributes(), first.attributes()) &&
         next.moment.step == first.moment.step && std::ranges::equal(next.input_types, first.input_types) &&
         std::ranges::equal(next.inputs.subspan(alike), first.inputs.subspan(alike)) &&
         std::ranges::none_of(held, [&](const CudaOperands& o) { return o.outputs[0] == next.outputs[0]; });
}

void run_updates(std::span<const CudaOperands> held) {
  const CudaOperands& first = held.front();
  if (held.size() == 1) return run_update(first);
  with_update(first, states_of(first.call.kind), [&](const auto& u, auto zero) {
    using T = std::remove_pointer_t<decltype(u.weight())>;
    using G = decltype(zero);
    std::vector<cuda::UpdatedTensor<T, G>> tensors;
    for (const CudaOperands& o : held) tensors.push_back(Update<T>{o, u.states}.template tensor<G>());
    with_settings(first, [&](const auto& settings) {
      cuda::update(first.stream, std::span<const cuda::UpdatedTensor<T, G>>(tensors), settings, u.step_gradients());
    });
  });
}

// As an op of its own, which reads and writes what they do.
std::string name_of_all(std::span<const CudaOperands> held, const std::string& first) {
  if (held.size() == 1) return first;
  double bytes = 0;
  for (const CudaOperands& o : held) {
    for (std::size_t i = 0; i < o.inputs.size(); ++i)
      bytes += static_cast<double>(o.elements(i) * size_of(o.input_types[i]));
    for (std::size_t i = 0; i < o.outputs.size(); ++i)
      bytes += static_cast<double>(o.out_elements(i) * size_of(o.output_types[i]));
  }
  const OpKind kind = held.front().call.kind;
  const DType type = held.front().input_types[0];
  const auto tensors = std::ranges::count_if(held, [&](const CudaOperands& o) { return o.call.kind == kind; });
  return range_text(OpWork{kind, type, Flops(0.0), Bytes(bytes),
                           fmt::format("{} {} of {} tensors", name_of(kind), name_of(type), tensors)});
}

// Sums are as wide as gradients, or wider.
void run_accumulate(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&](auto total) {
    with_cuda_type(o.input_types[1], [&](auto gradient) {
      using A = decltype(total);
      using G = decltype(gradient);
      if constexpr (std::is_same_v<A, G> || (std::is_same_v<A, float> && sizeof(G) == 2)) {
        if (!o.moment.first) return cuda::accumulate(o.stream, o.out<A>(0), o.in<G>(1), o.elements(0));
        if constexpr (std::is_same_v<A, G>)
          cuda::copy(o.out<A>(0), o.in<G>(1), static_cast<std::size_t>(o.elements(0)) * sizeof(A), o.stream);
        else
          cuda::convert(o.stream, o.in<G>(1), o.out<A>(0), o.elements(0));
      } else
        throw InternalError("a sum of gradients of a wider type");
    });
  });
}

void run_sum_squares(const CudaOperands& o) {
  void* workspace = o.workspace.take(cuda::sum_squares_workspace(o.elements(0)));
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    cuda::sum_squares(o.stream, o.in<T>(0), o.out<cuda::Wide<T>>(0), o.elements(0), workspace);
  });
}

// --- the squares of several gradients, and the sums of two of them that stand between ---

bool may_follow_squares(std::span<const CudaOperands> held, const CudaOperands& next) {
  const CudaOperands& first = held.front();
  if (next.output_types[0] != first.output_types[0]) return false;
  // All gradients are read before anything is written.
  const bool in_the_way = std::ranges::any_of(held, [&](const CudaOperands& o) {
    return (o.call.kind == OpKind::SumSquares && o.inputs[0] == next.outputs[0]) ||
           (next.call.kind == OpKind::SumSquares && next.inputs[0] == o.outputs[0]);
  });
  if (in_the_way) return false;
  if (next.call.kind == OpKind::SumSquares) return next.input_types[0] == first.input_types[0];
  return next.call.kind == OpKind::Add && next.out_elements(0) == 1 && next.input_types[0] == first.output_types[0] &&
         next.input_types[1] == first.output_types[0];
}

void run_squares(std::span<const CudaOperands> held) {
  const CudaOperands& first = held.front();
  if (held.size() == 1) return run_sum_squares(first);
  with_cuda_type(first.input_types[0], [&]<class T>(T) {
    using W = cuda::Wide<T>;
    std::vector<cuda::SquaresStep<T>> steps;
    for (const CudaOperands& o : held)
      if (o.call.kind == OpKind::SumSquares)
        steps.push_back({o.in<T>(0), o.elements(0), nullptr, nullptr, o.out<W>(0)});
      else
        steps.push_back({nullptr, 0, o.in<W>(0), o.in<W>(1), o.out<W>(0)});
    const std::span<const cuda::SquaresStep<T>> all = steps;
    cuda::sum_squares(first.stream, all, first.workspace.take(cuda::sum_squares_workspace(all)));
  });
}

// --- Adafactor ---

void run_mean_squares(const CudaOperands& o) {
  const ReducedShape shape = reduced_shape(o, o.call.space.outputs[0]);
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    void* workspace = o.workspace.take(cuda::reduce_workspace<T>({shape.sizes, shape.kept}));
    cuda::mean_squares(o.stream, o.in<T>(0), o.out<cuda::Wide<T>>(0), {shape.sizes, shape.kept}, o.attributes().scale,
                       workspace);
  });
}

void run_decayed_mean(const CudaOperands& o) {
  const Attributes& a = o.attributes();
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    using W = cuda::Wide<T>;
    cuda::decay_mean(o.stream, o.out<W>(0), o.in<W>(1), o.elements(0), {a.decay_exponent, a.epsilon, o.moment.step},
                     step_gradients_of<W>(o));
  });
}

// Operand `gradient` and the moments behind it.
template <class W>
kernels::Moments<W> moments_of(const CudaOperands& o, std::size_t gradient) {
  const bool factored = o.attributes().factored;
  return {moment_dims(o, gradient), o.in<W>(gradient + 1), factored ? o.in<W>(gradient + 2) : nullptr,
          factored ? o.in<W>(gradient + 3) : nullptr};
}

void run_move_squares(const CudaOperands& o) {
  void* workspace = o.workspace.take(cuda::move_squares_workspace());
  with_cuda_type(o.input_types[0], [&]<class G>(G) {
    using W = cuda::Wide<G>;
    cuda::move_squares(o.stream, o.in<G>(0), moments_of<W>(o, 0), o.out<W>(0), workspace, step_gradients_of<W>(o));
  });
}

void run_adafactor(const CudaOperands& o) {
  const Attributes& a = o.attributes();
  const std::size_t gradient = o.outputs.size();
  cuda::AdafactorSettings settings{a.learning_rate * o.moment.rate, a.weight_decay, a.move_limit, 1};
  for (const int axis : o.call.space.inputs[0]) settings.elements *= o.whole(axis);
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    with_cuda_type(o.input_types[gradient], [&]<class G>(G) {
      using W = cuda::Wide<T>;
      if constexpr (std::is_same_v<G, T> || (std::is_same_v<G, float> && sizeof(T) == 2))
        cuda::follow_move(o.stream, o.out<T>(0), gradient == 2 ? o.out<W>(1) : nullptr, o.in<G>(gradient),
                          moments_of<W>(o, gradient), o.in<W>(gradient + (a.factored ? 4 : 2)), settings,
                          step_gradients_of<W>(o));
      else
        throw InternalError("an update by a gradient that is neither of the weight's type nor float");
    });
  });
}

void run_scaling_update(const CudaOperands& o) {
  with_cuda_type(o.input_types[0], [&]<class T>(T) {
    using W = cuda::Wide<T>;
    cuda::update_scaling(o.stream, o.out<W>(0), o.in<W>(1), o.attributes().growth_interval);
  });
}

}  // namespace

const CudaTogether* cuda_norms_together(OpKind kind) {
  static constexpr CudaTogether kNorms{may_begin, may_follow_squares, run_squares, name_of_all, false};
  return kind == OpKind::SumSquares ? &kNorms : nullptr;
}
const CudaTogether* cuda_updates_together(OpKind kind) {
  static constexpr CudaTogether kUpdates{may_begin, may_follow_updates, run_updates, name_of_all, false};
  const bool updates = kind == OpKind::SgdUpdate || kind == OpKind::MomentumUpdate || kind == OpKind::AdamUpdate;
  return updates ? &kUpdates : nullptr;
}

CudaKernel cuda_optimizer_kernel(OpKind kind) {
  using K = OpKind;
  static const KernelTable<CudaKernel> table = {
      {K::Accumulate, run_accumulate},     {K::SumSquares, run_sum_squares},   {K::ScalingUpdate, run_scaling_update},
      {K::SgdUpdate, run_update},          {K::MomentumUpdate, run_update},    {K::AdamUpdate, run_update},
      {K::MeanSquares, run_mean_squares},  {K::DecayedMean, run_decayed_mean}, {K::MoveSquares, run_move_squares},
      {K::AdafactorUpdate, run_adafactor},
  };
  return table.of(kind);
}

}  // namespace meshwright
