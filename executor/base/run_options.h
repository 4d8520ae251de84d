// SPDX-License-Identifier: Apache-2.0
// How a Program is run.
#pragma once

#include <cstdint>

#include "core/graph/graph.h"

namespace meshwright {

struct RunOptions {
  int steps = 1;
  std::uint64_t seed = 1;
  DType precision =
      DType::F32;            // F32 (oneDNN) or F64 (reference kernels): every floating-point tensor is computed in it
  int recorded_steps = 1;    // of the last so many, or of all where there are fewer, there are timelines
  bool keep_tensors = true;  // whether the result has weights and second moments
  // Of the last so many the devices' work is recorded, by Backend::recorder(), which then must be there.
  int steps_with_work = 0;
};

// Throws InputError for numbers of steps below 1, and for a precision that the host cannot compute in.
void require_valid(const RunOptions& options);

}  // namespace meshwright
