// SPDX-License-Identifier: Apache-2.0
// The result of `meshwright run`: a plan, its prediction and its measurement, as text and as JSON.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cli/documents/figures/forecast.h"
#include "cli/documents/figures/report.h"
#include "cli/documents/run/op_times.h"
#include "cli/documents/step/reuse.h"
#include "cli/machine/machine.h"
#include "cli/machine/process_places.h"
#include "cli/options/options.h"
#include "core/base/json.h"
#include "executor/check/check_run.h"
#include "simulator/report/step_breakdown.h"

namespace meshwright {

struct RunCheck {
  std::vector<CheckedTensor> all;
  CheckedTensor worst;  // the one nearest to its bound
  double largest_difference = 0.0;
};

struct MeasuredRun {
  Plan made, plan;  // as read, as run
  LoadedPlan loaded;
  Reuse reuse;
  Machine machine;
  std::vector<ProcessPlace> places;      // of several processes
  RunOptions options;                    // steps are those that were done, the warm-up among them
  int warmup = 1;                        // of the steps done
  int asked = 0;                         // steps, the warm-up among them
  std::optional<std::string> why_ended;  // before the last of them, where a signal stopped the run
  RunResult result;
  std::vector<GpuMemoryNeed> gpu_needs;  // [device]; empty: threads
  Seconds predicted{0.0}, measured{0.0}, fastest{0.0};
  std::optional<StepInterval> interval;  // of the predicted step
  std::vector<StageTimes> predicted_stages, measured_stages;
  std::string prediction_source;
  std::optional<FlopsPerSecond> measured_peak;  // of one thread, by the profile of this machine
  std::optional<RunCheck> checked;
  std::vector<OpTimeRow> op_times;  // of --report
  StepBreakdown time;               // of the last step; by measured op times with --report, else as ops would cost
  std::optional<double> other_load_cores;
  std::string data_lines;              // "# ...": what was read and written (cli/documents/run/run_data.h)
  std::size_t product_algorithms = 0;  // taken from the databases and accepted by the GPU

  [[nodiscard]] bool interrupted() const { return why_ended.has_value(); }
  [[nodiscard]] double error() const { return (predicted - measured) / measured; }
  [[nodiscard]] bool comparable() const {
    return machine.is_that_of(plan.cluster) && (places.empty() || has_hosts_of_plan(plan.cluster, places));
  }
  // Whether the measured stage times are those of the plan: on its devices, in its type.
  [[nodiscard]] bool measures_stages() const { return comparable() && machine.computes_in(plan.training.dtype); }
  [[nodiscard]] Bytes counted_peak() const {
    return *std::max_element(result.peak_memory.begin(), result.peak_memory.end());
  }
};

// Files that were written; "": none.
struct RunFiles {
  std::string trace, db, html;
};

[[nodiscard]] std::string to_text(const MeasuredRun& run, const RunFiles& files);
[[nodiscard]] Json to_json(const MeasuredRun& run, const RunFiles& files);  // the same content

}  // namespace meshwright
