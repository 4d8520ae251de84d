// SPDX-License-Identifier: Apache-2.0
// What makes a run a part of a training: checkpoints, the learning rate's way, a log of the steps, and an end before
// the last one.
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
#include "executor/peers/peers.h"

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
  // Puts into `run` what the options say. `peers`: the processes that do it together, of which the first tells the
  // user; or null. Throws InputError where a checkpoint does not fit the plan.
  RunState(const RunStateOptions& options, const Plan& plan, const Graph& graph, RunOptions& run, const Peers* peers);
  RunState(const RunState&) = delete;
  RunState& operator=(const RunState&) = delete;

  // Before the run, once its prediction is known: where steps are told of.
  void tell_steps(RunOptions& run, const Plan& plan, Seconds predicted);
  // A sentence for each checkpoint that was damaged or not finished, and so not resumed from.
  [[nodiscard]] const std::vector<std::string>& passed_over() const { return passed_over_; }
  // Lines "# ..." about what was read and written.
  [[nodiscard]] std::string lines() const;
  // After the run: gives the signals back. `run.steps` becomes the number of steps that were `done`, which is smaller
  // where a signal stopped it; the result is then why, and how to go on.
  [[nodiscard]] std::optional<std::string> end(RunOptions& run, int done, const std::string& plan_file);

 private:
  void resume(const Plan& plan, const Graph& graph, RunOptions& run);

  const RunStateOptions& options_;
  std::string lines_;
  std::vector<std::string> passed_over_;
  // While it runs; not of several processes without checkpoints, which whoever started them ends.
  std::optional<Interruption> interruption_;
  std::ofstream log_;
  Progress progress_;
  const bool speaks_;
};

}  // namespace meshwright
