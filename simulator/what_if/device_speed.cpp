// SPDX-License-Identifier: Apache-2.0
#include "simulator/what_if/device_speed.h"

#include <cmath>

namespace meshwright {

ProgramTimes with_device_speed(ProgramTimes times, const RunParts& parts, double speed) {
  for (std::size_t e = 0; e < times.executable.size(); ++e) {
    std::int64_t computing = 0;
    for (const auto& [part, time] : parts.of_run(static_cast<int>(e), times.executable[e]))
      if (part.kind < TimeKind::Launch) computing += time.exposed.ps;
    times.executable[e] += SimTime{std::llround(static_cast<double>(computing) / speed) - computing};
  }
  return times;
}

SimTime step_at_device_speed(const StepSimulation& step, double speed) {
  Conditions conditions = step.conditions;
  const auto devices = static_cast<std::size_t>(step.tasks.graph.devices);
  if (conditions.compute_scale.empty()) conditions.compute_scale.assign(devices, 1.0);
  for (double& scale : conditions.compute_scale) scale /= speed;
  return run_tasks(step.tasks.graph, conditions).times.step;
}

}  // namespace meshwright
