// SPDX-License-Identifier: Apache-2.0
#include "simulator/what_if/breakdown.h"

namespace meshwright {

namespace {

// Up to the end of the last step but one: only then does work of the next step, which devices begin early, stand in the
// place of what they had begun before.
LastSteps steps_with_a_next(const StepSimulation& step) {
  return {last_steps(step.tasks, step.times, step.period + 1).begin, last_steps(step.tasks, step.times, 1).begin,
          step.period};
}

}  // namespace

StepBreakdown breakdown_of(const StepSimulation& step, const Program& program, const RunParts& parts,
                           const FoldedDevices* folded) {
  NamedStep named{step.tasks, step.times, step.pieces.empty() ? nullptr : &step.pieces};
  if (step.steps() > 1) named.among = steps_with_a_next(step);
  return step_breakdown(program, parts, step.run_times, named, folded);
}

}  // namespace meshwright
