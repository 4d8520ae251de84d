// SPDX-License-Identifier: Apache-2.0
// What a part of the training step costs in time and memory, and how a solver weighs the parts.
#pragma once

#include "core/base/units.h"

namespace meshwright {

struct StepCost {
  Seconds forward{0.0}, backward{0.0};  // per microbatch
  Seconds weights{0.0};  // the part of `backward` that computes gradients of parameters, which may run later
  Seconds step{0.0};     // once per step: gradient synchronisation, update
  // What moves parameters and their gradients beside the two passes, whole: no pass takes less.
  Seconds moved_forward{0.0}, moved_backward{0.0};
  // What the host takes to issue the two passes (HostTimes), but for `run`.
  Seconds host_forward{0.0}, host_backward{0.0};
  Bytes resident{0.0};            // always: weights, accumulators, optimizer state
  Bytes saved{0.0};               // from forward to backward, per microbatch in flight
  Bytes recomputed{0.0};          // all activations that the backward recomputes
  Bytes recomputed_at_once{0.0};  // the maximum over blocks of what one block recomputes; MeshSpans computes it
  Bytes held{0.0};                // kept for the work in `weights` where that runs later than the rest of the backward
  Bytes working{0.0};             // the largest temporary need of one op
  // Adds up, but takes the maximum of `recomputed_at_once` and of `working`.
  StepCost& operator+=(const StepCost& other);
};

// How costs are combined into the one number the solver minimises, per microbatch:
// forward + backward - free_weights * weights + step / microbatches + memory_price * (resident + in_flight * saved).
struct CostWeights {
  double microbatches = 1;
  double memory_price = 0;  // seconds per byte
  double in_flight = 1;
  double free_weights = 0;  // the share of gradients of parameters that costs no time
  [[nodiscard]] Seconds total(const StepCost& cost) const;
};

}  // namespace meshwright
