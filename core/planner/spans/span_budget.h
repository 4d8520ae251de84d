// SPDX-License-Identifier: Apache-2.0
// How the cost of a span of layers counts against the time and the memory of its devices.
#pragma once

#include "core/planner/intra_op/step_cost.h"

namespace meshwright {

// What is done once per step, as a cost of each micro-batch: its share; or next to nothing, where the device has time
// for it before the step ends, so that it only decides between passes that take equally long; or all of it, where the
// step ends with it and the passes of another stage take the time. Late: next to nothing, and neither do gradients of
// parameters, where a schedule computes them while the device would wait. Half, Quarter: of the share, where a part of
// it hides.
enum class StepWeight { Share, Least, Whole, Late, Half, Quarter };

struct SpanBudget {
  // All layers form one stage, whose bytes are counted exactly: also those of recomputed tensors have a price.
  bool one_stage = false;
  double microbatches = 1.0;  // of a step
  // Microbatches whose saved tensors are in memory at a time. For a stage of a pipeline it is an estimate that
  // stands for every stage: the stage's place is not known yet, and later stages hold fewer than early ones.
  double in_flight = 1.0;
  // Part of a span's recomputed bytes that is in memory at a time: one block of the model is recomputed after another.
  double recomputed_share = 0.0;
  Bytes usable_memory{0.0};  // per device

  // Per microbatch, with a microbatch's share of what is done once per step.
  [[nodiscard]] Seconds time_of(const StepCost& cost) const {
    return cost.forward + cost.backward + cost.step / microbatches;
  }
  // Everything that adds up over ops: all bytes but `working`.
  [[nodiscard]] Bytes bytes_of(const StepCost& cost) const {
    return cost.resident + in_flight * cost.saved + recomputed_share * cost.recomputed;
  }
  [[nodiscard]] bool fits(const StepCost& cost) const { return bytes_of(cost) + cost.working <= usable_memory; }
  // The cost with `recomputed_at_once` as bytes_of counts it.
  [[nodiscard]] StepCost with_recomputed_share(StepCost cost) const {
    cost.recomputed_at_once = recomputed_share * cost.recomputed;
    return cost;
  }
};

}  // namespace meshwright
