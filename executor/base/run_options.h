// SPDX-License-Identifier: Apache-2.0
// How a Program is run.
#pragma once

#include <cstdint>
#include <functional>

#include "core/graph/graph.h"
#include "executor/base/given_values.h"

namespace meshwright {

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
  // Called with the number of steps that are done, after each of them and before the next begins, by the thread of one
  // of the process's devices: no step counts the time that it takes.
  std::function<void(int)> on_step = {};
  GivenValues given = {};
  // Whether the result has what the loss was computed from, and the gradients that the updates read, of the last step.
  bool keep_logits = false, keep_gradients = false;
};

// Throws InputError for numbers of steps below 1, and for a precision that the host cannot compute in.
void require_valid(const RunOptions& options);

}  // namespace meshwright
