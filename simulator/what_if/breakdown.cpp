// SPDX-License-Identifier: Apache-2.0
#include "simulator/what_if/breakdown.h"

namespace meshwright {

std::optional<StepBreakdown> breakdown_of(const StepSimulation& step, const Program& program, const RunParts& parts,
                                          const FoldedDevices* folded) {
  if (step.steps() > 1) return std::nullopt;
  const NamedStep named{step.tasks, step.times, step.pieces.empty() ? nullptr : &step.pieces};
  return step_breakdown(program, parts, step.run_times, named, folded);
}

}  // namespace meshwright
