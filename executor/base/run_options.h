// SPDX-License-Identifier: Apache-2.0
// How a Program is run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "core/graph/graph.h"
#include "executor/base/checkpoint_options.h"
#include "executor/base/given_values.h"
#include "executor/base/learning_rate.h"

namespace meshwright {

// A step that all devices of the process have done.
struct StepReport {
  int step;                    // of this run, from 0
  std::optional<double> loss;  // unset where another process has it
  Seconds time;                // from the process's first device's begin to its last one's end
};

struct RunOptions {
  int steps = 1;
  std::uint64_t seed = 1;
  // F32 (oneDNN) or F64 (reference kernels): every floating-point tensor is computed in it.
  DType precision = DType::F32;
  int recorded_steps = 1;    // the number of steps, counted from the end, whose timelines are kept
  bool keep_tensors = true;  // whether the result has weights and second moments
  // The number of steps, counted from the end, in which the devices' work is recorded. REQUIRES: Backend::recorder(),
  // unless 0.
  int steps_with_work = 0;
  // Whether the result has the times of ops, in the steps whose timelines are kept; steps are then issued op by op.
  bool op_times = false;
  // Called after each step and before the next begins, by one thread of the process: no step counts the time that it
  // takes. Set in all processes of a run or in none.
  std::function<void(const StepReport&)> on_report = {};
  // Whether the step that is about to begin is to be the last one, whatever `steps` says; asked before each, in the
  // first process by one thread. Set in all processes of a run or in none, and not together with steps_with_work.
  std::function<bool()> stops = {};
  GivenValues given = {};
  // Steps that an earlier run has done: samples, the optimizer and the learning rate go on behind them.
  int first_step = 0;
  LearningRate learning_rate = {};
  std::optional<CheckpointOptions> checkpoint = {};
  // Whether the result has what the loss was computed from, and the gradients that the updates read, of the last step.
  bool keep_logits = false, keep_gradients = false;
  // Whether the result has what every single device holds in the end: RunResult::held.
  bool keep_held = false;
};

// Throws InputError for numbers of steps below 1, and for a precision that the host cannot compute in.
void require_valid(const RunOptions& options);

}  // namespace meshwright
