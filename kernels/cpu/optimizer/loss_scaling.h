// SPDX-License-Identifier: Apache-2.0
// Dynamic loss scaling and the clipping of gradients: the arithmetic that the processor's updates and the device's
// (kernels/cuda/optimizer/optimizer.cu) share.
//
// `state` holds n, the good steps since n changed, and the steps left out; the scale is first * 2^n.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cpu/elementwise/on_device.h"

namespace meshwright::kernels {

template <class W>
MW_DEVICE double loss_scale(double first, const W* state) {
  return std::ldexp(first, static_cast<int>(state[0]));
}

// After a step: a good one, or one that was left out because its gradients overflowed.
template <class W>
MW_DEVICE void update_scaling(W* state, bool good, std::int64_t growth_interval) {
  if (!good) {
    state[0] -= 1;
    state[1] = 0;
    state[2] += 1;
    return;
  }
  state[1] += 1;
  if (static_cast<std::int64_t>(state[1]) < growth_interval) return;
  state[0] += 1;
  state[1] = 0;
}

// What an update multiplies gradients by: 1 / scale, and min(1, max_norm / (norm + 1e-6)) / scale where they are
// clipped, with norm = sqrt(squares) / scale. `squares`: the sum of all gradients' squares. max_norm 0: not clipped.
MW_DEVICE double gradient_factor(double squares, double scale, double max_norm) {
  if (max_norm <= 0.0) return 1.0 / scale;
  const double maximum = max_norm / (std::sqrt(squares) / scale + 1e-6);
  return (maximum < 1.0 ? maximum : 1.0) / scale;
}

}  // namespace meshwright::kernels
