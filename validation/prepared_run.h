// SPDX-License-Identifier: Apache-2.0
// A published run, planned and lowered once: its step can then be predicted again for other numbers of its software.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/planner/make_plan.h"
#include "costmodel/framework_memory.h"
#include "costmodel/measured_kernels.h"
#include "simulator/fold/folded_program.h"
#include "validation/run_request.h"

namespace meshwright {

struct PreparedRun {
  const PublishedRun* run = nullptr;
  RunRequest request;
  Plan plan;
  LoadedPlan loaded;
  std::optional<FoldedDevices> folded;  // the devices of the program that stand for others
  bool recompute_from_memory = false;   // what is recomputed was chosen so that it fits
};

// What the software needs on the fullest device of the run's plan.
[[nodiscard]] FrameworkMemory memory_of(const PreparedRun& run);
// A row that does not say what was recomputed recomputed as little as fits the device, or nothing if that does not
// help. Throws InputError as request_of_run does, and for what the planner does not accept. REQUIRES:
// !run.why_not_a_run(); `run` outlives the result.
[[nodiscard]] PreparedRun prepare_run(const PublishedRun& run, const std::string& software);

// The plain step of a program for `software`. `folded`: as for plain_step; `measured`: as for make_physical_cost_model.
[[nodiscard]] Seconds predicted_step(const Program& program, const FoldedDevices* folded, const Cluster& cluster,
                                     const SoftwareProfile& software, const MeasuredKernels* measured = nullptr);

// The plain step with the run's own choices (what is fused, the type of products) and these numbers.
[[nodiscard]] Seconds predicted_step(const PreparedRun& run, const SoftwareProfile& software);
[[nodiscard]] inline Seconds predicted_step(const PreparedRun& run) {
  return predicted_step(run, run.request.software);
}

struct PreparedRuns {
  std::vector<PreparedRun> runs;                                        // those with a published time
  std::vector<WrongRow> wrong;                                          // rows that contradict themselves
  std::vector<std::pair<const PublishedRun*, std::string>> left_out{};  // and why
};
// In the order of the runs, each on one of `threads`; without their plans and graphs, which take most of the memory.
[[nodiscard]] PreparedRuns prepare_runs(const std::vector<PublishedRun>& runs, const std::string& software,
                                        int threads);

}  // namespace meshwright
