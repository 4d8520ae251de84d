// SPDX-License-Identifier: Apache-2.0
// What a part of the training step costs in time and memory, and how a solver weighs the parts.
#pragma once

#include "core/base/units.h"

namespace meshwright {

struct StepCost {
  Seconds forward{0.0}, backward{0.0};  // per microbatch
  Seconds weights{0.0};                 // the part of `backward` that only gradients of parameters depend on
  Seconds step{0.0};                    // once per step
  Bytes resident{0.0}, saved{0.0};
  Bytes recomputed{0.0};  // made again in the backward when recomputing
  Bytes held{0.0};        // left by the rest of the backward for what `weights` takes, where that runs later
  Bytes repeated{0.0};    // of that, at a time: what one block makes again (MeshSpans fills it in); by maximum
  Bytes working{0.0};     // largest temporary need of one op; combined by maximum, the rest by sum
  StepCost& operator+=(const StepCost& other);
};

// How costs are combined into the one number the solver minimises, per microbatch:
// forward + backward + step / microbatches + memory_price * (resident + in_flight * saved).
struct CostWeights {
  double microbatches = 1;
  double memory_price = 0;  // seconds per byte
  double in_flight = 1;
  [[nodiscard]] Seconds total(const StepCost& cost) const;
};

}  // namespace meshwright
