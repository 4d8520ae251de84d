// SPDX-License-Identifier: Apache-2.0
// What makes a run a part of a training: checkpoints, the learning rate's way, and a log of the steps.
#pragma once

#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/interruption.h"
#include "cli/terminal/progress.h"
#include "core/plan/plan.h"
#include "executor/base/run_options.h"

namespace CLI {
class App;
}

namespace meshwright {

struct RunStateOptions {
  std::string checkpoint, resume, log;  // "": none
  std::string every = "100", keep = "2";
  std::string schedule = "constant", warmup = "0", steps, least = "0";
};
void add_run_state_options(CLI::App& verb, RunStateOptions& options);

class RunState {
 public:
  // Puts into `run` what the options say. `speaks`: whether this process tells the user. Throws InputError where a
  // checkpoint does not fit the plan.
  RunState(const RunStateOptions& options, const Plan& plan, const Graph& graph, RunOptions& run, bool speaks);
  RunState(const RunState&) = delete;
  RunState& operator=(const RunState&) = delete;

  // Before the run, once its prediction is known: where steps are told of.
  void tell_steps(RunOptions& run, const Plan& plan, Seconds predicted);
  // A sentence for each checkpoint that was damaged or not finished, and so not resumed from.
  [[nodiscard]] const std::vector<std::string>& passed_over() const { return passed_over_; }
  // Lines "# ..." about what was read and written.
  [[nodiscard]] std::string lines() const;
  // Throws Interrupted for a run that a signal stopped.
  [[noreturn]] void stopped(const RunStopped& after, const std::string& plan_file) const;

 private:
  void resume(const Plan& plan, const Graph& graph, RunOptions& run);

  const RunStateOptions& options_;
  std::string lines_;
  std::vector<std::string> passed_over_;
  std::optional<Interruption> interruption_;  // while checkpoints are written
  std::ofstream log_;
  Progress progress_;
  const bool speaks_;
};

}  // namespace meshwright
