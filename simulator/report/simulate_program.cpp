// SPDX-License-Identifier: Apache-2.0
#include "simulator/report/simulate_program.h"

#include "core/base/errors.h"
#include "simulator/program/program_graph.h"
#include "simulator/report/step_report.h"

namespace meshwright {

SimulatedProgram simulate_program(const Program& program, const ProgramTimes& times) {
  const ProgramGraph made = program_graph(program, times);
  const TaskTimes in_order = run_in_order(made.graph), by_events = run_by_events(made.graph);
  MW_CHECK(in_order.begin == by_events.begin && in_order.end == by_events.end && in_order.step == by_events.step,
           "the event engine ends at {} ps, the pass in order at {} ps", by_events.step.ps, in_order.step.ps);
  SimulatedProgram simulated{to_timeline(made.graph, in_order), 0};
  for (int t = 0; t < static_cast<int>(made.graph.size()); ++t)
    if (made.graph.of(TaskId(t)).kind != TaskKind::Join) ++simulated.events;
  return simulated;
}

SimTime step_of_program(const Program& program, const ProgramTimes& times) {
  return run_in_order(program_graph(program, times).graph).step;
}

}  // namespace meshwright
