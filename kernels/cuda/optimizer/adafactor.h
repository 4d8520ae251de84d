// SPDX-License-Identifier: Apache-2.0
// Adafactor's update on the device: the twins of kernels/cpu/optimizer/adafactor.h (its means of squares are
// kernels/cuda/layout/layout.h's mean_squares). What a step decides by the gradients of all tensors is read from device
// memory, as by the other updates.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/optimizer/adafactor.h"
#include "kernels/cuda/optimizer/optimizer.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

struct DecayedMeanSettings {
  double exponent, epsilon;
  std::int64_t step;  // 1 for the first
};
// mean = kept mean + (1 - kept) (f^2 now + epsilon), f: what the step multiplies gradients by. Not in a step left out.
// W: float or double.
template <class W>
void decay_mean(Stream stream, W* mean, const W* now, std::int64_t n, const DecayedMeanSettings& settings,
                const StepGradients<W>& step_gradients);

// out = the sum of the squares of the move, added up in double in an order that the dimensions alone decide.
// `workspace`: move_squares_workspace() bytes, aligned to 8. Moments of up to 8 dimensions that cannot be merged; more
// are a Failure. (G, W): a type and its Wide.
template <class G>
void move_squares(Stream stream, const G* gradient, const Moments<Wide<G>>& moments, Wide<G>* out, void* workspace,
                  const StepGradients<Wide<G>>& step_gradients);
[[nodiscard]] std::size_t move_squares_workspace();

struct AdafactorSettings {
  double learning_rate, weight_decay, limit;
  std::int64_t elements;  // of the whole tensor, of which this may be a part
};
// w = (1 - rate decay) w - rate' U, rate' by `squares`, the sum of the squares of the whole tensor's move. With a
// master copy (may be null) the master is what is updated, and the weight becomes it, rounded. Not in a step left out.
// (T, G): as of update.
template <class T, class G>
void follow_move(Stream stream, T* weight, Wide<T>* master, const G* gradient, const Moments<Wide<T>>& moments,
                 const Wide<T>* squares, const AdafactorSettings& settings,
                 const StepGradients<Wide<T>>& step_gradients);

}  // namespace meshwright::kernels::cuda
