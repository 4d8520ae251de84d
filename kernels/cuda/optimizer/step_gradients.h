// SPDX-License-Identifier: Apache-2.0
// What all updates read of the step on the device, and sums of partial sums. Internal to kernels/cuda/optimizer.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cpu/optimizer/loss_scaling.h"
#include "kernels/cuda/blocks/launch.h"
#include "kernels/cuda/optimizer/optimizer.h"

namespace meshwright::kernels::cuda {

template <class W>
MW_DEVICE bool is_left_out(const StepGradients<W>& step) {
  // One gradient that is not finite makes the sum of all squares so.
  return step.scaling != nullptr && !std::isfinite(*step.squares);
}

template <class W>
MW_DEVICE double factor_of(const StepGradients<W>& step) {
  const double scale = step.scaling != nullptr ? loss_scale(step.loss_scale, step.scaling) : 1.0;
  return gradient_factor(step.max_norm > 0.0 ? static_cast<double>(*step.squares) : 0.0, scale, step.max_norm);
}

// The number of the step, `given` unless the device says, without the steps left out, which the state's third number
// counts.
template <class W>
MW_DEVICE std::int64_t counted_step(const StepGradients<W>& step, std::int64_t given) {
  const std::int64_t number = step.step != nullptr ? *step.step : given;
  return step.scaling != nullptr ? number - static_cast<std::int64_t>(step.scaling[2]) : number;
}

// By a block of kThreads.
template <int kThreads, class W>
MW_DEVICE void add_parts_to(const double* partial, W* out, std::int64_t parts) {
  MW_SHARED double scratch[kWarp];
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < parts; i += kThreads) sum += partial[i];
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) *out = static_cast<W>(sum);
}

}  // namespace meshwright::kernels::cuda
