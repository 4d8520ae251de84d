// SPDX-License-Identifier: Apache-2.0
// Parameter updates on the device, in place, and the accumulation of gradients that precedes them, as
// kernels/cpu/optimizer/optimizer.h has them. What a step decides by the gradients of all tensors (clipping, loss
// scaling, steps left out) the kernels read from device memory, so that the host never waits for it.
//
// T: the weights' type; G: the gradients', T or float. Master copies and states are Wide<T>. Each operand is read once
// and each result written once: with Adam, a master copy and float gradients 30 bytes per element of a 16-bit weight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cpu/optimizer/optimizer.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

// total += gradient, rounded to A. (A, G): a type and itself, or float and a 16-bit type.
template <class A, class G>
void accumulate(Stream stream, A* total, const G* gradient, std::int64_t n);

// out = sum of the squares, in two passes, added up in double in an order that n alone decides, and rounded once.
// `workspace`: sum_squares_workspace(n) bytes, aligned to 8. It reads the gradient once.
template <class T>
void sum_squares(Stream stream, const T* gradient, Wide<T>* out, std::int64_t n, void* workspace);
[[nodiscard]] std::size_t sum_squares_workspace(std::int64_t n);

// One of several steps: out = the sum of the squares of a gradient, or, without one, x + y.
template <class T>
struct SquaresStep {
  const T* gradient = nullptr;
  std::int64_t n = 0;
  const Wide<T>*x = nullptr, *y = nullptr;
  Wide<T>* out = nullptr;
};
// As sum_squares and add (kernels/cuda/elementwise/elementwise.h) of one step after the other, to the bit: x and y may
// be where an earlier step has its result, and a later one may overwrite it, but no result lies in a gradient. Three
// launches for each 64 gradients and the additions between them. `steps` is of the host and not kept.
template <class T>
void sum_squares(Stream stream, std::span<const SquaresStep<T>> steps, void* workspace);
template <class T>
[[nodiscard]] std::size_t sum_squares_workspace(std::span<const SquaresStep<T>> steps);

// After a step whose gradients have the sum of squares `squares`: a good one where that is finite, else one that was
// left out. `state`: of kernels/cpu/optimizer/loss_scaling.h.
// W: float or double.
template <class W>
void update_scaling(Stream stream, W* state, const W* squares, std::int64_t growth_interval);

// What an update learns on the device of the step and its gradients, by gradient_factor of
// kernels/cpu/optimizer/loss_scaling.h. W: float or double.
template <class W>
struct StepGradients {
  double max_norm = 0.0;       // 0: not clipped
  double loss_scale = 0.0;     // the first scale; 0: losses are not scaled, and the scale is 1
  const W* squares = nullptr;  // the sum of all gradients' squares, read where they are clipped or scaled
  const W* scaling = nullptr;  // the state, read where losses are scaled: then the step is left out if squares is not
                               // finite, and Adam's step does not count the steps left out
  const std::int64_t* step = nullptr;  // where it says which step it is; null: AdamSettings::step does
};

// Arrays of n elements. With a master copy (may be null) the master is what is updated, and the weight becomes it,
// rounded.
template <class T, class G>
struct UpdatedTensor {
  T* weight = nullptr;
  Wide<T>* master = nullptr;
  Wide<T>*first_moment = nullptr, *second_moment = nullptr;  // momentum: its velocity comes first
  const G* gradient = nullptr;
  std::int64_t n = 0;
};
// Settings: SgdSettings, MomentumSettings or AdamSettings.
template <class T, class G, class Settings>
void update(Stream stream, const UpdatedTensor<T, G>& tensor, const Settings& settings,
            const StepGradients<Wide<T>>& step_gradients);

// Several tensors as one after the other, to the bit, with one launch for each 64. `tensors` is of the host and not
// kept. No two may share memory.
template <class T, class G, class Settings>
void update(Stream stream, std::span<const UpdatedTensor<T, G>> tensors, const Settings& settings,
            const StepGradients<Wide<T>>& step_gradients);

}  // namespace meshwright::kernels::cuda
