// SPDX-License-Identifier: Apache-2.0
// How the learning rate changes from step to step: a factor of the optimizer's own.
//
// It grows in a straight line over the first `warmup` steps, then falls from 1 to `least` at step `steps` and stays
// there, in a straight line or along half a cosine.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace meshwright {

struct LearningRate {
  enum class Fall { None, Linear, Cosine } fall = Fall::None;
  std::int64_t warmup = 0, steps = 0;
  double least = 0.0;

  [[nodiscard]] bool changes() const { return fall != Fall::None || warmup > 0; }
  // The rate of step `step`, counted from 1.
  [[nodiscard]] double factor(std::int64_t step) const {
    if (step <= warmup) return static_cast<double>(step) / static_cast<double>(warmup);
    if (fall == Fall::None) return 1.0;
    const double whole = static_cast<double>(std::max<std::int64_t>(1, steps - warmup));
    const double share = std::min(1.0, static_cast<double>(step - warmup) / whole);
    const double left = fall == Fall::Linear ? 1.0 - share : 0.5 * (1.0 + std::cos(std::numbers::pi * share));
    return least + (1.0 - least) * left;
  }
};

}  // namespace meshwright
