// SPDX-License-Identifier: Apache-2.0
// A pipeline's step on SimGrid (https://simgrid.org, S4U): an actor per device that runs its stage's passes, sends and
// receives through mailboxes. Links as tests/unit/pipeline_workload.h has them; fluid sharing without TCP factors.
#pragma once

#include "core/schedule/schedule.h"
#include "tests/truth/pipeline_graph.h"

namespace meshwright::peers {

struct SimGridRun {
  double step;        // seconds
  double cpu, total;  // CPU seconds of the simulation, and with the platform and actors built
};

// How a device spends the time of a pass. Timers are the cheaper for SimGrid.
enum class Passes { OnTimers, OnCpus };

// Every message has `message` bytes, every step of a ring `ring_step`. Once per process: its engine is a singleton.
[[nodiscard]] SimGridRun run_on_simgrid(int& argc, char** argv, const Schedule& schedule, const PipelineStep& step,
                                        bool shared_nics, double message, double ring_step, double rate, double latency,
                                        Passes passes);

}  // namespace meshwright::peers
