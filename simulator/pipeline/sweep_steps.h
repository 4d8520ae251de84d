// SPDX-License-Identifier: Apache-2.0
// Thousands of candidate pipelines over several threads.
#pragma once

#include <vector>

#include "simulator/pipeline/pipeline_graph.h"

namespace meshwright {

struct PipelineCandidate {
  ScheduleKind schedule;
  int microbatches;
  int chunks = 1;  // stages per rank
  PipelineStep step;
};

struct SweptStep {
  SimTime step;
  std::vector<std::int64_t> peak_memory;  // [rank] bytes of activations; empty where the candidate does not count them
  bool operator==(const SweptStep&) const = default;
};

// [candidate], the same whatever the number of threads. Candidates of one shape share it. Those whose links are private
// are timed by one pass over it (simulate_pipeline), the others by the engines (run_tasks, `discipline`).
[[nodiscard]] std::vector<SweptStep> sweep_steps(const std::vector<PipelineCandidate>& candidates, int threads,
                                                 LinkDiscipline discipline = LinkDiscipline::Fluid);

}  // namespace meshwright
